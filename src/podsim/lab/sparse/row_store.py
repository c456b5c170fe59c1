"""The rows of one parameter server: an LRU cache in memory over a file on the drive, updated by Adagrad.

A row of a table lies on the server that its number gives, modulo the number of servers. A row that was never updated
takes no room: its values come from a hash of seed, table, row and column. The file is sparse, so that only updated
rows have blocks on the drive; a row of it is the vector, then Adagrad's sums.
"""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import LabError
from podsim.foreign_files import DAMAGED_ARRAYS, unpacked
from podsim.whole_files import write_whole

Numbers = npt.NDArray[np.int64]
_RANGE = 0.05
"""factor. The largest magnitude of an initial weight of a table."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class Shard:
    """What one server holds of the tables."""

    rows: tuple[int, ...]
    """The rows of each whole table."""
    width: int
    """count. The elements of a row."""
    server: int
    servers: int
    cache: float
    """share. The cached share of the server's rows of each table."""
    rate: float
    """factor. The learning rate of Adagrad."""
    seed: int

    def local_rows(self, table: int) -> int:
        """The rows of a table that lie here."""
        return len(range(self.server, self.rows[table], self.servers))

    def cached_rows(self, table: int) -> int:
        """The rows of a table that memory holds, at least one."""
        return max(round(self.cache * self.local_rows(table)), 1)


def initial_rows(seed: int, table: int, rows: Numbers, width: int) -> Floats:
    """The vectors of rows that were never updated, evenly spread by a hash (SplitMix64)."""
    key = np.uint64((seed * 0x9E3779B97F4A7C15 + table * 0xD1B54A32D192ED03) & _MASK)
    cells = rows.astype(np.uint64)[:, None] * np.uint64(width) + np.arange(width, dtype=np.uint64)
    mixed: npt.NDArray[np.uint64] = np.add(cells, key, dtype=np.uint64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = np.bitwise_xor(mixed, np.right_shift(mixed, np.uint64(shift))) * np.uint64(factor)
    mixed = np.bitwise_xor(mixed, np.right_shift(mixed, np.uint64(31)))
    return np.asarray(np.right_shift(mixed, np.uint64(11)) * 2.0**-52 - 1.0) * _RANGE


def sum_by_row(rows: Numbers, gradients: Floats) -> tuple[Numbers, Floats]:
    """(distinct rows in rising order, the sum of the gradients of each, added up in the order given)."""
    order = np.argsort(rows, kind="stable")
    distinct, first = np.unique(rows[order], return_index=True)
    sums = np.add.reduceat(gradients[order], first, axis=0) if len(rows) else gradients[:0]
    return distinct, sums


def adagrad(weights: Floats, sums: Floats, gradients: Floats, rate: float) -> None:
    """Update weights and Adagrad's sums of squares, in place."""
    sums += gradients**2
    weights -= rate * gradients / (np.sqrt(sums) + 1e-10)


class _TableRows:
    """The rows of one table on one server."""

    def __init__(self, table: int, shard: Shard, path: Path) -> None:
        local, room = max(shard.local_rows(table), 1), shard.cached_rows(table)
        self.table, self.shard = table, shard
        self.file = np.memmap(path, np.float64, "w+", shape=(local, 2 * shard.width))
        self.touched = np.zeros(local, bool)
        self.cached, self.dirty = np.zeros((room, 2 * shard.width)), np.zeros(room, bool)
        self.slots: OrderedDict[int, int] = OrderedDict()
        self.free = list(range(room))
        self.hits = self.lookups = 0

    def read(self, rows: Numbers) -> Floats:
        """Vectors of distinct rows, the last one the most recently wanted; they are cached then."""
        slots = self._slots(rows)
        hit, room = slots >= 0, len(self.cached)
        self.hits += int(hit.sum())
        self.lookups += len(rows)
        state = self._gather(rows, slots)
        for row in rows[hit].tolist():
            self.slots.move_to_end(row)
        self._evict([row for row in rows[:-room].tolist() if row in self.slots])
        fresh = np.flatnonzero(~hit)
        fresh = fresh[fresh >= len(rows) - room]
        surplus = len(fresh) - len(self.free)
        self._evict([row for row, _ in zip(self.slots, range(surplus), strict=False)])
        for row in rows[fresh].tolist():
            self.slots[row] = self.free.pop()
        self.cached[self._slots(rows[fresh])] = state[fresh]
        for row in rows[-room:].tolist():
            self.slots.move_to_end(row)
        return state[:, : self.shard.width]

    def add(self, rows: Numbers, gradients: Floats) -> None:
        """Update distinct rows by their gradients, in the cache or else in the file."""
        slots, width = self._slots(rows), self.shard.width
        state, hit = self._gather(rows, slots), slots >= 0
        adagrad(state[:, :width], state[:, width:], gradients, self.shard.rate)
        self.cached[slots[hit]], self.dirty[slots[hit]] = state[hit], True
        self.file[rows[~hit] // self.shard.servers] = state[~hit]
        self.touched[rows // self.shard.servers] = True

    def states(self) -> tuple[Numbers, Floats]:
        """(updated rows, their vectors and Adagrad's sums); what the cache holds is written to the file first."""
        held = np.flatnonzero(self.dirty)
        owner = {slot: row for row, slot in self.slots.items()}
        rows = np.array([owner[slot] for slot in held.tolist()], np.int64)
        self.file[rows // self.shard.servers], self.dirty[held] = self.cached[held], False
        local = np.flatnonzero(self.touched)
        return local * self.shard.servers + self.shard.server, np.array(self.file[local])

    def restore(self, rows: Numbers, states: Floats) -> None:
        """Take updated rows of a checkpoint."""
        local = rows // self.shard.servers
        self.file[local], self.touched[local] = states, True

    def _slots(self, rows: Numbers) -> Numbers:
        return np.fromiter((self.slots.get(row, -1) for row in rows.tolist()), np.int64, len(rows))

    def _gather(self, rows: Numbers, slots: Numbers) -> Floats:
        """The state of rows, from the cache, the file, or the hash."""
        state, missed = self.cached[slots], np.flatnonzero(slots < 0)
        local, width = rows[missed] // self.shard.servers, self.shard.width
        state[missed] = self.file[local]
        untouched = missed[~self.touched[local]]
        state[untouched, :width] = initial_rows(self.shard.seed, self.table, rows[untouched], width)
        return state

    def _evict(self, rows: list[int]) -> None:
        """Take rows out of the cache; those that were updated go to the file."""
        slots = np.array([self.slots.pop(row) for row in rows], np.int64)
        dirty = self.dirty[slots]
        self.file[np.array(rows, np.int64)[dirty] // self.shard.servers] = self.cached[slots[dirty]]
        self.dirty[slots] = False
        self.free.extend(slots.tolist())


class RowStore:
    """The rows of one server. Rows of all tables count in one range, table after table."""

    def __init__(self, shard: Shard, folder: Path, dense: Floats | None = None) -> None:
        """`dense` are the network's own weights, on the server that holds them."""
        self.shard = shard
        self.base = np.concatenate(([0], np.cumsum(shard.rows)))
        self.tables = [
            _TableRows(table, shard, folder / f"server-{shard.server}-table-{table}.rows")
            for table in range(len(shard.rows))
        ]
        self.dense = None if dense is None else np.stack((dense, np.zeros_like(dense)))

    def read(self, ids: Numbers) -> Floats:
        """Vectors of distinct rows. Raises LabError for rows of another server, or of none."""
        vectors = np.empty((len(ids), self.shard.width))
        for table, chosen, rows in self._by_table(ids):
            vectors[chosen] = table.read(rows)
        return vectors

    def add(self, ids: Numbers, gradients: Floats) -> None:
        """Update distinct rows. Raises LabError for rows of another server, and gradients that do not fit."""
        if gradients.shape != (len(ids), self.shard.width) or not np.isfinite(gradients).all():
            raise LabError(
                f"gradients {gradients.shape} are not {len(ids)} x {self.shard.width} finite numbers"
            )
        for table, chosen, rows in self._by_table(ids):
            table.add(rows, gradients[chosen])

    def add_dense(self, gradient: Floats) -> None:
        """Update the network's own weights. Raises LabError for a gradient of another shape."""
        if self.dense is None or gradient.shape != self.dense[0].shape or not np.isfinite(gradient).all():
            raise LabError("a gradient of the network's own weights that does not fit this server")
        adagrad(self.dense[0], self.dense[1], gradient, self.shard.rate)

    def write(self, path: Path) -> None:
        """Write updated rows and the network's own weights to a file. Raises OSError."""
        arrays: dict[str, Any] = {} if self.dense is None else {"dense": self.dense}
        for number, table in enumerate(self.tables):
            arrays[f"rows-{number}"], arrays[f"states-{number}"] = table.states()
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        write_whole(path, packed.getvalue())

    def restore(self, paths: Iterable[Path]) -> None:
        """Take this server's rows of a checkpoint, of as many servers as it was. Raises LabError for a damaged file."""
        for path in paths:
            try:
                if not path.is_file():
                    raise ValueError("it is no regular file")
                with zipfile.ZipFile(path) as packed:
                    held = sum(entry.file_size for entry in packed.infolist())
                    if held > unpacked(path.stat().st_size, held):
                        raise ValueError(f"{held:,} bytes when unpacked")
                with np.load(path, allow_pickle=False) as arrays:
                    self._restore(arrays)
            except DAMAGED_ARRAYS as problem:
                raise LabError(f"{path}: no whole part of a checkpoint: {str(problem)[:120]}") from None

    def _restore(self, held: Mapping[str, Any]) -> None:
        for number, table in enumerate(self.tables):
            rows, states = held[f"rows-{number}"], held[f"states-{number}"]
            if (
                rows.dtype != np.int64
                or states.dtype != np.float64
                or (rows < 0).any()
                or np.isnan(states).any()
            ):
                raise ValueError("rows or states of another kind")
            mine = rows % self.shard.servers == self.shard.server
            table.restore(rows[mine], states[mine])
        if self.dense is not None and "dense" in held:
            self.dense[:] = held["dense"]

    def _by_table(self, ids: Numbers) -> Iterable[tuple[_TableRows, Numbers, Numbers]]:
        """Of each table that is asked for: it, the positions of its rows in the question, and their numbers."""
        if len(ids) and (ids.min() < 0 or ids.max() >= self.base[-1]):
            raise LabError(f"a row from {ids.min()} to {ids.max()}; the tables have {self.base[-1]}")
        owner = np.searchsorted(self.base, ids, "right") - 1
        rows = ids - self.base[owner]
        if (rows % self.shard.servers != self.shard.server).any():
            raise LabError(f"rows of another server than {self.shard.server} of {self.shard.servers}")
        if len(np.unique(ids)) != len(ids):
            raise LabError("a row is asked for twice")
        order = np.argsort(owner, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
            if len(chosen):
                yield self.tables[owner[chosen[0]]], chosen, rows[chosen]
