"""From an op per token to the work of one rank: shapes under a plan, and seconds of its kernels and collectives.

The seconds are those of the kernel and collective laws, at the speed that a framework reaches inside a step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.attention import AttentionShape, attention_seconds, fused_algorithm
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import Layout, gemm_seconds
from podsim.memo import Memo
from podsim.network.nccl import Members, collective_seconds
from podsim.records import dataclass, replace
from podsim.training.expert_load import expert_load
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Ints
from podsim.training.software import Software
from podsim.workload.model import Block, TensorOp

_KERNELS: Memo[Array] = Memo(8192)
"""The seconds of kernels of single plans, which software and other plans have in common."""


@dataclass(frozen=True)
class Item:
    """An op and the block it stands in."""

    op: TensorOp
    block: Block


@dataclass(frozen=True)
class OpTimes:
    """GPU seconds of ops, and the kernels that each launches."""

    forward: Shaped[Array, "op plan"]
    """s. The forward pass."""
    backward: Shaped[Array, "op plan"]
    """s. The backward pass."""
    weight: Shaped[Array, "op plan"]
    """s. The part of `backward` that computes weight gradients, which no earlier layer waits for."""
    kernels: Shaped[Array, "op plan"]
    """The number of kernels of the forward pass; one column if all plans have the same."""
    kernels_back: Shaped[Array, "op plan"]
    """The number of kernels of the backward pass."""

    def slowed(self, factor: float) -> OpTimes:
        """The same kernels, each slower by a factor."""
        if factor == 1.0:
            return self
        forward, backward, weight = factor * self.forward, factor * self.backward, factor * self.weight
        return replace(self, forward=forward, backward=backward, weight=weight)


def tokens(plan: Plan, sequence: int) -> Shaped[Array, "plan"]:
    """Tokens of one micro-batch on one rank."""
    return np.asarray(plan.micro_batch * (sequence / np.asarray(plan.cp)), dtype=float)


def element_bytes(precision: str) -> float:
    """Bytes of one activation element, as stored and sent."""
    return 4.0 if precision in ("fp32", "tf32") else 2.0


def split_ranks(plan: Plan, split: str, *, expert: bool = False) -> Shaped[Array, "plan"]:
    """Ranks among which the width or the tokens of an op, perhaps of experts, are divided."""
    if split in ("column", "row", "head", "vocab"):
        return np.asarray(plan.expert_ranks if expert else plan.tp, dtype=float)
    if split == "sequence":
        return np.where(np.asarray(plan.sequence_parallel).astype(bool), plan.tp, 1).astype(float)
    return np.ones_like(np.asarray(plan.tp, dtype=float))


def repeated_share(kv_heads: int, tp: Array) -> Shaped[Array, "plan"]:
    """Share of keys and values that a rank has beyond its part, where there are fewer heads of them than ranks."""
    return np.asarray(1 / np.minimum(kv_heads, tp) - 1 / tp)


def gemm_shapes(
    items: Sequence[Item], plan: Plan, sequence: int, software: Software
) -> tuple[Shaped[Array, "op plan"], ...]:
    """(m, n, k, batch) of each op's forward GEMM on one rank."""
    rank_tokens = tokens(plan, sequence)
    rows = []
    for item in items:
        op, block = item.op, item.block
        tp = split_ranks(plan, op.split, expert=op.expert)
        n = np.ceil(op.n / tp) if op.split in ("column", "vocab") else np.full_like(rank_tokens, op.n)
        if op.kv_heads:
            n = n + op.kv_heads * (op.head_dim + op.value_dim) * repeated_share(op.kv_heads, tp)
        k = np.ceil(op.k / tp) if op.split == "row" else np.full_like(rank_tokens, op.k)
        m = (rank_tokens / tp if op.split == "sequence" else rank_tokens) * op.share
        batch = np.ones_like(rank_tokens)
        if op.expert:
            batch = np.maximum(block.experts / np.asarray(plan.ep, dtype=float), 1.0)
            copies = rank_tokens * plan.expert_gather * block.top_k
            m = np.maximum(copies / batch * expert_load(plan, software), 1.0)
        rows.append((m, n, k, batch))
    return tuple(np.array(axis) for axis in zip(*rows, strict=True))


def gemm_times(gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> OpTimes:
    """Seconds of GEMMs: forward; backward is the input's and the weight's gradient."""
    m, n, k, batch = gemm_shapes(items, plan, sequence, software)
    alone = batch if software.expert_kernels else np.ones(1)  # experts, one after the other
    # forward, input gradient, weight gradient
    rows, columns, depths = np.array([m, m, k]), np.array([n, k, n]), np.array([k, n, m])
    precision = plan.precision

    def of(gemms: slice, layout: Layout) -> Shaped[Array, "gemm op plan"]:
        def seconds(m: Array, n: Array, k: Array, parts: Array) -> Array:
            return gemm_seconds(
                gpu, m, n, k, batch=parts, precision=precision, layout=layout, kernel="grouped"
            )

        sizes = (rows[gemms], columns[gemms], depths[gemms], batch / alone)
        return alone * _on_distinct((gpu, precision, layout), sizes, seconds)

    # operands of a weight's gradient are stored the other way round, which matters where a dimension is not aligned
    unaligned = any((size % _ALIGNED).any() for size in (m, n, k))
    seconds = np.concatenate([of(slice(2), "nn"), of(slice(2, 3), "nt")]) if unaligned else of(slice(3), "nn")
    expert = np.array([[item.op.expert] for item in items])
    seconds = seconds / (software.gemm_speed * np.where(expert, software.expert_speed, 1.0))
    if PRECISIONS[plan.precision].is_cast:
        moved = np.stack([*cast_elements(items, plan, software, m, n, k), np.zeros_like(m)]) * batch
        cast = np.where(expert, software.expert_cast_bytes, software.cast_bytes)
        seconds += memory_seconds(gpu, moved * cast) / software.memory_speed * (moved > 0)
    if software.accumulation_bytes:
        added = memory_seconds(gpu, n * k * batch * software.accumulation_bytes) / software.memory_speed
        seconds[2] += added
    back = np.array([[_BACK_PRODUCTS[item.op.gradient]] for item in items], dtype=float)
    if (back < 2).any():  # frozen weights: no gradient of theirs, or none at all
        seconds[1:] *= np.stack([back >= 1, back >= 2])
    if any(item.op.stored_bytes for item in items):
        seconds[:2] += _expansion_seconds(gpu, items, n * k * batch, software)
    routing = np.array([[software.router_kernels * (item.op.name == "moe.router")] for item in items])
    kernels = np.where(expert, _expert_kernels(batch, precision, software), 1.0 + routing)
    return OpTimes(seconds[0], seconds[1] + seconds[2], seconds[2], kernels, back * kernels)


_BACK_PRODUCTS = {"both": 2, "input": 1, "none": 0}
"""the products of a backward pass, by what has a gradient"""


def _expert_kernels(experts: Array, precision: str, software: Software) -> Shaped[Array, "op plan"]:
    """Kernels of a product of all experts of a rank: one, or those of each expert (TE: a cuBLAS product an expert)."""
    each = software.expert_kernels + software.block_kernels * bool(PRECISIONS[precision].block)
    return np.maximum(each * experts, 1.0)


def _expansion_seconds(
    gpu: Gpu, items: Sequence[Item], weights: Shaped[Array, "op plan"], software: Software
) -> Shaped[Array, "op plan"]:
    """Seconds to expand quantised weights to 16 bits, before the forward product and before that of the input's gradient.

    A pass over memory that reads the stored bytes and writes two a weight (QLoRA, equation 5).
    """
    moved = np.array([[item.op.stored_bytes + 2 * (item.op.stored_bytes > 0)] for item in items])
    return np.asarray(memory_seconds(gpu, weights * moved) / software.memory_speed * (moved > 0))


def logit_times(gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> OpTimes:
    """Seconds of the products that give logits: no framework casts their operands to fp8."""
    precision = "bf16" if PRECISIONS[plan.precision].is_cast else plan.precision
    return gemm_times(gpu, items, plan.having({"precision": precision}), sequence, software)


_ALIGNED = 32
"""The number of elements of half a byte, the narrowest, that kernels read at once."""


def cast_elements(
    items: Sequence[Item], plan: Plan, software: Software, m: Array, n: Array, k: Array
) -> tuple[Shaped[Array, "op plan"], Shaped[Array, "op plan"]]:
    """Elements that a rank casts to fp8: (inputs and weights forward, output gradients backward)."""
    split = np.asarray(plan.sequence_parallel).astype(bool) & software.fp8_gather
    share = np.where(split, 1 / np.asarray(plan.tp, dtype=float), 1.0)
    column = np.array([item.op.split == "column" for item in items])[:, None]
    row = np.array([item.op.split == "row" for item in items])[:, None]
    return m * k * np.where(column, share, 1.0) + n * k, m * n * np.where(row, share, 1.0)


def _on_distinct(
    kernel: tuple[Hashable, ...], sizes: Sequence[Array], seconds: Callable[..., Array]
) -> Array:
    """Seconds of kernels of some sizes, evaluated once per distinct size: a search meets each of them many times.

    Few sizes are kept for other plans and other software.
    """
    wide = np.broadcast_arrays(*sizes)
    if wide[0].size < 256:
        return _KERNELS.of((*kernel, *((s.shape, s.tobytes()) for s in sizes)), lambda: seconds(*wide))
    flat = [size.ravel() for size in wide]
    first, index = distinct_rows(flat)
    return np.asarray(seconds(*(size[first] for size in flat))[index].reshape(wide[0].shape))


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """(position of one row for each distinct row, the distinct row of each) of columns of any numbers.

    Hashes of 64 bits distinguish the rows; should two collide, columns are numbered one after the other.
    """
    code = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        code ^= np.ascontiguousarray(column, dtype=float).view(np.uint64)
        code *= _ODD
        code ^= code >> np.uint64(32)
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    if all(np.array_equal(column[first][index], column) for column in columns):
        return first, index
    number = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, rank = np.unique(column, return_inverse=True)
        _, number = np.unique(number * values.size + rank, return_inverse=True)
    _, first, index = np.unique(number, return_index=True, return_inverse=True)
    return first, index


def add_to_blocks(
    total: Shaped[Array, "block plan"], where: Array, seconds: Shaped[Array, "op plan"]
) -> None:
    """Add the seconds of ops to those of their blocks, one after the other, as other orders round otherwise."""
    if total.shape[-1] == 1:
        np.add.at(total, where, seconds)
        return
    for block, own in zip(where.tolist(), seconds, strict=True):  # quicker for many plans
        total[block] += own


_ODD = np.uint64(0x9E3779B97F4A7C15)
"""A multiplier that spreads bits: 2^64 over the golden ratio."""


def attention_times(
    gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software
) -> OpTimes:
    """Seconds of attention cores; under context parallelism each rank has its share of the queries and all keys."""
    flash = np.atleast_1d(np.asarray(plan.flash)).astype(bool)
    forward, backward, launched, launched_back = [], [], [], []
    for item in items:
        fused_softmax = ~flash & _is_softmax_fused(item.op, plan, software)
        seconds: list[Array] = [np.zeros(1), np.zeros(1)]
        ways = (
            (fused_algorithm(gpu, software.flash), True, flash),
            ("unfused", True, fused_softmax),
            ("unfused", False, ~flash & ~fused_softmax),
        )
        for algorithm, fused, where in ways:
            if where.any():
                for number, direction in enumerate(_DIRECTIONS):
                    own = _attention_seconds(gpu, item.op, plan, sequence, algorithm, direction, fused)
                    seconds[number] = np.where(where, own, seconds[number])
        forward.append(seconds[0])
        backward.append(seconds[1] * (item.op.gradient != "none"))
        launched.append(np.where(flash, 1.0, np.where(fused_softmax, 4.0, 7.0)))
        launched_back.append(np.where(flash, 3.0, np.where(fused_softmax, 6.0, 9.0)))
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


def _is_softmax_fused(op: TensorOp, plan: Plan, software: Software) -> Array:
    """Whether unfused attention has one kernel for scale, mask and softmax."""
    heads = np.maximum(op.heads / np.asarray(plan.tp, dtype=float), 1.0) * np.asarray(plan.micro_batch)
    return np.asarray(software.fused_softmax & (heads % _SCORES == 0))


def _attention_seconds(
    gpu: Gpu, op: TensorOp, plan: Plan, sequence: int, algorithm: str, direction: str, fused: bool
) -> Array:
    """Seconds of one direction."""
    precision = "bf16" if PRECISIONS[plan.precision].is_cast else plan.precision

    def seconds(batch: Array, tp: Array, cp: Array) -> Array:
        shape = AttentionShape(
            batch=batch,
            heads=np.maximum(op.heads / tp, 1.0),
            kv_heads=np.maximum((op.kv_heads or op.heads) / tp, 1.0),
            queries=sequence * op.share / cp,
            keys=float(sequence * op.key_share),
            head_dim=float(op.head_dim),
            value_dim=float(op.value_dim or op.head_dim),
            causal=op.causal,
            window=op.window,
        )
        return attention_seconds(
            gpu,
            shape,
            algorithm=algorithm,  # type: ignore[arg-type]
            direction=direction,  # type: ignore[arg-type]
            precision=precision,
            dropout=op.dropout,
            fused_softmax=fused,
        )

    kernel = (gpu, op, sequence, algorithm, direction, precision, fused)
    sizes = [np.atleast_1d(np.asarray(size, dtype=float)) for size in (plan.micro_batch, plan.tp, plan.cp)]
    return _on_distinct(kernel, sizes, seconds)


def memory_times(gpu: Gpu, items: Sequence[Item], plan: Plan, sequence: int, software: Software) -> OpTimes:
    """Seconds of memory-bound ops: norms, activations, dropouts, residuals, embedding, cross-entropy."""
    rank_tokens = tokens(plan, sequence)
    element = element_bytes(plan.precision)
    moved, moved_back = [], []
    for item in items:
        op = item.op
        copies, ordered = (
            rank_tokens / split_ranks(plan, op.split, expert=op.expert) * op.share,
            0.0 * rank_tokens,
        )
        if op.expert:
            copies = copies * plan.expert_gather * item.block.top_k
            routed = rank_tokens / split_ranks(plan, "sequence") * item.block.top_k * routed_width(item.block)
            ordered = ordered + routed * software.permute_bytes * (op.kind == "activation")
        scale = element * relative_traffic(op, software)
        moved.append(copies * (op.read + op.write) * scale + ordered)
        moved_back.append(copies * (op.read_back + op.write_back) * scale + ordered)
    seconds = memory_seconds(gpu, np.array([moved, moved_back]))
    seconds = seconds / software.memory_speed
    kernels = np.array([[max(1.0, round(relative_traffic(item.op, software) * 1.5))] for item in items])
    return OpTimes(seconds[0], seconds[1], np.zeros_like(kernels), kernels, 1.5 * kernels)


def relative_traffic(op: TensorOp, software: Software) -> float:
    """Bytes this framework moves for a memory-bound op, relative to one fused kernel."""
    if op.kind == "norm":
        return software.norm_traffic
    if op.kind == "cross_entropy":
        return software.loss_traffic
    return software.elementwise_traffic if op.fused else 1.0


def routed_width(block: Block) -> int:
    """Elements of a token as its experts take it; 0 without experts."""
    return next((op.k for op in block.ops if op.expert and op.kind == "gemm"), 0)


def group_seconds(
    collective: str,
    size: Array,
    cluster: Cluster,
    software: Software,
    *,
    ranks: Ints,
    members: Array,
    sharing: Array | None = None,
    stride: Array | Ints = 1,
) -> Array:
    """Seconds of one collective of `size` bytes over groups of `ranks`, `members` of them on each node (they broadcast).

    `stride` is how many GPUs one member is from the next. Conventions of size and sharing are those of
    podsim.network.nccl.collective_seconds.
    """
    if np.max(ranks) <= 1:
        return np.zeros(np.broadcast_shapes(np.shape(size), np.shape(ranks)))
    seconds = collective_seconds(
        collective,
        size,
        cluster,
        Members(ranks=ranks, ranks_per_node=members, sharing=sharing, stride=stride),
        version=software.nccl,
    )
    spans = np.asarray(ranks) > members
    some = (np.asarray(members) > 1) & (np.asarray(members) < cluster.gpus_per_node)
    between = cluster.system.network_speed * np.where(some, cluster.system.detour, 1.0)
    return np.asarray(seconds / np.where(spans, between, software.collective_speed))


def is_gemm(op: TensorOp) -> bool:
    """Whether an op is a matrix product."""
    return op.kind == "gemm"
