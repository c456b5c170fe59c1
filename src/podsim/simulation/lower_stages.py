"""What each pipeline rank holds and exchanges, as the lowering needs it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.kernels.elementwise import optimizer_seconds
from podsim.network.bus import ring_share
from podsim.schedules import ScheduleTable
from podsim.simulation.passes import Stage
from podsim.simulation.pieces import Piece, Stream
from podsim.training.groups import Sends, exchanges, owned, send_bytes, tied
from podsim.training.memory import Weights, recomputed_share, weight_table
from podsim.training.pipeline import part_blocks
from podsim.training.plan import Array, Grid, Placement, Plan
from podsim.training.shapes import element_bytes
from podsim.training.software import Software
from podsim.training.step import Prepared
from podsim.workload.graph import Model


def stages_of(
    model: Model, cluster: Cluster, plan: Plan, ready: Prepared, table: ScheduleTable
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
    model: Model, cluster: Cluster, plan: Plan, ready: Prepared, parts: list[tuple[int, ...]], ends: bool
) -> Stage:
    """The stage of a rank that holds these parts; `ends`: one of those that share a tied embedding."""
    software, wide = ready.software, plan.arrays().wide()
    weights = weight_table(model, wide)
    blocks = np.concatenate([np.array(part, np.int64) for part in parts])
    counts_BK = np.bincount(blocks, minlength=len(model.kinds)).astype(float)[:, None]
    found = exchanges(model, cluster, wide, software, weights, counts_BK)
    reduce, gather, layer_gather, layer_reduce = (float(value[0]) for value in found[:4])
    update = optimizer_seconds(cluster.gpu, owned(wide, weights, counts_BK), software.optimizer_traffic)
    zero, sends = int(plan.zero), Sends(*(column[0] for column in ready.sends.table))
    sizes = _bytes(cluster, plan, software, counts_BK, weights)

    def data(name: str, seconds: float, size: tuple[float, float]) -> Piece:
        return Piece(
            name=name, kind="dp", seconds=seconds, message=size[0], bytes=size[1], stream=Stream.DATA
        )

    closing = [data("gradients reduced", reduce if zero == 3 else 0.0, sizes[4])]
    both = (
        float(tied(model, cluster, wide, software, weights.dense_BK[0])[0])
        if int(plan.pp) > 1 and ends
        else 0.0
    )
    if both > 0.0:
        closing.append(Piece(name="embedding gradients", kind="dp", seconds=both, stream=Stream.DATA))
    closing.append(Piece(name="gradient norm", kind="optimizer", seconds=0.0))
    updated = float(update[0]) / software.memory_speed + software.host_update * float(counts_BK[1:-1].sum())
    closing.append(Piece(name="optimizer", kind="optimizer", seconds=updated))
    if zero in (1, 2) and not plan.overlap_param and gather > 0.0:
        closing.append(data("weights", gather, sizes[1]))
    closing.append(Piece(name="host", kind="host", seconds=software.host_step))
    homes = 2 if wide.placement == Placement.TWO_WAYS else 1  # what is recomputed is told of one part
    share = recomputed_share(wide, counts_BK[None] / homes)
    charge = float(sends.mean_K) * software.pipeline_exposed + software.host_send
    sent = float(send_bytes(model, wide, software)[1][0])
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    beside = int(grid.stages) if grid.pipeline_crosses and cluster.nodes > 1 else int(plan.pp)
    near = float(sends.near_K)
    far = near + float(sends.further_K)
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
    cluster: Cluster, plan: Plan, software: Software, counts_BK: Array, weights: Weights
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
    per_block_B = (weights.dense_BK + weights.expert_BK)[:, 0]
    whole, layer = float(counts_BK[:, 0] @ per_block_B), float(per_block_B[1:-1].max())
    times = 1.0 if int(plan.zero) else 2.0
    stored, gradient = element_bytes(plan.precision), software.gradient_bytes
    edges = float(per_block_B[0] + per_block_B[-1])
    messages = (whole * gradient, whole * stored, layer * stored, layer * gradient, edges * gradient)
    return [(size, size * share * more) for size, more in zip(messages, (times, 1, 1, 1, 1), strict=True)]
