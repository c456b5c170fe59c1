"""Any report as one page: the answer at a glance, its charts, and the blocks that a terminal shows below them.

The page is one file in the theme of the others. It holds no script, and its policy lets it fetch nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

from podsim.report.columns import BAR, Table, field_value
from podsim.report.screen import Block, Line, Paragraph, Report, Rows
from podsim.report.theme import render_page

DRAWING_WIDTH = 110
"""columns of drawings and tables of text"""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A block as the template shows it."""

    kind: Literal["title", "heading", "text", "list", "lines", "table"]
    text: str = ""
    style: str = ""
    texts: list[str] = field(default_factory=list)
    """The entries of a list."""
    table: Table | None = None
    rows: list[tuple[Any, str, bool]] = field(default_factory=list)
    """The rows as (row, text instead of it, whether it stands out)."""


def report_page(
    report: Report,
    charts: Sequence[Markup] = (),
    *,
    glance: Report = (),
    command: str = "",
    version: str = "",
) -> str:
    """HTML of a report, folded up below its glance; its first line is the title, `command` is what gives it again."""
    parts = list(_items(glance)), list(_items(report))
    title = next(
        (item.text for items in parts for item in items if item.kind == "title"), command or "podsim"
    )
    return render_page(
        "report.html",
        title=title,
        glance=parts[0],
        items=parts[1],
        charts=charts,
        command=command,
        version=version,
        BAR=BAR,
        value_of=field_value,
    )


def _items(report: Report) -> Iterator[Item]:
    """The blocks, where paragraphs of a list are joined and the first line is the title."""
    is_first, entries = True, list[str]()
    for block in report:
        if isinstance(block, Paragraph) and block.first is not None:
            name = block.first.strip(" -*:")
            entries.append(f"{name}: {block.text}" if name else block.text)
            continue
        if entries:
            yield Item(kind="list", texts=entries)
            entries = []
        if item := _item(block, is_first=is_first):
            is_first = False
            yield item
    if entries:
        yield Item(kind="list", texts=entries)


def _item(block: Block, *, is_first: bool) -> Item | None:
    """A block other than an entry of a list; None for a blank line."""
    if isinstance(block, Rows):
        return _table(block)
    if not isinstance(block, str | Paragraph):
        text = "\n".join(_line_text(line) for line in block(DRAWING_WIDTH))
        return Item(kind="lines", text=text) if text.strip() else None
    known = Paragraph(block) if isinstance(block, str) else block
    if not known.text.strip():
        return None
    if not known.is_wrapped:
        return Item(kind="lines", text=known.text)
    if is_first:
        return Item(kind="title", text=known.text)
    return Item(kind="heading" if known.style == "bold" else "text", text=known.text, style=known.style)


def _table(block: Rows) -> Item:
    """A table without columns that no row fills; its paragraphs span all columns."""
    values = [row for row in block.rows if not isinstance(row, str | Paragraph)]
    rows: list[tuple[Any, str, bool]] = []
    number = 0
    for row in block.rows:
        if isinstance(row, str | Paragraph):
            rows.append((None, row if isinstance(row, str) else row.text, False))
        else:
            rows.append((row, "", number == block.marked))
            number += 1
    return Item(kind="table", table=block.table.without_empty(values), rows=rows)


def _line_text(line: Line) -> str:
    return "".join(text for text, _ in line)
