"""The rows of a table in a file (CSV or sacct's pipes, plain or gzip). Errors name file, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

import podsim.foreign_files as foreign
from podsim.axes import Floats
from podsim.errors import TableError
from podsim.quoting import from_cell

Row: TypeAlias = dict[str, str]
LARGEST = 256 << 20
"""B. The largest trace."""
PACES = "podsim: speeds at each size"
"""The column that podsim adds for elastic jobs with a model."""
_SHOWN = 5


def read_text(path: Path) -> str:
    """The text of a file, decompressed if it is gzip. Raises TableError for other files."""
    return foreign.read_text(path, most=LARGEST, error=TableError, hint="give a part of it")


def rows_of(text: str, name: str, needed: Sequence[str] = ()) -> list[Row]:
    """The rows of a table with a header, separated by commas, tabs or pipes. Raises TableError for missing columns."""
    first = text.partition("\n")[0]
    header, rows = foreign.csv_table(
        text, name=name, error=TableError, delimiter=max(",\t|;", key=first.count)
    )
    missing = [column for column in needed if column not in header]
    if missing:
        raise TableError(
            f"{name}: no column {', '.join(missing)}; its columns are {', '.join(header)[:300] or 'none'}"
        )
    if "'" in text:
        rows = [{column: from_cell(cell) for column, cell in row.items()} for row in rows]
    if not rows:
        raise TableError(f"{name} has no rows below its header")
    return rows


def read_rows(path: Path, needed: Sequence[str] = ()) -> list[Row]:
    """The rows of a file. Raises TableError for unreadable files and missing columns."""
    return rows_of(read_text(path), path.name, needed)


def numbers(rows: Sequence[Row], column: str, path: Path | str, *, empty: float | None = None) -> Floats:
    """A column as numbers, with `empty` for empty cells. Raises TableError with the first wrong cells."""
    values, wrong = np.zeros(len(rows)), []
    for number, row in enumerate(rows):
        cell = row.get(column, "")
        value = empty if empty is not None and cell.lower() in ("", "nan") else foreign.finite(cell)
        if value is None or abs(value) >= 1 << 63:
            wrong.append(f"row {number + 1}: {cell[:30]!r}")
        else:
            values[number] = value
    if wrong:
        more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise TableError(f"{Path(path).name}: {column} must be a number ({', '.join(wrong[:_SHOWN])}{more})")
    return values
