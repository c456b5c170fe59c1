"""The rows of a table in a file (CSV or sacct's pipes, plain or gzip). Errors name file, row and column."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from podsim.errors import TableError
from podsim.fleet.queue_state import Floats

Row: TypeAlias = dict[str, str]
LARGEST = 2_000_000_000
"""B. The largest trace."""
PACES = "podsim: speeds at each size"
"""The column that podsim adds for elastic jobs with a model."""
_SHOWN = 5


def read_text(path: Path) -> str:
    """The text of a file, decompressed if it is gzip. Raises TableError for other files."""
    try:
        if path.is_dir() or not path.exists():
            raise TableError(f"{str(path)[-200:]}: {'is a folder' if path.is_dir() else 'no such file'}")
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(raw)) as packed:
                raw = packed.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise TableError(f"{str(path)[-200:]} has more than {LARGEST:,} bytes; give a part of it")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(path)[-200:]} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{str(path)[-200:]} cannot be read: {error}") from None


def rows_of(text: str, name: str, needed: Sequence[str] = ()) -> list[Row]:
    """The rows of a table with a header, separated by commas, tabs or pipes. Raises TableError for missing columns."""
    first = text.partition("\n")[0]
    divider = max(",\t|;", key=first.count)
    reader = csv.DictReader(io.StringIO(text), delimiter=divider)
    try:
        header = [column.strip() for column in reader.fieldnames or () if column]
        reader.fieldnames = [(column or "").strip() for column in reader.fieldnames or ()]
        missing = [column for column in needed if column not in header]
        if missing:
            raise TableError(
                f"{name}: no column {', '.join(missing)}; its columns are {', '.join(header)[:300] or 'none'}"
            )
        rows = [
            {
                key: (value or "").strip()
                for key, value in row.items()
                if isinstance(key, str) and not isinstance(value, list)
            }
            for row in reader
        ]
    except csv.Error as error:
        raise TableError(f"{name} is not a table: {error}") from None
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
        try:
            values[number] = empty if empty is not None and not cell else float(cell)
        except ValueError:
            wrong.append(f"row {number + 1}: {cell[:30]!r}")
    if wrong:
        more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise TableError(f"{Path(path).name}: {column} must be a number ({', '.join(wrong[:_SHOWN])}{more})")
    return values
