"""Charts of a page, figures with SVG: bars of parts, and points. A mark names its values when the pointer rests on it.

They take the colours of the page (`templates/palette.css`) and need neither a script nor a plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup, escape

from podsim.report.chart_marks import COLOURS, Axis, Bars, Chart, Rule, Series

WIDTH = 720
"""The width of a chart, in its own units; a page scales it."""
_BAR = 22
_LETTER = 6.4


def page_chart(chart: Chart) -> Markup:
    """A chart of horizontal bars with upright rules, or of series of points, as a figure below its title."""
    bars = [mark for mark in chart.marks if isinstance(mark, Bars)]
    lines, height = _bar_lines(chart, bars) if bars else _point_lines(chart)
    title = escape(chart.title)
    head = f'<svg class="chart" role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {height:.0f}">'
    return Markup(f"<figure><figcaption>{title}</figcaption>{head}{''.join(lines)}</svg></figure>")


def _bar_lines(chart: Chart, bars: Sequence[Bars]) -> tuple[list[str], float]:
    """A line of bars for each name, made of the parts that are not zero; a line where a rule is."""
    shown, rules = [bar for bar in bars if any(bar.values)], [m for m in chart.marks if isinstance(m, Rule)]
    names, form = chart.y.names, chart.x.text or "{:g}".format
    starts = [bar.starts or [0.0] * len(names) for bar in shown]
    totals = [
        max(s[i] + bar.values[i] for s, bar in zip(starts, shown, strict=True)) for i in range(len(names))
    ]
    texts = shown[-1].texts or [form(total) for total in totals]
    left = max(96.0, 16 + _LETTER * max(map(len, names)))
    most = max([*totals, *(rule.at for rule in rules)]) or 1.0
    scale = (WIDTH - left - 10 - _LETTER * max(map(len, texts))) / most
    lines, top = _legend(shown, left)
    bottom = top + len(names) * (_BAR + 8)
    if not chart.x.is_bare:
        lines += _axis(_round_values(0.0, most), lambda value: left + value * scale, form, (top - 4, bottom))
    for i, name in enumerate(names):
        y = top + i * (_BAR + 8)
        lines.append(_text(left - 8, y + 15, name, "end"))
        for bar, start in zip(shown, starts, strict=True):
            look = _look(bar)
            what = ", ".join(part for part in (name, bar.name) if part)
            lines.append(
                f'<rect class="{look}" x="{left + start[i] * scale:.1f}" y="{y}" height="{_BAR}" '
                f'width="{bar.values[i] * scale:.1f}"><title>{escape(f"{what}: {form(bar.values[i])}")}</title></rect>'
            )
        lines.append(_text(left + totals[i] * scale + 6, y + 15, texts[i], "start"))
    for rule in rules:
        x = left + rule.at * scale
        lines.append(f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}"/>')
        lines.append(_text(x, bottom + 30, rule.name, "middle"))
    return lines, bottom + (36 if rules else 22)


def _point_lines(chart: Chart) -> tuple[list[str], float]:
    """Points of series, joined where a series has a line."""
    series = [mark for mark in chart.marks if isinstance(mark, Series)]
    lines, top = _legend(series, 96.0)
    low, right = top + 250, WIDTH - 24.0
    across = _scale(chart.x, [x for mark in series for x in mark.x], (96.0, right))
    up = _scale(chart.y, [y for mark in series for y in mark.y], (low, top))
    x_text, y_text = chart.x.text or "{:g}".format, chart.y.text or "{:g}".format
    lines += _axis(across[1], across[0], x_text, (top, low))
    lines += _axis(up[1], up[0], y_text, (96.0, right), is_vertical=True)
    for mark in series:
        look = _look(mark)
        points = [(across[0](x), up[0](y)) for x, y in zip(mark.x, mark.y, strict=True)]
        if mark.line:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            lines.append(f'<polyline class="path" points="{path}"/>')
        notes = mark.notes or [
            f"{mark.name}: {x_text(x)}, {y_text(y)}" for x, y in zip(mark.x, mark.y, strict=True)
        ]
        lines += [
            f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{escape(note)}</title></circle>'
            for (x, y), note in zip(points, notes, strict=True)
        ]
    lines.append(_text((96 + right) / 2, low + 38, chart.x.label, "middle"))
    lines.append(_text(8, top - 8, chart.y.label, "start"))
    return lines, low + 46


def _look(mark: Bars | Series) -> str:
    """The class of a mark's colour in the style sheet; s7 is grey."""
    return f"s{mark.colour % len(COLOURS)}" if isinstance(mark.colour, int) else "s7"


def _legend(marks: Sequence[Bars | Series], left: float) -> tuple[list[str], int]:
    """A square and the name of each mark that has one, in as many lines as they need; and where the marks begin."""
    x, y, lines = left, 4, list[str]()
    for mark in (mark for mark in marks if mark.name):
        width = 26 + _LETTER * len(mark.name)
        if x + width > WIDTH and x > left:
            x, y = left, y + 18
        lines.append(f'<rect class="{_look(mark)}" x="{x:.1f}" y="{y}" width="10" height="10"/>')
        lines.append(_text(x + 14, y + 9, mark.name, "start"))
        x += width
    return lines, y + (38 if lines else 8)


def _scale(
    axis: Axis, values: Sequence[float], ends: tuple[float, float]
) -> tuple[Callable[[float], float], list[float]]:
    """(from a value to a coordinate, with a margin on both sides; round values)."""
    form: Callable[[float], float] = math.log if axis.scale != "linear" else float
    least, most = min(values), max(values)
    low, high = form(least), form(most)
    room = 0.06 * (high - low) or 0.1
    low, high = low - room, high + room

    def coordinate(value: float) -> float:
        return ends[0] + (form(value) - low) / (high - low) * (ends[1] - ends[0])

    return coordinate, _round_values(least, most, is_log=axis.scale != "linear")


def _round_values(low: float, high: float, *, is_log: bool = False) -> list[float]:
    """Steps of 1, 2 or 5 times a power of ten; on a logarithmic axis such values, if there are three of them."""
    if is_log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        inside = [f * 10.0**p for p in powers for f in (1.0, 2.0, 5.0) if low <= f * 10.0**p <= high]
        if len(inside) >= 3:
            return inside
    if high <= low:
        return [low]
    size = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(size))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= size * (1 - 1e-9))
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axis(
    ticks: Sequence[float], coordinate: Callable[[float], float], form: Callable[[float], str], ends: tuple[float, float],
    *, is_vertical: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Grid lines with names at round values."""
    for tick in ticks:
        at = coordinate(tick)
        if is_vertical:
            yield f'<line class="grid" x1="{ends[0]}" x2="{ends[1]}" y1="{at:.1f}" y2="{at:.1f}"/>'
            yield _text(ends[0] - 8, at + 4, form(tick), "end")
        else:
            yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{ends[0]}" y2="{ends[1]}"/>'
            yield _text(at, ends[1] + 16, form(tick), "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
