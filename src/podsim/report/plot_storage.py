"""fio over clients, drawn: what is predicted, what the parts would allow, what was published. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.storage import FioRun
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.columns import size_text
from podsim.report.plots import STYLE, load_matplotlib
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ORANGE = "#D55E00"
_WIDTH, _HEIGHT = 9.6, 4.6


def fio_figure(run: FioRun) -> Figure:
    """A figure: rate over clients on the left, mean latency on the right."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        left = figure.add_axes((0.08, 0.13, 0.4, 0.68))
        right = figure.add_axes((0.58, 0.13, 0.4, 0.68))
        _rates(left, run)
        _latency(right, run)
        title = f"fio --rw={run.rw} --bs={size_text(run.block).replace(' ', '')} on {run.system}"
        figure.text(0.012, 0.95, title, fontsize=11, fontweight="bold", va="center")
        about = f"{run.numjobs} jobs of depth {run.iodepth} a client"
        figure.text(0.012, 0.89, about, fontsize=8.5, va="center", color=INK)
        return figure


def _unit(run: FioRun) -> str:
    return "B/s" if run.block >= 1 << 16 else "IOPS"


def _rates(axes: Axes, run: FioRun) -> None:
    large = _unit(run) == "B/s"
    clients = [row.clients for row in run.rows]
    factor = 1.0 if large else 1.0 / run.block
    most = [row.most * factor for row in run.rows]
    rates = [row.bandwidth * factor for row in run.rows]
    if any(m > r * 1.001 for m, r in zip(most, rates, strict=True)):
        axes.plot(
            clients, most, color=MUTED, ls=(0, (4, 2)), lw=1.4, label="were the servers' software no limit"
        )
    axes.plot(clients, rates, color=BLUE, lw=2.2, marker="o", ms=4, label="predicted")
    for measured, face, label in (
        (True, _ORANGE, "published, measured"),
        (False, "none", "published, derived"),
    ):
        points = [
            p for p in run.published if p.what.startswith("measured") is measured and p.clients <= clients[-1]
        ]
        if points:
            axes.scatter([p.clients for p in points], [p.bandwidth or p.iops for p in points], s=62, zorder=4,
                         facecolors=face, edgecolors=_ORANGE, linewidths=1.6, label=label)  # fmt: skip
    _axes(axes, clients, "read and written" if 0 < run.read_share < 1 else "", _unit(run))
    published = [p.bandwidth or p.iops for p in run.published if p.clients <= clients[-1]]
    axes.set_ylim(0.0, max(*rates, *published, min(max(most), 2.2 * max(rates))) * 1.08)
    axes.legend(loc="lower right", fontsize=8.5)


def _latency(axes: Axes, run: FioRun) -> None:
    clients = [row.clients for row in run.rows]
    axes.plot(
        clients, [row.latency for row in run.rows], color=BLUE, lw=2.2, marker="o", ms=4, label="mean, loaded"
    )
    axes.plot(
        clients,
        [row.alone for row in run.rows],
        color=MUTED,
        lw=1.4,
        ls=(0, (4, 2)),
        marker="o" if len(clients) == 1 else "",
        ms=4,
        label="one access alone",
    )
    _axes(axes, clients, "latency of an access", "s")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="best", fontsize=8.5)


def _axes(axes: Axes, clients: list[int], what: str, unit: str) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    axes.set_xlabel("clients")
    axes.set_title(what or ("bandwidth" if unit == "B/s" else "operations"), fontsize=9.5, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8) if clients[-1] > 1 else FixedLocator([1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_quantity(value, unit)))
    axes.set_xlim(0 if clients[-1] > 1 else 0.5, clients[-1] * 1.04 if clients[-1] > 1 else 1.5)
    axes.tick_params(labelsize=8.5)
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
