"""Number formats in charts: their bits below each other, and what they gain and cost."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.answers.number_formats import FormatRow, FormatSheet, FormatTable, FormatTrade
from podsim.report.chart_marks import BLUE, MUTED, Axis, Bars, Boxes, Chart, Mark, Sheet

_KINDS = (
    ("sign", "sign", "#7F7F7F"),
    ("exponent: range", "exponent", "#009E73"),
    ("mantissa: precision", "mantissa", BLUE),
)
"""(name, field, colour)"""
_MOST = 32
"""bits of a row; wider formats are cut"""


def format_figure(answer: FormatTable | FormatSheet | FormatTrade) -> Sheet:
    """The bits of formats as boxes, or the speed of precisions next to their changes of accuracy."""
    if isinstance(answer, FormatTrade):
        return _trade(answer)
    rows = answer.rows if isinstance(answer, FormatTable) else (answer.row, *answer.peers)
    return Sheet("", [_bits(rows)], size=(8.4, 1.2 + 0.42 * len(rows)))


def _bits(rows: Sequence[FormatRow]) -> Chart:
    """A box for each bit: sign, exponent (range), mantissa (precision)."""
    marks, ends = list[Mark](), [0] * len(rows)
    for name, field, colour in _KINDS:
        boxes = []
        for line, row in enumerate(rows):
            first, ends[line] = ends[line], min(ends[line] + int(getattr(row, field)), _MOST)
            boxes += [(bit, bit + 0.94, line - 0.31, line + 0.31) for bit in range(first, ends[line])]
        marks.append(Boxes(boxes, colour, name))
    texts = [
        f"{row.exponent} + {row.mantissa}" + (f", {row.block} share a scale" if row.block else "")
        for row in rows
    ]
    marks.append(Bars(ends, colour="none", texts=texts))
    along, names = (
        Axis(low=0.0, high=_MOST + 7, is_bare=True),
        Axis(names=[row.name for row in rows], is_reversed=True),
    )
    return Chart(marks, x=along, y=names, legend="above", legend_columns=3)


def _trade(trade: FormatTrade) -> Sheet:
    """Speed on the left, sizes of published changes on the right."""
    names = Axis(names=[row.precision for row in trade.rows], is_reversed=True)
    speed = Bars([row.gain for row in trade.rows], texts=[f"{row.gain:.3g}" for row in trade.rows])
    changes: list[Mark] = [
        Bars(
            [100 * row.accuracy.p90 if row.accuracy else 0.0 for row in trade.rows], "90th percentile", MUTED
        ),
        Bars([100 * row.accuracy.size if row.accuracy else 0.0 for row in trade.rows], "median", 1),
    ]
    charts = [
        Chart([speed], f"speed over {trade.rows[0].precision}", Axis(low=0.0), names),
        Chart(changes, "size of published changes, %", Axis(low=0.0), names),
    ]
    return Sheet(f"{trade.model} on {trade.gpus} x {trade.gpu}", charts, size=(8.4, 3.6), columns=2)
