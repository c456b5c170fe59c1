"""A sweep drawn: time and bus bandwidth over size, one line for each algorithm. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podsim.answers.sweep import Sweep
from podsim.report.chart_marks import COLOURS, INK, MUTED
from podsim.report.collectives import own_name
from podsim.report.columns import size_text
from podsim.report.plots import STYLE, load_matplotlib
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)))
_WIDTH, _HEIGHT = 10.4, 4.9


def sweep_figure(sweep: Sweep) -> Figure:
    """A figure: left the time, right the bus bandwidth; fastest at the largest size first."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        left = figure.add_axes((0.075, 0.13, 0.315, 0.71))
        right = figure.add_axes((0.465, 0.13, 0.315, 0.71))
        for axes in (left, right):
            _axes(axes, sweep)
        _lines(left, right, sweep)
        left.set(yscale="log", ylabel="time")
        left.yaxis.set_major_formatter(_formatter(lambda v: format_quantity(v, "s")))
        right.set_ylabel("bus bandwidth, GB/s")
        right.set_ylim(bottom=0.0)
        handles, names = right.get_legend_handles_labels()
        figure.legend(
            handles, names, loc="upper left", bbox_to_anchor=(0.79, 0.86), fontsize=8.5, handlelength=2.6
        )
        title = (
            f"{sweep.collective} over {sweep.ranks:,} GPUs, {sweep.ranks_per_node} a server: {sweep.machine}"
        )
        figure.text(0.012, 0.955, title[:110], fontsize=11, fontweight="bold", va="center")
        figure.text(0.012, 0.9, _subtitle(sweep), fontsize=8.5, va="center")
        return figure


def _subtitle(sweep: Sweep) -> str:
    mine = f"{own_name(sweep)}: {sweep.how}"
    return f"algorithms: links alone; {mine}" if sweep.algorithms else mine


def _formatter(text: Any) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: text(value))


def _axes(axes: Axes, sweep: Sweep) -> None:
    """A logarithmic axis of sizes, with ticks at powers of two."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = sweep.rows[0].size, sweep.rows[-1].size
    ticks = [2.0**power for power in range(0, 60, 5) if low <= 2**power <= high]
    axes.set_xscale("log", base=2)
    if low < high:
        axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks if len(ticks) > 1 else [low, high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_formatter(size_text))
    axes.tick_params(labelsize=8.5)
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    axes.set_xlabel("size")


def _lines(left: Axes, right: Axes, sweep: Sweep) -> None:
    sizes = [row.size for row in sweep.rows]
    own = [row.seconds for row in sweep.rows]
    last = sweep.rows[-1]
    factor = last.bus_bandwidth * last.seconds / last.size if last.seconds else 0.0
    mark = "o" if len(sizes) == 1 else ""
    drawn = [(row.name, row.seconds) for row in sweep.algorithms]
    for index, (name, seconds) in enumerate(drawn):
        colour = COLOURS[index % len(COLOURS)]
        dashes: Any = _DASHES[index // len(COLOURS) % len(_DASHES)]
        _line(left, right, sizes, seconds, factor, name, color=colour, ls=dashes, lw=1.6, marker=mark)
    _line(left, right, sizes, own, factor, own_name(sweep), color=INK, lw=2.4, marker=mark, zorder=4)


def _line(
    left: Axes, right: Axes, sizes: list[float], seconds: Any, factor: float, name: str, **look: Any
) -> None:
    left.plot(sizes, seconds, **look)
    speeds = [size * factor / time / 1e9 if time else 0.0 for size, time in zip(sizes, seconds, strict=True)]
    right.plot(sizes, speeds, label=name, **look)
