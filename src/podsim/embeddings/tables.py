"""Embedding tables: their sizes, and the sets that published recommenders have (tables.toml)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from podsim.embeddings.hit_rates import check_skew
from podsim.errors import ModelError, PodsimError
from podsim.packaged import packaged_toml
from podsim.records import dataclass, fields

SKEW = 1.05
"""exponent of Zipf's law where none is given: assumed"""
ELEMENTS: Mapping[str, float] = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0}
"""B. The size of an element of a table."""
STATES: Mapping[str, float] = {"none": 0.0, "sgd": 0.0, "adagrad": 4.0, "adam": 8.0}
"""B. The optimizer's states of a weight; row-wise Adagrad keeps 4 B a row."""
ROWWISE = "rowwise-adagrad"


@dataclass(frozen=True, kw_only=True)
class EmbeddingTable:
    """A table that turns values of one feature into vectors."""

    name: str
    rows: int
    width: int
    """count. The elements of a row."""
    pooling: float = 1.0
    """count. The mean number of rows that a sample looks up, whose sum it gets."""
    precision: str = "fp32"
    """The number format of the rows."""
    skew: float = SKEW
    """The exponent of Zipf's law, which gives the popularity of rows; 0: even."""

    def __post_init__(self) -> None:
        """Check all numbers. Raises ModelError."""
        try:
            check_skew(self.rows, self.skew)
        except PodsimError as error:
            raise ModelError(f"table {self.name[:40]!r}: {error}") from None
        if not (self.rows <= 1e13 and isinstance(self.width, int) and 1 <= self.width <= 65_536):
            raise ModelError(
                f"table {self.name[:40]!r}: rows={self.rows}, width={self.width!r}: at most 1e13 rows of 1 to 65,536"
            )
        if not (isinstance(self.pooling, int | float) and 0 < self.pooling <= 1e6):
            raise ModelError(
                f"table {self.name[:40]!r}: pooling={self.pooling!r} must be more than 0 rows, and at most 1e6"
            )
        if not (isinstance(self.precision, str) and self.precision in ELEMENTS):
            raise ModelError(
                f"table {self.name[:40]!r}: precision={self.precision!r} may be {', '.join(ELEMENTS)}"
            )

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return self.rows * self.width

    @property
    def bytes(self) -> float:
        """B. The size of the rows."""
        return self.parameters * ELEMENTS[self.precision]


@dataclass(frozen=True, kw_only=True)
class TableSet:
    """The tables of a recommender."""

    name: str
    title: str
    tables: tuple[EmbeddingTable, ...]
    optimizer: str = "sgd"
    """The optimizer of the tables: sgd, adagrad, rowwise-adagrad, adam or none."""
    source: str = ""
    is_dense: bool = False
    """Whether the network's parameters hold the tables, and their gradients are dense."""

    def __post_init__(self) -> None:
        """Check the optimizer and that there are tables. Raises ModelError."""
        if not self.tables:
            raise ModelError(f"{self.name[-60:]}: no tables")
        if self.optimizer not in (*STATES, ROWWISE):
            raise ModelError(f"optimizer={self.optimizer!r} of tables may be {', '.join(STATES)}, {ROWWISE}")

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(table.parameters for table in self.tables)

    @property
    def bytes(self) -> float:
        """B. The size of all rows, without states of the optimizer."""
        return math.fsum(table.bytes for table in self.tables)

    @property
    def lookups(self) -> float:
        """count. The rows that a sample looks up."""
        return math.fsum(table.pooling for table in self.tables)

    @property
    def lookup_bytes(self) -> float:
        """B. The rows that a sample reads."""
        return math.fsum(table.pooling * table.width * ELEMENTS[table.precision] for table in self.tables)

    def state_bytes(self, table: EmbeddingTable) -> float:
        """B. The optimizer's states of one row."""
        return 4.0 if self.optimizer == ROWWISE else STATES[self.optimizer] * table.width


@cache
def table_sets() -> Mapping[str, TableSet]:
    """The sets of published recommenders by name."""
    return {name: make_set(name, entry) for name, entry in packaged_toml("embeddings/tables.toml").items()}


def make_set(name: str, entry: Mapping[str, Any]) -> TableSet:
    """A set from columns: a number holds for all tables. Raises ModelError."""
    columns = {
        field.name: entry[field.name]
        for field in fields(EmbeddingTable)
        if field.name in entry and field.name != "name"
    }
    rows = columns.get("rows")
    if not isinstance(rows, list):
        raise ModelError(f"{name[-60:]}: rows must be a list of numbers, one for each table")
    if "width" not in columns:
        raise ModelError(
            f"{name[-60:]}: no width; give the elements of a row, one for all tables or one for each"
        )
    uneven = [key for key, value in columns.items() if isinstance(value, list) and len(value) != len(rows)]
    if uneven:
        raise ModelError(f"{name[-60:]}: {uneven[0]} must have {len(rows)} numbers, as rows has")
    tables = tuple(
        EmbeddingTable(
            name=f"table {n}",
            **{key: value[n] if isinstance(value, list) else value for key, value in columns.items()},
        )
        for n in range(len(rows))
    )
    rest = {
        field.name: entry[field.name]
        for field in fields(TableSet)
        if field.name in entry and field.name not in ("name", "tables")
    }
    return TableSet(name=name, tables=tables, **{"title": name, **rest})
