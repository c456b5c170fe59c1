"""Timelines in and out: traces, Perfetto, Kineto, Gantt charts; begin with `timelines.py`."""
