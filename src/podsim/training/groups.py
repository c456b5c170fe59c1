"""What the data-parallel, embedding and pipeline groups exchange in a step, and the optimizer's share.

Axes: K plans (distinct keys), S classes of stages, P plans.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.hardware.measured import between
from podsim.kernels.elementwise import optimizer_seconds
from podsim.network.nccl import send_seconds
from podsim.training.exchange import group_seconds
from podsim.training.memory import Weights, weight_table
from podsim.training.pipeline import stages_table
from podsim.training.plan import Array, Grid, Ints, Placement, Plan
from podsim.training.shapes import element_bytes, tokens
from podsim.training.software import Software
from podsim.training.unique import gathered
from podsim.workload.graph import Model

GROUP_KEY = ("tp", "pp", "virtual_stages", "placement", "loose_end", "dp", "cp", "ep", "zero", "shard")
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
    """layers of the stage whose gradients these are"""
    reduce_share_K: Array
    """share of its gradients' seconds that is of its layers, not of the embedding"""
    gather_share_K: Array
    """the same of its weights"""
    embedding_K: Array
    """all-reduce of tied embedding gradients between first and last stage"""
    optimizer_K: Array

    def take(self, index: Array) -> Groups:
        """The plans at an index."""
        return Groups(**{field.name: gathered(getattr(self, field.name), index) for field in fields(self)})


@dataclass(frozen=True)
class Ends:
    """What the rank that ends a step exchanges."""

    groups: Groups
    firsts: Groups | None
    """of the first stage, where another may end last; None where none may"""

    def take(self, index: Array) -> Ends:
        """The plans at an index."""
        return Ends(self.groups.take(index), None if self.firsts is None else self.firsts.take(index))


def ends_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Ends:
    """Ends of K plans that differ in GROUP_KEY."""
    firsts = group_table(model, cluster, plan, software, first=True) if plan.loose_end.any() else None
    return Ends(group_table(model, cluster, plan, software), firsts)


def group_table(
    model: Model, cluster: Cluster, plan: Plan, software: Software, *, first: bool = False
) -> Groups:
    """Groups of K plans that differ in GROUP_KEY.

    Gradients are those of the first stage, whose backward pass ends last; where another rank may end last, and unless
    the `first` stage is asked for, those of the stage that has the fewest, which holds no tied embedding.
    """
    weights = weight_table(model, plan)
    stages = stages_table(model, plan)
    homes_K = np.where(plan.placement == Placement.TWO_WAYS, 2.0, 1.0)
    counts_SBK = stages.counts_SBU * homes_K
    each_BK = weights.dense_BK + weights.expert_BK
    held_SK = np.where(stages.many_SU > 0, (counts_SBK * each_BK).sum(axis=1), np.inf)
    loose_K = plan.loose_end & (not first)
    ends_K = np.where(loose_K, held_SK.argmin(axis=0), 0)
    counts_BK = np.take_along_axis(counts_SBK, ends_K[None, None], axis=0)[0]
    found = exchanges(model, cluster, plan, software, weights, counts_BK)
    heaviest_K = owned(plan, weights, counts_SBK).max(axis=0)
    return Groups(
        **found._asdict(),
        stage_layers_K=counts_BK[1:-1].sum(axis=0),
        embedding_K=np.where(loose_K, 0.0, tied(model, cluster, plan, software, weights.dense_BK[0])),
        optimizer_K=optimizer_seconds(cluster.gpu, heaviest_K, software.optimizer_traffic)
        / software.memory_speed
        + software.host_update
        * (counts_SBK[:, 1:-1] * (stages.many_SU > 0)[:, None]).sum(axis=1).max(axis=0),
    )


class Exchanges(NamedTuple):
    """Seconds of what one pipeline stage exchanges with its data-parallel peers, if nothing hid it."""

    reduce_K: Array
    gather_K: Array
    layer_gather_K: Array
    layer_reduce_K: Array
    reduce_share_K: Array
    gather_share_K: Array


def owned(plan: Plan, weights: Weights, counts_BK: Array) -> Array:
    """Parameters that one rank's optimizer updates, of a stage that holds so many of each block (K,), or of S (S, K)."""
    shard_K = np.where(np.asarray(plan.zero) > 0, plan.shard_ranks, 1)
    dense_K, expert_K = (
        (counts_BK * weights.dense_BK).sum(axis=-2),
        (counts_BK * weights.expert_BK).sum(axis=-2),
    )
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
    kinds = [(weights.dense_BK, ranks_K, shard_K, np.asarray(plan.tp))]
    if weights.expert_BK.any():
        fewer_K, part_K = np.maximum(ranks_K // plan.ep, 1), np.maximum(shard_K // plan.ep, 1)
        # the ranks that hold the same experts lie one in each expert group
        kinds.append((weights.expert_BK, fewer_K, part_K, np.asarray(plan.tp * plan.ep)))
    full, once = zero == 3, (zero == 1) | (zero == 2)
    reduce_K, gather_K, layer_gather_K, layer_reduce_K, reduce_part_K, gather_part_K = np.zeros(
        (6, plan.size)
    )
    for per_block_BK, all_K, part_K, stride_K in kinds:
        held_BK = counts_BK * per_block_BK
        stage_K = held_BK.sum(axis=0)
        share_K = held_BK[1:-1].sum(axis=0) / np.maximum(stage_K, 1.0)
        layer_K = per_block_BK[1:-1].max(axis=0)
        edge_K = per_block_BK[0] + per_block_BK[-1]
        # what is reduced after the last layer
        last_K = np.where(full, edge_K, stage_K) * software.gradient_bytes
        reduced_K = exchange.reduce(last_K, all_K, part_K, stride_K)
        gathered_K = exchange.gather(stage_K * stored, np.where(once, part_K, 1), stride_K)
        reduce_K += reduced_K
        gather_K += gathered_K
        reduce_part_K += share_K * reduced_K
        gather_part_K += share_K * gathered_K
        layer_gather_K += exchange.gather(layer_K * stored, np.where(full, part_K, 1), stride_K)
        split_K = np.where(full, part_K, 1)
        layer_reduce_K += exchange.reduce(
            layer_K * software.gradient_bytes, np.where(full, all_K, 1), split_K, stride_K
        )
    shares = [
        np.divide(own_K, whole_K, out=np.ones(plan.size), where=whole_K > 0)
        for own_K, whole_K in ((reduce_part_K, reduce_K), (gather_part_K, gather_K))
    ]
    return Exchanges(reduce_K, gather_K, layer_gather_K, layer_reduce_K, *shares)


@dataclass(frozen=True)
class _Exchange:
    """Collectives over slices of the data-parallel group."""

    cluster: Cluster
    plan: Plan
    software: Software

    def _collective(self, name: str, size: Array, ranks: Array, stride: Ints) -> Array:
        if not (ranks > 1).any():
            return np.zeros(self.plan.size)
        members = Grid(gpus_per_node=self.cluster.gpus_per_node, plan=self.plan).per_node(ranks, stride)
        seconds = group_seconds(
            name, size, self.cluster, self.software, ranks=ranks, members=members, stride=stride
        )
        host = self.cluster.host
        if host is None or not host.shards or name == "all_reduce":
            return seconds
        latency, per_byte = between(host.shards, ranks)
        return np.where((np.asarray(self.plan.zero) == 3) & (ranks > 1), latency + per_byte * size, seconds)

    def gather(self, size_K: Array, ranks_K: Array, stride_K: Array) -> Array:
        """All-gather of size_K bytes in all over ranks_K data ranks, stride_K GPUs apart."""
        return self._collective("all_gather", size_K, ranks_K, stride_K)

    def reduce(self, size_K: Array, ranks_K: Array, shard_K: Array, stride_K: Array) -> Array:
        """Gradients of size_K bytes: all-reduce, or reduce-scatter in each shard group and all-reduce across them."""
        whole_ranks_K = np.where(shard_K > 1, 1, ranks_K)
        whole_K = self._collective("all_reduce", size_K, whole_ranks_K, stride_K)
        scatter_K = self._collective("reduce_scatter", size_K, shard_K, stride_K)
        copies_K = np.where(shard_K > 1, np.maximum(ranks_K // np.maximum(shard_K, 1), 1), 1)
        apart_K = stride_K * np.maximum(shard_K, 1)
        across_K = self._collective("all_reduce", size_K / np.maximum(shard_K, 1), copies_K, apart_K)
        return whole_K + scatter_K + across_K


def tied(model: Model, cluster: Cluster, plan: Plan, software: Software, embedding_K: Array) -> Array:
    """Seconds to add the tied embedding's gradients of the first and the last stage, if two ranks hold them."""
    if not model.tied_embeddings:
        return np.zeros(plan.size)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    crosses_K = grid.pipeline_crosses
    return group_seconds(
        "all_reduce",
        embedding_K * software.gradient_bytes,
        cluster,
        software,
        ranks=np.where((np.asarray(plan.pp) > 1) & (plan.placement != Placement.VEE), 2, 1),
        members=np.where(crosses_K, 1, 2),
        sharing=np.where(crosses_K, np.minimum(_stage(plan), cluster.gpus_per_node), 1),
        stride=_stage(plan) * (np.asarray(plan.pp) - 1),
    )


def _stage(plan: Plan) -> Array:
    """GPUs from one stage of a pipeline to the next."""
    return np.asarray(plan.tp * plan.cp * plan.dp)


def send_bytes(model: Model, plan: Plan, software: Software) -> tuple[Array, Array]:
    """(B of one micro-batch's activations between two stages, B of it that one rank sends) (K,)."""
    whole_K = tokens(plan, plan.length(model)) * model.hidden * element_bytes(plan.precision)
    sequence = np.asarray(plan.sequence_parallel).astype(bool)
    tp_K = np.asarray(plan.tp, dtype=float)
    return whole_K, np.where(sequence | software.scatter_gather, whole_K / tp_K, whole_K)


class Sends(NamedTuple):
    """Seconds to send one micro-batch's activations to the next pipeline stage, by where that is (K,)."""

    near_K: Array
    """to a stage on the same node; to any where all are on nodes of their own"""
    further_K: Array
    """more than that, to a stage on another node, where others are on the same"""
    beside_K: Array
    """stages that share a node, where only some do; 1 otherwise"""
    mean_K: Array
    """of all neighbours"""


def send_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Sends:
    """What sends between pipeline stages take."""
    ones = np.ones(plan.size, int)
    if np.max(plan.pp) <= 1:  # and a machine of one GPU may have nowhere to send
        return Sends(0.0 * ones, 0.0 * ones, ones, 0.0 * ones)
    grid, pp = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan), np.asarray(plan.pp)
    crosses_K = grid.pipeline_crosses & (cluster.nodes > 1)  # one node may have no network at all
    beside_K = np.where(crosses_K, grid.stages, 1)
    near_K = _send_seconds(model, cluster, plan, software, crosses_K & (beside_K == 1))
    if (beside_K == 1).all():
        return Sends(near_K, 0.0 * ones, ones, near_K)
    far_K = _send_seconds(model, cluster, plan, software, crosses_K)
    further_K = np.where(beside_K > 1, np.maximum(far_K - near_K, 0.0), 0.0)
    share_K = (pp - 1) // beside_K / np.maximum(pp - 1, 1)
    return Sends(near_K, further_K, beside_K, near_K + share_K * further_K)


def _send_seconds(model: Model, cluster: Cluster, plan: Plan, software: Software, crosses_K: Array) -> Array:
    """Seconds of a send (K,), between nodes or within one."""
    whole_K, split_K = send_bytes(model, plan, software)
    sequence = np.asarray(plan.sequence_parallel).astype(bool)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    stage_K = _stage(plan)
    senders_K = np.minimum(stage_K, cluster.gpus_per_node)  # GPUs of a node that send at a time
    sharing_K = np.maximum(1.0, senders_K / cluster.nics) if cluster.nics else 1.0
    reach_K = np.minimum(
        stage_K * (np.asarray(plan.pp) - 1) + 1, cluster.gpus_per_node
    )  # the slowest send holds all up
    seconds_K = send_seconds(
        split_K, cluster, crosses_node=crosses_K, sharing=sharing_K, stride=stage_K, extent=reach_K
    )
    if software.scatter_gather:
        gather_K = group_seconds("all_gather", whole_K, cluster, software, ranks=plan.tp, members=grid.tp)
        seconds_K = seconds_K + np.where(sequence, 0.0, gather_K)
    return np.where(np.asarray(plan.pp) > 1, seconds_K, 0.0)
