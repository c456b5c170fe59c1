"""Tables of a user's recommender, from TOML, CSV or Parquet.

    TOML       [[table]] with name, rows, width, pooling, precision, skew; optimizer at the top; or lists (tables.toml)
    CSV        a line of column names, then one line a table; Parquet: the same columns

TorchRec's names work, too: num_embeddings, embedding_dim, pooling_factor, data_type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.embeddings.tables import EmbeddingTable, TableSet, make_set
from podsim.errors import ModelError, unknown_name
from podsim.foreign_files import csv_table, read_bytes, read_parquet, read_toml

SUFFIXES = (".toml", ".csv", ".parquet")
_LARGEST = 64 << 20
_MOST = 100_000
_ALSO = {
    "num_embeddings": "rows", "embedding_dim": "width", "dim": "width", "pooling_factor": "pooling",
    "data_type": "precision", "zipf": "skew", "alpha": "skew", "table": "name",
}  # fmt: skip
_NUMBERS = {"rows": int, "width": int, "pooling": float, "skew": float}
_KNOWN = ("name", *_NUMBERS, "precision")


def read_tables(path: Path) -> TableSet:
    """The tables of a file. Raises ModelError with the file, the table and what would work."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ModelError(f"{path.name[-60:]}: tables come from {', '.join(SUFFIXES)}")
    try:
        data = read_bytes(path, most=_LARGEST, error=ModelError)
        rows, rest = {".toml": _toml_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}[suffix](data, path)
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name[-60:]} cannot be read: {' '.join(str(error).split())[:120]}") from None
    if isinstance(rows, TableSet):
        return rows
    if len(rows) > _MOST:
        raise ModelError(f"{path.name[-60:]}: {len(rows):,} tables; at most {_MOST:,}")
    tables = tuple(_table(row, n, path) for n, row in enumerate(rows))
    return TableSet(name=path.stem, title=f"tables of {path.name}", tables=tables, source=path.name, **rest)


def _toml_rows(data: bytes, path: Path) -> tuple[Any, dict[str, Any]]:
    values = read_toml(data.decode("utf-8-sig"), name=path.name[-60:], error=ModelError, longest=_LARGEST)
    if isinstance(values.get("rows"), list):
        return make_set(path.stem, {key: values[key] for key in (*_KNOWN, "optimizer") if key in values}), {}
    rows = values.get("table", values.get("tables"))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ModelError(f"{path.name[-60:]}: write [[table]] with rows and width for each table")
    return rows, {key: str(values[key]) for key in ("optimizer",) if key in values}


def _csv_rows(data: bytes, path: Path) -> tuple[Any, dict[str, Any]]:
    return csv_table(data.decode("utf-8-sig"), name=path.name[-60:], error=ModelError)[1], {}


def _parquet_rows(data: bytes, path: Path) -> tuple[Any, dict[str, Any]]:
    columns = read_parquet(
        data, name=path.name[-60:], error=ModelError, most=_MOST, otherwise="write the tables as CSV"
    )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], {}


def _table(row: Mapping[Any, Any], position: int, path: Path) -> EmbeddingTable:
    """The table of a row of a file, by podsim's and by TorchRec's names."""
    values: dict[str, Any] = {}
    for key, value in row.items():
        name = _ALSO.get(str(key).strip().lower(), str(key).strip().lower())
        if name not in _KNOWN:
            raise ModelError(f"{path.name[-60:]}: {unknown_name('column', str(key)[:40], _KNOWN)}")
        if value not in (None, ""):
            values[name] = value
    label = str(values.pop("name", f"table {position}"))[:80]
    missing = [key for key in ("rows", "width") if key not in values]
    if missing:
        raise ModelError(f"{path.name[-60:]}: table {label[:40]!r} has no {' and no '.join(missing)}")
    for key, kind in _NUMBERS.items():
        if key in values:
            values[key] = _number(values[key], kind, f"{path.name[-60:]}: table {label[:40]!r}: {key}")
    values["precision"] = str(values.get("precision", "fp32")).strip().lower()
    return EmbeddingTable(name=label, **values)


def _number(value: object, kind: type[int] | type[float], what: str) -> int | float:
    try:
        number = float(str(value).replace("_", "").replace(",", ""))
        if kind is int and number != int(number):
            raise ValueError
        return kind(number)
    except (ValueError, OverflowError):
        word = "a whole number" if kind is int else "a number"
        raise ModelError(f"{what}={str(value)[:40]!r} is not {word}") from None
