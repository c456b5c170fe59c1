"""Seconds of one micro-batch through one layer, under every way of recomputing it.

A layer lasts as long as the longer of GPU and host; where the host is longer, the difference is the part `launch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

import numpy as np

from podsim.answers.answer import call
from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.memo import Memo
from podsim.network.bus import ring_share
from podsim.training.expert_exchange import add_waits_for_counts, ep_seconds, spared_syncs
from podsim.training.layout import Passes, PassExchanges, Stages
from podsim.training.pipeline_stages import of_mode, recomputed_share, repeats_output
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Grid, has_any
from podsim.training.shapes import (
    Item,
    OpTimes,
    add_to_blocks,
    attention_times,
    element_bytes,
    gemm_times,
    group_seconds,
    is_gemm,
    logit_times,
    memory_times,
    tokens,
)
from podsim.training.software import Software
from podsim.workload.model import Block, Model, TensorOp

PARTS = ("matrix", "memory", "launch", "tp", "cp", "ep")
"""The parts of the seconds of a pass."""
MATRIX, MEMORY, LAUNCH, TP, CP, EP = range(len(PARTS))
_EXCHANGES = slice(TP, None)
LAYER_KEY = ("gpus", "tp", "cp", "ep", "expert_tp", "micro_batch", "sequence_parallel", "flash", "overlap_tp")
"""The plan fields that the seconds of a layer depend on."""


class Pass(IntEnum):
    """Passes through a layer: their positions on the axis."""

    FORWARD = 0
    BACKWARD = 1
    BACKWARD_SELECTIVE = 2
    BACKWARD_FULL = 3
    WEIGHT = 4
    """The part of a backward pass that computes weight gradients: its kernels."""


_OP_TIMES: Memo[list[OpTimes]] = Memo(4096)
"""The times of the ops of single plans on a GPU."""


def items_of(model: Model) -> tuple[list[Item], list[int]]:
    """(every op with its block, the position of that block among the model's)."""
    items, positions = [], []
    for position, block in enumerate(model.kinds):
        for op in block.ops:
            items.append(Item(op, block))
            positions.append(position)
    return items, positions


def _items_by_law(model: Model) -> list[tuple[list[Item], Array]]:
    """(ops with their blocks, the positions of these blocks among the model's), for each of _TIMES."""
    items: list[list[Item]] = [[] for _ in _TIMES]
    positions: list[list[int]] = [[] for _ in _TIMES]
    for item, position in zip(*items_of(model), strict=True):
        law = _kind(item.op)
        items[law].append(item)
        positions[law].append(position)
    return [(own, np.array(where, dtype=int)) for own, where in zip(items, positions, strict=True)]


_TIMES = (gemm_times, logit_times, attention_times, memory_times)


def op_times(
    model: Model, cluster: Cluster, plan: Plan, software: Software
) -> list[tuple[Sequence[Item], Array, OpTimes]]:
    """(ops, their blocks' positions, their seconds) for GEMMs, logits, attention cores and memory-bound ops, in turn."""
    slowdown, length = straggler_factor(cluster, software), plan.length(model)
    groups = [(law, *own) for law, own in zip(_TIMES, _items_by_law(model), strict=True) if own[0]]

    def of_gpu() -> list[OpTimes]:
        return [law(cluster.gpu, items, plan, length, software) for law, items, _ in groups]

    if plan.size > 1:
        times = of_gpu()
    else:
        times = _OP_TIMES.of((model, cluster.gpu, software, plan.single_key(LAYER_KEY)), of_gpu)
    return [
        (items, where, own.slowed(slowdown)) for (_, items, where), own in zip(groups, times, strict=True)
    ]


def _kind(op: TensorOp) -> int:
    """The position in _TIMES of the law of an op."""
    if is_gemm(op):
        return 1 if op.split == "vocab" else 0
    return 2 if op.kind == "attention" else 3


def straggler_factor(cluster: Cluster, software: Software) -> float:
    """1 + slowness x (1 - (1 - slow nodes)^nodes): the kernels of the slowest node, for which all others wait.

    The second factor is the probability that any node of the run is slow.
    """
    return 1.0 + software.slowness * (1.0 - (1.0 - software.slow_nodes) ** cluster.nodes)


def layer_table(
    model: Model, cluster: Cluster, plan: Plan, software: Software
) -> Shaped[Array, "pass part block plan"]:
    """GPU and exposed-communication seconds of one micro-batch through one layer of each block.

    `plan` holds plans that differ in the fields of LAYER_KEY. The launch part is what the host needs beyond the time the
    GPU is busy (Megatron's kernels wait for Python on small models).
    """
    busy, host = busy_and_host(model, cluster, plan, software)
    busy[:, LAUNCH] = launch_seconds(cluster, host, busy)
    return busy


def launch_seconds(
    cluster: Cluster, host: Shaped[Array, "pass block plan"], busy: Shaped[Array, "pass part block plan"]
) -> Shaped[Array, "pass block plan"]:
    """What the host needs beyond the time the GPU is busy; a processor is its own host."""
    hidden = 0.0 if cluster.gpu.architecture == "cpu" else busy.sum(axis=1)
    return np.maximum(host - hidden, 0.0)


def busy_and_host(
    model: Model, cluster: Cluster, plan: Plan, software: Software
) -> tuple[Shaped[Array, "pass part block plan"], Shaped[Array, "pass block plan"]]:
    """(seconds that the GPU computes and exchanges, seconds that the host launches) of one layer of each block."""
    shape = (len(model.kinds), plan.size)
    busy, host = np.zeros((len(Pass), len(PARTS), *shape)), np.zeros((len(Pass), *shape))
    cores, cores_back, cores_host = np.zeros((2, *shape)), np.zeros((2, *shape)), np.zeros(shape)
    last, last_host = np.zeros((2, *shape)), np.zeros(shape)
    outputs, (outputs_host, routed, routed_host) = np.zeros((2, *shape)), np.zeros((3, *shape))
    tail = last_ops(model) if software.early_stop else frozenset()
    for items, where, times in op_times(model, cluster, plan, software):
        part = MATRIX if is_gemm(items[0].op) or items[0].op.kind == "attention" else MEMORY
        is_core = np.array([[item.op.core or item.op.kind == "attention"] for item in items])
        is_last = np.array([[id(item.op) in tail] for item in items])
        is_routed = np.array([[item.op.expert] for item in items])
        launch = times.kernels * software.host_kernel
        if software.selective == "outputs":
            is_repeated = np.array([[repeats_output(item.op)] for item in items])
            add_to_blocks(outputs[part], where, times.forward * is_repeated)
            add_to_blocks(outputs_host, where, launch * is_repeated)
        for total, seconds in (
            (busy[Pass.FORWARD, part], times.forward),
            (busy[Pass.BACKWARD, part], times.backward),
            (busy[Pass.WEIGHT, part], times.weight),
            (host[Pass.FORWARD], launch),
            (host[Pass.BACKWARD], times.kernels_back * software.host_kernel),
            (host[Pass.WEIGHT], launch * (times.weight > 0)),  # as many products as forward
            (cores[part], times.forward * is_core),
            (cores_back[part], times.backward * is_core),
            (cores_host, launch * is_core),
            (last[part], times.forward * is_last),
            (last_host, launch * is_last),
            (routed, times.forward * is_routed),
            (routed_host, launch * is_routed),
        ):
            add_to_blocks(total, where, seconds)
    _add_exchanges(model, cluster, plan, software, busy, host, cores, cores_back)
    if software.expert_kernels and not plan.capacity_factor:
        add_waits_for_counts(busy[Pass.FORWARD].sum(axis=0), host[Pass.FORWARD], routed, routed_host)
    again, again_host = busy[Pass.FORWARD].copy(), host[Pass.FORWARD] - last_host
    again[:LAUNCH] -= last
    if software.early_stop:  # the last projection's sync is not repeated either
        again[TP] *= (1 - 1 / np.maximum([syncs_of(model, block)[0] for block in model.kinds], 1))[:, None]
    selective, selective_host = np.zeros_like(again), cores_host
    selective[:LAUNCH] = cores
    if software.selective == "ops":
        selective[MATRIX] = 0.5 * (busy[Pass.FORWARD, MATRIX] - cores[MATRIX])
        selective[MEMORY] = busy[Pass.FORWARD, MEMORY] - cores[MEMORY]
        selective_host = 0.75 * host[Pass.FORWARD]
    if software.selective == "outputs":
        selective[:LAUNCH], selective_host = outputs, outputs_host
    inner = _is_recomputed(model)
    for way, seconds, launches in (
        (Pass.BACKWARD_SELECTIVE, selective, selective_host),
        (Pass.BACKWARD_FULL, again, again_host),
    ):
        busy[way] = busy[Pass.BACKWARD] + seconds * inner
        host[way] = host[Pass.BACKWARD] + launches * inner
    return busy, host


def _is_recomputed(model: Model) -> Array:
    """Whether recomputation repeats a block, [block, 1]: not embedding and head, nor what no gradient reaches."""
    inner = np.array([[block.is_reached] for block in model.kinds])
    inner[[0, -1]] = False
    return inner


def last_ops(model: Model) -> frozenset[int]:
    """Identities of the ops at the end of each layer whose output no op saves: the last projection and what follows."""
    tail: set[int] = set()
    for block in model.kinds[1:-1]:
        for op in reversed(block.ops):
            tail.add(id(op))
            if op.kind in ("gemm", "attention"):
                break
    return frozenset(tail)


def _add_exchanges(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    software: Software,
    busy: Shaped[Array, "pass part block plan"],
    host: Shaped[Array, "pass block plan"],
    cores: Shaped[Array, "part block plan"],
    cores_back: Shaped[Array, "part block plan"],
) -> None:
    """Add tensor-, context- and expert-parallel communication to the forward and backward passes."""
    once = tp_sync_seconds(model, cluster, plan, software)
    hidden = np.where(np.asarray(plan.overlap_tp).astype(bool), software.async_tp, 0.0)
    sequence = np.asarray(plan.sequence_parallel).astype(bool)
    # without sequence parallelism the input gradient's all-reduce runs during the weight-gradient GEMM; with it, the
    # reduce-scatter does too, but the inputs have to be gathered again: what is hidden and what is added cancel
    back_hidden = np.maximum(hidden, np.where(sequence, 0.0, software.tp_overlap))
    # a collective starts when the last host of its ranks has launched it; those of a node share its processors
    beside = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).tp - 1
    calls = np.where(sequence, 2.0, 1.0) * beside
    for position, block in enumerate(model.kinds):
        forward, backward = sync_counts(model, block, plan)
        # what is hidden runs during the pass's GEMMs: at most as long as they take (backward: the longer half)
        gemms, weights = busy[:, MATRIX, position], busy[Pass.WEIGHT, MATRIX, position]
        inputs = gemms[Pass.BACKWARD] - cores_back[MATRIX, position] - weights
        for direction, syncs, share, during in (
            (Pass.FORWARD, forward, hidden, gemms[Pass.FORWARD] - cores[MATRIX, position]),
            (Pass.BACKWARD, backward, back_hidden, np.maximum(inputs, weights)),
        ):
            busy[direction, TP, position] = syncs * once - np.minimum(syncs * once * share, during)
            host[direction, position] += syncs * calls * software.host_collective
        core = np.stack([cores[:, position].sum(axis=0), cores_back[:, position].sum(axis=0)])
        work = busy[: Pass.BACKWARD + 1, :LAUNCH, position].sum(axis=1)
        for part, seconds, kernels in ((CP, _cp_seconds, core), (EP, ep_seconds, work)):
            there, back = seconds(model, block, cluster, plan, software, kernels)
            busy[Pass.FORWARD, part, position] = there
            busy[Pass.BACKWARD, part, position] = back * block.is_reached


def syncs_of(model: Model, block: Block) -> tuple[int, int]:
    """Tensor-parallel syncs forward and backward: the embedding has none backward, the head none forward."""
    if block is model.embedding:
        return 1, 0
    if block is model.head:
        return 0, 1
    return block.syncs, block.syncs * block.is_reached


def sync_counts(model: Model, block: Block, plan: Plan) -> tuple[Array, Array]:
    """The same, without what the experts of plans spare."""
    spared = spared_syncs(block, plan)
    forward, backward = (np.asarray(syncs - spared * (syncs > 0)) for syncs in syncs_of(model, block))
    return forward, backward


def tp_bytes(model: Model, plan: Plan) -> Shaped[Array, "plan"]:
    """B that one tensor-parallel sync adds up or gathers."""
    return np.asarray(tokens(plan, plan.length(model)) * model.hidden * element_bytes(plan.precision))


def cp_bytes(model: Model, block: Block, plan: Plan) -> Shaped[Array, "plan"]:
    """B of a block's keys and values of all context ranks, which each of them gathers."""
    cores = [op for op in block.ops if op.kind == "attention"]
    wide = sum((op.kv_heads or op.heads) * (op.head_dim + (op.value_dim or op.head_dim)) for op in cores)
    sequences = np.asarray(plan.micro_batch, dtype=float) / np.asarray(plan.tp)
    return np.asarray(sequences * plan.length(model) * wide * element_bytes(plan.precision))


def tp_sync_seconds(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Shaped[Array, "plan"]:
    """Seconds of a tensor-parallel sync, an all-reduce or a gather and a reduction; measured machines as measured."""
    size = tp_bytes(model, plan)
    if cluster.host is not None and cluster.host.syncs:
        latency, per_byte = call("hardware.measured_host:interpolate", cluster.host.syncs, plan.tp)
        return np.where(np.asarray(plan.tp) > 1, latency + per_byte * size, 0.0)
    members = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).tp
    sequence = np.asarray(plan.sequence_parallel).astype(bool)

    def seconds(collective: str, ranks: Array, scale: float = 1.0) -> Shaped[Array, "plan"]:
        near = np.minimum(members, ranks)
        return group_seconds(collective, size * scale, cluster, software, ranks=ranks, members=near)

    gathered = 0.5 if PRECISIONS[plan.precision].is_cast and software.fp8_gather else 1.0
    reducing, splitting = np.where(sequence, 1, plan.tp), np.where(sequence, plan.tp, 1)
    divided = seconds("all_gather", splitting, gathered) + seconds("reduce_scatter", splitting)
    return np.asarray(seconds("all_reduce", reducing) + divided)


def _cp_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software, core: Array
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
    """Exposed seconds of gathering keys and values over the context group, during the attention of its own part.

    `core`: s of that attention, forward and backward. A backward pass gathers twice, at most behind twice the forward s.
    """
    cp = np.asarray(plan.cp, dtype=float)
    if not any(op.kind == "attention" for op in block.ops) or not has_any(cp > 1):
        return np.zeros(1), np.zeros(1)
    gather = cp_gather_seconds(model, block, cluster, plan, software)
    hidden, hidden_back = np.minimum(core, np.stack([core[0], 2 * core[0]])) * ring_share(cp)
    return np.maximum(gather - hidden, 0.0), np.maximum(2 * gather - hidden_back, 0.0)


def cp_gather_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software
) -> Shaped[Array, "plan"]:
    """Seconds of one such gather, hidden or not."""
    members = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).cp
    size = cp_bytes(model, block, plan)
    return group_seconds(
        "all_gather", size, cluster, software, ranks=plan.cp, members=members, stride=plan.tp
    )


def _stage_seconds(
    blocks: Shaped[Array, "stage block plan"], seconds: Shaped[Array, "part block plan"]
) -> Shaped[Array, "part stage plan"]:
    """Seconds of a stage: the sum over its blocks."""
    total = blocks[None, :, 0] * seconds[:, None, 0]
    for block in range(1, blocks.shape[1]):
        total += blocks[None, :, block] * seconds[:, None, block]
    return total


@lru_cache(maxsize=256)
def _layer_shares(model: Model) -> Shaped[Array, "block"]:
    """The share of each kind among the layers."""
    counts = np.array([block.count for block in model.kinds[1:-1]], dtype=float)
    return np.asarray(counts / counts.sum())


def passes_of(
    model: Model,
    plan: Plan,
    stages: Stages,
    layers: Shaped[Array, "pass part block plan"],
    hidden: Shaped[Array, "direction block plan"] | None,
) -> Passes:
    """Seconds of the passes of plans; `hidden` as in PassExchanges, None where no schedule has pairs of passes."""
    chosen = of_mode(plan, layers[Pass.BACKWARD : Pass.WEIGHT])  # of all layers if of any
    stage_backward = _stage_seconds(stages.blocks, chosen)
    share = recomputed_share(plan, stages.blocks)
    if share is not None:
        plain = layers[Pass.BACKWARD]
        stage_backward = share * stage_backward + (1 - share) * _stage_seconds(stages.blocks, plain)
        least = share.min(axis=0)
        chosen = least * chosen + (1 - least) * plain
    stage_parts = _stage_seconds(stages.blocks, layers[Pass.FORWARD]) + stage_backward
    stage_parts[_EXCHANGES] *= ~plan.paired
    forward, backward = layers[Pass.FORWARD].sum(axis=0), chosen.sum(axis=0)
    exchanges = None
    if hidden is not None:
        exposed = [part[_EXCHANGES].sum(axis=0) for part in (layers[Pass.FORWARD], chosen)]
        exchanges = PassExchanges(seconds=np.stack(exposed), hidden=hidden)
    weight = layers[Pass.WEIGHT].sum(axis=0)
    closing = np.where(plan.loose_end, weight, backward) if has_any(plan.loose_end) else backward
    mean = _layer_shares(model)
    return Passes(
        stage_parts=stage_parts,
        layers=stages.blocks[:, 1:-1].sum(axis=1),
        forward=forward,
        backward=backward,
        weight=weight,
        layer_forward=mean @ forward[1:-1],
        layer_backward=mean @ backward[1:-1],
        layer_closing=mean @ closing[1:-1],
        exchanges=exchanges,
    )
