"""The effect of a table on data: whether each row is possible, every rank ends with the right content, and the sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints, Shaped
from podsim.errors import TableError
from podsim.network.collectives.table import EVERYWHERE, ROW_FIELDS, Table, expand

MOST_CELLS = 1 << 26
"""cells of state held at once: chunks are independent, and are proved in batches"""


def check_rows(table: Table) -> None:
    """Raise TableError for the first row that no table may have."""
    turning = table.turn != 0
    low, high = table.chunk, table.chunk + table.count
    chunk, count, wheel = (column[turning] for column in (low, table.count.clip(1), table.wheel.clip(1)))
    held = (chunk % count == 0) & (wheel % count == 0) & (chunk // wheel * wheel + wheel <= table.chunks)
    slipping = turning.copy()
    slipping[turning] = ~held
    rules = (
        (table.step < 0, "step", "is negative; steps count from 0"),
        (
            (table.source < 0) | (table.source >= table.nodes),
            "source",
            f"is no rank; ranks are 0 to {table.nodes - 1}",
        ),
        (
            (table.destination < 0) | (table.destination >= table.nodes),
            "destination",
            f"is no rank; ranks are 0 to {table.nodes - 1}",
        ),
        (
            table.source == table.destination,
            "source",
            "sends to itself; a rank has its own data without a transfer",
        ),
        (table.count < 1, "count", "is below 1"),
        ((low < 0) | (high > table.chunks), "chunk", f"(with its count) is outside 0 to {table.chunks - 1}"),
        (table.repeat < 1, "repeat", "is below 1"),
        (
            (table.repeat > 1) & ~turning,
            "repeat",
            "sends the same chunk again and again; give it a turn of +1 or -1",
        ),
        (abs(table.turn) > 1, "turn", "is not -1, 0 or +1"),
        (slipping, "wheel", "does not hold the chunk in whole counts inside the table"),
        (table.own & (table.source >= table.ranks), "source", "is a switch and has no data of its own"),
    )
    for bad, column, rule in rules:
        for row in np.flatnonzero(bad)[:1]:
            raise TableError(f"{table.name}: row {row}: {column} {getattr(table, column)[row]} {rule}")


def _units(table: Table, first: int, last: int) -> tuple[Table, Ints]:
    """Transfers of one chunk each, chunks first to last - 1 only, in order of steps; and the rows they came from."""
    keep = np.flatnonzero((table.chunk < last) & (table.chunk + table.count > first) | (table.turn != 0))
    part, rows = expand(replace(table, **{key: getattr(table, key)[keep] for key in ROW_FIELDS}))
    low = np.maximum(part.chunk, first)
    count = (np.minimum(part.chunk + part.count, last) - low).clip(0)
    index = np.repeat(np.arange(len(count)), count)
    columns: dict[str, Any] = {key: getattr(part, key)[index] for key in ROW_FIELDS}
    columns["chunk"] = low[index] + np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
    columns["count"] = np.ones(len(index), np.int64)
    return replace(part, **columns), keep[rows[index]]


def _steps(units: Table) -> Iterator[slice]:
    """Slices of equal steps, in order."""
    cuts = np.flatnonzero(np.diff(units.step)) + 1
    bounds = [0, *cuts.tolist(), len(units.step)]
    yield from (slice(a, b) for a, b in pairwise(bounds) if b > a)


def _explain_absent(table: Table, units: Table, rows: Ints, at: int) -> TableError:
    """Why a source has nothing to send: nobody sent it, it comes too late, or the rows of a step wait for each other."""

    def writers(unit: int) -> Ints:
        return np.flatnonzero((units.destination == units.source[unit]) & (units.chunk == units.chunk[unit]))

    where = f"{table.name}: row {rows[at]}: rank {units.source[at]} reads chunk {units.chunk[at]} in step"
    coming = writers(at)
    if not len(coming):
        return TableError(f"{where} {units.step[at]}, which nobody sent to it")
    chain, unit = [at], at
    while True:
        same = [w for w in writers(unit) if units.step[w] == units.step[at]]
        if not same:
            break
        unit = int(same[0])
        if unit in chain:
            loop = ", ".join(str(rows[u]) for u in chain[chain.index(unit) :])
            return TableError(
                f"{where} {units.step[at]}: deadlock, rows {loop} wait for each other in that step"
            )
        chain.append(unit)
    late = coming[np.argmin(units.step[coming])]
    return TableError(
        f"{where} {units.step[at]}, but it arrives only in step {units.step[late]} (row {rows[late]}): "
        "deadlock, a row cannot wait for its own or a later step"
    )


def _apply_step(
    table: Table,
    units: Table,
    rows: Ints,
    now: slice,
    held: Shaped[NDArray[np.uint8], "member chunk rank"],
    first: int,
) -> None:
    """Do one step on the counts of parts held; raise TableError for a row that cannot be done."""
    chunk, source, destination = units.chunk[now] - first, units.source[now], units.destination[now]
    payload = held[source, chunk]
    own = np.flatnonzero(units.own[now])
    payload[own] = 0
    payload[own, source[own]] = 1
    for k in np.flatnonzero(~payload.any(axis=1))[:1]:
        raise _explain_absent(table, units, rows, now.start + int(k))
    cell = destination * held.shape[1] + chunk
    order = np.argsort(cell, kind="stable")
    twin = order[1:][
        (np.diff(cell[order]) == 0) & ~(units.reduce[now][order[1:]] & units.reduce[now][order[:-1]])
    ]
    for k in twin[:1]:
        raise TableError(
            f"{table.name}: row {rows[now.start + k]}: another row writes chunk {units.chunk[now.start + k]} of rank "
            f"{destination[k]} in the same step {units.step[now.start]}; which one stays is chance"
        )
    adding = units.reduce[now]
    held[destination[~adding], chunk[~adding]] = payload[~adding]
    plus = np.flatnonzero(adding)
    np.add.at(held, (destination[plus], chunk[plus]), payload[plus])
    for k in plus[(held[destination[plus], chunk[plus]] > 1).any(axis=1)][:1]:
        raise TableError(
            f"{table.name}: row {rows[now.start + k]}: in step {units.step[now.start]} rank {destination[k]} reduces "
            f"twice the same part of chunk {units.chunk[now.start + k]}"
        )


def _holdings(table: Table) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """(first chunk, counts of parts held at the end), batch by batch of chunks."""
    check_rows(table)
    batch = max(1, MOST_CELLS // (table.nodes * table.ranks))
    for first in range(0, table.chunks, batch):
        last = min(first + batch, table.chunks)
        held = np.zeros((table.nodes, last - first, table.ranks), np.uint8)  # [member, chunk, rank]
        home = table.home[first:last]
        spread, ranks = np.flatnonzero(home == EVERYWHERE), np.arange(table.ranks)
        held[ranks[:, None], spread, ranks[:, None]] = 1
        single = np.flatnonzero(home != EVERYWHERE)
        held[home[single], single, home[single]] = 1
        units, rows = _units(table, first, last)
        for now in _steps(units):
            _apply_step(table, units, rows, now, held, first)
        yield first, held


def check(table: Table) -> None:
    """Raise TableError, naming the row, unless every row can be done.

    Refused: an unknown rank, switch or chunk; a rank that sends to itself; a chunk read where nobody sent it, or before
    it arrives (rows of one step that wait for each other, or for a later step, are a deadlock); a part of a
    sum added twice; two rows that write the same chunk of a rank in one step; a train that does not fit its wheel.
    """
    for _ in _holdings(table):
        pass


def prove(table: Table) -> None:
    """Raise TableError unless every row can be done and every rank ends with exactly the right content.

    The proof is by execution: for every rank and chunk, how often each rank's part is in the sum it holds; the goal of
    a chunk must end with every part once (of a chunk that starts at one rank: that rank's). Time and memory grow as
    transfers x ranks: 64 ranks take milliseconds, 1,024 minutes.
    """
    for first, held in _holdings(table):
        for c in range(held.shape[1]):
            home, goal = table.home[first + c], table.goal[first + c]
            wanted = np.ones(table.ranks) if home == EVERYWHERE else np.arange(table.ranks) == home
            ends = np.arange(table.ranks) if goal == EVERYWHERE else np.array([goal])
            wrong = np.argwhere(held[ends, c] != wanted)
            for k, part in wrong[:1]:
                raise TableError(
                    f"{table.name}: rank {ends[k]} ends with chunk {first + c} holding {held[ends[k], c, part]} "
                    f"times the part of rank {part}, instead of {int(wanted[part])}; {len(wrong)} such parts in all"
                )
