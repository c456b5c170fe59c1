"""Tables for a terminal: numbers never wrap; the last column wraps in the room left to it, or goes below."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
_LEAST = 20
"""columns that wrapped text needs beside others"""
_WIDEST = 120
"""columns beyond which lines are hard to read"""


def console() -> Console:
    """A console that never wraps or colours on its own; its width is what a terminal has, at most 120."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the command line decides what it means; rich would exit with 1

    made = Pipe(highlight=False, soft_wrap=True, markup=False, emoji=False)
    made.width = min(made.width, _WIDEST)
    return made


def paragraph(text: str, width: int, *, indent: str = "", first: str | None = None) -> list[str]:
    """Text wrapped at words; words longer than a line stay whole. `first` opens the first line, `indent` the others."""
    opened = indent if first is None else first
    return wrap(
        text, max(width, 40), initial_indent=opened, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    ) or [opened.rstrip()]  # fmt: skip


class Table:
    """Rows of text, and how each column is aligned: "l", "r", or "w" for a last column that wraps."""

    def __init__(self, align: str, *, header: Sequence[str] = (), indent: int = 2) -> None:
        """Start an empty table; `indent` columns are left free before every line."""
        self.align = align
        self.header = tuple(header)
        self.indent = " " * indent
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """Add one row; a cell for every column."""
        assert len(cells) == len(self.align), cells
        self.rows.append(cells)

    def widths(self) -> list[int]:
        """Columns that every cell of a column needs, without wrapping."""
        rows = [self.header, *self.rows] if self.header else self.rows
        return [max((len(row[place]) for row in rows), default=0) for place in range(len(self.align))]

    def fits(self, width: int) -> bool:
        """Whether no line needs more columns, counting nothing for a column that wraps."""
        widths = self.widths()[:-1] if self.align.endswith("w") else self.widths()
        return len(self.indent) + sum(widths) + len(GAP) * (len(widths) - 1) <= width

    def without(self, *places: int) -> Table:
        """The same table without some columns."""
        kept = [place for place in range(len(self.align)) if place not in places]
        made = Table("".join(self.align[place] for place in kept), indent=len(self.indent))
        made.header = tuple(self.header[place] for place in kept) if self.header else ()
        made.rows = [tuple(row[place] for place in kept) for row in self.rows]
        return made

    def lines(self, width: int, widths: Sequence[int] = ()) -> list[tuple[str, str]]:
        """Lines as (columns, wrapped text); `widths` may align several tables alike."""
        needed = list(widths) or self.widths()
        last = self.align.endswith("w")
        before = len(self.indent) + sum(needed[: len(needed) - last]) + len(GAP) * (len(needed) - last)
        out = []
        for row in [self.header, *self.rows] if self.header else self.rows:
            cells = [
                cell.rjust(size) if side == "r" else cell.ljust(size)
                for cell, size, side in zip(row, needed, self.align, strict=True)
            ]
            if not last:
                out.append(((self.indent + GAP.join(cells)).rstrip(), ""))
                continue
            start = self.indent + GAP.join(cells[:-1])
            out += self._wrapped(start, row[-1], before, width)
        return out

    def _wrapped(self, start: str, text: str, before: int, width: int) -> list[tuple[str, str]]:
        """One row: its columns, and the text beside them, or below them where there is no room."""
        room = width - before
        if not text:
            return [(start.rstrip(), "")]
        if room < min(_LEAST, len(text)):
            return [
                (start.rstrip(), ""),
                *(("", line) for line in paragraph(text, width, indent=self.indent * 2)),
            ]
        first, *others = wrap(text, room, break_long_words=False, break_on_hyphens=False)
        return [(start + GAP, first), *((" " * before, line) for line in others)]
