"""Charts of a page, figures with SVG: bars of parts, and points. A mark names its values when the pointer rests on it.

They take the colours of the page (`templates/palette.css`) and need neither a script nor a plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

Format = Callable[[float], str]
WIDTH = 720
"""The width of a chart, in its own units; a page scales it."""
_COLOURS = 8
_BAR = 22
_LEFT = 96


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mark of a scatter chart."""

    x: float
    y: float
    label: str
    is_marked: bool = False
    """Whether it stands out."""


def bar_chart(
    label: str,
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    *,
    form: Format,
    limit: float | None = None,
) -> Markup:
    """A horizontal bar for each name, made of the parts that are not zero; a line where the limit is."""
    shown = {part: values for part, values in parts.items() if any(values)}
    totals = [sum(values[i] for values in shown.values()) for i in range(len(names))]
    most = max([*totals, limit or 0.0]) or 1.0
    scale = (WIDTH - _LEFT - 70) / most
    lines, top = _legend(list(shown))
    bottom = top + len(names) * (_BAR + 8)
    lines += _grid(most, scale, (top - 4, bottom), form)
    for i, name in enumerate(names):
        y, x = top + i * (_BAR + 8), float(_LEFT)
        lines.append(_text(_LEFT - 8, y + 15, name, "end"))
        for k, (part, values) in enumerate(shown.items()):
            lines.append(_bar((x, y, values[i] * scale), k, f"{name}, {part}: {form(values[i])}"))
            x += values[i] * scale
        lines.append(_text(x + 6, y + 15, form(totals[i]), "start"))
    if limit is None:
        return _figure(label, lines, bottom + 22)
    x = _LEFT + limit * scale
    lines.append(f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}"/>')
    lines.append(_text(x, bottom + 30, f"limit {form(limit)}", "middle"))
    return _figure(label, lines, bottom + 36)


def point_chart(
    label: str, points: Sequence[Point], axes: tuple[str, str], forms: tuple[Format, Format]
) -> Markup:
    """Points on logarithmic axes, joined in the order of x; values must be above 0."""
    height, ends = 320, (_LEFT, WIDTH - 24)
    columns, rows = ([p.x for p in points], [p.y for p in points])
    across = _log_scale(columns, ends[0], ends[1])
    up = _log_scale(rows, height - 50, 16)
    lines = [*_axis(columns, across, forms[0], vertical=False), *_axis(rows, up, forms[1], vertical=True)]
    ordered = sorted(points, key=lambda point: point.x)
    path = " ".join(f"{across(p.x):.1f},{up(p.y):.1f}" for p in ordered)
    lines.append(f'<polyline class="path" points="{path}"/>')
    lines += [
        f'<circle class="{"mark" if p.is_marked else "s0"}" cx="{across(p.x):.1f}" cy="{up(p.y):.1f}" '
        f'r="{7 if p.is_marked else 4.5}"><title>{escape(p.label)}</title></circle>'
        for p in ordered
    ]
    lines.append(_text((ends[0] + ends[1]) / 2, height - 8, axes[0], "middle"))
    lines.append(_text(8, 12, axes[1], "start"))
    return _figure(label, lines, height)


def _figure(label: str, lines: Sequence[str], height: float) -> Markup:
    head = f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {height:.0f}">'
    caption = f"<figcaption>{escape(label)}</figcaption>"
    return Markup(f"<figure>{caption}{head}{''.join(lines)}</svg></figure>")


def _legend(parts: Sequence[str]) -> tuple[list[str], int]:
    """A square and the name of each part, in as many lines as they need; and where the marks begin."""
    x, y, lines = float(_LEFT), 4, list[str]()
    for k, part in enumerate(parts):
        width = 26 + 6.4 * len(part)
        if x + width > WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + 18
        lines.append(f'<rect class="s{k % _COLOURS}" x="{x:.1f}" y="{y}" width="10" height="10"/>')
        lines.append(_text(x + 14, y + 9, part, "start"))
        x += width
    return lines, y + 30


def _grid(most: float, scale: float, ends: tuple[float, float], form: Format) -> Iterator[str]:
    """Lines at round values, with their names below."""
    step = _round_step(most / 5)
    for k in range(int(most / step) + 1):
        x = _LEFT + k * step * scale
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{ends[0]}" y2="{ends[1]}"/>'
        yield _text(x, ends[1] + 14, form(k * step), "middle")


def _round_step(size: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= size * (1 - 1e-9))


def _log_scale(values: Sequence[float], first: float, last: float) -> Callable[[float], float]:
    """From a value to a coordinate, with a margin on both sides."""
    low, high = math.log(min(values)), math.log(max(values))
    room = 0.06 * (high - low) or 0.1
    low, high = low - room, high + room
    return lambda value: first + (math.log(value) - low) / (high - low) * (last - first)


def _axis(
    values: Sequence[float], scale: Callable[[float], float], form: Format, *, vertical: bool
) -> Iterator[str]:
    """Grid lines with names at round values."""
    for tick in _round_values(min(values), max(values)):
        at = scale(tick)
        if vertical:
            yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - 24}" y1="{at:.1f}" y2="{at:.1f}"/>'
            yield _text(_LEFT - 8, at + 4, form(tick), "end")
        else:
            yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="16" y2="270"/>'
            yield _text(at, 288, form(tick), "middle")


def _round_values(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two values; without three of them, steps of equal size."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [factor * 10.0**power for power in powers for factor in (1.0, 2.0, 5.0)]
    inside = [value for value in values if low <= value <= high]
    if len(inside) >= 3 or high <= low:
        return inside or [low]
    step = _round_step((high - low) / 5)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _bar(corner: tuple[float, float, float], colour: int, label: str) -> str:
    x, y, width = corner
    return (
        f'<rect class="s{colour % _COLOURS}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
