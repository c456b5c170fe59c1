"""Inference drawn: throughput against latency by batch. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.report.plots import BLUE, INK, MUTED, STYLE, load_matplotlib
from podsim.results.served import Served

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ORANGE = "#D55E00"
_SIZE = (7.2, 4.6)
_AXES = (0.115, 0.13, 0.86, 0.71)


def served_figure(served: Served) -> Figure:
    """A figure: throughput over latency, a point for each batch; the limit as a line."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{served.model} on {served.gpu}: {served.precision}, {served.engine}")
        rows = [row for row in served.rows if row.fits] or list(served.rows)
        axes.plot([1e3 * row.latency for row in rows], [row.throughput for row in rows], "o-", color=BLUE)
        for row in rows:
            axes.annotate(
                f"{row.batch}", (1e3 * row.latency, row.throughput), xytext=(4, -11),
                textcoords="offset points", fontsize=8, color=INK,
            )  # fmt: skip
        if served.limit is not None:
            axes.axvline(1e3 * served.limit / 2, color=_ORANGE, lw=1.2, label="half of the limit")
            axes.legend(loc="lower right", fontsize=8.5)
        axes.set_xscale("log")
        axes.set_xlabel("latency of a batch, ms")
        axes.set_ylabel("throughput of one instance, 1/s")
        axes.set_ylim(bottom=0.0)
        return figure


def blank_figure(title: str) -> tuple[Figure, Axes]:
    """An empty chart of serving under a title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE)
    axes = figure.add_axes(_AXES)
    axes.grid(color=MUTED, alpha=0.3, lw=0.6)
    figure.text(0.02, 0.94, title[:90], fontsize=11, fontweight="bold", va="center")
    return figure, axes
