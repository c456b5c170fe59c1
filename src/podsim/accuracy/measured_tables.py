"""Rows of a table of measurements: cells as their source wrote them, with typed access and no pandas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from podsim.errors import TableError, unknown_name

UNRESOLVED = "unresolved: "
"""start of a source that could not be traced to its publisher"""

_NO_TARGET = ("no", "threshold")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One measured case."""

    id: str
    """unique in its table"""
    role: str
    source: str
    confirmed: str
    """what the reference tables say of the number: yes, approx, partial, no, …, or "not stated" """
    kind: str
    fields: Mapping[str, str] = field(hash=False)
    """every column of the raw table -> the cell as text, "" where blank"""

    @property
    def validates(self) -> bool:
        """Whether the number may be held against a prediction: it was measured, and its source is known."""
        return self.confirmed not in _NO_TARGET and not self.source.startswith(UNRESOLVED)

    def text(self, column: str) -> str:
        """Cell of a column, "" where blank; raises TableError on an unknown column."""
        try:
            return self.fields[column]
        except KeyError:
            raise TableError(unknown_name("column", column, self.fields)) from None

    def number(self, column: str) -> float | None:
        """Cell as a float, None where blank; raises TableError if it is no finite number."""
        cell = self.text(column)
        if not cell:
            return None
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TableError(f"row {self.id}: {column}={cell[:60]!r} is not a finite number")
        return value

    def integer(self, column: str) -> int | None:
        """Cell as an int, None where blank; raises TableError if it is no whole number."""
        value = self.number(column)
        if value is None:
            return None
        if not value.is_integer():
            raise TableError(f"row {self.id}: {column}={self.text(column)[:60]!r} is not a whole number")
        return int(value)

    def label(self, columns: Iterable[str]) -> str:
        """Text such as "tp=8, pp=1" of some columns; blank cells are left out."""
        return ", ".join(f"{column}={self.text(column)}" for column in columns if self.text(column))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A table of measurements; iterates over its rows."""

    name: str
    title: str
    kind: str
    rows: tuple[Row, ...]
    what: str
    """the quantity compared unless another is asked for (a key of podsim.results.comparison.QUANTITIES)"""
    sweep: tuple[str, ...] = ()
    """rows equal in these columns do the same work and compete on it; () for none"""
    classes: tuple[str, ...] = ()
    """columns of the breakdown"""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        """Rows in file order."""
        return iter(self.rows)

    def __getitem__(self, id: str) -> Row:
        """The row of that id; raises TableError on another."""
        for row in self.rows:
            if row.id == id:
                return row
        raise TableError(unknown_name("row", id, [row.id for row in self.rows]))

    def where(self, keep: Callable[[Row], bool] = lambda row: True, *, role: str | None = None) -> Rows:
        """The rows that pass, of one role if it is given."""
        return replace(self, rows=tuple(r for r in self.rows if role in (None, r.role) and keep(r)))

    def column(self, name: str) -> NDArray[np.float64]:
        """Cells of a column as float64, NaN where blank; shape (rows,)."""
        cells = [row.number(name) for row in self.rows]
        return np.array([math.nan if cell is None else cell for cell in cells], dtype=np.float64)

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources, each once, in order of first use."""
        return tuple(dict.fromkeys(row.source for row in self.rows))
