"""Queues in charts: GPUs in use and asked for over time, how completion times are spread, and requests packed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.queued import QueueResult, QueueRun
from podsim.answers.timeline import Timeline
from podsim.report.chart_marks import COLOURS, INK, Axis, Bars, Boxes, Chart, Mark, Rule, Series, Sheet
from podsim.report.queue_tables import wait_text

_BINS = 480
"""columns that a picture over time is averaged into, all lines of it together; a line has at least 60"""
_TICKS = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 36000.0: "10 h", 864000.0: "10 d",
    8640000.0: "100 d", 86400000.0: "1000 d",
}  # fmt: skip
_GANTT = 4000
"""The number of runs up to which each is drawn as a bar."""
_SHARE = "{:.0%}".format


def queue_figure(result: QueueResult) -> Sheet:
    """Above what ran when, below how many jobs ended within which time.

    For one policy the jobs are drawn as bars on the GPUs they held, as long as they are few; for several the GPUs in use.
    """
    title = f"{result.jobs:,} jobs of {result.trace} on {result.machine}"
    if result.starts:
        return Sheet(title, [_starts(result)], result.source, (10.4, 7.0))
    first = result.runs[0]
    if len(result.runs) == 1 and first.timeline is not None and len(first.timeline) <= _GANTT:
        above = _gantt(first.timeline, result.gpus, first.makespan)
    else:
        above = _use(result)
    return Sheet(title, [above, _spread(result)], result.source, (10.4, 7.0))


def _starts(result: QueueResult) -> Chart:
    """The time until each waiting job starts; for jobs whose start is unknown, no bar."""
    shown = result.starts[:40]
    along = Axis("hours until the job starts, if all jobs run to their limits", low=0.0)
    hours = [(start.start or 0.0) / 3600 for start in shown]
    return Chart([Bars(hours)], x=along, y=Axis(names=[str(start.job) for start in shown], is_reversed=True))


def _time_axis(seconds: float) -> tuple[float, Axis]:
    """(seconds of the unit, an axis of days, hours, minutes or seconds)."""
    units = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))
    size, unit = next((pair for pair in units if seconds >= 3 * pair[0]), (1.0, "s"))
    return size, Axis(f"time, {unit}", low=0.0, high=seconds / size or 1.0)


def _averages(
    timeline: Timeline, name: str, seconds: float, bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(edges of equal bins, mean of a counter in each)."""
    counter = next(held for held in timeline.counters if held.name == name)
    edges = np.linspace(0.0, max(seconds, 1e-9), bins + 1)
    area = np.concatenate([[0.0], np.cumsum(counter.value[:-1] * np.diff(counter.time))])
    return edges, np.diff(np.interp(edges, counter.time, area)) / np.diff(edges)


def _use(result: QueueResult) -> Chart:
    seconds = max(run.makespan for run in result.runs)
    size, along = _time_axis(seconds)
    marks: list[Mark] = [Rule(result.gpus, line="-", is_level=True)]
    for index, run in enumerate(result.runs):
        if run.timeline is not None:
            edges, mean = _averages(run.timeline, "GPUs in use", seconds, max(_BINS // len(result.runs), 60))
            marks.append(
                Series(((edges[:-1] + edges[1:]) / 2 / size).tolist(), mean.tolist(), "", index, width=1.5)
            )
    return Chart(marks, x=along, y=Axis("GPUs in use", low=0.0, high=result.gpus * 1.06))


def _gantt(timeline: Timeline, gpus: int, makespan: float) -> Chart:
    """Each run as a bar as high as its GPUs or its part of a GPU, in the lowest rows that stay free until it ends."""
    size, along = _time_axis(makespan)
    held = np.asarray(timeline.arguments["gpus"], float)
    parts = next((n for n in range(1, 9) if np.allclose(held * n, np.round(held * n))), 8)
    until = np.zeros(gpus * parts)
    shapes, colours = [], []
    for span in np.argsort(timeline.start, kind="stable").tolist():
        start, end, count = timeline.start[span], timeline.end[span], round(held[span] * parts)
        rows = np.flatnonzero(until <= start + 1e-9)[:count]
        until[rows] = end
        for first, last in _stretches(rows):
            shapes.append((start / size, end / size, first / parts, last / parts))
            colours.append(int(timeline.arguments["job"][span]) % len(COLOURS))
    up = Axis("GPUs (each bar a run of a job)", low=0.0, high=gpus)
    return Chart([Boxes(shapes, colours, opacity=0.9)], x=along, y=up)


def _stretches(rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last + 1) of each range of neighbouring rows."""
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts) if len(part)]


def _spread(result: QueueResult) -> Chart:
    """Share of the jobs that ended within a time, over that time."""
    marks: list[Mark] = []
    for index, run in enumerate(result.runs):
        marks.append(Series(*_steps(run), f"{run.policy}: mean {wait_text(run.jct_mean)}", index, width=1.5))
    ends = [end for mark in marks if isinstance(mark, Series) for end in (mark.x[0], mark.x[-1])]
    low, high = min(ends) / 1.2, max(ends) * 1.2
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    along = Axis(
        "within this time of submission",
        "log",
        lambda value: _TICKS.get(value, ""),
        ticks=ticks,
        low=low,
        high=high,
    )
    return Chart(marks, x=along, y=Axis("jobs ended", text=_SHARE, low=0.0, high=1.0), legend="right")


def _steps(run: QueueRun) -> tuple[list[float], list[float]]:
    """At most 500 points of the distribution of completion times."""
    share = np.linspace(0.0, 1.0, min(500, len(run.jct)))
    return np.maximum(np.quantile(run.jct, share), 1.0).tolist(), share.tolist()


def pack_figure(result: Any) -> Sheet:
    """GPUs given out over GPUs asked for, a line for each packer."""
    low = 0.6 * min(1.0, result.load)
    marks: list[Mark] = [Series([low, 1.0], [low, 1.0], "all that is asked for", INK, ":", width=0.8)]
    for index, row in enumerate(result.rows):
        label = f"{row.packer}: {row.allocated:.1%}"
        marks.append(Series(row.arrived_A, row.allocated_A, label, index, width=1.5))
    along = Axis("GPUs asked for", text=_SHARE, low=low, high=result.load)
    up = Axis("GPUs given out", text=_SHARE, low=low, high=1.0)
    title = f"Requests of {result.trace} on {result.nodes:,} nodes with {result.gpus:,} GPUs, mean of {result.seeds}"
    return Sheet(title, [Chart(marks, x=along, y=up, legend="right")], size=(9.4, 5.0))
