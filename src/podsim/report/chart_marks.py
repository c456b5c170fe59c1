"""What a chart shows: a sheet of charts, a chart of marks, an axis. It does not know what draws it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INK = "#1f2328"
"""text and axes; a page may replace it by its own colour"""
MUTED = "#8c959f"
"""grid, diagonal and band; likewise"""
BLUE = "#0072b2"
"""the first class; likewise, as it is dark on a dark page"""
COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6F5BD0")
"""Okabe and Ito's palette for colour-blind readers, without its yellow and black, and a violet"""
Colour = int | str
"""A number of the palette, beyond which lines are dashed, or "#rrggbb"."""


@dataclass(frozen=True)
class Series:
    """Points, joined by a line unless `line` is empty."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: Colour = 0
    line: str = "-"
    """The dashes: "-", "--", ":" or nothing."""
    mark: str = ""
    """The marker, as matplotlib names it: o, s, x."""
    is_hollow: bool = False
    width: float = 1.6
    size: float = 5.0
    """The size of the mark in points."""
    labels: Sequence[str] = ()
    """The text at each point; those that would lie on another are left out."""
    notes: Sequence[str] = ()
    """The text of each point on a page, when the pointer rests on it."""
    is_stepped: bool = False


@dataclass(frozen=True)
class Band:
    """What lies between two curves."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    name: str = ""
    colour: Colour = 0
    opacity: float = 0.15


@dataclass(frozen=True)
class Rule:
    """A line across the chart at a value: upright, or level."""

    at: float
    name: str = ""
    colour: Colour = MUTED
    line: str = "--"
    is_level: bool = False


@dataclass(frozen=True)
class Span:
    """What lies between two values of an axis, across the chart."""

    low: float
    high: float
    name: str = ""
    is_level: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar to the right at the heights 0, 1, 2, …"""

    values: Sequence[float]
    name: str = ""
    colour: Colour | Sequence[Colour] = 0
    starts: Sequence[float] = ()
    """The values at which the bars begin; by default 0."""
    texts: Sequence[str] = ()
    """The text at the end of each bar."""
    lines: Sequence[float | None] = ()
    """The value of a short line across each bar."""


@dataclass(frozen=True)
class Boxes:
    """Boxes (left, right, bottom, top)."""

    corners: Sequence[tuple[float, float, float, float]]
    colour: Colour | Sequence[Colour] = 0
    name: str = ""
    opacity: float = 1.0
    texts: Sequence[str] = ()
    """The text in each box, as large as fits; left out where it could not be read."""


Mark = Series | Band | Rule | Span | Bars | Boxes


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its scale, and what its ticks say."""

    label: str = ""
    scale: str = "linear"
    """The scale: linear, log or log2."""
    text: Callable[[float], str] | None = None
    """The function from a value to its name."""
    names: Sequence[str] = ()
    """The names of 0, 1, 2, …"""
    ticks: Sequence[float] = ()
    """The values that are named; by default round ones."""
    low: float | None = None
    high: float | None = None
    room: float | None = None
    """The share of the range that stays free at both ends."""
    is_whole: bool = False
    """Whether only whole numbers are named."""
    is_reversed: bool = False
    is_bare: bool = False
    """Whether it is left out, as each bar says its value."""


@dataclass(frozen=True)
class Chart:
    """Marks on two axes. The first of the marks lies lowest."""

    marks: Sequence[Mark]
    title: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    legend: str = "best"
    """The position: a corner as matplotlib names it, "right", "above", or "none"."""
    legend_columns: int = 1
    legend_title: str = ""
    is_square: bool = False


@dataclass(frozen=True)
class Sheet:
    """Charts below a title, row by row."""

    title: str
    charts: Sequence[Chart]
    subtitle: str = ""
    size: tuple[float, float] = (8.4, 4.6)
    """The width and height in inches."""
    columns: int = 1
    heights: Sequence[float] = ()
    """The shares of the rows in the height."""
    widths: Sequence[float] = ()
    """The shares of the columns in the width."""
