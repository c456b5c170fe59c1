"""What podsim shows: comparisons of predictions with measurements, and simulated steps.

    render(comparisons)          text for a terminal
    plot_svg(comparison)         predicted against measured; plot_png likewise
    page(comparisons)            one self-contained HTML page
    accuracy_page(comparisons)   Markdown, with the errors of other tools

    print_simulated(step)            a simulated step as text; simulated_data(step) for JSON and CSV
    write_timeline(timeline, path)   a trace for Perfetto or Chrome, a Gantt chart, a page to zoom into
    read_timeline(path)              a trace back to a timeline
    plot_links(step, path)           the busiest links: who used them, and when
    print_measured(step)             what a profile of a real step says
    print_against(comparison)        a measured step beside a simulated one

Nothing here computes a score: `podsim.accuracy` has put them into the comparisons. What draws and writes timelines is
imported when it is first used, so that commands without them stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from podsim.report.accuracy import PublishedError, accuracy_page, published_errors
from podsim.report.html import page
from podsim.report.plots import plot, plot_png, plot_svg
from podsim.report.text import render
from podsim.timeline.timelines import read_timeline, write_timeline

if TYPE_CHECKING:
    from podsim.report.simulation import print_simulated, simulated_data, simulated_text
    from podsim.report.steps import print_against, print_measured
    from podsim.timeline.link_plots import plot_links

__all__ = [
    "PublishedError",
    "accuracy_page",
    "page",
    "plot",
    "plot_links",
    "plot_png",
    "plot_svg",
    "print_against",
    "print_measured",
    "print_simulated",
    "published_errors",
    "read_timeline",
    "render",
    "simulated_data",
    "simulated_text",
    "write_timeline",
]

_LATER = {
    "plot_links": "link_plots", "print_against": "steps", "print_measured": "steps", "print_simulated": "simulation",
    "simulated_data": "simulation", "simulated_text": "simulation", "read_timeline": "timelines",
    "write_timeline": "timelines",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name whose module is imported now."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
