"""Timelines in and out: traces, Perfetto, Kineto, Gantt charts.

write_timeline(timeline, path)   a trace for Perfetto or Chrome, a Gantt chart, a page to zoom into
read_timeline(path)              a trace back to a timeline
plot_links(step, path)           the busiest links: who used them, and when
"""

from podsim.timeline.link_plots import plot_links
from podsim.timeline.timelines import read_timeline, write_timeline

__all__ = ["plot_links", "read_timeline", "write_timeline"]
