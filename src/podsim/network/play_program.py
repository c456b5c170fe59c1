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

from podsim.errors import TableError
from podsim.jit import njit
from podsim.network.collectives.table import MOST_ROWS, ROW_FIELDS, Ints, Table, expand


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


@njit
def hash_pair(x: int, y: int) -> int:
    """A 64-bit hash of two numbers (splitmix64's finaliser)."""
    z = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(y) + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]


@njit
def mix(values: Ints) -> Ints:
    """A random-looking 64-bit number for each value; the same every time."""
    out = np.empty(len(values), np.int64)
    for i in range(len(values)):
        out[i] = hash_pair(values[i], 0)
    return out


@njit
def _same_rows(columns_CR: Ints, a: int, b: int) -> bool:
    same = True
    for c in range(columns_CR.shape[0]):
        same = same and columns_CR[c, a] == columns_CR[c, b]
    return same


@njit
def number_rows(columns_CR: Ints) -> tuple[Ints, Ints]:
    """Equal rows (a column of the array is a row here) as groups: (group of each row, first row of each group)."""
    rows = columns_CR.shape[1]
    size = 16
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1)
    member, first = np.empty(rows, np.int64), np.empty(rows, np.int64)
    count = 0
    for r in range(rows):
        key = 0
        for c in range(columns_CR.shape[0]):
            key = hash_pair(key, columns_CR[c, r])
        at = key & (size - 1)
        while slots[at] >= 0 and not _same_rows(columns_CR, first[slots[at]], r):
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            slots[at] = count
            first[count] = r
            count += 1
        member[r] = slots[at]
    return member, first[:count].copy()


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


@njit
def _lag_of_trains(a: int, b: int, t: Trains) -> tuple[int, int]:
    """`_lag` of two trains whose wheels meet: one lag if they turn alike."""
    if t.turn[a] != t.turn[b] or t.wheel[a] != t.wheel[b] or t.chunks[a] != t.chunks[b]:
        return 2, 0
    units = t.wheel[a] // t.chunks[a]
    least = max(t.step[b] - t.step[a] + 1, 1 - t.repeat[b])
    lag = least + (t.turn[a] * (t.chunk[b] - t.chunk[a]) // t.chunks[a] - least) % units
    return (1, lag) if lag < t.repeat[a] else (0, 0)


@njit
def _lag_of_train(a: int, b: int, t: Trains) -> tuple[int, int]:
    """`_lag` of a train and a single transfer that meets its wheel: when the train comes past it."""
    backward = t.repeat[b] > 1
    train, still = (b, a) if backward else (a, b)
    chunk, count, wheel = t.chunk[train], t.chunks[train], t.wheel[train]
    base, units = chunk // wheel * wheel, wheel // count
    low = max(t.chunk[still] - base, 0) // count
    high = (min(t.chunk[still] + t.chunks[still] - base, wheel) - 1) // count
    at = min(t.repeat[b] - 1, t.step[a] - t.step[b] - 1) if backward else max(0, t.step[b] - t.step[a] + 1)
    position = ((chunk - base) // count + t.turn[train] * at) % units
    away = 0
    if position < low or position > high:
        falling = (t.turn[train] > 0) == backward
        away = (position - high) % units if falling else (low - position) % units
    at += -away if backward else away
    if at < 0 or at >= t.repeat[train]:
        return 0, 0
    return 1, (-at if backward else at)


@njit
def _lag(a: int, b: int, t: Trains) -> tuple[int, int]:
    """Whether flow a reads what flow b wrote, their chunks meeting: (0, 0) no, (1, lag) yes, (2, 0) not by one lag.

    Only the latest transfer of b that the kth of a reads matters, as b's come in order; and only the least lag, as
    a's go in order.
    """
    if t.step[b] >= t.step[a] + t.repeat[a] - 1:
        return 0, 0
    if t.repeat[a] > 1 and t.repeat[b] > 1:
        return _lag_of_trains(a, b, t)
    if t.repeat[a] == 1 and t.repeat[b] == 1:
        return 1, 0
    return _lag_of_train(a, b, t)


@njit
def _extent(r: int, t: Trains) -> tuple[int, int]:
    """First chunk a flow may touch, and the one after the last."""
    if t.repeat[r] > 1:
        base = t.chunk[r] // t.wheel[r] * t.wheel[r]
        return base, base + t.wheel[r]
    return t.chunk[r], t.chunk[r] + t.chunks[r]


@njit
def _pairs(
    readers: Ints, writers: Ints, begin: Ints, node_ptr: Ints, t: Trains, pairs: Ints, is_split: Ints
) -> int:
    """All (gate, group, lag), gate by gate; returns how many. Writers lie by node and first chunk.

    begin[g] is the first writer that can meet reader g. `pairs` takes as many as it has room for: gate, group, lag,
    [3, room]. `is_split` marks flows of pairs without one lag.
    """
    n = 0
    for g in range(len(readers)):
        a = readers[g]
        low, high = _extent(a, t)
        for w in range(begin[g], node_ptr[t.source[a] + 1]):
            b = writers[w]
            low_b, high_b = _extent(b, t)
            if low_b >= high:
                break
            if high_b <= low:
                continue
            kind, lag = _lag(a, b, t)
            if kind == 2:
                is_split[a] = is_split[b] = 1
            if kind == 1:
                if n < pairs.shape[1]:
                    pairs[0, n], pairs[1, n], pairs[2, n] = g, w, lag
                n += 1
    return n


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
    before = np.full(len(lane), -1)
    before[then[joined]] = first[joined]
    last = table.step + table.repeat
    running = joined & (last[first] > table.step[then]) & (table.repeat[first] + table.repeat[then] > 2)
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
    low = np.where(table.repeat > 1, table.chunk // wheel * wheel, table.chunk)[writers]
    order = np.lexsort((low, table.destination[writers]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    writers = writers[order]
    node_ptr = np.searchsorted(table.destination[writers], np.arange(table.nodes + 1))
    widest = np.max(np.where(table.repeat > 1, wheel, table.count)[writers], initial=0)
    place_of_low = table.destination[writers] * table.chunks + low[order]
    split = np.zeros(len(table.step), np.int64)
    data = np.flatnonzero(~table.own[readers])
    first = readers[data]
    earliest = np.where(table.repeat > 1, table.chunk // wheel * wheel, table.chunk)[first] - widest
    begin = np.searchsorted(place_of_low, table.source[first] * table.chunks + earliest.clip(0))
    trains = Trains(table.source, table.step, table.repeat, table.chunk, table.count, table.turn, wheel)
    pairs = np.empty((3, 4 * (len(first) + len(writers))), np.int64)
    n = _pairs(first, writers, begin, node_ptr, trains, pairs, split)
    marked = np.flatnonzero(split & (table.repeat > 1))
    if len(marked):
        return marked
    if n > pairs.shape[1]:
        pairs = np.empty((3, n), np.int64)
        _pairs(first, writers, begin, node_ptr, trains, pairs, split)
    gates, groups, lags = pairs[:, :n]
    used_gates, dep_gate = renumber(gates, len(data))
    used_groups, dep_group = renumber(groups, len(writers))
    gate_of = np.full(len(readers), -1)
    gate_of[data[used_gates]] = np.arange(len(used_gates))
    group_of = np.full(len(writers), -1)
    group_of[used_groups] = np.arange(len(used_groups))
    return Waits(
        gate=gate_of[member],
        dep_ptr=np.searchsorted(dep_gate, np.arange(len(used_gates) + 1)),
        dep_group=dep_group.astype(np.int64),
        dep_lag=lags,
        group=group_of[rank[group]],
        group_repeat=table.repeat[writers[used_groups]],
        before=before,
    )
