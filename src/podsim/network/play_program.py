"""A table and a topology as what the simulation needs: flows, what each waits for, and the links they share.

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
    """of each flow, -1 if it waits for no data, [F]"""
    dep_ptr: Ints
    """groups that a gate waits for: dep_group[dep_ptr[g] : dep_ptr[g + 1]], [G + 1]"""
    dep_group: Ints
    dep_lag: Ints
    group: Ints
    """of each flow, -1 if nothing waits for it, [F]"""
    group_repeat: Ints
    """transfers of each of a group's flows, [K]"""
    before: Ints
    """the flow that must be sent before on the same lane and channel, -1 for none, [F]"""


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
    found = 0
    for r in range(rows):
        key = 0
        for c in range(columns_CR.shape[0]):
            key = hash_pair(key, columns_CR[c, r])
        at = key & (size - 1)
        while slots[at] >= 0 and not _same_rows(columns_CR, first[slots[at]], r):
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            slots[at] = found
            first[found] = r
            found += 1
        member[r] = slots[at]
    return member, first[:found].copy()


@njit
def _lag_of_trains(a: int, b: int, step: Ints, repeat: Ints, chunk: Ints, count: Ints, turn: Ints, wheel: Ints
                   ) -> tuple[int, int]:  # fmt: skip
    """`_lag` of two trains whose wheels meet: one lag if they turn alike."""
    if turn[a] != turn[b] or wheel[a] != wheel[b] or count[a] != count[b]:
        return 2, 0
    units = wheel[a] // count[a]
    least = max(step[b] - step[a] + 1, 1 - repeat[b])
    lag = least + (turn[a] * (chunk[b] - chunk[a]) // count[a] - least) % units
    return (1, lag) if lag < repeat[a] else (0, 0)


@njit
def _lag_of_train(a: int, b: int, step: Ints, repeat: Ints, chunk: Ints, count: Ints, turn: Ints, wheel: Ints
                  ) -> tuple[int, int]:  # fmt: skip
    """`_lag` of a train and a single transfer that meets its wheel: when the train comes past it."""
    backward = repeat[b] > 1
    train, still = (b, a) if backward else (a, b)
    base, units = chunk[train] // wheel[train] * wheel[train], wheel[train] // count[train]
    low = max(chunk[still] - base, 0) // count[train]
    high = (min(chunk[still] + count[still] - base, wheel[train]) - 1) // count[train]
    at = min(repeat[b] - 1, step[a] - step[b] - 1) if backward else max(0, step[b] - step[a] + 1)
    place = ((chunk[train] - base) // count[train] + turn[train] * at) % units
    away = 0
    if place < low or place > high:
        falling = (turn[train] > 0) == backward
        away = (place - high) % units if falling else (low - place) % units
    at += -away if backward else away
    if at < 0 or at >= repeat[train]:
        return 0, 0
    return 1, (-at if backward else at)


@njit
def _lag(a: int, b: int, step: Ints, repeat: Ints, chunk: Ints, count: Ints, turn: Ints, wheel: Ints
         ) -> tuple[int, int]:  # fmt: skip
    """Whether flow a reads what flow b wrote, their chunks meeting: (0, 0) no, (1, lag) yes, (2, 0) not by one lag.

    Only the latest transfer of b that the kth of a reads matters, as b's come in order; and only the least lag, as
    a's go in order.
    """
    if step[b] >= step[a] + repeat[a] - 1:
        return 0, 0
    if repeat[a] > 1 and repeat[b] > 1:
        return _lag_of_trains(a, b, step, repeat, chunk, count, turn, wheel)
    if repeat[a] == 1 and repeat[b] == 1:
        return 1, 0
    return _lag_of_train(a, b, step, repeat, chunk, count, turn, wheel)


@njit
def _extent(r: int, repeat: Ints, chunk: Ints, count: Ints, wheel: Ints) -> tuple[int, int]:
    """First chunk a flow may touch, and the one after the last."""
    if repeat[r] > 1:
        base = chunk[r] // wheel[r] * wheel[r]
        return base, base + wheel[r]
    return chunk[r], chunk[r] + count[r]


@njit
def _pairs(readers: Ints, writers: Ints, begin: Ints, node_ptr: Ints, source: Ints, step: Ints, repeat: Ints, chunk: Ints,
           count: Ints, turn: Ints, wheel: Ints, found_3P: Ints, split: Ints) -> int:  # fmt: skip
    """All (gate, group, lag), gate by gate; returns how many. Writers lie by node and first chunk.

    begin[g] is the first writer that can meet reader g. found_3P takes as many as it has room for: gate, group, lag.
    split marks flows of pairs without one lag.
    """
    n = 0
    for g in range(len(readers)):
        a = readers[g]
        low, high = _extent(a, repeat, chunk, count, wheel)
        for w in range(begin[g], node_ptr[source[a] + 1]):
            b = writers[w]
            low_b, high_b = _extent(b, repeat, chunk, count, wheel)
            if low_b >= high:
                break
            if high_b <= low:
                continue
            kind, lag = _lag(a, b, step, repeat, chunk, count, turn, wheel)
            if kind == 2:
                split[a] = split[b] = 1
            if kind == 1:
                if n < found_3P.shape[1]:
                    found_3P[0, n], found_3P[1, n], found_3P[2, n] = g, w, lag
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
            found = _data(table, before)
            if isinstance(found, Waits):
                return table, found
            marked = found
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
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    writers = writers[order]
    node_ptr = np.searchsorted(table.destination[writers], np.arange(table.nodes + 1))
    widest = np.max(np.where(table.repeat > 1, wheel, table.count)[writers], initial=0)
    place_of_low = table.destination[writers] * table.chunks + low[order]
    split = np.zeros(len(table.step), np.int64)
    data = np.flatnonzero(~table.own[readers])
    first = readers[data]
    earliest = np.where(table.repeat > 1, table.chunk // wheel * wheel, table.chunk)[first] - widest
    begin = np.searchsorted(place_of_low, table.source[first] * table.chunks + earliest.clip(0))
    columns = (table.source, table.step, table.repeat, table.chunk, table.count, table.turn, wheel)
    found_3P = np.empty((3, 4 * (len(first) + len(writers))), np.int64)
    n = _pairs(first, writers, begin, node_ptr, *columns, found_3P, split)
    marked = np.flatnonzero(split & (table.repeat > 1))
    if len(marked):
        return marked
    if n > found_3P.shape[1]:
        found_3P = np.empty((3, n), np.int64)
        _pairs(first, writers, begin, node_ptr, *columns, found_3P, split)
    gates, groups, lags = found_3P[:, :n]
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
        group=group_of[place[group]],
        group_repeat=table.repeat[writers[used_groups]],
        before=before,
    )
