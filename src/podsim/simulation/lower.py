"""What each pipeline rank holds and exchanges, as the lowering needs it.

A plan as ops: every pass of every micro-batch on every class of ranks, with the collectives that join them.

    schedule table ─┐
    passes as pieces ┴─▶ one row for each pipeline rank ── classes of ranks ──▶ Ops
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, NarrowInts, Shaped, SmallInts
from podsim.errors import SimulationError
from podsim.hardware.cluster import Cluster
from podsim.kernels.elementwise import optimizer_seconds
from podsim.network.bus import ring_share
from podsim.schedules.actions import ScheduleTable
from podsim.schedules.entries import build
from podsim.simulation.drafts import Catalog
from podsim.simulation.lower_links import (
    Classes,
    Trouble,
    divide,
    marks_of,
    rank_number,
    throttled_seconds,
    transfers_of,
)
from podsim.simulation.ops import Ops, Tiled
from podsim.simulation.passes import Row, Stage, Writer, write_row
from podsim.simulation.pieces import Piece, Stream, block_pieces
from podsim.simulation.tiling import tiled_ops
from podsim.training.batch import PlanTables, prepare
from podsim.training.groups import owned_parameters, send_bytes, stage_exchanges, tied_seconds
from podsim.training.memory import Weights, weight_table
from podsim.training.pipeline_stages import part_blocks, recomputed_share
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Array, Grid, Placement, Schedule
from podsim.training.shapes import element_bytes
from podsim.training.software import Software
from podsim.workload.model import Model


def stages_of(
    model: Model, cluster: Cluster, plan: Plan, ready: PlanTables, table: ScheduleTable
) -> list[Stage]:
    """Each pipeline rank's stage."""
    parts = part_blocks(model.order, len(model.kinds), table.parts)
    held = [
        sorted({int(p) for p in table.stage_part[table.stage_rank == rank]}) for rank in range(table.ranks)
    ]
    made: dict[tuple[object, ...], Stage] = {}
    out = []
    for rank, own in enumerate(held):
        ends = rank in (
            int(table.stage_rank[0]),
            int(table.stage_rank[table.stage_part == table.parts - 1][0]),
        )
        key = (tuple(parts[p] for p in own), ends)
        if key not in made:
            made[key] = _stage(model, cluster, plan, ready, [parts[p] for p in own], ends)
        out.append(replace(made[key], parts={p: parts[p] for p in own}))
    return out


def _stage(
    model: Model, cluster: Cluster, plan: Plan, ready: PlanTables, parts: list[tuple[int, ...]], ends: bool
) -> Stage:
    """The stage of a rank that holds these parts; `ends`: it shares a tied embedding."""
    software, wide = ready.software, plan.arrays().wide()
    weights = weight_table(model, wide)
    blocks = np.concatenate([np.array(part, np.int64) for part in parts])
    counts = np.bincount(blocks, minlength=len(model.kinds)).astype(float)[:, None]  # [kind, plan]
    exchanges = stage_exchanges(model, cluster, wide, software, weights, counts)
    reduce, gather, layer_gather, layer_reduce = (
        float(value[0]) for value in [*vars(exchanges).values()][:4]
    )
    update = optimizer_seconds(
        cluster.gpu, owned_parameters(wide, weights, counts), software.optimizer_traffic
    )
    zero, sends = int(plan.exchange_level), ready.sends.table
    sizes = _bytes(cluster, plan, software, counts, weights)

    def data(name: str, seconds: float, size: tuple[float, float]) -> Piece:
        return Piece(
            name=name, kind="dp", seconds=seconds, message=size[0], bytes=size[1], stream=Stream.DATA
        )

    closing = [data("gradients reduced", *((reduce, sizes[4]) if zero == 3 else (0.0, (0.0, 0.0))))]
    both = (
        float(tied_seconds(model, cluster, wide, software, (weights.trained or weights).dense[0])[0])
        if int(plan.pp) > 1 and ends
        else 0.0
    )
    if both > 0.0:
        closing.append(Piece(name="embedding gradients", kind="dp", seconds=both, stream=Stream.DATA))
    closing.append(Piece(name="gradient norm", kind="optimizer", seconds=0.0))
    updated = float(update[0]) / software.memory_speed + software.host_update * float(counts[1:-1].sum())
    closing.append(Piece(name="optimizer", kind="optimizer", seconds=updated))
    if zero in (1, 2) and not plan.overlap_param and gather > 0.0:
        closing.append(data("weights", gather, sizes[1]))
    closing.append(Piece(name="host", kind="host", seconds=software.host_step))
    homes = 2 if wide.placement == Placement.TWO_WAYS else 1  # the recomputation is of one part
    share = recomputed_share(wide, counts[None] / homes)
    charge = float(sends.mean_seconds[0]) * software.pipeline_exposed + software.host_send
    sent = float(send_bytes(model, wide, software)[1][0])
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    beside = int(grid.stages) if grid.pipeline_crosses and cluster.nodes > 1 else int(plan.pp)
    near = float(sends.near_seconds[0])
    far = near + float(sends.further_seconds[0])
    return Stage(
        parts={}, edges=(0, len(model.kinds) - 1), again=1.0 if share is None else float(share[0, 0]),
        reduce=data("gradients", reduce if zero < 3 else 0.0, sizes[0]),
        gather=data("weights", gather if zero in (1, 2) else 0.0, sizes[1]),
        layer_gather=data("layer weights", layer_gather, sizes[2]),
        layer_reduce=data("layer gradients", layer_reduce, sizes[3]), ends=tuple(closing),
        near=Piece(name="send", kind="send", seconds=near, message=sent, stream=Stream.AHEAD),
        far=Piece(name="send", kind="send", seconds=far, message=sent, bytes=sent, stream=Stream.AHEAD), beside=beside,
        charge=Piece(name="send and receive", kind="pp", seconds=charge),
    )  # fmt: skip


def _bytes(
    cluster: Cluster, plan: Plan, software: Software, counts: Shaped[Array, "kind plan"], weights: Weights
) -> list[tuple[float, float]]:
    """(B of a message, B that leave a node): the stage's gradients and weights, a layer's weights and gradients, the
    gradients of embedding and head.

    A ring over N nodes with g ranks on each takes (N - 1) / N of the bytes out of every node, over g adapters; an
    all-reduce twice.
    """
    ranks = int(plan.dp) * int(plan.cp)
    members = int(Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).data(ranks))
    nodes = max(ranks // members, 1)
    share = ring_share(nodes) / members
    trained, held = weights.trained or weights, weights.stored or weights
    per_block = (trained.dense + trained.expert)[:, 0]
    stage, layer = float(counts[:, 0] @ per_block), float(per_block[1:-1].max())
    whole_layer = float((held.dense + held.expert)[1:-1, 0].max())
    times = 1.0 if int(plan.zero) else 2.0
    stored, gradient = element_bytes(plan.precision), software.gradient_bytes
    edges = float(per_block[0] + per_block[-1])
    messages = (stage * gradient, stage * stored, whole_layer * stored, layer * gradient, edges * gradient)
    return [(size, size * share * more) for size, more in zip(messages, (times, 1, 1, 1, 1), strict=True)]


MOST_OPS = 120_000_000
"""ops beyond which nothing is lowered: they would need more than 8 GiB"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lowered:
    """A step, ready to be played."""

    tiled: Tiled
    pieces: list[Piece]
    classes: Classes
    rows: list[Row]
    """The rows of the pipeline ranks, for each type of GPU."""
    row_of: Ints
    """The row of each class, [class]."""
    tables: list[ScheduleTable]
    """The table of each type of rank, with as many micro-batches as its replica has; rows r : r + ranks are of type r /
    ranks."""
    table: ScheduleTable
    ready: PlanTables
    link_names: tuple[str, ...]
    changed: Ops | None = None
    """The ops that are played instead of those of `tiled`."""

    @property
    def base(self) -> Ints:
        """The start of the ops of each class: base[c] : base[c + 1], [C + 1]."""
        return self.tiled.base

    @cached_property
    def ops(self) -> Ops:
        """The ops one by one, which a timeline or a failure needs."""
        return self.changed or self.tiled.flat()

    @cached_property
    def what(self) -> NarrowInts:
        """The number of the piece of each op, [op]."""
        return self.tiled.each([row.what for row in self.rows])

    @cached_property
    def micro(self) -> NarrowInts:
        """The micro-batch of each op, -1 for none, [op]."""
        return self.tiled.each([row.micro for row in self.rows])

    def of_rows(self, columns: Sequence[NDArray[Any]], ops: Ints) -> NDArray[Any]:
        """The values of some ops in a column, given that of each row."""
        owner = np.searchsorted(self.base, ops, side="right") - 1
        sizes = np.array([len(column) for column in columns])
        first = (np.cumsum(sizes) - sizes)[self.row_of[owner]]
        values: NDArray[Any] = np.concatenate(columns)[first + ops - self.base[owner]]
        return values


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
    readies = {gpu: prepare(model, pool, plan) for gpu, pool in made.items()}
    ready, tables = readies[""], [schedule_table(plan, count) for _, count in kinds]
    rows: list[Row] = []
    for (gpu, _), table in zip(kinds, tables, strict=True):
        pool, own = made[gpu], readies[gpu]
        common: dict[str, Any] = {
            "software": own.software, "table": table, "blocks": block_pieces(own, pool), "kernels": kernels,
        }  # fmt: skip
        rows += [
            write_row(Writer(plan=plan, rank=rank, stage=stage, **common), catalog)
            for rank, stage in enumerate(stages_of(model, pool, plan, own, table))
        ]
    classes = divide(plan, marks, unfold=unfold or trouble.jitter > 0)
    stage_of = classes.first[:, 0] + kind[tuple(classes.first.T)] * int(plan.pp)
    sizes = np.array([len(row.what) for row in rows])
    base = np.concatenate([[0], np.cumsum(sizes[stage_of])])
    if base[-1] > MOST_OPS:
        raise SimulationError(
            f"{base[-1]:,} ops to play, more than {MOST_OPS:,}: fold equal ranks (no ranks=all), or fewer micro-batches"
        )
    wired = transfers_of(
        cluster,
        plan,
        catalog.pieces,
        lambda: np.concatenate([rows[r].what for r in stage_of]),
        classes,
        base,
        trouble,
    )
    tiled = tiled_ops(catalog.pieces, rows, stage_of, tables, classes, wired, ready.software.contention)
    lowered = Lowered(
        tiled=tiled, pieces=catalog.pieces, classes=classes, rows=rows, row_of=stage_of, tables=tables,
        table=tables[0], ready=ready, link_names=wired.names,
    )  # fmt: skip
    if trouble.slow or trouble.throttle or trouble.jitter > 0 or len(wired.stretch) > 1 or len(readies) > 1:
        seconds = _op_seconds(lowered, trouble) * wired.stretch
        if len(readies) > 1:
            seconds = _slowest_seconds(seconds, tiled.join)
        lowered = replace(lowered, tiled=replace(tiled, seconds=seconds))
    return lowered


def _op_seconds(lowered: Lowered, trouble: Trouble) -> Floats:
    """Seconds of every op, slow and hot GPUs and noise counted."""
    pieces, what, classes, base = lowered.pieces, lowered.what, lowered.classes, lowered.base
    table = np.array([piece.seconds for piece in pieces])
    kernels = np.array([piece.stream == Stream.COMPUTE for piece in pieces])
    seconds = table[what]
    for rank, factor in trouble.slow.items():
        c = int(classes.label.ravel()[rank])
        part = slice(int(base[c]), int(base[c + 1]))
        seconds[part] = np.where(kernels[what[part]], table[what[part]] * factor, seconds[part])
    if trouble.jitter > 0:
        rng = np.random.default_rng(trouble.seed)
        noise = np.exp(rng.standard_normal(len(seconds)) * trouble.jitter - trouble.jitter**2 / 2)
        seconds = np.where(kernels[what], seconds * noise, seconds)
    for rank, (factor, tau) in trouble.throttle.items():
        c = int(classes.label.ravel()[rank])
        own = int(base[c]) + np.flatnonzero(kernels[what[base[c] : base[c + 1]]])
        seconds[own] = throttled_seconds(seconds[own], factor, tau)
    return np.asarray(seconds)


def _slowest_seconds(seconds: NDArray[np.float64], join: SmallInts) -> NDArray[np.float64]:
    """Collectives of unequal ranks go at the pace of the slowest of them."""
    met = join >= 0
    longest = np.zeros(int(join.max(initial=-1)) + 1)
    np.maximum.at(longest, join[met], seconds[met])
    out = seconds.copy()
    out[met] = longest[join[met]]
    return out


def ranks_text(classes: Classes, plan: Plan, c: int) -> str:
    """Which ranks a class stands for: "rank 5", "8 ranks from 0"."""
    pipeline, data, tensor = classes.first[c].tolist()
    first = int(rank_number(plan, pipeline, data, tensor))
    copies = int(classes.copies[c])
    return f"rank {first}" if copies == 1 else f"{copies} ranks from {first}"
