"""A collective operation as a table of transfers: who sends which chunk to whom, in which step, to add or to keep.

One row is one transfer of `count` neighbouring chunks from `source` to `destination`: at the end of `step` the
destination has copied them, or (`reduce`) added them to what it had. Everything sent in a step was there when the step
began. What is to be achieved is in the chunks: `home` says where a chunk starts (EVERYWHERE: each rank has its own
part of a sum) and `goal` where it must end (EVERYWHERE: at every rank).

                    home        goal                             home    goal
    all-reduce      everywhere  everywhere      broadcast        root    everywhere
    reduce-scatter  everywhere  rank            gather           rank    root
    reduce          everywhere  root            scatter          root    rank
    all-gather      rank        everywhere      all-to-all, p2p  rank    rank

A row may stand for a train of transfers: `repeat` of them, in steps step, step + 1, ..., between the same two ends, the
chunks turning inside their wheel (the aligned block of `wheel` chunks they lie in) by `turn` x count each time. A ring
over n ranks is 2 n trains instead of 2 n (n - 1) rows; `expand` writes the rows out. All algorithms, proofs,
costs and simulations take trains as they are.

`size` is everywhere what nccl-tests calls size: the bytes of the largest buffer of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Bools, Floats, Ints
from podsim.errors import TableError
from podsim.records import dataclass, replace

EVERYWHERE = -1
MOST_ROWS = 50_000_000
COLLECTIVES = (
    "all-reduce", "reduce-scatter", "reduce", "all-gather", "broadcast", "gather", "scatter", "all-to-all", "send-recv",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A collective as transfers; `make_table` fills in what is usual. Arrays of rows unless said otherwise."""

    name: str
    collective: str
    ranks: int
    chunks: int
    switches: int
    """The number of switches, nodes with numbers ranks, ranks + 1, ...: they add up and pass on, with a port for each
    neighbour."""
    lockstep: bool
    """Whether a step starts when all of the step before has arrived; otherwise a transfer starts when its own data are
    there."""
    step: Ints
    source: Ints
    destination: Ints
    chunk: Ints
    """The first chunk of the transfer (of the first one of a train)."""
    count: Ints
    """The number of neighbouring chunks in one transfer."""
    reduce: Bools
    """Whether the destination adds; otherwise it keeps a copy."""
    own: Bools
    """Whether the source sends its own input, as it was before the collective, rather than its present content."""
    channel: Ints
    """The channel; transfers between the same ends on one channel run one after the other."""
    repeat: Ints
    turn: Ints
    """The direction: +1, 0 or -1."""
    wheel: Ints
    home: Ints
    """The start of each chunk, [chunks]."""
    goal: Ints
    """The end of each chunk, [chunks]."""
    sizes: Floats
    """share. The chunk sizes relative to `size`, [chunks]."""

    @property
    def nodes(self) -> int:
        """Ranks and switches."""
        return self.ranks + self.switches

    @property
    def transfers(self) -> int:
        """The number of transfers, with those of trains counted one by one."""
        return int(self.repeat.sum())


ROW_FIELDS = (
    "step", "source", "destination", "chunk", "count", "reduce", "own", "channel", "repeat", "turn", "wheel",
)  # fmt: skip
USUAL: dict[str, ArrayLike] = {
    "count": 1,
    "reduce": False,
    "own": False,
    "channel": 0,
    "repeat": 1,
    "turn": 0,
    "wheel": 1,
}
"""columns of rows that may be left out"""


class ChunkColumns(TypedDict, total=False):
    """The properties of each chunk, one value for all or [chunks]; None for the usual one."""

    home: ArrayLike | None
    """The rank that has the chunk first."""
    goal: ArrayLike | None
    """The rank that has it in the end."""
    sizes: ArrayLike | None
    """share. The share of `size`."""


def make_table(
    name: str,
    collective: str,
    rows: Mapping[str, ArrayLike],
    *,
    ranks: int,
    chunks: int,
    switches: int = 0,
    lockstep: bool = False,
    **of_chunks: Unpack[ChunkColumns],
) -> Table:
    """A Table of rows given as columns, names as in Table; one number serves all rows, USUAL ones may be left out.

        make_table("pair", "all-reduce", {"step": [0, 1], "source": [0, 1], "destination": [1, 0], "chunk": 0,
                                          "reduce": [True, False]}, ranks=2, chunks=1)

    What is true of each row is for `check` to say. home and goal: one rank for all chunks, or [chunks]; default by
    `collective`, with rank 0 as the root, chunk c of the scattered kinds belonging to rank c // (chunks / ranks), and
    chunk (s, d) of an all-to-all being s * ranks + d. sizes: shares of `size`, [chunks]; default equal shares of one
    rank's buffer. Raises TableError for an unknown collective or column, no ranks, and arrays that do not fit.
    """
    if collective not in COLLECTIVES:
        raise TableError(f"unknown collective {collective!r}; known: {', '.join(COLLECTIVES)}")
    if ranks < 1 or chunks < 1 or switches < 0:
        raise TableError(
            f"{name}: {ranks} ranks, {chunks} chunks and {switches} switches; at least 1, 1 and 0"
        )
    given = USUAL | dict(rows)
    if wrong := sorted(set(given) ^ set(ROW_FIELDS)):
        raise TableError(
            f"{name}: columns {', '.join(wrong)} unknown or missing; rows have {', '.join(ROW_FIELDS)}"
        )
    if unknown := sorted(set(of_chunks) - set(ChunkColumns.__annotations__)):
        raise TableError(f"{name}: {', '.join(unknown)} unknown; chunks have home, goal and sizes")
    home, goal = _ends(collective, ranks, chunks)
    equal = 1.0 / (ranks if collective == "all-to-all" else chunks)
    try:
        full = np.broadcast_arrays(*(np.atleast_1d(np.asarray(given[key])) for key in ROW_FIELDS))
        ends = [
            np.broadcast_to(np.asarray(default if end is None else end, np.int64), chunks).copy()
            for end, default in ((of_chunks.get("home"), home), (of_chunks.get("goal"), goal))
        ]
        sizes = of_chunks.get("sizes")
        share = np.broadcast_to(np.asarray(equal if sizes is None else sizes, np.float64), chunks).copy()
    except ValueError as error:
        raise TableError(f"{name}: rows, home, goal or sizes do not fit each other: {error}") from None
    for chunk in np.flatnonzero(~((share >= 0.0) & np.isfinite(share)))[:1]:
        raise TableError(f"{name}: chunk {chunk} has size {share[chunk]}; it must be finite and not negative")
    columns: dict[str, Any] = {
        key: np.ascontiguousarray(row, np.bool_ if key in ("reduce", "own") else np.int64)
        for key, row in zip(ROW_FIELDS, full, strict=True)
    }
    return Table(
        name=name, collective=collective, ranks=ranks, chunks=chunks, switches=switches, lockstep=lockstep,
        home=ends[0], goal=ends[1], sizes=share, **columns,
    )  # fmt: skip


def _ends(collective: str, ranks: int, chunks: int) -> tuple[ArrayLike, ArrayLike]:
    """Default home and goal of the chunks."""
    owner = np.arange(chunks) // max(chunks // ranks, 1)
    ends: dict[str, tuple[ArrayLike, ArrayLike]] = {
        "all-reduce": (EVERYWHERE, EVERYWHERE),
        "reduce-scatter": (EVERYWHERE, owner),
        "reduce": (EVERYWHERE, 0),
        "all-gather": (owner, EVERYWHERE),
        "broadcast": (0, EVERYWHERE),
        "gather": (owner, 0),
        "scatter": (0, owner),
        "all-to-all": (np.arange(chunks) // ranks, np.arange(chunks) % ranks),
        "send-recv": (0, min(1, ranks - 1)),
    }
    return ends[collective]


def position(table: Table, rows: Ints, times: ArrayLike) -> Ints:
    """First chunk of the given rows at the given repetitions, same shape."""
    chunk, wheel = table.chunk[rows], np.maximum(table.wheel[rows], 1)
    moving = table.turn[rows] != 0
    base = chunk // wheel * wheel
    turned = (
        base + (chunk - base + table.turn[rows] * table.count[rows] * np.asarray(times, np.int64)) % wheel
    )
    return np.where(moving, turned, chunk)


def row_share(table: Table, rows: Ints, times: ArrayLike) -> Floats:
    """Bytes of each given transfer as a share of `size`."""
    ends = np.concatenate([[0.0], np.cumsum(table.sizes)])
    first = position(table, rows, times)
    is_single = table.count[rows] == 1
    last = np.where(is_single, first, first + table.count[rows])
    return np.where(is_single, table.sizes[first], ends[last] - ends[first])


def expand(table: Table) -> tuple[Table, Ints]:
    """The same table with every train written out, in order of steps; and which row each new row came from.

    Raises TableError above 50 million rows.
    """
    if table.transfers > MOST_ROWS:
        raise TableError(f"{table.name}: {table.transfers} transfers written out; at most {MOST_ROWS}")
    rows = np.repeat(np.arange(len(table.step)), table.repeat)
    times = np.arange(len(rows)) - np.repeat(np.cumsum(table.repeat) - table.repeat, table.repeat)
    order = np.argsort(table.step[rows] + times, kind="stable")
    rows, times = rows[order], times[order]
    columns: dict[str, Any] = {key: getattr(table, key)[rows] for key in ROW_FIELDS}
    columns["step"] = table.step[rows] + times
    columns["chunk"] = position(table, rows, times)
    still = np.zeros(len(rows), np.int64)
    columns.update(repeat=still + 1, turn=still, wheel=still + 1)
    return replace(table, **columns), rows


def split(table: Table, elements: int) -> Table:
    """The table for a buffer of a number of elements; if chunks do not divide it, the first ones are one longer."""
    buffer = table.ranks if table.collective == "all-to-all" else table.chunks
    if elements < 1:
        raise TableError(f"{table.name}: {elements} elements; at least one is needed")
    index = np.arange(table.chunks) % buffer
    return replace(table, sizes=(elements // buffer + (index < elements % buffer)) / elements)
