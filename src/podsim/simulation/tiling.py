"""The ops of all classes of ranks by their rows: what each waits for, and the collectives that join them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.axes import Ints, Shaped, SmallInts
from podsim.schedules.actions import ScheduleTable
from podsim.simulation.lower_links import Classes, Wired
from podsim.simulation.ops import Ops, Streams, Tiled, no_ops
from podsim.simulation.passes import Row
from podsim.simulation.pieces import Piece, Stream

STREAMS = len(Stream)
_JOINED = {"tp": "tp", "tp beside": "tp", "cp": "cp", "ep": "ep", "dp": "dp"}


def tiled_ops(
    pieces: list[Piece], rows: list[Row], row_of: Ints, tables: list[ScheduleTable], classes: Classes, wired: Wired,
    contention: float,
) -> Tiled:  # fmt: skip
    """The ops of all classes by their rows."""
    seconds = np.array([piece.seconds for piece in pieces])
    counts, join_of_rows = _places(pieces, rows)
    joins, join_size = _joins(counts[row_of], classes)
    ops = []
    for row, join in zip(rows, join_of_rows, strict=True):
        before, after = row_edges(row)
        ops.append(Ops(
            stream=row.stream, seconds=seconds[row.what], before=before, after=after, join=join,
            transfer=wired.kind[row.what],
        ))  # fmt: skip
    tiled = Tiled(
        rows=ops, row_of=row_of, joins=joins, join_size=join_size, sends=(no_ops(), no_ops()), kinds=wired.kinds,
        transfers=wired.transfers, streams=_streams(classes.count, contention),
    )  # fmt: skip
    return replace(tiled, sends=_sends(rows, row_of, tables, classes, tiled.base))


def _sends(
    rows: list[Row], row_of: Ints, tables: list[ScheduleTable], classes: Classes, base: Ints
) -> tuple[SmallInts, SmallInts]:
    """(before, after): edges from each send to the op that uses it on the next stage."""
    ranks, before, after = tables[0].ranks, [no_ops()], [no_ops()]
    sent = [np.concatenate([row.sent for row in rows[k : k + ranks]]) for k in range(0, len(rows), ranks)]
    for c, r in enumerate(classes.first[:, 0].tolist()):
        table = tables[row_of[c] // ranks]
        owner, actions = table.rank, np.arange(table.pointer[r], table.pointer[r + 1])
        source = table.need[actions]
        moved = (source >= 0) & (owner[np.maximum(source, 0)] != r)
        source, first = source[moved], rows[row_of[c]].first[moved]
        senders = classes.line[c, owner[source]]
        types = row_of[senders] // ranks  # a pipeline may have GPUs of several types, not several tables
        ops = np.empty(len(source), np.int64)
        for kind in np.unique(types).tolist():
            ops[types == kind] = sent[kind][source[types == kind]]
        assert np.all(ops >= 0)
        before.append((base[senders] + ops).astype(np.int32))
        after.append((base[c] + first).astype(np.int32))
    return np.concatenate(before), np.concatenate(after)


def row_edges(row: Row) -> tuple[SmallInts, SmallInts]:
    """Edges of a row between streams; a stream's own order needs none."""
    apart = row.stream[row.before] != row.stream[row.after]
    return row.before[apart], row.after[apart]


_GROUPS = ("tp", "cp", "ep", "dp", "ends", "all")


def _places(pieces: list[Piece], rows: list[Row]) -> tuple[Shaped[Ints, "row group"], list[SmallInts]]:
    """(ops of each row in each group, the place of each op among them as Tiled.rows has it)."""
    named = np.array([group_of(piece) for piece in pieces])
    counts, joins = np.zeros((len(rows), len(_GROUPS)), np.int64), []
    for r, row in enumerate(rows):
        join = np.full(len(row.what), -1, np.int32)
        for g, name in enumerate(_GROUPS):
            ops = np.flatnonzero(named[row.what] == name)
            join[ops], counts[r, g] = np.arange(len(ops)) * len(_GROUPS) + g, len(ops)
        joins.append(join)
    return counts, joins


def _joins(counts: Shaped[Ints, "class group"], classes: Classes) -> tuple[SmallInts, SmallInts]:
    """(the first join of each class's groups, the ops of each join), from the ops of each class in its groups.

    Ops of different classes that are one collective have one join; -1 where a class meets only its like.
    """
    first = np.full(counts.shape, -1, np.int32)
    taken, sizes = 0, [no_ops()]
    for g, name in enumerate(_GROUPS):
        number = classes.groups[name]
        for members in np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1]):
            meeting = members[counts[members, g] > 0]
            if len(meeting) < 2:
                continue
            count = int(counts[meeting[0], g])
            assert np.all(counts[meeting, g] == count), (name, counts[meeting, g])
            first[meeting, g] = taken
            sizes.append(np.full(count, len(meeting), np.int32))
            taken += count
    return first, np.concatenate(sizes)


def group_of(piece: Piece) -> str:
    """The group whose members do a piece together, "" for none."""
    if piece.name in ("embedding gradients", "gradient norm"):
        return "ends" if piece.name == "embedding gradients" else "all"
    return (
        _JOINED.get(piece.kind, "")
        if piece.stream in (Stream.GROUP, Stream.DATA) and piece.seconds > 0
        else ""
    )


def _streams(count: int, share: float) -> Streams:
    """Exchanges of data-parallel ranks take a share of the speed of simultaneous compute."""
    kind = np.tile(np.arange(STREAMS), count)
    return Streams(
        domain=np.repeat(np.arange(count), STREAMS).astype(np.int32), slows=kind == Stream.DATA,
        slowed=(kind == Stream.COMPUTE) | (kind == Stream.GROUP), share=share,
    )  # fmt: skip
