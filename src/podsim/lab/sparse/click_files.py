"""Clicks of a user's file, CSV or Parquet: label, numbers I1, I2, … and categories C1, C2, …, as Criteo's data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from podsim.embeddings.clicks import Clicks
from podsim.errors import LabError
from podsim.foreign_files import csv_lines, read_bytes, read_parquet

_LARGEST = 512 << 20
_MOST = 10_000_000
_COLUMN = re.compile(r"([IC])([0-9]{1,4})")


def read_clicks(path: Path, rows: Sequence[int]) -> Clicks:
    """The clicks of a file; a cell of C1 becomes a row of the first table by its hash, and so on. Raises LabError."""
    name = str(path)[-80:]
    readers = {".csv": _csv_columns, ".parquet": _parquet_columns}
    if path.suffix.lower() not in readers:
        raise LabError(f"{name}: clicks come from {' and '.join(readers)} files")
    columns = readers[path.suffix.lower()](read_bytes(path, most=_LARGEST, error=LabError), name)
    numbers, cells = (
        sorted(
            (column for column in columns if (match := _COLUMN.fullmatch(column)) and match[1] == kind),
            key=_number,
        )
        for kind in "IC"
    )
    if "label" not in columns or not numbers or len(cells) != len(rows):
        raise LabError(
            f"{name}: {len(numbers)} columns I…, {len(cells)} columns C…, {'a' if 'label' in columns else 'no'} label; "
            f"write label, I1 and so on, and C1 to C{len(rows)}, one for each table"
        )
    count = len(columns["label"])
    if not 1 <= count <= _MOST:
        raise LabError(f"{name}: {count:,} samples; 1 to {_MOST:,} are read")
    label = _floats(columns["label"], f"{name}: label")
    if not np.isin(label, (0, 1)).all():
        raise LabError(f"{name}: label must be 0 or 1")
    values = np.stack([_floats(columns[column], f"{name}: {column}") for column in numbers], axis=1)
    tables = tuple(_hashed(columns[column], size) for column, size in zip(cells, rows, strict=True))
    return Clicks(np.log1p(np.maximum(values, 0)).astype(np.float32), tables, label.astype(np.float32))


def _number(column: str) -> int:
    return int(column[1:])


def _csv_columns(data: bytes, name: str) -> Mapping[str, Sequence[Any]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise LabError(f"{name}: no CSV with a line of names: {str(problem)[:80]}") from None
    if not text.strip():
        raise LabError(f"{name}: no CSV with a line of names: it is empty")
    head, *lines = csv_lines(text, name=name, error=LabError)
    short = next((number for number, line in enumerate(lines, 2) if len(line) != len(head)), None)
    if short:
        raise LabError(f"{name}: line {short} has another number of cells than the first line")
    return {key.strip(): [line[n] for line in lines] for n, key in enumerate(head)}


def _parquet_columns(data: bytes, name: str) -> Mapping[str, Sequence[Any]]:
    return read_parquet(data, name=name, error=LabError, most=_MOST, otherwise="write CSV")


def _floats(cells: Sequence[Any], what: str) -> Any:
    """Numbers of cells; an empty one is 0."""
    try:
        values = np.array([float(cell) if cell not in (None, "") else 0.0 for cell in cells])
    except (TypeError, ValueError) as problem:
        raise LabError(f"{what}: {str(problem)[:80]}") from None
    if not np.isfinite(values).all():
        raise LabError(f"{what}: a number that is not finite")
    return values


def _hashed(cells: Sequence[Any], rows: int) -> Any:
    """Rows of a table, one for each cell."""
    known = {
        cell: int.from_bytes(hashlib.blake2b(str(cell).encode(), digest_size=7).digest()) % rows
        for cell in {"" if cell is None else str(cell) for cell in cells}
    }
    return np.array([[known["" if cell is None else str(cell)]] for cell in cells], np.int64)
