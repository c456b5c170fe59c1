"""A table and a topology as the simulation needs them: flows, their dependencies, and the links that they share.

A *flow* is a row of the table (a train of transfers). Flows that read the same chunks of a rank in the same step share
a *gate*; those that write the same chunks of a rank in the same step are a *group*. A gate waits for groups: for its
kth transfer, group c must have finished min(k - lag + 1, repeat of c) times, by all of its flows. A *lane* is a pair of
ends with its route. A flow also waits for the flow before it on its lane and channel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from podsim.axes import Ints, Shaped, SmallInts
from podsim.errors import TableError
from podsim.native import c_function
from podsim.network.collectives.table import MOST_ROWS, ROW_FIELDS, Table, expand


class Waits(NamedTuple):
    """What each flow waits for; F flows, G gates, K groups."""

    gate: Ints
    """The gate of each flow; -1 if it waits for no data, [F]."""
    dep_ptr: Ints
    """The start of the groups that a gate waits for: dep_group[dep_ptr[g] : dep_ptr[g + 1]], [G + 1]."""
    dep_group: Ints
    dep_lag: Ints
    group: Ints
    """The group of each flow; -1 if nothing waits for it, [F]."""
    group_repeat: Ints
    """The number of transfers of each of a group's flows, [K]."""
    before: Ints
    """The flow that must be sent before on the same lane and channel; -1 for none, [F]."""


_mix = c_function("mix_values", Ints, int, Ints)
_number = c_function("number_rows", Ints, int, int, Ints, Ints, int, Ints, Ints, result=int)


def mix(values: Ints) -> Ints:
    """A random-looking 64-bit number for each value; the same every time."""
    out = np.empty(len(values), np.int64)
    _mix(np.ascontiguousarray(values), len(values), out)
    return out


def number_rows(columns: Shaped[Ints, "field row"]) -> tuple[Ints, Ints]:
    """Equal rows (a column of the array is a row here) as groups: (group of each row, first row of each group)."""
    fields, rows = columns.shape
    size = max(16, 1 << (2 * rows - 1).bit_length())
    slots = np.full(size, -1)
    member, first, keys = (np.empty(rows, np.int64) for _ in range(3))
    count = _number(np.ascontiguousarray(columns), fields, rows, keys, slots, size, member, first)
    return member, first[:count].copy()


def entries(pointer: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """(the place in `rows` of each of their entries, the entry)."""
    sizes = np.diff(pointer)[rows]
    row = np.repeat(np.arange(len(rows)), sizes)
    return row, np.repeat(pointer[rows] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(row))


def rows_of(values: Ints | SmallInts, n: int) -> tuple[Ints, Ints]:
    """(pointer [n + 1], places of each value 0 .. n - 1, in order); values of -1 are left out."""
    order = np.argsort(values, kind="stable")
    pointer = np.cumsum(np.bincount(values + 1, minlength=n + 1))
    return pointer - pointer[0], order[pointer[0] :]


class Trains(NamedTuple):
    """Columns of a table that say which chunks a flow touches when, one value a flow."""

    source: Ints
    step: Ints
    repeat: Ints
    chunk: Ints
    chunks: Ints
    """The number of chunks in one transfer."""
    turn: Ints
    wheel: Ints


_pairs = c_function("pair_waits", Ints, int, Ints, Ints, Ints, Trains, Ints, int, Ints, result=int)


def _explode(table: Table, marked: Ints) -> Table:
    """The table with marked trains written out."""
    columns: dict[str, Any] = {key: getattr(table, key)[marked] for key in ROW_FIELDS}
    part, rows = expand(replace(table, **columns))
    rest = np.delete(np.arange(len(table.step)), marked)
    if len(rest) + len(part.step) > MOST_ROWS:
        raise TableError(
            f"{table.name}: its trains cannot follow each other's chunks; more than {MOST_ROWS} transfers"
        )
    order = np.argsort(
        np.concatenate([rest, marked[rows]]), kind="stable"
    )  # rows of one step keep their order
    columns = {
        key: np.concatenate([getattr(table, key)[rest], getattr(part, key)])[order] for key in ROW_FIELDS
    }
    return replace(table, **columns)


def _order(table: Table) -> tuple[Ints, Ints]:
    """The flow before each on its lane and channel (-1: none); and trains that overlap in time with another there."""
    lane = table.source * table.nodes + table.destination
    order = np.lexsort((table.step, table.channel, lane))
    first, then = order[:-1], order[1:]
    joined = (lane[first] == lane[then]) & (table.channel[first] == table.channel[then])
    first, then = first[joined], then[joined]
    before = np.full(len(lane), -1)
    before[then] = first
    is_train = table.repeat[first] + table.repeat[then] > 2
    running = is_train & (table.step[first] + table.repeat[first] > table.step[then])
    both = np.concatenate([first[running], then[running]])
    return before, np.unique(both[table.repeat[both] > 1])


def waits(table: Table) -> tuple[Table, Waits]:
    """What each flow of the table waits for; and the table, in which trains that need it have been written out.

    Raises TableError when that is more than 50 million rows.
    """
    while True:
        before, marked = _order(table)
        if not len(marked):
            dependencies = _data(table, before)
            if isinstance(dependencies, Waits):
                return table, dependencies
            marked = dependencies
        table = _explode(table, marked)


def renumber(values: Ints, n: int) -> tuple[Ints, Ints]:
    """(which of the numbers 0 to n - 1 occur, the place among these of each value): np.unique without sorting."""
    occurs = np.zeros(n, np.int64)
    occurs[values] = 1
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]


def _data(table: Table, before: Ints) -> Waits | Ints:
    """What the flows wait for; or the trains to be written out first."""
    rows = [getattr(table, key) for key in ("step", "chunk", "count", "repeat", "turn", "wheel")]
    member, readers = number_rows(np.stack([*rows, table.source, table.own.astype(np.int64)]))
    group, writers = number_rows(np.stack([*rows, table.destination]))
    wheel = np.maximum(table.wheel, 1)
    low = np.where(table.repeat > 1, table.chunk // wheel * wheel, table.chunk)
    place_of_low = (table.destination * table.chunks + low)[writers]
    order = np.argsort(place_of_low, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    writers, place_of_low = writers[order], place_of_low[order]
    node_ptr = np.searchsorted(table.destination[writers], np.arange(table.nodes + 1))
    widest = np.max(np.where(table.repeat > 1, wheel, table.count)[writers], initial=0)
    split = np.zeros(len(table.step), np.int64)
    data = np.flatnonzero(~table.own[readers])
    first = readers[data]
    earliest = (low[first] - widest).clip(0)
    begin = np.searchsorted(place_of_low, table.source[first] * table.chunks + earliest)
    trains = Trains(table.source, table.step, table.repeat, table.chunk, table.count, table.turn, wheel)
    pairs = np.empty((3, 4 * (len(first) + len(writers))), np.int64)
    n = _pairs(first, len(first), writers, begin, node_ptr, trains, pairs, pairs.shape[1], split)
    marked = np.flatnonzero(split & (table.repeat > 1))
    if len(marked):
        return marked
    if n > pairs.shape[1]:
        pairs = np.empty((3, n), np.int64)
        _pairs(first, len(first), writers, begin, node_ptr, trains, pairs, n, split)
    gates, groups, lags = pairs[:, :n]
    used_gates, dep_gate = renumber(gates, len(data))
    used_groups, dep_group = renumber(groups, len(writers))
    gate_of = np.full(len(readers), -1)
    gate_of[data[used_gates]] = np.arange(len(used_gates))
    group_of = np.full(len(writers), -1)
    group_of[used_groups] = np.arange(len(used_groups))
    return Waits(
        gate=gate_of[member],
        dep_ptr=np.cumsum(np.bincount(dep_gate + 1, minlength=len(used_gates) + 1)),
        dep_group=dep_group.astype(np.int64),
        dep_lag=lags,
        group=group_of[rank[group]],
        group_repeat=table.repeat[writers[used_groups]],
        before=before,
    )
