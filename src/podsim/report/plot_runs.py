"""A long run drawn: effective time over the checkpoint interval, and the days to finish. Needs podsim[report]."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from podsim.answers.runs import Goodput
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.units import duration, format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_DAY = 86400.0
_ORANGE, _GREEN, _PINK = "#D55E00", "#009E73", "#CC79A7"
_WIDTH, _HEIGHT = 10.4, 4.9
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "fontsize": 8.5, "ncols": 2}
_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400)


def goodput_image(run: Goodput, kind: str, *, dpi: int = 150) -> bytes:
    """Bytes of `goodput_figure`, "svg" or "png"."""
    return figure_image(goodput_figure(run), kind, dpi=dpi)


def goodput_figure(run: Goodput) -> Figure:
    """A figure: left the effective time over the interval, right the histogram of the days."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        _intervals(figure.add_axes((0.092, 0.12, 0.378, 0.64)), run)
        _days(figure.add_axes((0.555, 0.12, 0.425, 0.64)), run)
        tokens = format_quantity(run.tokens, "")
        title = f"{run.model}, {tokens} tokens on {run.gpus:,} GPUs of {run.cluster.partition(' (')[0]}"
        figure.text(0.012, 0.955, title[:110], fontsize=11, fontweight="bold", va="center")
        figure.text(0.012, 0.9, _subtitle(run), fontsize=8.5, va="center")
        return figure


def _subtitle(run: Goodput) -> str:
    return (
        f"a failure every {duration(run.mtbf)}, restart {duration(run.restart)}, a checkpoint stops training for "
        f"{duration(run.checkpoint.stall)}; {run.runs:,} simulated runs"
    )


def _intervals(axes: Axes, run: Goodput) -> None:
    """The efficiency as a curve, with the three optima and the interval in use."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    times = [point.interval for point in run.curve]
    shares = [point.efficiency for point in run.curve]
    axes.plot(times, shares, color=INK, lw=2.0, zorder=3)
    marks = (
        ("Young", run.young, _ORANGE, "v"),
        ("Daly", run.daly, _GREEN, "s"),
        ("exact", run.best, BLUE, "o"),
    )
    for index, (name, at, colour, shape) in enumerate(marks):
        if times[0] <= at <= times[-1]:
            axes.plot(
                at, _height(run, at), shape, color=colour, ms=11 - 3 * index, label=f"{name}: {duration(at)}",
                zorder=4 + index, ls="",
            )  # fmt: skip
    axes.axvline(run.interval, color=_PINK, lw=1.2, ls=(0, (4, 2)), label=f"in use: {duration(run.interval)}")
    axes.set_xscale("log")
    ticks = [tick for tick in _TICKS if times[0] <= tick <= times[-1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks if len(ticks) > 1 else [times[0], times[-1]]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:.6g} %"))
    axes.set(xlabel="training between checkpoints", ylabel="effective share of the time")
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    axes.legend(**_ABOVE)
    axes.tick_params(labelsize=8.5)


def _height(run: Goodput, at: float) -> float:
    """Efficiency at an interval, between the points of the curve."""
    points = run.curve
    for left, right in pairwise(points):
        if left.interval <= at <= right.interval:
            part = math.log(at / left.interval) / math.log(right.interval / left.interval)
            return left.efficiency + part * (right.efficiency - left.efficiency)
    return points[-1].efficiency


def _days(axes: Axes, run: Goodput) -> None:
    """The histogram, the band that holds 90 % of the runs, their mean, and the run without failures."""
    if run.counts:
        edges = [edge / _DAY for edge in run.edges]
        if edges[0] == edges[-1]:
            edges = [edges[0] - 0.005, edges[0] + 0.005]
        axes.stairs(run.counts, edges, fill=True, color=BLUE, alpha=0.45)
        axes.stairs(run.counts, edges, color=BLUE, lw=1.0)
    seconds = run.seconds
    low, high = seconds.low / _DAY, seconds.high / _DAY
    if high < float("inf"):
        axes.axvspan(low, high, color=MUTED, alpha=0.18, lw=0, label=f"90 %: {low:,.4g} to {high:,.4g} d")
    lines = (
        ("training alone", run.work, _GREEN, ":"),
        ("with checkpoints, no failure", run.failure_free, _ORANGE, (0, (4, 2))),
        ("mean with failures", seconds.mean, INK, "-"),
    )
    for name, at, colour, dashes in lines:
        if at < float("inf"):
            axes.axvline(at / _DAY, color=colour, lw=1.6, ls=dashes, label=f"{name}: {at / _DAY:,.4g} d")
    beyond = run.runs - sum(run.counts)
    axes.set(xlabel=f"days to finish ({beyond:,} runs lie beyond)", ylabel="simulated runs")
    axes.set_ylim(0, max(run.counts, default=1) * 1.05)
    axes.legend(**_ABOVE)
    axes.tick_params(labelsize=8.5)
