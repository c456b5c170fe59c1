"""What the data-parallel, embedding and pipeline groups exchange in a step, and the optimizer's share.

Axes: K plans (distinct keys), S classes of stages, P plans.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from podsim.network.nccl import send_seconds
from podsim.training.exchange import group_seconds
from podsim.training.kernels import optimizer_seconds
from podsim.training.memory import Weights, weight_table
from podsim.training.pipeline import stages_table
from podsim.training.plan import Array, Grid, Plan
from podsim.training.shapes import element_bytes, tokens
from podsim.training.software import Software

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.workload.graph import Model

__all__ = [
    "GROUP_KEY",
    "SEND_KEY",
    "Exchanges",
    "Groups",
    "exchanges",
    "group_table",
    "owned",
    "send_bytes",
    "send_table",
    "tied",
]

GROUP_KEY = ("tp", "pp", "virtual_stages", "dp", "cp", "ep", "zero", "shard")
SEND_KEY = ("tp", "pp", "dp", "cp", "micro_batch", "sequence_parallel")


@dataclass(frozen=True)
class Groups:
    """Seconds of a step's data-parallel communication if nothing hid it, and of its optimizer."""

    reduce_K: Array
    """gradients, once: all-reduce, or reduce-scatter (and all-reduce across shards)"""
    gather_K: Array
    """updated weights, once a step (ZeRO 1 and 2)"""
    layer_gather_K: Array
    """all-gather of one layer's weights (ZeRO 3)"""
    layer_reduce_K: Array
    """reduce-scatter of one layer's gradients (ZeRO 3)"""
    stage_layers_K: Array
    """layers of the largest stage"""
    embedding_K: Array
    """all-reduce of tied embedding gradients between first and last stage"""
    optimizer_K: Array

    def take(self, index: Array) -> Groups:
        """The plans at an index."""
        return Groups(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def exposed_weights(self, plan: Plan, forward_SP: Array, backward_SP: Array, software: Software) -> Array:
        """Seconds a micro-batch waits for ZeRO-3's weights and gradients in each class of stage (..., S, P).

        Gathers run one layer ahead of the compute they feed, forward and backward; compute beside them slows down.
        """
        full = np.asarray(plan.zero) == 3
        if not full.any():
            return np.zeros_like(forward_SP)
        n_P = self.stage_layers_K
        ahead_P = n_P * self.layer_gather_K
        late_P = n_P * self.layer_gather_K * software.late_gather
        behind_P = n_P * (self.layer_gather_K + self.layer_reduce_K) - late_P
        hides = np.asarray(plan.overlap_param).astype(bool)[..., None, :]
        wait = _beside(ahead_P, forward_SP, self.layer_gather_K, software.contention)
        wait_back = _beside(behind_P, backward_SP, self.layer_reduce_K, software.contention)
        once = (np.asarray(plan.pp) > 1) & (not software.regather)
        share = np.where(once, 1 / np.maximum(np.asarray(plan.micro_batches, dtype=float), 1), 1.0)
        return np.where(full, (np.where(hides, wait + wait_back, ahead_P + behind_P) + late_P) * share, 0.0)

    def exposed_gradients(
        self, plan: Plan, backward_P: Array, forward_P: Array, m_P: Array, software: Software
    ) -> Array:
        """Seconds of a step that wait for gradients to be reduced and weights to be gathered (..., P)."""
        zero = np.asarray(plan.zero)
        last_bucket = 1 / np.maximum(self.stage_layers_K, 1)
        times_P = np.where(zero == 2, m_P, 1.0)
        slowed_P = np.minimum(self.reduce_K, backward_P) * software.contention
        hidden_P = np.maximum(self.reduce_K - backward_P, self.reduce_K * last_bucket) + slowed_P
        reduce_P = times_P * np.where(np.asarray(plan.overlap_grad).astype(bool), hidden_P, self.reduce_K)
        ahead_P = np.maximum(self.gather_K - forward_P, self.gather_K * last_bucket)
        gather_P = np.where(np.asarray(plan.overlap_param).astype(bool), ahead_P, self.gather_K)
        return np.where(zero == 3, self.reduce_K, reduce_P + gather_P) + self.embedding_K


def _beside(communication_P: Array, compute_SP: Array, first_P: Array, contention: float) -> Array:
    """Waiting seconds when communication runs beside compute: the first piece, the excess, and the slow-down."""
    slowed_SP = np.minimum(communication_P, compute_SP) * contention
    return np.asarray(first_P + np.maximum(communication_P - compute_SP, 0.0) + slowed_SP)


def group_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Groups:
    """Groups of K plans that differ in GROUP_KEY; gradients are those of the first stage: its backward ends last."""
    weights = weight_table(model, plan)
    stages = stages_table(model, plan)
    found = exchanges(model, cluster, plan, software, weights, stages.counts_SBU[0])
    heaviest_K = np.zeros(plan.size)
    for counts_BK in stages.counts_SBU:
        heaviest_K = np.maximum(heaviest_K, owned(plan, weights, counts_BK))
    return Groups(
        **found._asdict(),
        stage_layers_K=stages.counts_SBU[:, 1:-1].sum(axis=1).max(axis=0),
        embedding_K=tied(model, cluster, plan, software, weights.dense_BK[0]),
        optimizer_K=optimizer_seconds(cluster.gpu, heaviest_K, software.optimizer_traffic)
        / software.memory_speed,
    )


class Exchanges(NamedTuple):
    """Seconds of what one pipeline stage exchanges with its data-parallel peers, if nothing hid it."""

    reduce_K: Array
    gather_K: Array
    layer_gather_K: Array
    layer_reduce_K: Array


def owned(plan: Plan, weights: Weights, counts_BK: Array) -> Array:
    """Parameters that one rank's optimizer updates, of a stage that holds so many of each block (K,)."""
    shard_K = np.where(np.asarray(plan.zero) > 0, plan.shard_ranks, 1)
    dense_K, expert_K = (counts_BK * weights.dense_BK).sum(axis=0), (counts_BK * weights.expert_BK).sum(axis=0)
    return np.asarray(dense_K / shard_K + expert_K / np.maximum(shard_K // plan.ep, 1))


def exchanges(
    model: Model, cluster: Cluster, plan: Plan, software: Software, weights: Weights, counts_BK: Array
) -> Exchanges:
    """What a stage that holds so many of each block exchanges, for K plans."""
    zero = np.asarray(plan.zero)
    ranks_K = np.asarray(plan.dp * plan.cp)
    shard_K = np.where(zero > 0, plan.shard_ranks, 1)
    stored = element_bytes(plan.precision)
    exchange = _Exchange(cluster, plan, software)
    kinds = [(weights.dense_BK, ranks_K, shard_K)]
    if weights.expert_BK.any():
        fewer_K, part_K = np.maximum(ranks_K // plan.ep, 1), np.maximum(shard_K // plan.ep, 1)
        kinds.append((weights.expert_BK, fewer_K, part_K))
    full, once = zero == 3, np.isin(zero, (1, 2))
    reduce_K, gather_K, layer_gather_K, layer_reduce_K = np.zeros((4, plan.size))
    for per_block_BK, all_K, part_K in kinds:
        stage_K = (counts_BK * per_block_BK).sum(axis=0)
        layer_K = per_block_BK[1:-1].max(axis=0)
        edge_K = per_block_BK[0] + per_block_BK[-1]
        # what is reduced after the last layer
        last_K = np.where(full, edge_K, stage_K) * software.gradient_bytes
        reduce_K += exchange.reduce(last_K, all_K, part_K)
        gather_K += exchange.gather(stage_K * stored, np.where(once, part_K, 1))
        layer_gather_K += exchange.gather(layer_K * stored, np.where(full, part_K, 1))
        split_K = np.where(full, part_K, 1)
        layer_reduce_K += exchange.reduce(
            layer_K * software.gradient_bytes, np.where(full, all_K, 1), split_K
        )
    return Exchanges(reduce_K, gather_K, layer_gather_K, layer_reduce_K)


@dataclass(frozen=True)
class _Exchange:
    """Collectives over slices of the data-parallel group."""

    cluster: Cluster
    plan: Plan
    software: Software

    def _collective(self, name: str, size: Array, ranks: Array, members: Array) -> Array:
        return group_seconds(name, size, self.cluster, self.software, ranks=ranks, members=members)

    def gather(self, size_K: Array, ranks_K: Array) -> Array:
        """All-gather of size_K bytes in all over the first ranks_K data ranks."""
        return self._collective("all_gather", size_K, ranks_K, self._members(ranks_K))

    def reduce(self, size_K: Array, ranks_K: Array, shard_K: Array) -> Array:
        """Gradients of size_K bytes: all-reduce, or reduce-scatter in each shard group and all-reduce across them."""
        whole_ranks_K = np.where(shard_K > 1, 1, ranks_K)
        whole_K = self._collective("all_reduce", size_K, whole_ranks_K, self._members(whole_ranks_K))
        scatter_K = self._collective("reduce_scatter", size_K, shard_K, self._members(shard_K))
        copies_K = np.where(shard_K > 1, np.maximum(ranks_K // np.maximum(shard_K, 1), 1), 1)
        grid = Grid(gpus_per_node=self.cluster.gpus_per_node, plan=self.plan)
        members_K = grid.per_node(copies_K, np.asarray(self.plan.tp) * shard_K)
        across_K = self._collective("all_reduce", size_K / np.maximum(shard_K, 1), copies_K, members_K)
        return whole_K + scatter_K + across_K

    def _members(self, ranks_K: Array) -> Array:
        return Grid(gpus_per_node=self.cluster.gpus_per_node, plan=self.plan).data(ranks_K)


def tied(model: Model, cluster: Cluster, plan: Plan, software: Software, embedding_K: Array) -> Array:
    """Seconds to add the tied embedding's gradients of the first and the last stage."""
    if not model.tied_embeddings:
        return np.zeros(plan.size)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    members_K = np.where(grid.stage_crosses, 1, 2)
    return group_seconds(
        "all_reduce",
        embedding_K * software.gradient_bytes,
        cluster,
        software,
        ranks=np.where(np.asarray(plan.pp) > 1, 2, 1),
        members=members_K,
        sharing=np.where(grid.stage_crosses, cluster.gpus_per_node, 1),
    )


def send_bytes(model: Model, plan: Plan, software: Software) -> tuple[Array, Array]:
    """(B of one micro-batch's activations between two stages, B of it that one rank sends) (K,)."""
    whole_K = tokens(plan, plan.length(model)) * model.hidden * element_bytes(plan.precision)
    sequence = np.asarray(plan.sequence_parallel).astype(bool)
    tp_K = np.asarray(plan.tp, dtype=float)
    return whole_K, np.where(sequence | software.scatter_gather, whole_K / tp_K, whole_K)


def send_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Array:
    """Seconds to send one micro-batch's activations to the next pipeline stage (K,)."""
    whole_K, split_K = send_bytes(model, plan, software)
    sequence = np.asarray(plan.sequence_parallel).astype(bool)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    sharing = max(1.0, cluster.gpus_per_node / cluster.nics) if cluster.nics else 1.0
    seconds_K = send_seconds(split_K, cluster, crosses_node=grid.stage_crosses, sharing=sharing)
    if software.scatter_gather:
        gather_K = group_seconds("all_gather", whole_K, cluster, software, ranks=plan.tp, members=grid.tp)
        seconds_K = seconds_K + np.where(sequence, 0.0, gather_K)
    return np.where(np.asarray(plan.pp) > 1, seconds_K, 0.0)
