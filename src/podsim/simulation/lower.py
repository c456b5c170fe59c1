"""A plan as ops: every pass of every micro-batch on every class of ranks, with the collectives that join them.

    schedule table ─┐
    passes as pieces ┴─▶ one row for each pipeline rank ── classes of ranks ──▶ Ops

Axes: R pipeline ranks, X data and context ranks, T tensor ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import SimulationError
from podsim.hardware.cluster import Cluster
from podsim.schedules import ScheduleTable, build
from podsim.simulation.drafts import Catalog, Ints
from podsim.simulation.events import Ops, Streams
from podsim.simulation.lower_links import Classes, divide, rank_number, transfers_of
from podsim.simulation.lower_marks import Trouble, marks_of, throttled
from podsim.simulation.lower_stages import stages_of
from podsim.simulation.passes import Writer
from podsim.simulation.pieces import Piece, Stream, block_pieces
from podsim.simulation.rows import Row, row_of
from podsim.simulation.state import Small
from podsim.training.plan import SCHEDULE_CODES, Plan, Schedule
from podsim.training.step import Prepared, prepare
from podsim.workload.graph import Model

STREAMS = len(Stream)
_JOINED = {"tp": "tp", "tp beside": "tp", "cp": "cp", "ep": "ep", "dp": "dp"}
MOST_OPS = 120_000_000
"""ops beyond which nothing is lowered: they would need more than 8 GiB"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lowered:
    """A step, ready to be played."""

    ops: Ops
    what: Ints
    """[N] number of the piece of each op"""
    micro: Ints
    """[N] micro-batch, -1 for none"""
    pieces: list[Piece]
    classes: Classes
    base: Ints
    """[C + 1] ops of class c are base[c] : base[c + 1]"""
    rows: list[Row]
    """of the pipeline ranks, for each type of GPU"""
    row_of: Ints
    """[C] the row of each class"""
    tables: list[ScheduleTable]
    """of each type of rank: as many micro-batches as its replica has; rows r : r + ranks are of type r / ranks"""
    table: ScheduleTable
    ready: Prepared
    link_names: tuple[str, ...]


def schedule_table(plan: Plan, micro_batches: int = 0) -> ScheduleTable:
    """The plan's schedule, perhaps for another number of micro-batches; one stage runs each forward and back."""
    count = micro_batches or int(plan.micro_batches)
    if int(plan.pp) == 1:
        return build("1f1b", 1, 1, count)
    name = {code: text for text, code in SCHEDULE_CODES.items()}[Schedule(int(plan.schedule))]
    return build(name, int(plan.pp), int(plan.virtual_stages), count)


def lower(
    model: Model, cluster: Cluster, plan: Plan, *, kernels: bool = True, unfold: bool = False,
    trouble: Trouble | None = None,
) -> Lowered:  # fmt: skip
    """The ops of one step under a scalar, legal plan.

    `kernels` false: what lies between two collectives is one op, which changes no time. `unfold`: every rank by
    itself, not classes of equal ranks. Raises SimulationError for a rank that does not exist, or too many ops.
    """
    trouble = trouble or Trouble()
    marks, kind, kinds = marks_of(plan, trouble, cluster)
    catalog = Catalog()
    made = {
        gpu: cluster.having(gpu) if gpu else cluster for gpu in dict.fromkeys(["", *(g for g, _ in kinds)])
    }
    readies = {gpu: prepare(model, one, plan) for gpu, one in made.items()}
    ready, tables = readies[""], [schedule_table(plan, count) for _, count in kinds]
    rows: list[Row] = []
    for (gpu, _), table in zip(kinds, tables, strict=True):
        one, own = made[gpu], readies[gpu]
        common: dict[str, Any] = {
            "software": own.software, "table": table, "blocks": block_pieces(own, one), "kernels": kernels,
        }  # fmt: skip
        rows += [
            row_of(Writer(plan=plan, rank=rank, stage=stage, **common), catalog)
            for rank, stage in enumerate(stages_of(model, one, plan, own, table))
        ]
    classes = divide(plan, marks, unfold=unfold or trouble.jitter > 0)
    stage_of = classes.first[:, 0] + kind[tuple(classes.first.T)] * int(plan.pp)
    sizes = np.array([len(row.what) for row in rows])
    base = np.concatenate([[0], np.cumsum(sizes[stage_of])])
    if base[-1] > MOST_OPS:
        raise SimulationError(
            f"{base[-1]:,} ops to play, more than {MOST_OPS:,}: fold equal ranks (no ranks=all), or fewer micro-batches"
        )
    what = np.concatenate([rows[r].what for r in stage_of])
    stream = np.concatenate([rows[r].stream + c * STREAMS for c, r in enumerate(stage_of)]).astype(np.int32)
    before, after = _edges(rows, stage_of, tables, classes, base)
    wired = transfers_of(cluster, plan, catalog.pieces, what, classes, base, trouble.link)
    seconds = _seconds(catalog.pieces, what, classes, base, trouble) * wired.stretch
    join = _joins(catalog.pieces, rows, stage_of, classes, base)
    if len(readies) > 1:
        seconds = _as_the_slowest(seconds, join)
    ops = Ops(
        stream=stream, seconds=seconds, before=before, after=after, join=join,
        transfer=wired.kind, transfers=wired.transfers, streams=_streams(classes.count, ready.software.contention),
    )  # fmt: skip
    return Lowered(
        ops=ops, what=what, micro=np.concatenate([rows[r].micro for r in stage_of]), pieces=catalog.pieces,
        classes=classes, base=base, rows=rows, row_of=stage_of, tables=tables, table=tables[0],
        ready=ready, link_names=wired.names,
    )  # fmt: skip


def _edges(
    rows: list[Row], row_of: Ints, tables: list[ScheduleTable], classes: Classes, base: Ints
) -> tuple[Small, Small]:
    """(before, after): edges inside each class, and from what one stage sends to what the next one does with it."""
    before = [row_edges(rows[r])[0] + base[c] for c, r in enumerate(row_of)]
    after = [row_edges(rows[r])[1] + base[c] for c, r in enumerate(row_of)]
    ranks = tables[0].ranks
    sent = [np.concatenate([row.sent for row in rows[k : k + ranks]]) for k in range(0, len(rows), ranks)]
    for c, r in enumerate(classes.first[:, 0].tolist()):
        table = tables[row_of[c] // ranks]
        owner, actions = table.rank, np.arange(table.pointer[r], table.pointer[r + 1])
        source = table.need[actions]
        moved = (source >= 0) & (owner[np.maximum(source, 0)] != r)
        source, first = source[moved], rows[row_of[c]].first[moved]
        senders = classes.line_CR[c, owner[source]]
        types = row_of[senders] // ranks  # a pipeline may have GPUs of several types, not several tables
        ops = np.empty(len(source), np.int64)
        for one in np.unique(types).tolist():
            ops[types == one] = sent[one][source[types == one]]
        assert np.all(ops >= 0)
        before.append(base[senders] + ops)
        after.append(base[c] + first)
    return np.concatenate(before).astype(np.int32), np.concatenate(after).astype(np.int32)


def row_edges(row: Row) -> tuple[Ints, Ints]:
    """Edges of a row between streams; a stream's own order needs none."""
    apart = row.stream[row.before] != row.stream[row.after]
    return row.before[apart], row.after[apart]


def _seconds(
    pieces: list[Piece], what: Ints, classes: Classes, base: Ints, trouble: Trouble
) -> NDArray[np.float64]:
    """Seconds of every op, slow and hot GPUs and noise counted."""
    table = np.array([piece.seconds for piece in pieces])
    kernels = np.array([piece.stream == Stream.COMPUTE for piece in pieces])
    seconds = table[what]
    for rank, factor in trouble.slow.items():
        c = int(classes.label_RXT.ravel()[rank])
        part = slice(int(base[c]), int(base[c + 1]))
        seconds[part] = np.where(kernels[what[part]], table[what[part]] * factor, seconds[part])
    if trouble.jitter > 0:
        rng = np.random.default_rng(trouble.seed)
        noise = np.exp(rng.standard_normal(len(seconds)) * trouble.jitter - trouble.jitter**2 / 2)
        seconds = np.where(kernels[what], seconds * noise, seconds)
    for rank, (factor, tau) in trouble.throttle.items():
        c = int(classes.label_RXT.ravel()[rank])
        own = int(base[c]) + np.flatnonzero(kernels[what[base[c] : base[c + 1]]])
        seconds[own] = throttled(seconds[own], factor, tau)
    return np.asarray(seconds)


def _as_the_slowest(seconds: NDArray[np.float64], join: Small) -> NDArray[np.float64]:
    """Collectives of unequal ranks go at the pace of the slowest of them."""
    met = join >= 0
    longest = np.zeros(int(join.max(initial=-1)) + 1)
    np.maximum.at(longest, join[met], seconds[met])
    out = seconds.copy()
    out[met] = longest[join[met]]
    return out


def _joins(
    pieces: list[Piece], rows: list[Row], stage_of: Ints, classes: Classes, base: Ints
) -> NDArray[np.int32]:
    """Ops of different classes that are one collective, by number; -1 where a class meets only its like."""
    join = np.full(int(base[-1]), -1, np.int32)
    named = np.array([group_of(piece) for piece in pieces])
    taken = 0
    for name in ("tp", "cp", "ep", "dp", "ends", "all"):
        number = classes.groups[name]
        places = [np.flatnonzero(named[row.what] == name) for row in rows]
        for group in np.flatnonzero(np.bincount(number) > 1).tolist():
            members = np.flatnonzero(number == group)
            counts = {len(places[stage_of[c]]) for c in members}
            meeting = [int(c) for c in members if len(places[stage_of[c]])]
            if len(meeting) < 2:
                continue
            assert len(counts - {0}) == 1, (name, counts)
            for c in meeting:
                at = base[c] + places[stage_of[c]]
                join[at] = taken + np.arange(len(at))
            taken += max(counts)
    return join


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
    """Exchanges of data-parallel ranks take a share of the speed of what computes beside them."""
    kind = np.tile(np.arange(STREAMS), count)
    return Streams(
        domain=np.repeat(np.arange(count), STREAMS).astype(np.int32), slows=kind == Stream.DATA,
        slowed=(kind == Stream.COMPUTE) | (kind == Stream.GROUP), share=share,
    )  # fmt: skip


def ranks_text(classes: Classes, plan: Plan, c: int) -> str:
    """Which ranks a class stands for: "rank 5", "8 ranks from 0"."""
    pipeline, data, tensor = classes.first[c].tolist()
    first = int(rank_number(plan, pipeline, data, tensor))
    copies = int(classes.copies[c])
    return f"rank {first}" if copies == 1 else f"{copies} ranks from {first}"
