"""Reports as HTML: the paragraphs and tables of a terminal, for notebooks and pages."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from podsim.report.columns import BAR, Column
from podsim.report.screen import Block, Paragraph, Report, Rows

_WIDTH = 100
"""columns of drawings"""
_STYLES = {
    "bold": "font-weight:600", "dim": "opacity:.7", "warning": "color:#b35900", "alarm": "color:#c00;font-weight:600",
}  # fmt: skip
_CELL = "padding:.15em .6em;text-align:"


def report_html(report: Report) -> str:
    """HTML of a report, every text escaped; no script, nothing fetched."""
    return f'<div class="podsim">{"".join(map(_block, report))}</div>'


def _block(block: Block | str) -> str:
    if isinstance(block, str):
        block = Paragraph(block)
    if isinstance(block, Paragraph):
        return _paragraph(block)
    if isinstance(block, Rows):
        return _table(block)
    lines = ("".join(escape(text) for text, _ in line) for line in block(_WIDTH))
    text = "\n".join(lines)
    return f"<pre>{text}</pre>" if text.strip() else ""


def _paragraph(block: Paragraph) -> str:
    if not block.text.strip():
        return ""
    style = f' style="white-space:pre-wrap;{_STYLES.get(block.style, "")}"'
    if not block.is_wrapped:
        return f"<pre{style}>{escape(block.text)}</pre>"
    return f"<p{style}>{escape((block.first or '').lstrip() + block.text)}</p>"


def _table(block: Rows) -> str:
    """A table; the text between its rows takes their width."""
    rows = [row for row in block.rows if not isinstance(row, str | Paragraph)]
    table = block.table.without_empty(rows)
    columns = [column for column in table.columns if column.format != BAR]
    sides = ["right" if column.is_number else "left" for column in columns]
    parts = ["<table>"]
    if table.headings:
        cells = zip(columns, sides, strict=True)
        parts.append("<tr>" + "".join(_cell("th", c.heading, side) for c, side in cells) + "</tr>")
    number = 0
    for row in block.rows:
        if isinstance(row, str | Paragraph):
            parts.append(f'<tr><td colspan="{len(columns)}">{_block(row)}</td></tr>')
            continue
        mark = ' style="font-weight:600"' if number == block.marked else ""
        number += 1
        parts.append(f"<tr{mark}>" + "".join(_cells(row, columns, sides)) + "</tr>")
    return "".join([*parts, "</table>"])


def _cells(row: object, columns: list[Column], sides: list[str]) -> Iterator[str]:
    return (_cell("td", column.text(row), side) for column, side in zip(columns, sides, strict=True))


def _cell(tag: str, text: str, side: str) -> str:
    return f'<{tag} style="{_CELL}{side}">{escape(text)}</{tag}>'
