"""Reads a user's own measurements: a CSV (plain or gzip) with the columns of one of the reference tables.

The kind of table is recognised by its columns. Columns that no reference table has are kept as text; one that
looks like a misspelt column is refused. A row with a mistake is kept without the cell, and its reason names line and
cell, so that it is listed and never scored; a file without one row that is right is a TableError.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from podsim.accuracy.cell_words import RATE_EXAMPLES, read_number, read_rate_unit
from podsim.accuracy.row_remarks import counted_cells
from podsim.accuracy.table_columns import KINDS, Kind, is_blank
from podsim.accuracy.tables import Row, Rows, make_row
from podsim.answers.comparison import BROKEN, ROLES
from podsim.errors import TableError
from podsim.foreign_files import read_text

LIMIT = 64_000_000
"""B. The largest size of the file, packed and unpacked."""
_SHOWN = 12
_OTHER_UNITS = ("h", "ms")


def read_rows(path: str | Path) -> tuple[str, Rows]:
    """(kind, rows) of a CSV with the columns of a reference table; kinds are those of podsim.accuracy.table_columns.

    A blank or missing id becomes the line number, a missing source the name of the file, a missing role
    `test` (no constant was fitted on the row). A row whose cells are no number, negative, or of an unknown unit or role
    is kept without those cells, with the reason. Raises TableError, with line numbers, for a file that cannot be read, is
    empty, binary or above 64 MB, lacks columns, or has no row that is right.
    """
    path = Path(path)
    lines = _lines(_text(path), path.name)
    header = next(lines, (1, []))[1]
    if not any(header):
        raise TableError(f"{path.name}: the file is empty; the first line must name the columns")
    kind = _find_kind(header, path.name)
    rows = tuple(_parse(lines, header, kind, path.name))
    if not rows:
        raise TableError(f"{path.name}: no rows below the header")
    table = Rows(
        name=path.stem,
        title=f"{kind.title} ({path.name})",
        kind=kind.name,
        rows=rows,
        what=kind.what,
        sweep=kind.sweep,
        classes=kind.classes,
    )
    return kind.name, table


def _text(path: Path) -> str:
    """Text of a plain or gzip file, at most LIMIT bytes of it."""
    text = read_text(path, most=LIMIT, error=TableError, hint="split it, or keep the rows needed")
    if "\0" in text:
        raise TableError(
            f"{path.name}: line {text.count(chr(10), 0, text.index(chr(0))) + 1} is binary, not text"
        )
    return text


def _reason(problem: Exception) -> str:
    """The message of the operating system or the unpacker, without the path."""
    return (getattr(problem, "strerror", None) or str(problem) or type(problem).__name__)[:120]


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, stripped cells) of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield start, stripped
            start = reader.line_num + 1
    except csv.Error as problem:
        raise TableError(f"{name}: line {start}: {problem}") from None


def _find_kind(header: list[str], name: str) -> Kind:
    """The kind whose columns these are; raises TableError with what is missing from the nearest."""
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise TableError(f"{name}: line 1: columns named twice: {_short_list(twice)}")
    present = set(header)
    fits = [k for k in KINDS if present.issuperset(k.required) and not present.isdisjoint(k.measured)]
    if fits:
        kind = max(fits, key=lambda k: len(present & set(k.columns)))
        _check_spelling(header, kind, name)
        return kind
    near = max(
        KINDS,
        key=lambda k: (not present.isdisjoint(k.measured), len(present & set(k.required)) / len(k.required)),
    )
    if present.isdisjoint(near.required):
        known = "; ".join(
            f"{k.name}: {', '.join(k.required)} and one of {', '.join(k.measured)}" for k in KINDS
        )
        raise TableError(f"{name}: line 1: the columns are those of no reference table. Needed for {known}")
    missing = [column for column in near.required if column not in present]
    problems = [f"missing columns: {', '.join(missing)}"] if missing else []
    if present.isdisjoint(near.measured):
        problems.append(f"nothing measured: needs one of {', '.join(near.measured)}")
    raise TableError(f"{name}: line 1: looks like a table of kind {near.name!r}; {'; '.join(problems)}")


def _check_spelling(header: list[str], kind: Kind, name: str) -> None:
    """Raise TableError for a column that is one letter away from a known one that is absent."""
    absent = [column for column in kind.columns if column not in header]
    problems = []
    for column in header:
        close = [] if column in kind.columns else get_close_matches(column.lower(), absent, n=1, cutoff=0.85)
        problems += [f"unknown column {column[:60]!r}: did you mean {close[0]}?"] if close else []
    if problems:
        raise TableError(f"{name}: line 1: {'; '.join(problems[:_SHOWN])}")


def _parse(lines: Iterator[tuple[int, list[str]]], header: list[str], kind: Kind, name: str) -> list[Row]:
    """Rows below the header; raises TableError with every mistake (the first dozen in words) if no row is right."""
    rows: list[Row] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    blank = dict.fromkeys(kind.columns, "")
    is_any_right = False
    for line, cells in lines:
        named = {column: cell for column, cell in zip(header, cells, strict=False) if column}
        fields, wrong = _settled(blank | named, kind)
        if kind.name == "llm":
            fields |= counted_cells(fields)
        if len(cells) != len(header):
            wrong.append(f"{len(cells)} cells, but the header names {len(header)} columns")
        row = make_row(kind, fields, id=f"line-{line}", role="test", source=name)
        id = row.id
        if id in seen:
            wrong.append(f"id {id[:60]!r} stands on line {seen[id]} already")
            id = f"{id} (line {line})"
        seen.setdefault(id, line)
        if wrong:
            problems += [f"line {line}: {text}" for text in wrong]
            reason = {**fields, "reason": f"line {line}: {'; '.join(wrong)}"}
            row = replace(row, id=id, fields=MappingProxyType(reason))
        is_any_right = is_any_right or not wrong
        rows.append(row)
    if problems and not is_any_right:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise TableError(f"{name}: {'; '.join(problems[:_SHOWN])}{more}")
    return rows


def _settled(fields: dict[str, str], kind: Kind) -> tuple[dict[str, str], list[str]]:
    """(the cells of a row, numbers as digits and wrong ones blank; what is wrong, each with its rule)."""
    wrong, settled = [], dict(fields)
    for column, cell_type in kind.columns.items():
        cell = fields[column]
        if cell_type != "text" and is_blank(cell):
            settled[column] = ""
        if cell_type == "text" or is_blank(cell):
            continue
        if rule := _broken_rule(cell, cell_type):
            wrong.append(f"{column}={cell[:40]!r} {rule}")
            settled[column] = ""
        elif cell_type not in ("role", "unit") and not _is_plain(cell):
            settled[column] = f"{read_number(cell) or 0.0:.12g}"
    if settled.get("throughput") and read_rate_unit(settled["unit"]) is None:
        wrong.append(
            f"throughput needs a rate as its unit, not {fields['unit'][:40]!r}: such as {RATE_EXAMPLES}"
        )
        settled["throughput"] = ""
    return settled, wrong


def _is_plain(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _broken_rule(cell: str, cell_type: str) -> str:
    """The rule a cell breaks, "" if none."""
    if cell_type == "role":
        return "" if cell in (*ROLES, BROKEN) else f"is no role: {' or '.join((*ROLES, BROKEN))}"
    if cell_type == "unit":
        known = cell in _OTHER_UNITS or read_rate_unit(cell)
        return "" if known else f"is no known unit: such as {RATE_EXAMPLES}, h, ms"
    value = read_number(cell)
    if value is None or not math.isfinite(value):
        return "is not a finite number"
    if cell_type == "amount":
        return "is negative" if value < 0 else ""
    if cell_type == "count" and not value.is_integer():
        return "must be a whole number"
    return "must be greater than 0" if value <= 0 else ""


def _short_list(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f", … ({len(names) - 8} more)" if len(names) > 8 else ""
    return ", ".join(name[:60] for name in names[:8]) + more
