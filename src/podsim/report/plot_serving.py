"""Inference drawn: throughput against latency by batch. Needs podsim[report]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.answers.scenario_run import EnsembleRun, LoadPoint, ScenarioRun, StreamRun
from podsim.answers.served import Served, ServedBatch
from podsim.report.plots import BLUE, INK, MUTED, STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ORANGE, _GREEN = "#D55E00", "#009E73"
_SIZE = (7.2, 4.6)
_AXES = (0.115, 0.13, 0.86, 0.71)


def served_figure(served: Served) -> Figure:
    """A figure: throughput over latency, a point for each batch; the limit as a line."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{served.model} on {served.gpu}: {served.precision}, {served.engine}")
        _batches(axes, served.rows)
        if served.limit is not None:
            axes.axvline(1e3 * served.limit / 2, color=_ORANGE, lw=1.2, label="half of the limit")
            axes.legend(loc="lower right", fontsize=8.5)
        return figure


def _batches(axes: Axes, rows: Sequence[ServedBatch]) -> None:
    """A point for each batch that fits, or for all if none does."""
    shown = [row for row in rows if row.fits] or list(rows)
    axes.plot([1e3 * row.latency for row in shown], [row.throughput for row in shown], "o-", color=BLUE)
    for row in shown:
        axes.annotate(
            f"{row.batch}", (1e3 * row.latency, row.throughput), xytext=(4, -11), textcoords="offset points",
            fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("latency of a batch, ms")
    axes.set_ylabel("throughput of one instance, 1/s")
    axes.set_ylim(bottom=0.0)


def blank_figure(title: str) -> tuple[Figure, Axes]:
    """An empty chart of serving under a title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE)
    axes = figure.add_axes(_AXES)
    axes.grid(color=MUTED, alpha=0.3, lw=0.6)
    figure.text(0.02, 0.94, title[:90], fontsize=11, fontweight="bold", va="center")
    return figure, axes


def scenario_figure(run: ScenarioRun) -> Figure:
    """A figure: percentiles of the latency over the rate of requests, with the limit; without rates, the batches."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        title = f"{run.model} on {run.instances} x {run.gpu}: {run.scenario}, {run.precision}"
        figure, axes = blank_figure(title)
        if not run.points:
            _batches(axes, run.rows)
            return figure
        _percentiles(axes, [point.rate for point in run.points], run.points, run.limit)
        axes.set_xlabel(f"{run.sample}/s")
        return figure


def streams_figure(run: StreamRun) -> Figure:
    """A figure: percentiles of the latency over the number of streams, with the limit."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{run.model} on {run.instances} x {run.gpu}: {run.title}")
        _percentiles(axes, [point.share * run.most for point in run.points], run.points, run.limit)
        axes.set_xlabel("streams")
        return figure


def ensemble_figure(run: EnsembleRun) -> Figure:
    """A figure: percentiles of the latency over the rate of requests, with the limit."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{run.model} on {run.instances} x {run.gpu}: {len(run.steps)} steps")
        _percentiles(axes, [point.rate for point in run.points], run.points, run.limit)
        axes.set_xlabel("requests/s")
        return figure


def _percentiles(
    axes: Axes, loads: Sequence[float], points: Sequence[LoadPoint], limit: float | None
) -> None:
    """Three percentiles of the latency over the load, and the limit."""
    for name, colour in (("p99", _ORANGE), ("p90", _GREEN), ("p50", BLUE)):
        axes.plot(loads, [1e3 * getattr(point, name) for point in points], "o-", color=colour, label=name)
    if limit is not None:
        axes.axhline(1e3 * limit, color=INK, lw=1.0, ls="--", label="limit")
    axes.set_ylabel("latency, ms")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper left", fontsize=8.5)
