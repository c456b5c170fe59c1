"""Evaluate a cost once per distinct combination of the plan fields it depends on, however many plans there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from podsim.training.plan import Array, Plan

T = TypeVar("T")
_DENSE = 1 << 22  # largest code range for which a lookup table beats sorting


@dataclass(frozen=True)
class Keyed(Generic[T]):
    """A table over K distinct keys, and for each of P plans which key is its own."""

    table: T
    index: Array
    """(P,) positions in the table's last axis"""


def gathered(table: Array, index: Array) -> Array:
    """Positions of the last axis: several times as quick as table[..., index]."""
    return np.asarray(table.take(index, axis=-1))


class Codes:
    """Each column of a million plans as small numbers, worked out once for all tables that are keyed by it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._known: dict[int, tuple[Array, Array, int]] = {}

    def of(self, column: Array) -> tuple[Array, int]:
        """(position of each value among the distinct ones, how many there are)."""
        known = self._known.get(id(column))
        if known is None:
            value = column.astype(np.int64, copy=False)
            low, high = int(value.min()), int(value.max())
            if low == high:
                known = (column, np.zeros(1, dtype=np.int32), 1)
            else:
                seen = np.zeros(high - low + 1, dtype=bool)
                seen[value - low] = True
                rank = np.cumsum(seen, dtype=np.int32) - np.int32(1)
                known = (column, rank[value - low], int(rank[-1]) + 1)
            self._known[id(column)] = known  # holds the column, too, so that its identity stays its own
        return known[1], known[2]


def distinct(plan: Plan, names: Sequence[str], codes: Codes | None = None) -> tuple[Array, Array]:
    """Positions of one plan for each distinct combination of fields (K,), and each plan's combination (P,).

    `plan` must hold 1-D arrays of one length (Plan.arrays()).
    """
    count, codes = plan.size, codes or Codes()
    code, span = np.zeros(count, dtype=np.int64), 1
    for name in names:
        rank, values = codes.of(np.asarray(getattr(plan, name)))
        if values > 1:
            code *= values
            code += rank
            span *= values
    if span > _DENSE:
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        return first, index
    position = np.full(span, -1, dtype=np.int64)
    position[code[::-1]] = np.arange(count - 1, -1, -1)
    present = np.flatnonzero(position >= 0)
    place = np.zeros(span, dtype=np.int64)
    place[present] = np.arange(present.size)
    return position[present], place[code]


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Positions of one row for each distinct row (K,), and each row's own (P,), of columns of any numbers (P,)."""
    code = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, rank = np.unique(column, return_inverse=True)
        code = code * values.size + rank
        if values.size > 1:
            _, code = np.unique(code, return_inverse=True)
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return first, index


def keyed(
    plan: Plan, names: Sequence[str], function: Callable[[Plan], T], codes: Codes | None = None
) -> Keyed[T]:
    """Call `function` on one plan per distinct combination of the named fields.

    The other fields of the plans it sees are arbitrary: it must not depend on them.  A single plan must be `wide`.
    """
    if plan.size == 1:
        return Keyed(function(plan), np.zeros(1, dtype=np.int64))
    first, index = distinct(plan, names, codes)
    return Keyed(function(plan.take(first).wide()), index)
