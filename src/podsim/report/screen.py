"""Reports on a terminal: paragraphs that wrap, and tables whose numbers never do.

A report is a sequence of blocks: text, a `Paragraph` with a style, `Rows` of a table, or a function of the terminal's
width that draws lines. `show` prints a report, `report_text` gives it as text. Styles appear on terminals only.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, TypeAlias

from podsim.quoting import visible
from podsim.records import dataclass
from podsim.report.columns import BAR, BAR_WIDTH, FACTS, Column, Table

GAP = "  "
_LEAST = 20
"""columns that wrapped text needs next to other columns"""
_LEAST_BAR = 10
"""columns below which a bar is left out"""
_WIDEST = 120
"""columns beyond which lines are hard to read"""
_STYLES = {
    "bold": "1", "dim": "2", "warning": "33", "alarm": "1;31", "good": "32", "forward": "37;44", "backward": "37;42",
    "input": "30;46", "weight": "30;43",
}  # fmt: skip
"""codes of ANSI terminals"""

Line: TypeAlias = tuple[tuple[str, str], ...]
"""the pieces of a line: (text, style)"""


@dataclass(frozen=True)
class Paragraph:
    """Text in one style."""

    text: str
    style: str = ""
    indent: str = ""
    """The text that opens every line."""
    first: str | None = None
    """The text that opens the first line instead."""
    is_wrapped: bool = True
    """Whether lines break at words; otherwise the text's own lines stay."""


@dataclass(frozen=True)
class Rows:
    """A table with its rows; text and paragraphs may stand between them."""

    table: Table
    rows: Sequence[Any]
    marked: int | None = None
    """The row that stands out."""
    otherwise: Rows | None = None
    """The text for a terminal that is too narrow for the table."""


Drawing: TypeAlias = Callable[[int], Iterable[Line]]
Block: TypeAlias = str | Paragraph | Rows | Drawing
Report: TypeAlias = Iterable[Block]


def bold(text: str) -> Paragraph:
    """A paragraph that stands out."""
    return Paragraph(text, "bold")


def dim(text: str) -> Paragraph:
    """A remark."""
    return Paragraph(text, "dim")


def raw(text: str, *, indent: str = "") -> Paragraph:
    """Lines that stay as they are."""
    return Paragraph(text, indent=indent, is_wrapped=False)


def warnings(texts: Iterable[str]) -> Iterator[Block]:
    """A paragraph for each warning."""
    return (Paragraph(f"Warning: {text}", "warning") for text in texts)


def items(title: str, texts: Sequence[str], style: str = "dim") -> Iterator[Block]:
    """A blank line, a title and a list; nothing without texts."""
    if texts:
        yield from ("", Paragraph(title, style))
        yield from (Paragraph(text, style, indent="    ", first="  - ") for text in texts)


def facts(*rows: tuple[str, str, str]) -> Rows:
    """Names, their values, and remarks."""
    return Rows(FACTS, rows)


def show(report: Report) -> None:
    """Print a report."""
    has_styles = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for line in _lines(report, screen_width()):
        text = "".join(_styled_text(*piece) if has_styles else piece[0] for piece in line)
        sys.stdout.write(text + "\n")


def report_text(report: Report, width: int = 100) -> str:
    """A report as plain text; lines of at most `width` where its tables allow."""
    return "".join(line + "\n" for line in report_lines(report, width))


def report_lines(report: Report, width: int) -> Iterator[str]:
    """The lines of a report as plain text, each when it is asked for."""
    return ("".join(text for text, _ in line) for line in _lines(report, width))


def screen_width() -> int:
    """Columns of the terminal, at most 120."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def _styled_text(text: str, style: str) -> str:
    return f"\033[{_STYLES[style]}m{text}\033[0m" if style and text else text


def _lines(report: Report, width: int) -> Iterator[Line]:
    """The lines of all blocks, without characters that print nothing or steer a terminal."""
    for block in report:
        for line in _block_lines(block, width):
            yield tuple((text if text.isprintable() else visible(text), style) for text, style in line)


def _block_lines(block: Block, width: int) -> Iterable[Line]:
    if isinstance(block, str):
        return _paragraph_lines(Paragraph(block), width)
    if isinstance(block, Paragraph):
        return _paragraph_lines(block, width)
    return table_lines(block, width) if isinstance(block, Rows) else block(width)


def _paragraph_lines(block: Paragraph, width: int) -> Iterator[Line]:
    if block.is_wrapped:
        lines = paragraph(block.text, width, indent=block.indent, first=block.first)
    else:
        lines = [block.indent + line for line in block.text.splitlines()]
    return (((line, block.style),) for line in lines)


def paragraph(text: str, width: int, *, indent: str = "", first: str | None = None) -> list[str]:
    """Text wrapped at words; words longer than a line stay whole. `first` opens the first line, `indent` the others."""
    start = indent if first is None else first
    return wrap(
        text, max(width, 40), initial_indent=start, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    ) or [start.rstrip()]  # fmt: skip


def table_lines(block: Rows, width: int) -> Iterator[Line]:
    """The lines of a table: columns that may go do so where the room is short, bars shrink, the last column wraps."""
    rows = [row for row in block.rows if not isinstance(row, (str, Paragraph))]
    table = block.table.without_empty(rows)
    columns = _fitting_columns(table, rows, width)
    if block.otherwise is not None and _needed_width(table.indent, _widths(columns)) > width:
        yield from table_lines(block.otherwise, width)
        return
    if len(parts := _parts(columns, table.indent, width)) > 1:
        for number, part in enumerate(parts):
            kept = Table(*(column for column, _ in part), indent=table.indent)
            yield from ([((("", ""),))] if number else [])
            yield from table_lines(Rows(kept, block.rows, block.marked), width)
        return
    widths = _widths(columns)
    if table.headings:
        yield from _row_lines([c.heading for c, _ in columns], columns, widths, (table.indent, width), "bold")
    number = 0
    for row in block.rows:
        if isinstance(row, (str, Paragraph)):
            yield from _lines([row], width)
            continue
        style = "bold" if number == block.marked else ""
        yield from _row_lines(
            [cells[number] for _, cells in columns], columns, widths, (table.indent, width), style
        )
        number += 1


FilledColumn: TypeAlias = tuple[Column, list[str]]
"""a column and its cells"""


def _fitting_columns(table: Table, rows: Sequence[Any], width: int) -> list[FilledColumn]:
    """The columns that there is room for, with their cells."""
    columns: list[FilledColumn] = [(column, [column.text(row) for row in rows]) for column in table.columns]
    bars = [filled for filled in columns if filled[0].format == BAR]
    others = [filled for filled in columns if filled not in bars]
    enough = width - _LEAST if table.columns[-1].wrap else width
    for filled in sorted((filled for filled in others if filled[0].drop), key=lambda filled: filled[0].drop):
        if _needed_width(table.indent, _widths(others)) <= enough:
            break
        others.remove(filled)
        columns.remove(filled)
    room = min(BAR_WIDTH, width - _needed_width(table.indent, _widths(others)) - len(GAP))
    for column, cells in bars:
        index = columns.index((column, cells))
        columns[index] = (column, [cell[: round(len(cell) * room / BAR_WIDTH)] for cell in cells])
        if room < _LEAST_BAR:
            del columns[index]
    return columns


def _parts(columns: list[FilledColumn], indent: int, width: int) -> list[list[FilledColumn]]:
    """The columns in tables that fit one below the other, each with the first column, where one is too wide."""
    parts = [columns[:1]]
    for filled in columns[1:]:
        if len(parts[-1]) > 1 and _needed_width(indent, _widths([*parts[-1], filled])) > width:
            parts.append(columns[:1])
        parts[-1].append(filled)
    return parts


def _widths(columns: Sequence[FilledColumn]) -> list[int]:
    """The widths of the columns; 0 for one that wraps."""
    return [0 if column.wrap else max([len(column.heading), *map(len, cells)]) for column, cells in columns]


def _needed_width(indent: int, widths: Sequence[int]) -> int:
    """Columns of a terminal that a line takes, without a column that wraps."""
    return indent + sum(widths) + len(GAP) * (len(widths) - 1)


def _row_lines(
    cells: Sequence[str],
    columns: Sequence[FilledColumn],
    widths: Sequence[int],
    room: tuple[int, int],
    style: str,
) -> Iterator[Line]:
    """One row: its columns, and the text that wraps next to them, or below them where there is no room."""
    indent, width = room
    padded = [
        cell.rjust(size) if column.is_number else cell.ljust(size)
        for cell, size, (column, _) in zip(cells, widths, columns, strict=True)
    ]
    if not columns[-1][0].wrap:
        yield (((" " * indent + GAP.join(padded)).rstrip(), style),)
        return
    start, note = " " * indent + GAP.join(padded[:-1]), cells[-1]
    left = width - len(start) - len(GAP)
    if columns[-1][0].is_brief and len(note) > left:
        note = ""
    if left < min(_LEAST, len(note)) or not note:
        yield ((start.rstrip(), style),)
        lines = paragraph(note, width, indent=" " * (2 * indent or 4)) if note else []
        yield from (((line, style or "dim"),) for line in lines)
        return
    first, *others = wrap(note, left, break_long_words=False, break_on_hyphens=False)
    yield ((start + GAP, style), (first, style or "dim"))
    yield from (((" " * (len(start) + len(GAP)) + line, style or "dim"),) for line in others)
