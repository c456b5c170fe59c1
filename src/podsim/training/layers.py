"""Seconds of one micro-batch through one layer, under every way of recomputing it.

Axes: Y = 5 passes (forward, backward without recomputation, with selective, with full, its weight gradients), X = 6 parts
(PARTS), B blocks (embedding, kinds of layer, head), K plans (distinct keys), O ops of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.hardware.measured import between
from podsim.network.bus import ring_share
from podsim.training.exchange import group_seconds
from podsim.training.plan import Array, Grid, Plan
from podsim.training.shapes import (
    Item,
    OpTimes,
    attention_times,
    element_bytes,
    gemm_times,
    is_gemm,
    memory_times,
    tokens,
)
from podsim.training.software import Software
from podsim.workload.graph import Block, Model

PARTS = ("matrix", "memory", "launch", "tp", "cp", "ep")
KEY = ("tp", "cp", "ep", "micro_batch", "sequence_parallel", "flash", "overlap_tp")
"""the plan fields that the seconds of a layer depend on"""


class Pass(IntEnum):
    """Positions on axis Y."""

    FORWARD = 0
    BACKWARD = 1
    BACKWARD_SELECTIVE = 2
    BACKWARD_FULL = 3
    WEIGHT = 4
    """the part of a backward pass that computes weight gradients: its kernels"""


def items_of(model: Model) -> tuple[list[Item], list[int]]:
    """Every op with its block, and the position of that block on axis B."""
    items, place = [], []
    for position, block in enumerate(model.kinds):
        for op in block.ops:
            items.append(Item(op, block))
            place.append(position)
    return items, place


_TIMES = (gemm_times, attention_times, memory_times)


def op_times(
    model: Model, cluster: Cluster, plan: Plan, software: Software
) -> list[tuple[Sequence[Item], Array, OpTimes]]:
    """(ops, their blocks' positions, their seconds) for GEMMs, attention cores and memory-bound ops, in that order."""
    items, place = items_of(model)
    kinds = [0 if is_gemm(i.op) else 1 if i.op.kind == "attention" else 2 for i in items]
    out: list[tuple[Sequence[Item], Array, OpTimes]] = []
    for kind, times in enumerate(_TIMES):
        chosen = [i for i, k in zip(items, kinds, strict=True) if k == kind]
        where = np.array([p for p, k in zip(place, kinds, strict=True) if k == kind], dtype=int)
        if chosen:
            out.append((chosen, where, times(cluster.gpu, chosen, plan, plan.length(model), software)))
    return out


def layer_table(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Array:
    """seconds_YXBK: GPU and exposed-communication seconds of one micro-batch through one layer of each block.

    `plan` holds K plans that differ in the fields of KEY. The launch part is what the host needs beyond the time the
    GPU is busy (Megatron's kernels wait for Python on small models).
    """
    blocks = model.kinds
    shape = (len(blocks), plan.size)
    busy_YXBK, host_YBK = np.zeros((len(Pass), len(PARTS), *shape)), np.zeros((len(Pass), *shape))
    core_XBK, core_host_BK = np.zeros((2, *shape)), np.zeros(shape)
    last_XBK, last_host_BK = np.zeros((2, *shape)), np.zeros(shape)
    tail = unneeded(model) if software.early_stop else frozenset()
    for items, where, times in op_times(model, cluster, plan, software):
        part = 0 if is_gemm(items[0].op) or items[0].op.kind == "attention" else 1
        core = np.array([[item.op.core or item.op.kind == "attention"] for item in items])
        spare = np.array([[id(item.op) in tail] for item in items])
        launch_OK = times.kernels_OK * software.host_kernel
        for total, seconds in (
            (busy_YXBK[0, part], times.forward_OK),
            (busy_YXBK[1, part], times.backward_OK),
            (busy_YXBK[4, part], times.weight_OK),
            (host_YBK[0], launch_OK),
            (host_YBK[1], times.kernels_back_OK * software.host_kernel),
            (core_XBK[part], times.forward_OK * core),
            (core_host_BK, launch_OK * core),
            (last_XBK[part], times.forward_OK * spare),
            (last_host_BK, launch_OK * spare),
        ):
            np.add.at(total, where, seconds)
    _communicate(model, cluster, plan, software, busy_YXBK, host_YBK, core_XBK)
    again_XBK, again_host_BK = busy_YXBK[0].copy(), host_YBK[0] - last_host_BK
    again_XBK[:2] -= last_XBK
    if software.early_stop:  # the last projection's sync is not repeated either
        again_XBK[3] *= (1 - 1 / np.maximum([syncs_of(model, block)[0] for block in blocks], 1))[:, None]
    selective_XBK, selective_host_BK = np.zeros_like(again_XBK), core_host_BK
    selective_XBK[:2] = core_XBK
    if software.selective == "ops":
        selective_XBK[0] = 0.5 * (busy_YXBK[0, 0] - core_XBK[0])
        selective_XBK[1] = busy_YXBK[0, 1] - core_XBK[1]
        selective_host_BK = 0.75 * host_YBK[0]
    inner = np.ones((len(blocks), 1))
    inner[[0, -1]] = 0.0  # embedding and head are not recomputed
    busy_YXBK[2], host_YBK[2] = busy_YXBK[1] + selective_XBK * inner, host_YBK[1] + selective_host_BK * inner
    busy_YXBK[3], host_YBK[3] = busy_YXBK[1] + again_XBK * inner, host_YBK[1] + again_host_BK * inner
    hidden_YBK = (
        0.0 if cluster.gpu.architecture == "cpu" else busy_YXBK.sum(axis=1)
    )  # a processor is its own host
    busy_YXBK[:, 2] = np.maximum(host_YBK - hidden_YBK, 0.0)
    return busy_YXBK


def longest_stretch(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Array:
    """Seconds of the longest stretch of compute between two tensor-parallel syncs of layers' forward passes (K,)."""
    seconds: dict[tuple[int, int], Array] = {}
    for items, where, times in op_times(model, cluster, plan, software):
        for item, block, row_K in zip(items, where.tolist(), times.forward_OK, strict=True):
            seconds[block, id(item.op)] = row_K
    longest_K = np.zeros(plan.size)
    for position, block in enumerate(model.kinds[1:-1], 1):
        stretches = [np.zeros(plan.size)]
        for op in block.ops:
            stretches[-1] = stretches[-1] + seconds[position, id(op)]
            if op.kind == "gemm" and op.split == "row":
                stretches.append(np.zeros(plan.size))
        stretches[0] = stretches[0] + stretches[-1]  # what is behind the last sync goes on in the next layer
        longest_K = np.maximum(longest_K, np.maximum.reduce(stretches))
    return longest_K


def unneeded(model: Model) -> frozenset[int]:
    """Identities of the ops at the end of each layer whose output no op saves: the last projection and what follows."""
    found: set[int] = set()
    for block in model.kinds[1:-1]:
        for op in reversed(block.ops):
            found.add(id(op))
            if op.kind in ("gemm", "attention"):
                break
    return frozenset(found)


def _communicate(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    software: Software,
    busy_YXBK: Array,
    host_YBK: Array,
    core_XBK: Array,
) -> None:
    """Add tensor-, context- and expert-parallel communication to the forward and backward passes."""
    tp_K = np.asarray(plan.tp, dtype=float)
    once_K = tp_sync_seconds(model, cluster, plan, software)
    hidden_K = np.where(np.asarray(plan.overlap_tp).astype(bool), software.async_tp, 0.0)
    sequence_K = np.asarray(plan.sequence_parallel).astype(bool)
    # without sequence parallelism the input gradient's all-reduce runs beside the weight-gradient GEMM; with it, the
    # reduce-scatter does too, but the inputs have to be gathered again: what is hidden and what is added cancel
    back_hidden_K = np.maximum(hidden_K, np.where(sequence_K, 0.0, software.tp_overlap))
    calls_K = np.where(sequence_K, 2.0, 1.0) * (tp_K > 1)
    for position, block in enumerate(model.kinds):
        forward, backward = syncs_of(model, block)
        # what is hidden runs beside the pass's GEMMs: at most as long as they take (backward: the weights' half)
        gemms_K = busy_YXBK[0, 0, position] - core_XBK[0, position]
        busy_YXBK[0, 3, position] = forward * once_K - np.minimum(forward * once_K * hidden_K, gemms_K)
        busy_YXBK[1, 3, position] = backward * once_K - np.minimum(backward * once_K * back_hidden_K, gemms_K)
        host_YBK[0, position] += forward * calls_K * software.host_collective
        host_YBK[1, position] += backward * calls_K * software.host_collective
        for axis, seconds in ((4, _cp_seconds), (5, _ep_seconds)):
            pair = seconds(model, block, cluster, plan, software, core_XBK[:, position].sum(axis=0))
            busy_YXBK[0, axis, position], busy_YXBK[1, axis, position] = pair


def syncs_of(model: Model, block: Block) -> tuple[int, int]:
    """Tensor-parallel syncs forward and backward: the embedding has none backward, the head none forward."""
    if block is model.embedding:
        return 1, 0
    if block is model.head:
        return 0, 1
    return block.syncs, block.syncs


def tp_bytes(model: Model, plan: Plan) -> Array:
    """B that one tensor-parallel sync adds up or gathers (K,)."""
    return np.asarray(tokens(plan, plan.length(model)) * model.hidden * element_bytes(plan.precision))


def cp_bytes(model: Model, block: Block, plan: Plan) -> Array:
    """B of a block's keys and values of all context ranks, which each of them gathers (K,)."""
    cores = [op for op in block.ops if op.kind == "attention"]
    wide = sum((op.kv_heads or op.heads) * (op.head_dim + (op.value_dim or op.head_dim)) for op in cores)
    sequences = np.asarray(plan.micro_batch, dtype=float) / np.asarray(plan.tp)
    return np.asarray(sequences * plan.length(model) * wide * element_bytes(plan.precision))


def ep_bytes(model: Model, block: Block, plan: Plan, software: Software) -> Array:
    """B of routed tokens that the busiest expert rank sends in one all-to-all (K,)."""
    tp_K = np.where(np.asarray(plan.sequence_parallel).astype(bool), plan.tp, 1)
    routed_K = tokens(plan, plan.length(model)) / tp_K * block.top_k
    return np.asarray(routed_K * model.hidden * element_bytes(plan.precision) * software.expert_imbalance)


def tp_sync_seconds(model: Model, cluster: Cluster, plan: Plan, software: Software) -> Array:
    """Seconds of one tensor-parallel sync (K,): an all-reduce, or an all-gather and a reduce-scatter.

    On a machine that was measured it is what syncs took within a layer.
    """
    size_K = tp_bytes(model, plan)
    if cluster.host is not None and cluster.host.syncs:
        latency_K, per_byte_K = between(cluster.host.syncs, plan.tp)
        return np.where(np.asarray(plan.tp) > 1, latency_K + per_byte_K * size_K, 0.0)
    members_K = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).tp

    sequence_K = np.asarray(plan.sequence_parallel).astype(bool)

    def seconds(collective: str, ranks_K: Array, scale: float = 1.0) -> Array:
        members = np.minimum(members_K, ranks_K)
        return group_seconds(collective, size_K * scale, cluster, software, ranks=ranks_K, members=members)

    gathered = 0.5 if plan.precision == "fp8" and software.fp8_gather else 1.0
    whole_K, split_K = np.where(sequence_K, 1, plan.tp), np.where(sequence_K, plan.tp, 1)
    divided_K = seconds("all_gather", split_K, gathered) + seconds("reduce_scatter", split_K)
    return np.asarray(seconds("all_reduce", whole_K) + divided_K)


def _cp_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software, core_K: Array
) -> tuple[Array, Array]:
    """Exposed seconds of gathering keys and values over the context group, beside the attention of its own part."""
    cp_K = np.asarray(plan.cp, dtype=float)
    if not any(op.kind == "attention" for op in block.ops) or not (cp_K > 1).any():
        return np.zeros(1), np.zeros(1)
    gather_K = cp_gather_seconds(model, block, cluster, plan, software)
    hidden_K = core_K * ring_share(cp_K)
    return np.maximum(gather_K - hidden_K, 0.0), np.maximum(2 * gather_K - 2 * hidden_K, 0.0)


def cp_gather_seconds(model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software) -> Array:
    """Seconds of one such gather, hidden or not (K,)."""
    members_K = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).cp
    size_K = cp_bytes(model, block, plan)
    return group_seconds(
        "all_gather", size_K, cluster, software, ranks=plan.cp, members=members_K, stride=plan.tp
    )


def _ep_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software, core_K: Array
) -> tuple[Array, Array]:
    """Seconds of the two all-to-alls (dispatch, combine) of a mixture-of-experts layer."""
    ep_K = np.asarray(plan.ep, dtype=float)
    if not block.experts or not (ep_K > 1).any():
        return np.zeros(1), np.zeros(1)
    members_K = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).ep
    busiest_K = ep_bytes(model, block, plan, software)
    once_K = group_seconds(
        "all_to_all", busiest_K, cluster, software, ranks=plan.ep, members=members_K, stride=plan.tp
    )
    return 2 * once_K, 2 * once_K
