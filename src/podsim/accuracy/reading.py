"""Reads a user's own measurements: a CSV (plain or gzip) with the columns of one of the reference tables.

The kind of table is recognised by its columns. Columns that no reference table has are kept as text; a remark names one
that looks like a misspelt column. A row with a mistake is kept without the cell, and its reason names line and cell, so
that it is listed and never scored. A file in its source's own words is a TableError that says how to curate it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from podsim.accuracy.table_columns import KINDS, Kind, is_blank
from podsim.accuracy.tables import Row, Rows, make_row
from podsim.answers.comparison import BROKEN, ROLES
from podsim.errors import TableError
from podsim.foreign_files import read_text

LIMIT = 64_000_000
"""B. The largest size of the file, packed and unpacked."""
_SHOWN = 12
_DESCRIBED = ("network", "cluster", "plan")
_PLAIN = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_NUMBER = re.compile(_PLAIN, re.ASCII)
_GROUPED = re.compile(
    r"[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:[ \u00a0\u202f'_][0-9]{3})+)(?:\.[0-9]+)?", re.ASCII
)
_SCALED = re.compile(rf"({_PLAIN}) ?([kKmMgGbB]|thousand|million|billion)", re.ASCII)
ALL = "kernels-all"
"""The name of all raw tables of kernels together, beside those of podsim.accuracy.tables."""
_RAW = "*.csv.gz"
SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "thousand": 1e3, "million": 1e6, "billion": 1e9}
"""Word after a number -> its factor."""


def read_rows(path: str | Path) -> tuple[str, Rows]:
    """(kind, rows) of a CSV with the columns of a reference table; kinds are those of podsim.accuracy.table_columns.

    A blank or missing id becomes the line number, a missing source the name of the file, a missing role
    `test` (no constant was fitted on the row). An unknown role counts as `test`, with a remark. A row with cells that are
    no number, or negative, is kept without them, with the reason. Raises TableError for a file that cannot be read, is
    empty, binary or above 64 MB, or lacks columns.
    """
    path = Path(path)
    lines = _lines(_text(path), path.name)
    header = next(lines, (1, []))[1]
    if not any(header):
        raise TableError(f"{path.name}: the file is empty; the first line must name the columns")
    kind = _find_kind(header, path.name)
    rows, roles = _parse(lines, header, kind, path.name)
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
        remarks=(*_misspelt(header, kind), *_unknown_roles(roles)),
    )
    return kind.name, table


def read_number(text: str) -> float | None:
    """The number of a cell such as 1,048,576 or 3.2k or 1.5 million; None if it is none."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _GROUPED.fullmatch(text):
        return float(re.sub(r"[^0-9.+-]", "", text))
    if match := _SCALED.fullmatch(text):
        return float(match[1]) * SCALES[match[2].lower()]
    return None


def _text(path: Path) -> str:
    """Text of a plain or gzip file, at most LIMIT bytes of it."""
    text = read_text(path, most=LIMIT, error=TableError, hint="split it, or keep the rows needed")
    if "\0" in text:
        raise TableError(
            f"{path.name}: line {text.count(chr(10), 0, text.index(chr(0))) + 1} is binary, not text"
        )
    return text


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
    if not present.issuperset(_DESCRIBED):  # minutes of MLPerf are a part of the columns of its results
        fits = [k for k in fits if not any(w.words and present.issuperset(w.words) for w in KINDS)]
    if fits:
        return max(fits, key=lambda k: len(present & set(k.columns)))
    if worded := [k for k in KINDS if k.words and present.issuperset(k.words)]:
        kind = max(worded, key=lambda k: len(present & set(k.columns)))
        raise TableError(
            f"{name}: the rows are in their source's words ({', '.join(kind.words)}), and podsim reads "
            f"{', '.join(kind.required)}: python reference/curate.py {kind.curated_as} {name} OUT.csv, in a copy of "
            "podsim's repository, writes them (docs/measured-rows.md)"
        )
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


def _misspelt(header: list[str], kind: Kind) -> list[str]:
    """Remarks on columns that are one letter away from a known one that is absent."""
    absent = [column for column in kind.columns if column not in header]
    remarks = []
    for column in header:
        close = [] if column in kind.columns else get_close_matches(column.lower(), absent, n=1, cutoff=0.85)
        remarks += [f"unknown column {column[:60]!r} is not read: did you mean {close[0]}?"] if close else []
    return remarks[:_SHOWN]


def _unknown_roles(roles: Counter[str]) -> list[str]:
    return [
        f"role={role[:40]!r} of {count} row{'s' * (count > 1)} is no role ({', '.join((*ROLES, BROKEN))}): counts as test"
        for role, count in roles.most_common(_SHOWN)
    ]


def _parse(
    lines: Iterator[tuple[int, list[str]]], header: list[str], kind: Kind, name: str
) -> tuple[tuple[Row, ...], Counter[str]]:
    """(the rows below the header, unknown role -> its rows)."""
    rows: list[Row] = []
    roles: Counter[str] = Counter()
    seen: dict[str, int] = {}
    blank = dict.fromkeys(kind.columns, "")
    for line, cells in lines:
        named = {column: cell for column, cell in zip(header, cells, strict=False) if column}
        fields, wrong = _settled(blank | named, kind)
        if fields.get("role", "") not in ("", *ROLES, BROKEN):
            roles[fields["role"]] += 1
            fields["role"] = "test"
        if len(cells) != len(header):
            wrong.append(f"{len(cells)} cells, but the header names {len(header)} columns")
        row = make_row(kind, fields, id=f"line-{line}", role="test", source=name)
        id = row.id
        if id in seen:
            wrong.append(f"id {id[:60]!r} stands on line {seen[id]} already")
            id = f"{id} (line {line})"
        seen.setdefault(id, line)
        if wrong:
            reason = {**fields, "reason": f"line {line}: {'; '.join(wrong)}"}
            row = replace(row, id=id, fields=MappingProxyType(reason))
        rows.append(row)
    return tuple(rows), roles


def _settled(fields: dict[str, str], kind: Kind) -> tuple[dict[str, str], list[str]]:
    """(the cells of a row, numbers as digits and wrong ones blank; what is wrong, each with its rule)."""
    wrong, settled = [], dict(fields)
    for column, cell_type in kind.columns.items():
        cell = fields[column]
        if cell_type not in ("text", "role") and is_blank(cell):
            settled[column] = ""
        if cell_type in ("text", "role") or is_blank(cell):
            continue
        if rule := _broken_rule(cell, cell_type):
            wrong.append(f"{column}={cell[:40]!r} {rule}")
            settled[column] = ""
        elif not _is_plain(cell):
            settled[column] = f"{read_number(cell) or 0.0:.12g}"
    return settled, wrong


def _is_plain(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _broken_rule(cell: str, cell_type: str) -> str:
    """The rule a cell breaks, "" if none."""
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


def read_raw_kernels(directory: Path | None = None) -> Iterator[Rows]:
    """The rows of each raw table of kernels of engines in a directory, one table at a time.

    The package ships a sample; by default the directory is reference/raw/kernels of a checkout, a file each GPU and kind.

    Raises TableError if there is none.
    """
    folder = directory or Path(__file__).parents[3] / "reference" / "raw" / "kernels"
    paths = sorted(folder.glob(_RAW)) if folder.is_dir() else []
    if not paths:
        raise TableError(
            f"{ALL}: {str(folder)[-120:]} holds no {_RAW}; the package ships a sample of these tables only. "
            "Run it in a checkout of podsim, or name the folder of the raw tables with --raw"
        )
    for path in paths:
        rows = read_rows(path)[1]
        yield replace(rows, name=path.name.removesuffix(".csv.gz"))
