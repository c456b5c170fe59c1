"""What the data-parallel, embedding and pipeline groups exchange in a step, and the optimizer's share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.answers.answer import call
from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.kernels.elementwise import optimizer_seconds
from podsim.network.nccl import send_seconds
from podsim.records import dataclass, replace
from podsim.training.layout import Exchanges, Groups, Sends, StepEnd
from podsim.training.memory import Weights, weight_table
from podsim.training.pipeline_stages import stages_table
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Grid, Ints, Placement, has_any
from podsim.training.shapes import element_bytes, group_seconds, tokens
from podsim.training.software import Software
from podsim.workload.model import Model

GROUP_KEY = (
    "tp", "pp", "virtual_stages", "placement", "loose_end", "dp", "cp", "ep", "expert_tp", "zero", "shard",
)  # fmt: skip
"""The plan fields that a step's end depends on."""
SEND_KEY = ("tp", "pp", "dp", "cp", "micro_batch", "sequence_parallel")
"""The plan fields that sends depend on."""


def end_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> StepEnd:
    """Ends of plans that differ in GROUP_KEY."""
    first = group_table(model, cluster, plan, software, first=True) if has_any(plan.loose_end) else None
    return StepEnd(last=group_table(model, cluster, plan, software), first=first)


def group_table(
    model: Model, cluster: Cluster, plan: Plan, software: Software, *, first: bool = False
) -> Groups:
    """Groups of plans that differ in GROUP_KEY.

    Gradients are those of the first stage, whose backward pass ends last; where another rank may end last, and unless
    the `first` stage is asked for, those of the stage that has the fewest, which holds no tied embedding.
    """
    weights, stages = weight_table(model, plan), stages_table(model, plan)
    homes = np.where(plan.placement == Placement.TWO_WAYS, 2.0, 1.0)
    blocks, exists = stages.blocks * homes, stages.count > 0
    held = np.where(exists, (blocks * (weights.dense + weights.expert)).sum(axis=1), np.inf)
    is_loose = plan.loose_end & (not first)
    last = np.where(is_loose, held.argmin(axis=0), 0)
    last_blocks = np.take_along_axis(blocks, last[None, None], axis=0)[0]
    exchanges = stage_exchanges(model, cluster, plan, software, weights, last_blocks)
    heaviest = owned_parameters(plan, weights, blocks).max(axis=0)
    update = optimizer_seconds(cluster.gpu, heaviest, software.optimizer_traffic) / software.memory_speed
    most_layers = (blocks[:, 1:-1] * exists[:, None]).sum(axis=1).max(axis=0)
    tied = tied_seconds(model, cluster, plan, software, (weights.trained or weights).dense[0])
    return Groups(
        **vars(exchanges),
        stage_layers=last_blocks[1:-1].sum(axis=0),
        embedding=np.where(is_loose, 0.0, tied),
        optimizer=update + software.host_update * most_layers,
    )


def owned_parameters(
    plan: Plan, weights: Weights, blocks: Shaped[Array, "... block plan"]
) -> Shaped[Array, "... plan"]:
    """Parameters that one rank's optimizer updates, of a stage that holds these blocks, or of several stages."""
    shard = np.where(np.asarray(plan.zero) > 0, plan.shard_ranks, 1)
    trained = weights.trained or weights
    dense = (blocks * trained.dense).sum(axis=-2)
    expert = (blocks * trained.expert).sum(axis=-2)
    return np.asarray(dense / shard + expert / plan.expert_copies(shard))


def stage_exchanges(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    software: Software,
    weights: Weights,
    blocks: Shaped[Array, "block plan"],
) -> Exchanges:
    """What a stage that holds these blocks exchanges."""
    ranks, shard = np.asarray(plan.dp * plan.cp), np.where(np.asarray(plan.zero) > 0, plan.shard_ranks, 1)
    collectives = _DataCollectives(cluster, plan, software)
    trained, stored = weights.trained or weights, weights.stored or weights
    dense = _Replicas(trained.dense, stored.dense, ranks, shard, np.asarray(plan.tp))
    total = _parameter_exchanges(collectives, dense, blocks)
    if has_any(weights.expert):
        # the ranks that hold the same experts lie one in each expert group
        fewer, part = plan.expert_copies(ranks), plan.expert_copies(shard)
        expert = _Replicas(trained.expert, stored.expert, fewer, part, plan.expert_ranks * plan.ep)
        more = _parameter_exchanges(collectives, expert, blocks)
        total = Exchanges(**{name: seconds + getattr(more, name) for name, seconds in vars(total).items()})
    return replace(
        total,
        reduce_layer_share=_ratio(total.reduce_layer_share, total.reduce),
        gather_layer_share=_ratio(total.gather_layer_share, total.gather),
    )


def _ratio(part: Shaped[Array, "plan"], all_seconds: Shaped[Array, "plan"]) -> Shaped[Array, "plan"]:
    """A part's share of the seconds; 1 where there are none."""
    return np.divide(part, all_seconds, out=np.ones(part.shape), where=all_seconds > 0)


class _Replicas(NamedTuple):
    """Parameters of which several ranks hold the same."""

    parameters: Shaped[Array, "block plan"]
    """The trained parameters of one copy of each block."""
    stored: Shaped[Array, "block plan"]
    """All of its parameters, a quantised one counted by its bytes over those of one in 16 bits."""
    ranks: Shaped[Array, "plan"]
    """The number of ranks that hold the same."""
    shard: Shaped[Array, "plan"]
    """The number of these over which ZeRO divides."""
    stride: Shaped[Array, "plan"]
    """The GPUs from one of them to the next."""


def _parameter_exchanges(
    collectives: _DataCollectives, replicas: _Replicas, blocks: Shaped[Array, "block plan"]
) -> Exchanges:
    """What a stage exchanges of some parameters; seconds of layers in place of their shares."""
    plan, software, stride = collectives.plan, collectives.software, replicas.stride
    zero, stored = np.asarray(plan.zero), element_bytes(plan.precision)
    full, once = zero == 3, (zero == 1) | (zero == 2)
    held = blocks * replicas.parameters
    stage = held.sum(axis=0)
    layer_share = held[1:-1].sum(axis=0) / np.maximum(stage, 1.0)
    layer, layer_stored = replicas.parameters[1:-1].max(axis=0), replicas.stored[1:-1].max(axis=0)
    edges = replicas.parameters[0] + replicas.parameters[-1]
    # what is reduced after the last layer
    last = np.where(full, edges, stage) * software.gradient_bytes
    reduce = collectives.reduce_seconds(last, replicas.ranks, replicas.shard, stride)
    gather = collectives.gather_seconds(stage * stored, np.where(once, replicas.shard, 1), stride)
    layer_ranks, layer_shard = np.where(full, replicas.ranks, 1), np.where(full, replicas.shard, 1)
    return Exchanges(
        reduce=reduce,
        gather=gather,
        layer_gather=collectives.gather_seconds(layer_stored * stored, layer_shard, stride),
        layer_reduce=collectives.reduce_seconds(
            layer * software.gradient_bytes, layer_ranks, layer_shard, stride
        ),
        reduce_layer_share=layer_share * reduce,
        gather_layer_share=layer_share * gather,
    )


@dataclass(frozen=True)
class _DataCollectives:
    """Collectives over slices of the data-parallel group."""

    cluster: Cluster
    plan: Plan
    software: Software

    def _seconds(self, collective: str, size: Array, ranks: Array, stride: Ints) -> Shaped[Array, "plan"]:
        """Seconds of a collective of `size` bytes; those that a measured machine took with ZeRO 3."""
        if not has_any(ranks > 1):
            return np.zeros(self.plan.size)
        members = Grid(gpus_per_node=self.cluster.gpus_per_node, plan=self.plan).per_node(ranks, stride)
        seconds = group_seconds(
            collective, size, self.cluster, self.software, ranks=ranks, members=members, stride=stride
        )
        host = self.cluster.host
        if host is None or not host.shards or collective == "all_reduce":
            return seconds
        latency, per_byte = call("hardware.measured_host:interpolate", host.shards, ranks)
        return np.where((np.asarray(self.plan.zero) == 3) & (ranks > 1), latency + per_byte * size, seconds)

    def gather_seconds(self, size: Array, ranks: Array, stride: Array) -> Shaped[Array, "plan"]:
        """All-gather of `size` bytes, the sum over data ranks, `stride` GPUs apart; or a broadcast from each in turn."""
        if self.software.broadcasts and (np.asarray(self.plan.zero) < 3).all():
            return ranks * self._seconds("broadcast", size / np.maximum(ranks, 1), ranks, stride)
        return self._seconds("all_gather", size, ranks, stride)

    def reduce_seconds(self, size: Array, ranks: Array, shard: Array, stride: Array) -> Shaped[Array, "plan"]:
        """Gradients of `size` bytes: all-reduce, or reduce-scatter in each shard group and all-reduce across them."""
        plain = self._seconds("all_reduce", size, np.where(shard > 1, 1, ranks), stride)
        scatter = self._seconds("reduce_scatter", size, shard, stride)
        divisor = np.maximum(shard, 1)
        copies = np.where(shard > 1, np.maximum(ranks // divisor, 1), 1)
        across = self._seconds("all_reduce", size / divisor, copies, stride * divisor)
        return plain + scatter + across


def tied_seconds(
    model: Model, cluster: Cluster, plan: Plan, software: Software, embedding: Shaped[Array, "plan"]
) -> Shaped[Array, "plan"]:
    """Seconds to add the shared embedding's gradients of the first and the last stage, if two ranks hold them.

    `embedding`: parameters of the embedding on a rank.
    """
    if not model.ends_share_table:
        return np.zeros(plan.size)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    crosses = grid.pipeline_crosses
    return group_seconds(
        "all_reduce",
        embedding * software.gradient_bytes,
        cluster,
        software,
        ranks=np.where((np.asarray(plan.pp) > 1) & (plan.placement != Placement.VEE), 2, 1),
        members=np.where(crosses, 1, 2),
        sharing=np.where(crosses, np.minimum(_stage_gpus(plan), cluster.gpus_per_node), 1),
        stride=_stage_gpus(plan) * (np.asarray(plan.pp) - 1),
    )


def _stage_gpus(plan: Plan) -> Shaped[Array, "plan"]:
    """GPUs from one stage of a pipeline to the next."""
    return np.asarray(plan.tp * plan.cp * plan.dp)


def send_bytes(
    model: Model, plan: Plan, software: Software
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
    """(B of one micro-batch's activations between two stages, B of it that one rank sends)."""
    activations = tokens(plan, plan.length(model)) * model.hidden * element_bytes(plan.precision)
    is_split = np.asarray(plan.sequence_parallel).astype(bool) | software.scatter_gather
    return activations, np.where(is_split, activations / np.asarray(plan.tp, dtype=float), activations)


def send_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Sends:
    """What sends between pipeline stages take."""
    ones, zeros, pp = np.ones(plan.size, int), np.zeros(plan.size), np.asarray(plan.pp)
    if np.max(plan.pp) <= 1:  # and a machine of one GPU may have nowhere to send
        return Sends(near_seconds=zeros, further_seconds=zeros, stages_per_node=ones, mean_seconds=zeros)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    crosses = grid.pipeline_crosses & (cluster.nodes > 1)  # one node may have no network at all
    sharing = np.where(crosses, grid.stages, 1)
    near = _send_seconds(model, cluster, plan, software, crosses & (sharing == 1))
    further = zeros
    if has_any(sharing > 1):
        far = _send_seconds(model, cluster, plan, software, crosses)
        further = np.where(sharing > 1, np.maximum(far - near, 0.0), 0.0)
    share = (pp - 1) // sharing / np.maximum(pp - 1, 1)
    return Sends(
        near_seconds=near,
        further_seconds=further,
        stages_per_node=sharing,
        mean_seconds=near + share * further,
    )


def _send_seconds(
    model: Model, cluster: Cluster, plan: Plan, software: Software, crosses: Shaped[Array, "plan"]
) -> Shaped[Array, "plan"]:
    """Seconds of a send, between nodes or within one."""
    activations, split = send_bytes(model, plan, software)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    stage = _stage_gpus(plan)
    senders = np.minimum(stage, cluster.gpus_per_node)  # GPUs of a node that send at a time
    sharing = np.maximum(1.0, senders / cluster.nics) if cluster.nics else 1.0
    # the slowest send holds all up
    extent = np.minimum(stage * (np.asarray(plan.pp) - 1) + 1, cluster.gpus_per_node)
    seconds = send_seconds(split, cluster, crosses_node=crosses, sharing=sharing, stride=stage, extent=extent)
    if software.scatter_gather:
        gather = group_seconds("all_gather", activations, cluster, software, ranks=plan.tp, members=grid.tp)
        seconds = seconds + np.where(np.asarray(plan.sequence_parallel).astype(bool), 0.0, gather)
    return np.where(np.asarray(plan.pp) > 1, seconds, 0.0)
