"""Predicted against measured, one plot for each comparison, as SVG or PNG. Needs podsim[report]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.answers.comparison import ROLES, ComparedRow, Comparison
from podsim.errors import TableError
from podsim.report.chart_marks import COLOURS, INK, MUTED, Axis, Band, Boxes, Chart, Mark, Series, Sheet
from podsim.report.columns import percent, quantity_text
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_OTHER = "others"
_BAND = 0.1
_MANY = 150
"""rows above which marks are small"""


def plot_svg(comparison: Comparison, *, titled: bool = True) -> bytes:
    """SVG of `plot`: the same bytes for the same comparison."""
    return figure_image(plot(comparison, titled=titled), "svg", is_transparent=True)


def plot_png(comparison: Comparison, *, dpi: int = 150) -> bytes:
    """PNG of `plot`, on white."""
    return figure_image(plot(comparison), "png", dpi=dpi)


def plot(comparison: Comparison, *, titled: bool = True) -> Figure:
    """Figure of predicted against measured values on logarithmic axes, with the diagonal and a band of 10 %.

    Colours and shapes are classes of rows (the six largest, then "others"); filled marks are `test` rows,
    hollow ones `calibrate`. The title, unless left out, gives the mean absolute error and number of rows of
    each role apart. Raises TableError on a comparison without rows, PodsimError without matplotlib.
    """
    if not comparison.rows:
        raise TableError(f"{comparison.table}: no rows to plot")
    values = [value for row in comparison.rows for value in (row.predicted, row.measured)]
    low, high = min(values), max(values)
    margin = max(1.12, (high / low) ** 0.06, (2.5 * low / high) ** 0.5)
    line = [low / margin, high * margin]
    measured, predicted = (
        Axis(f"{name} ({comparison.what})", "log", lambda value: quantity_text(value, comparison.unit), low=line[0],
             high=line[1])
        for name in ("measured", "predicted")
    )  # fmt: skip
    names = _classes(comparison.rows)
    keys = {name.partition("=")[0] if name.count("=") == 1 else "" for name in names if name != _OTHER}
    heading = keys.pop() if len(keys) == 1 else ""
    marks: list[Mark] = [
        Band(line, [v * (1 - _BAND) for v in line], [v * (1 + _BAND) for v in line], "", MUTED, 0.22),
        Series(line, line, "", MUTED, width=1.2),
        *_points(comparison.rows, names, f"{heading}=" if heading else ""),
        Boxes([], MUTED, "within 10 %", 0.22),
    ]
    chart = Chart(marks, "", measured, predicted, "right", legend_title=heading, is_square=True)
    if titled:
        return draw(Sheet(comparison.title, [chart], error_line(comparison), (8.4, 5.7)))
    return draw(Sheet("", [chart], size=(8.4, 4.9)))


def _classes(rows: Sequence[ComparedRow]) -> dict[str, list[ComparedRow]]:
    """The rows of each class, the largest first: six classes keep their names if there are more than seven."""
    counts = Counter(row.group for row in rows)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    kept = ranked if len(ranked) <= len(COLOURS) else ranked[: len(COLOURS) - 1]
    classes: dict[str, list[ComparedRow]] = {name: [] for name in (*kept, _OTHER)}
    for row in rows:
        classes[row.group if row.group in kept else _OTHER].append(row)
    return {name: members for name, members in classes.items() if members}


def _points(rows: Sequence[ComparedRow], classes: dict[str, list[ComparedRow]], prefix: str) -> list[Mark]:
    """Every row, the others lowest; then what the legend says of classes and roles."""
    drawn, named = list[Mark](), list[Mark]()
    for index, (name, members) in enumerate(classes.items()):
        colour, marker = (MUTED, "X") if name == _OTHER else (index, _MARKERS[index])
        label = f"{name.removeprefix(prefix) or 'unclassed'} ({len(members)})"
        named += [Series([], [], label, colour, "", marker)] if any(classes) else []
        for role in ROLES:
            chosen = [row for row in members if row.role == role]
            points = Series(
                [row.measured for row in chosen], [row.predicted for row in chosen], "", colour, "", marker,
                is_hollow=role == "calibrate", size=4.0 if len(rows) > _MANY else 6.3,
            )  # fmt: skip
            drawn.insert(0 if name == _OTHER else len(drawn), points)
    roles = {row.role for row in rows}
    if "calibrate" in roles:
        named.append(Series([], [], "hollow: calibrate", INK, "", "o", is_hollow=True))
    if roles == set(ROLES):
        named.append(Series([], [], "filled: test", INK, "", "o"))
    return [*drawn, *named]


def error_line(comparison: Comparison) -> str:
    """Mean absolute error and number of rows of each role: never one figure for both."""
    names = []
    for role in comparison.roles:
        errors = [abs(row.error) for row in comparison.rows if row.role == role]
        names.append(f"{role}: MAE {percent(sum(errors) / len(errors))}, n={len(errors)}")
    return " · ".join(names)
