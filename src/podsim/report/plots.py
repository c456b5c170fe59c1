"""Predicted against measured, one plot for each comparison, as SVG or PNG. Needs podsim[report]."""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

from podsim.answers.comparison import ROLES, ComparedRow, Comparison
from podsim.errors import PodsimError, TableError
from podsim.packaged import install_hint
from podsim.quoting import visible, visible_lines
from podsim.report.chart_marks import COLOURS, INK, MUTED
from podsim.report.columns import percent, quantity_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_OTHER = "others"
STYLE = {
    "font.size": 10.0, "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "podsim", "legend.frameon": False, "font.family": ["DejaVu Sans"],
}  # fmt: skip
_WIDTH, _LEFT, _BOTTOM, _SIDE, _TITLE, _NO_TITLE = 8.4, 1.25, 0.85, 3.9, 0.95, 0.15
"""inches: the figure, the square of the axes in it, what is above; the legend has the rest of the width"""
_BAND = 0.1
_DENSE = 1500
"""points above which they are drawn as one image inside an SVG"""


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
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        height = _BOTTOM + _SIDE + (_TITLE if titled else _NO_TITLE)
        figure = Figure(figsize=(_WIDTH, height))
        axes = figure.add_axes((_LEFT / _WIDTH, _BOTTOM / height, _SIDE / _WIDTH, _SIDE / height))
        _axes(axes, comparison)
        heading = _points(axes, comparison.rows)
        if titled:
            _title(figure, comparison)
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(1.03, 1.0),
            borderaxespad=0.0,
            fontsize=8.5,
            handletextpad=0.4,
            title=heading,
            title_fontsize=9,
            alignment="left",
        )
        return figure


def load_matplotlib() -> Any:
    """The matplotlib module, imported when first needed."""
    try:
        import matplotlib as module
    except ImportError:
        raise PodsimError(f"plots need matplotlib: {install_hint('report')}") from None
    return module


def figure_image(figure: Figure, kind: str, *, dpi: int = 150, is_transparent: bool = False) -> bytes:
    """Bytes of a figure, "svg" or "png", on white unless it is transparent; the same bytes for the same figure."""
    out = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}} if kind == "svg" else {}
    background = {"transparent": True} if is_transparent else {"facecolor": "white"}
    show_as_they_are(figure)
    with load_matplotlib().rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(out, format=kind, dpi=dpi, **background, **options)
    return out.getvalue()


def _visible_tick(text: Callable[[float, int | None], str], value: float, at: int | None) -> str:
    return visible(text(value, at))


def show_as_they_are(figure: Figure) -> None:
    """Take no text of a figure for a formula of TeX, and spell out what prints nothing; numbers of axes stay."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    numbers = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        known = axis.get_major_formatter()
        if isinstance(known, FuncFormatter):
            known.func = partial(_visible_tick, known.func)
        else:
            numbers |= {
                label for tick in (*axis.majorTicks, *axis.minorTicks) for label in (tick.label1, tick.label2)
            }
    for text in {*figure.findobj(Text)} - numbers:
        text.set_text(visible_lines(text.get_text()))
        text.set_parse_math(False)


def _classes(rows: Sequence[ComparedRow]) -> list[str]:
    """Class to draw each row as: the largest keep their names, the rest are one."""
    counts = Counter(row.group for row in rows)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    kept = set(ranked if len(ranked) <= len(COLOURS) else ranked[: len(COLOURS) - 1])
    return [row.group if row.group in kept else _OTHER for row in rows]


def _heading(names: Sequence[str]) -> str:
    """ "model" if every class but the others is "model=…", else ""."""
    keys = {name.partition("=")[0] if name.count("=") == 1 else "" for name in names if name != _OTHER}
    return keys.pop() if len(keys) == 1 else ""


def _points(axes: Axes, rows: Sequence[ComparedRow]) -> str:
    """Draw every row, the others first, and give the legend's heading."""
    drawn_as = _classes(rows)
    counts = Counter(drawn_as)
    order = sorted(counts, key=lambda name: (name == _OTHER, -counts[name], name))
    heading = _heading(order)
    looks = dict(zip(order, zip(COLOURS, _MARKERS, strict=True), strict=False)) | {_OTHER: (MUTED, "X")}
    small = len(rows) > 150
    for name in sorted(order, key=lambda name: name != _OTHER):
        colour, marker = looks[name]
        for role in ROLES:
            chosen = [r for r, c in zip(rows, drawn_as, strict=True) if c == name and r.role == role]
            axes.scatter(
                [row.measured for row in chosen],
                [row.predicted for row in chosen],
                s=16 if small else 40,
                marker=marker,
                facecolors=colour if role == "test" else "none",
                edgecolors=colour,
                linewidths=1.0 if role == "calibrate" else 0.4,
                alpha=0.6 if small else 0.9,
                zorder=3,
                rasterized=len(rows) > _DENSE,
            )
    for name in order if any(order) else []:
        colour, marker = looks[name]
        shown = name.removeprefix(f"{heading}=") if heading else name
        label = f"{fill(shown or 'unclassed', 34)} ({counts[name]})"
        axes.scatter([], [], s=34, marker=marker, color=colour, label=label)
    roles = {row.role for row in rows}
    if "calibrate" in roles:
        axes.scatter([], [], s=34, marker="o", facecolors="none", edgecolors=INK, label="hollow: calibrate")
    if roles == set(ROLES):
        axes.scatter([], [], s=34, marker="o", color=INK, label="filled: test")
    axes.fill_between([], [], color=MUTED, alpha=0.22, lw=0, label="within 10 %")
    return heading


def _axes(axes: Axes, comparison: Comparison) -> None:
    """Equal logarithmic axes around all values, with the diagonal and its band."""
    values = [v for row in comparison.rows for v in (row.predicted, row.measured)]
    low, high = min(values), max(values)
    margin = max(1.12, (high / low) ** 0.06, (2.5 * low / high) ** 0.5)
    low, high = low / margin, high * margin
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    line = [low, high]
    axes.fill_between(
        line, [v * (1 - _BAND) for v in line], [v * (1 + _BAND) for v in line], color=MUTED, alpha=0.22, lw=0
    )
    axes.plot(line, line, color=MUTED, lw=1.2, zorder=1)
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    for axis in (axes.xaxis, axes.yaxis):
        set_log_ticks(axis, lambda value: quantity_text(value, comparison.unit))
    axes.tick_params(labelsize=8.5)
    axes.tick_params(axis="x", labelrotation=30)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right")
        label.set_rotation_mode("anchor")
    axes.set_xlabel(f"measured ({comparison.what})")
    axes.set_ylabel(f"predicted ({comparison.what})")


def set_log_ticks(axis: Axis, text: Callable[[float], str] = "{:g}".format) -> None:
    """Name at most eight round values of a logarithmic axis, once its limits are known, and nothing between them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(_ticks(*axis.get_view_interval())))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(float(f"{value:.6g}"))))


def _ticks(low: float, high: float) -> list[float]:
    """Round values in a range, three to eight of them; steps of equal size where the range is narrow."""
    for steps in (
        (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
        (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
        (1.0, 2.0, 5.0),
    ):
        ticks = _round_values(low, high, steps)
        if len(ticks) < 3:
            break
        if len(ticks) <= 8:
            return ticks
    if high < 10 * low:
        from matplotlib.ticker import MaxNLocator

        return [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    ticks = _round_values(low, high, (1.0,))
    return ticks[:: math.ceil(len(ticks) / 8)]


def _round_values(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """steps x powers of ten in a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]


def error_line(comparison: Comparison) -> str:
    """Mean absolute error and number of rows of each role: never one figure for both."""
    names = []
    for role in comparison.roles:
        errors = [abs(row.error) for row in comparison.rows if row.role == role]
        names.append(f"{role}: MAE {percent(sum(errors) / len(errors))}, n={len(errors)}")
    return " · ".join(names)


def _title(figure: Figure, comparison: Comparison) -> None:
    """Title, and the errors below it."""
    height = figure.get_figheight()
    top, left = _BOTTOM + _SIDE, 0.2 / _WIDTH
    lines = "\n".join(wrap(comparison.title, 84, max_lines=2, placeholder=" …"))
    figure.text(left, (top + 0.48) / height, lines, va="bottom", fontsize=10.5, fontweight="bold")
    figure.text(left, (top + 0.18) / height, error_line(comparison), va="bottom", fontsize=10)
