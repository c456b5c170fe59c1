"""Bytes of memory where PyTorch's own parallelism trains: FSDP2, DTensor and torch.distributed.pipelining.

Activations, gradients and logits have their high waters at different moments of a step, so that the highest moment
counts, not the sum of high waters. Where a line has a source, it is a file of PyTorch 2.13; all of it was held against
fake runs of the real thing (`tests/training/test_memory_torch.py`).

Axes: S classes of stages, B blocks, K plans (distinct keys), P plans, R = 3 ways of recomputing, W = 2 ways of tensor
parallelism (plain collectives, overlapped ones).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.training.plan import Array, Plan, Recompute, Schedule
from podsim.training.shapes import element_bytes, tokens, width
from podsim.training.software import Software
from podsim.workload.graph import Block, TensorOp

_FP32 = 4.0


def kept_by_products(block: Block, plan: Plan, sequence: int, hidden: int) -> Array:
    """Bytes that per-op checkpointing keeps of a layer: its input, attention's output, every second matrix product (K,).

    Under tensor parallelism a product that is still to be summed over the group is kept whole, and its sum besides
    (torchtitan 0.1, models/llama3/infra/parallelize.py: `_save_list`, `_apply_ac_to_transformer_block`).
    """
    t_K, element = tokens(plan, sequence), element_bytes(plan.precision)
    core = next((op for op in block.ops if op.kind == "attention"), None)
    down = [op.k for op in block.ops if op.kind == "gemm" and op.split == "row"]
    kept_K = t_K * hidden * element / width(plan, "sequence")
    position = 0
    for op in block.ops:
        if op.kind == "attention":
            kept_K = kept_K + t_K * op.heads * ((op.value_dim or op.head_dim) * element + _FP32) / plan.tp
        if op.kind != "gemm":
            continue
        copies_K = t_K * max(block.top_k, 1) if op.expert else t_K
        products = [op.n]
        if core is not None and op.n == (core.heads + 2 * core.kv_heads) * core.head_dim:
            products = [core.heads * core.head_dim, *[core.kv_heads * core.head_dim] * 2]
        elif op.n in [2 * k for k in down]:
            products = [op.n // 2] * 2
        for size in products:
            position += 1
            if position % 2:
                kept_K = kept_K + copies_K * size * element / width(
                    plan, "none" if op.split == "row" else op.split
                )
        if op.split == "row":
            kept_K = kept_K + np.where(
                np.asarray(plan.tp) > 1, copies_K * op.n * element / width(plan, "sequence"), 0.0
            )
    return np.asarray(kept_K)


def logit_bytes(plan: Plan, software: Software) -> Array:
    """Bytes held per logit while the loss runs backward (K,), without the logits themselves.

    `cross_entropy` keeps log-probabilities, and makes two gradients from them, all in fp32. Where the vocabulary is
    divided it also makes their exponentials apart (tensor/parallel/loss.py, `_nll_loss_and_log_softmax_backward`).
    """
    return software.logit_bytes + _FP32 + np.where(np.asarray(plan.tp) > 1, _FP32, 0.0)


def norm_copies(block: Block, plan: Plan, tokens_K: Array) -> Array:
    """Bytes that norms run op by op keep in fp32, their input and a product, beyond the input in low precision (K,).

    `tokens_K`: bytes of one element of every token.
    """
    wide = sum(saved.elements for op in block.ops if op.kind == "norm" for saved in op.saved)
    return np.asarray(
        tokens_K * wide * (2 * _FP32 / element_bytes(plan.precision) - 1) / width(plan, "sequence")
    )


class Passing(NamedTuple):
    """Sizes of what passes through a layer (K,)."""

    slice: Array
    """B of a rank's part of the hidden states"""
    whole: Array
    """B of the hidden states gathered over the TP group; 0 where none are"""
    inner: Array
    """B of the MLP's inner width"""
    heads: Array
    """B of the queries"""
    tokens: Array
    """B of one element of every token"""
    repeated: Array
    """B that keys and values grow by when they are repeated for every head; a single head is only viewed"""


def passing(block: Block, plan: Plan, sequence: int, hidden: int) -> Passing:
    """What passes through a layer under K plans."""
    t_K, element = tokens(plan, sequence), element_bytes(plan.precision)
    split_K = np.asarray(plan.sequence_parallel).astype(bool)
    inner_K, heads_K, repeated_K = np.zeros(plan.size), np.zeros(plan.size), np.zeros(plan.size)
    for op in _inner(block):
        inner_K = inner_K + t_K * (max(block.top_k, 1) if op.expert else 1) * op.k * element / width(
            plan, "row"
        )
    core = next((op for op in block.ops if op.kind == "attention"), None)
    if core is not None:
        heads_K = t_K * core.heads * core.head_dim * element / np.asarray(plan.tp)
        several_K = core.kv_heads > np.asarray(plan.tp)
        repeated_K = np.where(several_K, 2 * heads_K * (1 - core.kv_heads / core.heads), 0.0)
    return Passing(
        t_K * hidden * element / width(plan, "sequence"),
        np.where(split_K, t_K * hidden * element, 0.0),
        inner_K,
        heads_K,
        t_K * element,
        repeated_K,
    )


def _inner(block: Block) -> list[TensorOp]:
    """The products that close an MLP: those whose result is summed over the TP group, but for attention's."""
    return [op for op in block.ops if op.kind == "gemm" and op.split == "row"][1:]


def kept_by_ops(block: Block, plan: Plan, software: Software, through: Passing, saved_K: Array) -> Array:
    """Bytes a layer keeps without recomputation: `saved_K` by the ops' count, and what nothing fuses away (K,).

    That is, run op by op: fp32 copies in norms, the MLP's activation beside its product, keys and values repeated for
    every head.
    """
    if software.fuses:
        return saved_K + through.repeated
    copies_K = norm_copies(block, plan, through.tokens)
    return np.asarray(saved_K + copies_K + through.inner + through.repeated)


def working_set(block: Block, plan: Plan, software: Software, through: Passing, kept_K: Array) -> Array:
    """Bytes alive while a layer runs backward, at most: what it keeps and what passes through it (W, K).

    Three moments: the last product of the MLP, the gated product before it, and attention. DTensor gathers along the
    sequence, so that a collective's own buffer stands beside the reordered copy
    (distributed/_functional_collectives.py, all_gather_tensor: cat of chunks). AsyncTP writes each part where it belongs;
    but with several sequences they lie in turns, and what reads them flat copies them
    (distributed/_symmetric_memory, `_fused_all_gather_matmul_impl`: unflatten).
    A gradient gathered in fp8 has half the bytes, and a transposed copy beside it (torchao, preprocess_addmm).
    """
    element = element_bytes(plan.precision)
    one_K = through.inner
    mlp_K = sum((op.weight for op in _inner(block) if not op.expert), 0.0) * element / width(plan, "row")
    weights = sum(op.weight for op in block.ops if not op.expert) * element
    done_K = (
        2 * through.slice + weights / np.asarray(plan.tp, dtype=float) - (3 if software.fuses else 4) * one_K
    )
    ring_K = np.where(np.asarray(plan.cp) > 1, _ring(plan, through.heads, element), 0.0)
    product_K = np.maximum(through.whole + one_K, 2 * one_K) + mlp_K
    ways = []
    for beside_K in (through.whole, np.where(np.asarray(plan.micro_batch) > 1, through.whole, 0.0)):
        attention_K = done_K + np.maximum(through.whole + beside_K, ring_K)
        ways.append(kept_K + np.maximum(product_K, attention_K))
    return np.stack(ways)


def _ring(plan: Plan, heads_K: Array, element: float) -> Array:
    """Bytes of ring attention's backward pass over a context group (K,).

    Keys and values, already repeated for every head: joined, and gathered from all; fp32 gradients of queries, keys and
    values; those of keys and values joined, and on their way (tensor/experimental/_context_parallel/_attention.py,
    `_templated_ring_attention_backward`).
    """
    gathered_K = 2 * heads_K * (1 + np.asarray(plan.cp))
    return np.asarray(gathered_K + (3 + 2 + 2) * heads_K * _FP32 / element)


class Parts(NamedTuple):
    """What of a plan's memory changes within a step, at its highest moment: bytes (S, P)."""

    weights: Array
    gradients: Array
    activations: Array
    logits: Array
    buffers: Array


class _Sizes(NamedTuple):
    """Elements and bytes that every moment counts with (S, P)."""

    held: Array
    """parameters of the stage's share"""
    embed: Array
    table: Array
    """parameters of the embedding, not divided over the TP group"""
    head: Array
    layer: Array
    """of the largest layer"""
    unit: Array
    """B that a micro-batch leaves in one chunk"""
    end: Array
    """B that the head keeps of the micro-batch at hand"""
    ends: Array
    """B that it keeps of all others whose loss waits"""
    outputs: Array
    """B of logits that outlive their loss"""
    loss: Array
    """B of the loss"""
    work: Array
    """B of a layer that runs backward, beyond what its micro-batch keeps of it"""


@dataclass(frozen=True)
class InTorch:
    """What the highest moment of a step depends on, whatever ZeRO divides."""

    counts_SBP: Array
    chunks_SP: Array
    """in flight"""
    dense_BP: Array
    """parameters of each block on a rank"""
    expert_BP: Array
    kept_BP: Array
    """B of a micro-batch in each block"""
    layers_SP: Array
    """of all layers of a stage"""
    slice_P: Array
    """of a rank's part of the hidden states"""
    logits_P: Array
    work_P: Array


def moments(plan: Plan, software: Software, held: InTorch) -> Parts:
    """The highest moment of each class of stages."""
    counts_SBP, chunks_SP, kept_BP = held.counts_SBP, held.chunks_SP, held.kept_BP
    dense_BP, expert_BP, slice_P, logits_P = held.dense_BP, held.expert_BP, held.slice_P, held.logits_P
    piped_P = np.asarray(plan.pp) > 1
    v_P = np.where(piped_P, plan.virtual_stages, 1.0)
    m_P = np.asarray(plan.micro_batches, dtype=float)
    first_SP, last_SP = counts_SBP[:, 0] > 0, counts_SBP[:, -1] > 0
    into_SP, outof_SP = v_P - first_SP, v_P - last_SP
    elements_P = logits_P / logit_bytes(plan, software)
    waiting_P = np.where(_together(plan), m_P, 1.0)
    sizes = _Sizes(
        held=(counts_SBP * (dense_BP + expert_BP)).sum(axis=1),
        embed=counts_SBP[:, 0] * dense_BP[0],
        table=counts_SBP[:, 0] * dense_BP[0] * plan.tp,
        head=counts_SBP[:, -1] * dense_BP[-1],
        layer=(dense_BP + expert_BP)[1:-1].max(axis=0) + np.zeros_like(first_SP, dtype=float),
        # a stage keeps what it sent; what it received lies in the buffers
        unit=(held.layers_SP + counts_SBP[:, 0] * kept_BP[0] + piped_P * slice_P * (outof_SP - into_SP))
        / v_P,
        end=last_SP * kept_BP[-1],
        ends=last_SP * (kept_BP[-1] + elements_P * _FP32) * (waiting_P - 1),
        outputs=last_SP * elements_P * element_bytes(plan.precision) * np.where(piped_P, m_P, 1.0),
        loss=last_SP * logits_P,
        work=held.work_P + np.zeros_like(first_SP, dtype=float),
    )
    received_SP = np.where(piped_P, m_P * slice_P * (into_SP + outof_SP), 0.0)
    sharded_P = np.asarray(plan.zero) >= 3
    stored = element_bytes(plan.precision)
    root_SP = sizes.embed + sizes.head
    gathers_SP = stored * (
        np.maximum(root_SP, sizes.layer) + sizes.layer * (1 + 1 / np.asarray(plan.shard_ranks, dtype=float))
    )
    whole_P = piped_P & sharded_P & (not software.regather)
    alone, piped = None, None
    if not whole_P.all():
        alone = _alone(plan, sizes, chunks_SP, sharded_P, software)
    if whole_P.any():
        piped = _piped(plan, sizes, chunks_SP, v_P, m_P, software)
    if piped is None or alone is None:
        best = piped or alone
        assert best is not None
    else:
        best = Parts(*(np.where(whole_P, one, other) for one, other in zip(piped, alone, strict=True)))
    return best._replace(buffers=best.buffers + received_SP + np.where(sharded_P, gathers_SP, 0.0))


def _together(plan: Plan) -> Array:
    """Where all forward passes come before the first backward pass."""
    schedule = np.asarray(plan.schedule)
    return np.asarray((schedule == Schedule.GPIPE) | (schedule == Schedule.BREADTH_FIRST)) & (
        np.asarray(plan.pp) > 1
    )


def chunks_apart(plan: Plan) -> Array:
    """Where a chunk's gradients are reduced before the next chunk of the rank has any."""
    schedule = np.asarray(plan.schedule)
    rounds = (schedule == Schedule.INTERLEAVED) & (np.asarray(plan.micro_batches) <= np.asarray(plan.pp))
    return np.asarray((schedule == Schedule.BREADTH_FIRST) | rounds) & (np.asarray(plan.virtual_stages) > 1)


def _highest(options: list[Parts]) -> Parts:
    """The option with most bytes, stage by stage and plan by plan."""
    best, most = options[0], sum(options[0])
    for option in options[1:]:
        total = sum(option)
        higher = np.asarray(total > most)
        best = Parts(*(np.where(higher, one, other) for one, other in zip(option, best, strict=True)))
        most = np.where(higher, total, most)
    return best


def _layer(sizes: _Sizes, weights: Array, gradients: Array, chunks: Array, work: Array) -> Parts:
    """A layer that runs backward, with so many chunks in flight."""
    zero = np.zeros_like(sizes.held)
    return Parts(
        weights + zero, gradients + zero, chunks * sizes.unit + sizes.ends + work, sizes.outputs + zero, zero
    )


def _loss(sizes: _Sizes, weights: Array, gradients: Array, chunks: Array) -> Parts:
    """The loss, forward or backward, with so many chunks in flight."""
    zero = np.zeros_like(sizes.held)
    kept_SP = chunks * sizes.unit + sizes.ends + sizes.end
    return Parts(weights + zero, gradients + zero, kept_SP, sizes.outputs + sizes.loss, zero)


def _piped(plan: Plan, sizes: _Sizes, chunks_SP: Array, v_P: Array, m_P: Array, software: Software) -> Parts:
    """FSDP under a pipeline: weights gathered once a step, gradients added up whole until the last micro-batch.

    pipelining/stage.py, `backward_maybe_with_nosync` and `perform_reduce_grad`; fsdp/_fully_shard/_fsdp_param.py,
    `to_accumulated_grad_if_needed`. A lookup's gradient stays a whole table per rank, to be summed over the TP group when
    it is reduced (tensor/_ops/_embedding_ops.py: no strategy divides it by rows).
    """
    stored, kept = element_bytes(plan.precision), software.gradient_memory
    apart_P = chunks_apart(plan)
    share_P = np.where(apart_P, 1 / v_P, 1.0)
    layers_SP = sizes.held - sizes.embed - sizes.head
    all_SP = sizes.held * stored
    early_SP = (layers_SP * share_P + sizes.head + np.where(apart_P, 0.0, sizes.table)) * kept
    late_SP = (layers_SP * share_P + sizes.table + np.where(apart_P, 0.0, sizes.head)) * kept
    left_SP = np.where(apart_P, (layers_SP * share_P + sizes.embed) * stored, all_SP)
    passes_P = np.where(apart_P, m_P, m_P * v_P)
    none = np.zeros_like(all_SP)
    before, after = np.minimum(chunks_SP, m_P * v_P - 1), np.minimum(chunks_SP, passes_P - 1)
    # what a chunk's head keeps is gone when an earlier chunk runs backward, but for the logits
    later = sizes._replace(ends=np.where(apart_P, 0.0, sizes.ends))
    return _highest(
        [
            _layer(sizes, all_SP, none, chunks_SP, sizes.work),
            _loss(sizes, all_SP, none, chunks_SP),
            _layer(sizes, all_SP, early_SP, before, sizes.work),
            _loss(sizes, all_SP, early_SP, before),
            _layer(later, left_SP, late_SP, after, sizes.work),
            _layer(later, left_SP, late_SP, np.minimum(chunks_SP, passes_P) - 1, sizes.table * stored),
        ]
    )


def _alone(plan: Plan, sizes: _Sizes, chunks_SP: Array, sharded_P: Array, software: Software) -> Parts:
    """No gradient waits: the loss, or the last layer backward.

    Sharded: that layer's weights (kept after the forward pass) and, behind the loss, the weights of embedding and head,
    the head's gradient, and of a layer's gradient the copy that is being reduced (_fsdp_collectives.py, foreach_reduce).
    """
    stored = element_bytes(plan.precision)
    none = np.zeros_like(sizes.held)
    root_SP = sizes.embed + sizes.head
    behind_SP = (root_SP + sizes.head + sizes.layer) * stored + sizes.layer * software.gradient_memory
    loss = _loss(sizes, none, none, chunks_SP)
    layer = _layer(sizes, none, none, chunks_SP, sizes.work)
    return _highest(
        [
            loss._replace(buffers=np.where(sharded_P, sizes.layer * stored, 0.0)),
            layer._replace(buffers=np.where(sharded_P, behind_SP, 0.0)),
        ]
    )


def beyond_kept(plan: Plan, work_P: Array, kept_RP: Array) -> Array:
    """Bytes that a layer running backward holds beyond what its micro-batch keeps of it (P,)."""
    mode = np.asarray(plan.recompute)
    none_P, some_P = np.maximum(work_P - kept_RP[0], 0.0), np.maximum(work_P - kept_RP[1], 0.0)
    return np.where(mode == Recompute.NONE, none_P, np.where(mode == Recompute.SELECTIVE, some_P, work_P))
