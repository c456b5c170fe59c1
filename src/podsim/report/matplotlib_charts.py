"""Sheets of charts drawn with matplotlib, so that no text lies on another. Needs podsim[report]."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.quoting import visible_lines
from podsim.report.chart_marks import (
    COLOURS,
    INK,
    MUTED,
    Axis,
    Band,
    Bars,
    Boxes,
    Chart,
    Colour,
    Rule,
    Series,
    Sheet,
    Span,
)
from podsim.report.plots import STYLE, load_matplotlib, set_log_ticks, show_as_they_are
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES: Mapping[str, Any] = {"--": (0, (4, 2)), ":": (0, (1.2, 1.2)), "": "none"}
_LETTERS = {11.0: 8.9, 8.5: 13.0, 9.5: 12.0}
"""letters of an inch, by the size of the type"""
_LEGIBLE = 3.5
"""points of the smallest text in a box"""
_DENSE = 1500
"""points above which they are drawn as one image inside an SVG"""


def draw(sheet: Sheet) -> Figure:
    """The figure of a sheet; PodsimError without matplotlib."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        wide, high = sheet.size
        figure = Figure(figsize=sheet.size)
        above = 0.12
        for text, size, weight in ((sheet.title, 11.0, "bold"), (sheet.subtitle, 8.5, "normal")):
            lines = _wrapped(text, size, wide - 0.3)
            if lines:
                figure.text(
                    0.12 / wide,
                    1 - above / high,
                    lines,
                    fontsize=size,
                    fontweight=weight,
                    va="top",
                    linespacing=1.15,
                )
                above += (lines.count("\n") + 1) * size * 1.3 / 72 + 0.05
        figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, 1 - above / high), w_pad=0.08)
        rows = -(-len(sheet.charts) // sheet.columns)
        grid = figure.subplots(
            rows,
            sheet.columns,
            squeeze=False,
            height_ratios=sheet.heights or None,
            width_ratios=sheet.widths or None,
        )
        labels = [_draw_chart(axes, chart) for axes, chart in zip(grid.flat, sheet.charts, strict=False)]
        for axes in list(grid.flat)[len(sheet.charts) :]:
            axes.remove()
        show_as_they_are(figure)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.draw_without_rendering()
            for axes, chart in zip(figure.axes, sheet.charts, strict=True):
                title = _wrapped(visible_lines(chart.title), 9.5, wide * axes.get_position().width)
                axes.set_title(title, loc="left", fontsize=9.5, color=INK, parse_math=False)
            figure.draw_without_rendering()
        for axes, chart in zip(figure.axes, sheet.charts, strict=True):
            for mark in chart.marks:
                if isinstance(mark, Boxes) and mark.texts:
                    _write_in_boxes(axes, mark)
        for texts in labels:
            _thin(texts, 2.2)
        for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
            _thin_ticks([tick for tick in axis.get_major_ticks() if tick.label1.get_text()])
        return figure


def _wrapped(text: str, size: float, inches: float) -> str:
    return "\n".join(wrap(text, max(int(inches * _LETTERS[size]), 20), max_lines=2, placeholder=" …"))


def _cut(text: str, letters: int = 48) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _thin(texts: Sequence[Any], spread: float = 1.0) -> None:
    """Hide each text that would lie on one before it, or nearer than so many heights."""
    boxes: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if any(box.overlaps(other.expanded(1.02, spread)) for other in boxes):
            text.set_visible(False)
        else:
            boxes.append(box)


def _thin_ticks(ticks: Sequence[Any]) -> None:
    """Keep each second, third, … tick, so that their texts lie apart."""
    boxes = [tick.label1.get_window_extent().expanded(1.1, 1.0) for tick in ticks]
    steps = range(1, len(ticks) + 1)
    step = next((n for n in steps if not any(a.overlaps(b) for a, b in pairwise(boxes[::n]))), 1)
    for number, tick in enumerate(ticks):
        if number % step:
            tick.set_visible(False)


def _draw_chart(axes: Axes, chart: Chart) -> list[Any]:
    """Draw a chart and give the labels of its points."""
    for name, axis in (("x", chart.x), ("y", chart.y)):
        if axis.scale != "linear":
            getattr(axes, f"set_{name}scale")("log", base=2 if axis.scale == "log2" else 10)
    labels = [text for mark in chart.marks for text in _DRAWERS[type(mark)](axes, mark)]
    for name, axis in (("x", chart.x), ("y", chart.y)):
        _draw_axis(axes, name, axis)
    axes.set_title(
        chart.title[:20], fontsize=9.5, loc="left"
    )  # its width counts where it is wider than the axes
    axes.set_axisbelow(True)
    axes.set_box_aspect(1.0 if chart.is_square else None)
    named = len(axes.get_legend_handles_labels()[1])
    if named and chart.legend != "none":
        corners: Mapping[str, dict[str, Any]] = {
            "right": {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)},
            "above": {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0)},
        }
        corner = corners.get(chart.legend, {"loc": chart.legend})
        axes.legend(
            **corner, title=chart.legend_title or None, title_fontsize=9, alignment="left", fontsize=8.5,
            ncols=chart.legend_columns, handlelength=2.4,
        )  # fmt: skip
    return labels


def _draw_axis(axes: Axes, name: str, axis: Axis) -> None:
    """Limits, ticks, and the grid of an axis once all marks are drawn."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    drawn = getattr(axes, f"{name}axis")
    if axis.room is not None:
        axes.set_xmargin(axis.room) if name == "x" else axes.set_ymargin(axis.room)
    set_limits = getattr(axes, f"set_{name}lim")
    set_limits(axis.low, axis.high)
    if axis.scale == "linear" and axis.low is not None and axis.high is None and not axis.names:
        set_limits(axis.low, axis.low + 1.06 * (drawn.get_data_interval()[1] - axis.low) or 1.0)
    text = axis.text or _number
    if axis.names:
        drawn.set_ticks(range(len(axis.names)), [_cut(text) for text in axis.names])
        set_limits(-0.6 if axis.low is None else None, len(axis.names) - 0.4 if axis.high is None else None)
    elif axis.ticks:
        drawn.set_ticks(axis.ticks, [text(tick) for tick in axis.ticks])
        drawn.set_ticks([], minor=True)
    elif axis.scale != "linear":
        set_log_ticks(drawn, text)
    else:
        drawn.set_major_locator(MaxNLocator(nbins=9, integer=axis.is_whole, steps=[1, 2, 2.5, 5, 10]))
        drawn.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    drawn.set_label_text(axis.label, fontsize=9)
    drawn.set_tick_params(labelsize=8.5)
    if axis.is_reversed:
        drawn.set_inverted(True)
    if axis.is_bare:
        drawn.set_ticks([])
        axes.spines["bottom" if name == "x" else "left"].set_visible(False)
    if not axis.names:
        drawn.grid(color=MUTED, alpha=0.25, lw=0.6)


def _number(value: float) -> str:
    if 1e5 <= abs(value) < 1e15:
        return format_quantity(value, "")
    return f"{value:,.6g}"


def _colour(colour: Colour) -> str:
    return colour if isinstance(colour, str) else COLOURS[colour % len(COLOURS)]


def _colours(colour: Colour | Sequence[Colour]) -> Any:
    return _colour(colour) if isinstance(colour, int | str) else [_colour(part) for part in colour]


def _line(line: str, colour: Colour) -> Any:
    """The dashes of a line; lines beyond the palette have others."""
    if line == "-" and isinstance(colour, int):
        line = ("-", "--", ":")[colour // len(COLOURS) % 3]
    return _DASHES.get(line, line)


def _series(axes: Axes, mark: Series) -> list[Any]:
    axes.plot(
        mark.x, mark.y, color=_colour(mark.colour), ls=_line(mark.line, mark.colour), lw=mark.width,
        marker=mark.mark or None, ms=mark.size, mfc="none" if mark.is_hollow else None, label=_cut(mark.name) or None,
        drawstyle="steps-post" if mark.is_stepped else "default", rasterized=len(mark.x) > _DENSE,
    )  # fmt: skip
    ends = [y for _, y in sorted(zip(mark.x, mark.y, strict=True))]
    below = -11 if ends and ends[-1] > ends[0] else 4
    return [
        axes.annotate(
            _cut(text, 80), (x, y), xytext=(4, below), textcoords="offset points", fontsize=7.5, color=INK
        )
        for x, y, text in zip(mark.x, mark.y, mark.labels, strict=False)
    ]


def _band(axes: Axes, mark: Band) -> list[Any]:
    colour = _colour(mark.colour)
    axes.fill_between(
        mark.x, mark.low, mark.high, color=colour, alpha=mark.opacity, lw=0, label=_cut(mark.name) or None
    )
    return []


def _rule(axes: Axes, mark: Rule) -> list[Any]:
    draw_line = axes.axhline if mark.is_level else axes.axvline
    look = {"color": _colour(mark.colour), "ls": _line(mark.line, mark.colour), "lw": 1.3}
    draw_line(mark.at, label=_cut(mark.name) or None, **look)
    return []


def _span(axes: Axes, mark: Span) -> list[Any]:
    fill = axes.axhspan if mark.is_level else axes.axvspan
    fill(mark.low, mark.high, color=MUTED, alpha=0.2, lw=0, label=_cut(mark.name) or None)
    return []


def _bars(axes: Axes, mark: Bars) -> list[Any]:
    starts = mark.starts or [0.0] * len(mark.values)
    look = {"color": _colours(mark.colour), "label": _cut(mark.name) or None}
    axes.barh(range(len(mark.values)), mark.values, 0.66, starts, **look)
    for at, value in enumerate(mark.lines):
        if value is not None:
            axes.plot([value] * 2, [at - 0.42, at + 0.42], color=INK, lw=1.8)
    for at, (value, start, text) in enumerate(zip(mark.values, starts, mark.texts, strict=False)):
        offset: Any = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(_cut(text), (start + value, at), fontsize=7.5, color=INK, **offset)
    return []


def _boxes(axes: Axes, mark: Boxes) -> list[Any]:
    from matplotlib.collections import PolyCollection

    shapes = [[(a, low), (b, low), (b, high), (a, high)] for a, b, low, high in mark.corners]
    colours = _colours(mark.colour)
    axes.add_collection(
        PolyCollection(
            shapes,
            facecolors=colours,
            edgecolors="white",
            linewidths=0.3,
            alpha=mark.opacity,
            label=_cut(mark.name) or None,
        )
    )
    axes.autoscale_view()
    return []


def _write_in_boxes(axes: Axes, mark: Boxes) -> None:
    """The texts of boxes once the axes have their size: as large as fits, or none."""
    from matplotlib.colors import to_rgb

    colours = _colours(mark.colour)
    least = min(
        max(map(len, mark.texts)), 6
    )  # letters: short texts are no larger than those of their neighbours
    across, up = (size / axes.figure.dpi * 72 for size in axes.get_window_extent().size)  # points
    across, up = across / abs(np.diff(axes.get_xlim())[0]), up / abs(np.diff(axes.get_ylim())[0])
    for number, ((left, right, low, high), text) in enumerate(zip(mark.corners, mark.texts, strict=True)):
        lines = visible_lines(text).split("\n")
        letters = max(least, *map(len, lines))
        room = (right - left) * across * 0.86 / (0.62 * letters) if text else 0.0
        size = min(room, (high - low) * up * 0.72 / len(lines), 8.5)
        if size >= _LEGIBLE:
            red, green, blue = to_rgb(colours if isinstance(colours, str) else colours[number])
            ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else INK
            axes.text(
                (left + right) / 2, (low + high) / 2, "\n".join(lines), fontsize=size, color=ink, ha="center",
                va="center", clip_on=True, parse_math=False,
            )  # fmt: skip


_DRAWERS: Mapping[type, Callable[[Any, Any], list[Any]]] = {
    Series: _series, Band: _band, Rule: _rule, Span: _span, Bars: _bars, Boxes: _boxes,
}  # fmt: skip
