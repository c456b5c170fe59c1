"""Tables declared by their columns: what each column shows of a row, and in which unit or form.

    STAGES = Table(Column("stage", "name"), Column("time", "seconds", "s"), Column("share", "share", percent))

One declaration serves a terminal (`screen.py`), Markdown, and HTML pages (`pages.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from podsim.records import KW_ONLY, dataclass
from podsim.units import duration, format_quantity

Format: TypeAlias = str | Callable[[Any], str]
"""an SI unit such as "B/s", ":" and a format specification such as ":,.0f", or a function of the value; "": plain text"""
BAR = "bar"
"""the format of a share that is drawn as a bar"""
BAR_WIDTH = 30
"""The width of a full bar, in columns."""


@dataclass(frozen=True)
class Column:
    """One column of a table: its heading, its value in a row, and how the value is written."""

    heading: str
    value: str | Callable[[Any], Any] = ""
    """The name of the field of the row, a path such as "offer.name", or a function of the row; default: the heading."""
    format: Format = ""
    _: KW_ONLY
    digits: int = 4
    """The number of significant digits of a quantity with a unit."""
    missing: str = ""
    """The text of a value that is None."""
    align: str = ""
    """The alignment, l or r; default: plain text to the left, numbers to the right."""
    wrap: bool = False
    """Whether the text wraps in the remaining width; only the last column may."""
    is_brief: bool = False
    """Whether a text that wraps is left out where it would take a second line."""
    drop: int = 0
    """The order in which columns disappear on a narrow terminal; 0: the column stays."""
    optional: bool = False
    """Whether the column disappears if no row has text in it."""
    mark: str | Callable[[Any], str] = ""
    """The HTML class of the cell's text, or a function of the row that gives it."""
    link: Callable[[Any], str] | None = None
    """A function of the row that gives the target of an HTML link."""

    @property
    def is_number(self) -> bool:
        """Whether cells are aligned to the right."""
        return self.align == "r" if self.align else self.format not in ("", BAR)

    def text(self, row: Any) -> str:
        """The cell of a row."""
        value = field_value(row, self.value or self.heading)
        if value is None:
            return self.missing
        if not isinstance(self.format, str):
            return self.format(value)
        if self.format == BAR:
            width: int = round(BAR_WIDTH * value)
            return "▇" * width
        if self.format.startswith(":"):
            return f"{value:{self.format[1:]}}"
        return format_quantity(value, self.format, digits=self.digits) if self.format else str(value)

    def css(self, row: Any) -> str:
        """The HTML class of a cell's text; "" for none."""
        return self.mark(row) if callable(self.mark) else self.mark


def field_value(row: Any, path: str | Callable[[Any], Any]) -> Any:
    """The value of a function or a path for a row: fields of objects, keys of mappings, items of tuples by number.

    None where a step of the path is None, or where a mapping lacks its key.
    """
    if callable(path):
        return path(row)
    for name in path.split("."):
        if row is None:
            return None
        if isinstance(row, Mapping):
            row = row.get(name)
        elif name.isdecimal():
            row = row[int(name)]
        else:
            row = getattr(row, name)
    return row


class Table:
    """The columns of a table, whose rows are values of one kind."""

    def __init__(self, *columns: Column, indent: int = 2) -> None:
        """Columns, and the number of free columns of a terminal before every line."""
        self.columns, self.indent = columns, indent

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings; empty if no column has one."""
        names = tuple(column.heading for column in self.columns)
        return names if any(names) else ()

    def cells(self, row: Any) -> tuple[str, ...]:
        """The texts of a row."""
        return tuple(column.text(row) for column in self.columns)

    def without_empty(self, rows: Sequence[Any]) -> Table:
        """The table without optional columns that no row fills."""
        columns = (c for c in self.columns if not c.optional or any(c.text(row) for row in rows))
        return Table(*columns, indent=self.indent)

    def markdown(self, rows: Sequence[Any]) -> str:
        """A Markdown table."""
        rule = ("---:" if column.is_number else "---" for column in self.columns)
        body = [[markdown_text(cell).replace("|", "\\|") for cell in self.cells(row)] for row in rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.headings, rule, *body))


FACTS = Table(Column("", "0"), Column("", "1", align="r"), Column("", "2", wrap=True))
"""rows of three texts: a name, a value, and a remark"""


def markdown_text(text: str) -> str:
    """Text with the characters escaped that Markdown would read as a tag, a link or a line break."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(").replace("\n", " ")


def percent(share: float | None) -> str:
    """0.0425 as "4.2 %", None as "-"."""
    return "-" if share is None else f"{share * 100:.1f} %"


def signed_percent(share: float | None) -> str:
    """0.0425 as "+4.2 %", None as "-"."""
    return "-" if share is None else f"{share * 100:+.1f} %"


def ratio(number: float | None) -> str:
    """1.0312 as "1.03", None as "-"."""
    return "-" if number is None else f"{number:.2f}"


def rate_text(rate: float) -> str:
    """A rate or an amount with three digits, and separators from a hundred."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def quantity_text(number: float, unit: str) -> str:
    """An SI value with its unit: (0.0203, "s") as "20.3 ms", rates in 1/s as "1,234 /s" or "12.35 k/s"."""
    if unit != "1/s":
        return format_quantity(number, unit)
    if number >= 1e4:
        return format_quantity(number, "/s")
    return f"{number:,.0f} /s" if number >= 1000 else f"{number:.4g} /s"


def days(seconds: float) -> str:
    """Seconds as "21.92 days" from two days on, else as `duration`."""
    return f"{seconds / 86400.0:,.2f} days" if 2 * 86400.0 <= seconds < math.inf else duration(seconds)


def size_text(size: float) -> str:
    """Bytes with a binary prefix: 1073741824 is "1 GiB"."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:g} B"


def energy_text(joules: float) -> str:
    """An energy (J) in Wh, as meters count."""
    return format_quantity(joules / 3600.0, "Wh")


def mass_text(kilograms: float) -> str:
    """A mass (kg) in g, kg or t."""
    if kilograms >= 1e6:
        return f"{kilograms / 1e3:,.0f} t"
    return f"{kilograms / 1e3:.3g} t" if kilograms >= 1e3 else format_quantity(kilograms * 1e3, "g", digits=3)
