"""Number formats, drawn: their bits below each other, and what they gain and cost. Needs podsim[report]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from podsim.answers.number_formats import FormatRow, FormatSheet, FormatTable, FormatTrade
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = FormatTable | FormatSheet | FormatTrade
_SIGN, _EXPONENT, _MANTISSA = "#7F7F7F", "#009E73", BLUE
_MOST = 32
"""bits of a row; wider formats are cut"""


def format_figure(answer: Drawn) -> Figure:
    """A figure: the bits of formats as boxes, or the speed of precisions next to their changes of accuracy."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        if isinstance(answer, FormatTrade):
            figure = Figure(figsize=(8.4, 3.6))
            _draw_trade(figure, answer)
            return figure
        rows = answer.rows if isinstance(answer, FormatTable) else (answer.row, *answer.peers)
        figure = Figure(figsize=(8.4, 1.2 + 0.42 * len(rows)))
        _draw_bits(figure, rows)
        return figure


def _draw_bits(figure: Figure, rows: Sequence[FormatRow]) -> None:
    """A box for each bit: sign, exponent (range), mantissa (precision)."""
    height = figure.get_size_inches()[1]
    axes = figure.add_axes((0.12, 0.05, 0.86, 1.0 - 0.8 / height))
    for line, row in enumerate(rows):
        kinds = [_SIGN] * row.sign + [_EXPONENT] * row.exponent + [_MANTISSA] * row.mantissa
        for bit, colour in enumerate(kinds[:_MOST]):
            axes.barh(line, 0.94, left=bit, height=0.62, color=colour, edgecolor="white", linewidth=0.4)
        text = f"{row.exponent} + {row.mantissa}" + (f", {row.block} share a scale" if row.block else "")
        axes.text(min(len(kinds), _MOST) + 0.4, line, text, va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, _MOST + 6)
    axes.set_xticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    for left, colour, name in (
        (0.12, _SIGN, "sign"),
        (0.24, _EXPONENT, "exponent: range"),
        (0.5, _MANTISSA, "mantissa: precision"),
    ):
        figure.text(left, 1.0 - 0.3 / height, name, color=colour, fontsize=10, fontweight="bold")


def _draw_trade(figure: Figure, trade: FormatTrade) -> None:
    """Speed on the left, sizes of published changes on the right."""
    names = [row.precision for row in trade.rows]
    speed, change = figure.add_axes((0.09, 0.13, 0.4, 0.66)), figure.add_axes((0.56, 0.13, 0.4, 0.66))
    speed.barh(names, [row.gain for row in trade.rows], color=BLUE)
    speed.set_title(f"speed over {names[0]}", fontsize=9.5, loc="left", color=INK)
    known: list[Any] = [(row.precision, row.accuracy) for row in trade.rows if row.accuracy]
    change.barh(names, [0.0] * len(names), color=MUTED)
    change.barh(
        [name for name, _ in known],
        [100 * each.p90 for _, each in known],
        color=MUTED,
        label="90th percentile",
    )
    change.barh(
        [name for name, _ in known], [100 * each.size for _, each in known], color="#D55E00", label="median"
    )
    change.set_title("size of published changes, %", fontsize=9.5, loc="left", color=INK)
    if known:
        change.legend(fontsize=8)
    for axes in (speed, change):
        axes.invert_yaxis()
        axes.tick_params(labelsize=8.5)
    figure.text(
        0.012,
        0.93,
        f"{trade.model} on {trade.gpus} x {trade.gpu}",
        fontsize=11,
        fontweight="bold",
        va="center",
    )
