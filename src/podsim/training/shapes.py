"""From an op per token to the work of one rank: shapes under a plan, and seconds of its kernels.

Axes: O ops of one kind, K plans (distinct keys), D = 3 GEMMs of an op (forward, input gradient, weight gradient).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.attention import attention_seconds
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import Layout, gemm_seconds
from podsim.training.plan import Array, Plan
from podsim.training.software import Software
from podsim.training.unique import distinct_rows
from podsim.workload.graph import Block, TensorOp


@dataclass(frozen=True)
class Item:
    """An op and the block it stands in."""

    op: TensorOp
    block: Block


@dataclass(frozen=True)
class OpTimes:
    """GPU seconds of O ops under K plans, and kernels each launches."""

    forward_OK: Array
    backward_OK: Array
    weight_OK: Array
    """part of backward_OK that computes weight gradients, which no earlier layer waits for"""
    kernels_OK: Array
    """kernels launched forward (O, K) or (O, 1)"""
    kernels_back_OK: Array


def tokens(plan: Plan, sequence: int) -> Array:
    """Tokens of one micro-batch on one rank (K,)."""
    return np.asarray(plan.micro_batch * (sequence / np.asarray(plan.cp)), dtype=float)


def element_bytes(precision: str) -> float:
    """Bytes of one activation element, as stored and sent."""
    return 4.0 if precision in ("fp32", "tf32") else 2.0


def width(plan: Plan, split: str) -> Array:
    """Ranks among which an op's width or tokens are divided (K,)."""
    if split in ("column", "row", "head", "vocab"):
        return np.asarray(plan.tp, dtype=float)
    if split == "sequence":
        return np.where(np.asarray(plan.sequence_parallel).astype(bool), plan.tp, 1).astype(float)
    return np.ones_like(np.asarray(plan.tp, dtype=float))


def repeated(kv_heads: int, tp: Array) -> Array:
    """Share of keys and values that a rank has beyond its part, where there are fewer heads of them than ranks (K,)."""
    return np.asarray(1 / np.minimum(kv_heads, tp) - 1 / tp)


def gemm_shapes(items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> tuple[Array, ...]:
    """(m_OK, n_OK, k_OK, batch_OK) of each op's forward GEMM on one rank."""
    t_K = tokens(plan, sequence)
    rows = []
    for item in items:
        op, block = item.op, item.block
        tp = width(plan, op.split)
        n = np.ceil(op.n / tp) if op.split in ("column", "vocab") else np.full_like(t_K, op.n)
        if op.kv_heads:
            n = n + op.kv_heads * (op.head_dim + op.value_dim) * repeated(op.kv_heads, tp)
        k = np.ceil(op.k / tp) if op.split == "row" else np.full_like(t_K, op.k)
        m = t_K / tp if op.split == "sequence" else t_K
        batch = np.ones_like(t_K)
        if op.expert:
            batch = np.maximum(block.experts / np.asarray(plan.ep, dtype=float), 1.0)
            imbalance = np.where(np.asarray(plan.ep) > 1, software.expert_imbalance, 1.0)
            m = np.maximum(t_K * block.top_k / batch * imbalance, 1.0)
        rows.append((m, n, k, batch))
    return tuple(np.array(axis) for axis in zip(*rows, strict=True))


def gemm_times(gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> OpTimes:
    """Seconds of GEMMs: forward; backward is the input's and the weight's gradient."""
    m, n, k, batch = gemm_shapes(items, plan, sequence, software)
    m_DOK, n_DOK, k_DOK = np.array([m, m, k]), np.array([n, k, n]), np.array([k, n, m])
    precision = PRECISIONS[plan.precision].matmul

    def seconds(d: slice, layout: Layout) -> Array:
        return _gemm_distinct(gpu, m_DOK[d], n_DOK[d], k_DOK[d], batch, precision, layout)

    # a weight's gradient adds up over tokens, and no row of its operands is so long: any number of them is aligned
    if (m % _ALIGNED).any():
        seconds_DOK = np.concatenate([seconds(slice(2), "nn"), seconds(slice(2, 3), "nt")])
    else:
        seconds_DOK = seconds(slice(3), "nn")
    seconds_DOK = seconds_DOK / software.gemm_speed
    if plan.precision == "fp8":
        moved = np.stack([*cast_elements(items, plan, software, m, n, k), np.zeros_like(m)]) * batch
        seconds_DOK += memory_seconds(gpu, moved * software.cast_bytes) / software.memory_speed * (moved > 0)
    ones = np.ones((len(items), 1))
    return OpTimes(seconds_DOK[0], seconds_DOK[1] + seconds_DOK[2], seconds_DOK[2], ones, 2 * ones)


_ALIGNED = 16
"""elements of a byte, the narrowest, that kernels read at once"""


def cast_elements(
    items: Sequence[Item], plan: Plan, software: Software, m: Array, n: Array, k: Array
) -> tuple[Array, Array]:
    """(O, K) elements a rank casts to fp8: inputs and weights forward, output gradients backward."""
    split = np.asarray(plan.sequence_parallel).astype(bool) & software.fp8_gather
    share_K = np.where(split, 1 / np.asarray(plan.tp, dtype=float), 1.0)
    column = np.array([item.op.split == "column" for item in items])[:, None]
    row = np.array([item.op.split == "row" for item in items])[:, None]
    return m * k * np.where(column, share_K, 1.0) + n * k, m * n * np.where(row, share_K, 1.0)


def _gemm_distinct(
    gpu: Gpu, m: Array, n: Array, k: Array, batch: Array, precision: str, layout: Layout
) -> Array:
    """gemm_seconds, evaluated once per distinct shape: a search meets each of a few thousand many times.

    A batch is the experts of a rank, whose products are one kernel, or plain ones beside each other.
    """
    batch = np.broadcast_to(batch, m.shape)
    if m.size < 256:
        return gemm_seconds(gpu, m, n, k, batch=batch, precision=precision, layout=layout, grouped=True)
    first, index = distinct_rows([array.ravel() for array in (m, n, k, batch)])
    shapes = [array.ravel()[first] for array in (m, n, k, batch)]
    m_n_k, many = shapes[:3], shapes[3]
    seconds = gemm_seconds(gpu, *m_n_k, batch=many, precision=precision, layout=layout, grouped=True)
    return np.asarray(seconds[index].reshape(m.shape))


def attention_times(
    gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software
) -> OpTimes:
    """Seconds of attention cores; under context parallelism each rank has its share of the queries and all keys."""
    flash_K = np.atleast_1d(np.asarray(plan.flash)).astype(bool)
    forward, backward, launched, launched_back = [], [], [], []
    for item in items:
        fused_K = ~flash_K & _softmax_fused(item.op, plan, software)
        found: list[Array] = [np.zeros(1), np.zeros(1)]
        for algorithm, fused, where_K in (
            (software.flash, True, flash_K), ("unfused", True, fused_K), ("unfused", False, ~flash_K & ~fused_K),
        ):  # fmt: skip
            if where_K.any():
                for number, direction in enumerate(_DIRECTIONS):
                    seconds = _attention(gpu, item.op, plan, sequence, algorithm, direction, fused)
                    found[number] = np.where(where_K, seconds, found[number])
        forward.append(found[0])
        backward.append(found[1])
        launched.append(np.where(flash_K, 1.0, np.where(fused_K, 4.0, 7.0)))
        launched_back.append(np.where(flash_K, 3.0, np.where(fused_K, 6.0, 9.0)))
    ring = 1 + software.context_cost * (1 - 1 / np.asarray(plan.cp, dtype=float))
    speed = software.attention_speed / ring
    none = np.zeros((len(items), 1))
    return OpTimes(
        np.array(forward) / speed,
        np.array(backward) / speed,
        none,
        np.array(launched),
        np.array(launched_back),
    )


_DIRECTIONS = ("forward", "backward")


_SCORES = 4
"""heads of all samples on a rank must be a multiple of it for Megatron-LM's kernel of scale, mask and softmax
(megatron/model/fused_softmax.py, is_kernel_available)"""


def _softmax_fused(op: TensorOp, plan: Plan, software: Software) -> Array:
    """Whether unfused attention has one kernel for scale, mask and softmax."""
    heads_K = np.maximum(op.heads / np.asarray(plan.tp, dtype=float), 1.0) * np.asarray(plan.micro_batch)
    return np.asarray(software.fused_softmax & (heads_K % _SCORES == 0))


def _attention(
    gpu: Gpu, op: TensorOp, plan: Plan, sequence: int, algorithm: str, direction: str, fused: bool
) -> Array:
    tp = np.asarray(plan.tp, dtype=float)
    return attention_seconds(
        gpu,
        batch=np.asarray(plan.micro_batch, dtype=float),
        heads=np.maximum(op.heads / tp, 1.0),
        kv_heads=np.maximum((op.kv_heads or op.heads) / tp, 1.0),
        queries=sequence / np.asarray(plan.cp, dtype=float),
        keys=float(sequence),
        head_dim=float(op.head_dim),
        value_dim=float(op.value_dim or op.head_dim),
        causal=op.causal,
        algorithm=algorithm,  # type: ignore[arg-type]
        direction=direction,  # type: ignore[arg-type]
        precision="bf16" if plan.precision == "fp8" else PRECISIONS[plan.precision].matmul,
        window=op.window,
        dropout=op.dropout,
        fused_softmax=fused,
    )


def memory_times(gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> OpTimes:
    """Seconds of memory-bound ops: norms, activations, dropouts, residuals, embedding, cross-entropy."""
    t_K = tokens(plan, sequence)
    element = element_bytes(plan.precision)
    moved_OK, moved_back_OK = [], []
    for item in items:
        op = item.op
        copies = t_K / width(plan, op.split) * (item.block.top_k if op.expert else 1)
        scale = element * traffic(op, software)
        moved_OK.append(copies * (op.read + op.write) * scale)
        moved_back_OK.append(copies * (op.read_back + op.write_back) * scale)
    seconds = memory_seconds(gpu, np.array([moved_OK, moved_back_OK]))
    seconds = seconds / software.memory_speed
    kernels = np.array([[max(1.0, round(traffic(item.op, software) * 1.5))] for item in items])
    return OpTimes(seconds[0], seconds[1], np.zeros_like(kernels), kernels, 1.5 * kernels)


def traffic(op: TensorOp, software: Software) -> float:
    """Bytes this framework moves for a memory-bound op, relative to one fused kernel."""
    if op.kind == "norm":
        return software.norm_traffic
    if op.kind == "cross_entropy":
        return software.loss_traffic
    return software.elementwise_traffic if op.fused else 1.0


def is_gemm(op: TensorOp) -> bool:
    """Whether an op is a matrix product."""
    return op.kind == "gemm"
