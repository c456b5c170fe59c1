"""Queues drawn: GPUs in use and asked for over time, and how completion times are spread. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.queued import QueueResult, QueueRun
from podsim.answers.timeline import Timeline
from podsim.report.chart_marks import INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib
from podsim.report.queue_tables import wait_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLOURS = ("#0072b2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6F5BD0")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)))
_BINS = 480
"""columns that a picture over time is averaged into, all lines of it together; a line has at least 60"""
_TICKS = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 36000.0: "10 h", 864000.0: "10 d",
    8640000.0: "100 d", 86400000.0: "1000 d",
}  # fmt: skip
_GANTT = 4000
"""The number of runs up to which each is drawn as a bar."""


def queue_figure(result: QueueResult) -> Figure:
    """A figure: above what ran when, below how many jobs ended within which time.

    For one policy the jobs are drawn as bars on the GPUs they held, as long as they are few; for several the GPUs in use.
    """
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.4, 7.0))
        if result.starts:
            _starts(figure.add_axes((0.2, 0.1, 0.75, 0.8)), result)
            return figure
        above = figure.add_axes((0.075, 0.56, 0.695, 0.34))
        below = figure.add_axes((0.075, 0.09, 0.695, 0.36))
        first = result.runs[0]
        if len(result.runs) == 1 and first.timeline is not None and len(first.timeline) <= _GANTT:
            _gantt(above, first.timeline, result.gpus, first.makespan)
        else:
            _use(above, result)
        _spread(below, result)
        figure.text(
            0.012, 0.965, f"{result.jobs:,} jobs of {result.trace} on {result.machine}"[:110], fontsize=11,
            fontweight="bold", va="center",
        )  # fmt: skip
        figure.text(0.012, 0.93, result.source[:130], fontsize=8.5, va="center")
        handles, names = below.get_legend_handles_labels()
        figure.legend(
            handles, names, loc="upper left", bbox_to_anchor=(0.78, 0.46), fontsize=8.5, handlelength=2.6
        )
        return figure


def _starts(axes: Axes, result: QueueResult) -> None:
    """Draw the time until each waiting job starts; for jobs whose start is unknown, no bar."""
    shown = result.starts[:40]
    axes.barh(
        [start.job for start in shown], [(start.start or 0.0) / 3600 for start in shown], color=_COLOURS[0]
    )
    axes.invert_yaxis()
    axes.set_xlabel("hours until the job starts, if all jobs run to their limits")


def _look(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "ls": _DASHES[index // len(_COLOURS) % len(_DASHES)],
        "lw": 1.5,
    }


def _time_axis(axes: Axes, seconds: float) -> tuple[float, str]:
    """Set the axis to days, hours, minutes or seconds; (seconds of the unit, its name)."""
    size, unit = next(
        (
            pair
            for pair in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))
            if seconds >= 3 * pair[0]
        ),
        (1.0, "s"),
    )
    axes.set_xlim(0, seconds / size or 1.0)
    axes.set_xlabel(f"time, {unit}", fontsize=9)
    return size, unit


def _averages(
    timeline: Timeline, name: str, seconds: float, bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(edges of equal bins, mean of a counter in each)."""
    counter = next(held for held in timeline.counters if held.name == name)
    edges = np.linspace(0.0, max(seconds, 1e-9), bins + 1)
    area = np.concatenate([[0.0], np.cumsum(counter.value[:-1] * np.diff(counter.time))])
    return edges, np.diff(np.interp(edges, counter.time, area)) / np.diff(edges)


def _use(axes: Axes, result: QueueResult) -> None:
    seconds = max(run.makespan for run in result.runs)
    size, _ = _time_axis(axes, seconds)
    for index, run in enumerate(result.runs):
        if run.timeline is not None:
            edges, mean = _averages(run.timeline, "GPUs in use", seconds, max(_BINS // len(result.runs), 60))
            axes.plot((edges[:-1] + edges[1:]) / 2 / size, mean, **_look(index))
    axes.axhline(result.gpus, color=MUTED, lw=0.8)
    axes.set_ylim(0, result.gpus * 1.06)
    axes.set_ylabel("GPUs in use", fontsize=9)
    axes.tick_params(labelsize=8.5)


def _gantt(axes: Axes, timeline: Timeline, gpus: int, makespan: float) -> None:
    """Each run as a bar as high as its GPUs or its part of a GPU, in the lowest rows that stay free until it ends."""
    from matplotlib.collections import PolyCollection

    size, _ = _time_axis(axes, makespan)
    held = np.asarray(timeline.arguments["gpus"], float)
    parts = next((n for n in range(1, 9) if np.allclose(held * n, np.round(held * n))), 8)
    until = np.zeros(gpus * parts)
    shapes, colours = [], []
    for span in np.argsort(timeline.start, kind="stable").tolist():
        start, end, count = timeline.start[span], timeline.end[span], round(held[span] * parts)
        rows = np.flatnonzero(until <= start + 1e-9)[:count]
        until[rows] = end
        colour = _COLOURS[int(timeline.arguments["job"][span]) % len(_COLOURS)]
        for first, last in _stretches(rows):
            low, high = first / parts, last / parts
            shapes.append([(start / size, low), (end / size, low), (end / size, high), (start / size, high)])
            colours.append(colour)
    axes.add_collection(
        PolyCollection(shapes, facecolors=colours, edgecolors="white", linewidths=0.2, alpha=0.9)
    )
    axes.set_ylim(0, gpus)
    axes.set_ylabel("GPUs (each bar a run of a job)", fontsize=9)
    axes.tick_params(labelsize=8.5)


def _stretches(rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last + 1) of each range of neighbouring rows."""
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts) if len(part)]


def _spread(axes: Axes, result: QueueResult) -> None:
    """Share of the jobs that ended within a time, over that time."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for index, run in enumerate(result.runs):
        times, share = _steps(run)
        axes.plot(times, share, label=f"{run.policy}: mean {wait_text(run.jct_mean)}", **_look(index))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(_TICKS)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _TICKS.get(value, "")))
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    axes.set_ylabel("jobs ended", fontsize=9)
    axes.set_xlabel("within this time of submission", fontsize=9)
    axes.tick_params(labelsize=8.5)


def _steps(run: QueueRun) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most 500 points of the distribution of completion times."""
    share = np.linspace(0.0, 1.0, min(500, len(run.jct)))
    return np.maximum(np.quantile(run.jct, share), 1.0), share


def pack_figure(result: Any) -> Figure:
    """A figure: GPUs given out over GPUs asked for, a line for each packer."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter

        figure = Figure(figsize=(9.4, 5.0))
        axes = figure.add_axes((0.1, 0.12, 0.605, 0.74))
        low = 0.6 * min(1.0, result.load)
        for index, row in enumerate(result.rows):
            axes.plot(
                row.arrived_A, row.allocated_A, label=f"{row.packer}: {row.allocated:.1%}", **_look(index)
            )
        axes.plot([low, 1.0], [low, 1.0], color=INK, lw=0.8, ls=(0, (1, 2)))
        axes.set_xlim(low, result.load)
        axes.set_ylim(low, 1.0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("GPUs asked for")
        axes.set_ylabel("GPUs given out")
        axes.grid(color=MUTED, alpha=0.25, lw=0.6)
        figure.legend(loc="upper left", bbox_to_anchor=(0.72, 0.87), fontsize=9)
        title = f"Requests of {result.trace} on {result.nodes:,} nodes with {result.gpus:,} GPUs, mean of {result.seeds}"
        figure.text(0.015, 0.94, title[:105], fontsize=11, fontweight="bold", va="center")
        return figure
