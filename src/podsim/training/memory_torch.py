"""Bytes of memory where PyTorch's own parallelism trains: FSDP2, DTensor and torch.distributed.pipelining.

Activations, gradients and logits have their high waters at different moments of a step, so that the highest moment
counts, not the sum of high waters. Where a line has a source, it is a file of PyTorch 2.13; all of it was held against
fake runs of the real thing (`tests/training/test_memory_torch.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.axes import Shaped
from podsim.records import dataclass, replace
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Recompute, Schedule
from podsim.training.shapes import element_bytes, split_ranks, tokens
from podsim.training.software import Software
from podsim.workload.model import Block, TensorOp

_FP32 = 4.0


def op_checkpoint_bytes(block: Block, plan: Plan, sequence: int, hidden: int) -> Shaped[Array, "plan"]:
    """Bytes that per-op checkpointing keeps of a layer: its input, attention's output, every second matrix product.

    Under tensor parallelism a product that is still to be summed over the group is kept whole, and its sum besides
    (torchtitan 0.1, models/llama3/infra/parallelize.py: `_save_list`, `_apply_ac_to_transformer_block`).
    """
    rank_tokens, element = tokens(plan, sequence), element_bytes(plan.precision)
    kept = rank_tokens * hidden * element / split_ranks(plan, "sequence")
    position = 0
    for op in block.ops:
        if op.kind == "attention":
            kept = kept + rank_tokens * op.heads * ((op.value_dim or op.head_dim) * element + _FP32) / plan.tp
        if op.kind != "gemm":
            continue
        copies = rank_tokens * max(block.top_k, 1) * plan.expert_gather if op.expert else rank_tokens
        for size in _product_widths(block, op):
            position += 1
            if position % 2:
                ranks = split_ranks(plan, "none" if op.split == "row" else op.split, expert=op.expert)
                kept = kept + copies * size * element / ranks
        if op.split == "row":
            summed = copies * op.n * element / split_ranks(plan, "sequence")
            kept = kept + np.where(np.asarray(plan.tp) > 1, summed, 0.0)
    return np.asarray(kept)


def _product_widths(block: Block, op: TensorOp) -> list[int]:
    """Widths of the products that PyTorch runs for one op: queries, keys, values; gate and up."""
    core = next((other for other in block.ops if other.kind == "attention"), None)
    if op.name.startswith("attention"):
        if core is not None and op.n == (core.heads + 2 * core.kv_heads) * core.head_dim:
            return [core.heads * core.head_dim, *[core.kv_heads * core.head_dim] * 2]
        return [op.n]
    return [op.n // 2] * 2 if op.n in [2 * other.k for other in _mlp_ends(block)] else [op.n]


def logit_bytes(plan: Plan, software: Software) -> Shaped[Array, "plan"]:
    """Bytes held per logit while the loss runs backward, without the logits themselves.

    `cross_entropy` keeps log-probabilities, and makes two gradients from them, all in fp32. Where the vocabulary is
    divided it also makes their exponentials apart (tensor/parallel/loss.py, `_nll_loss_and_log_softmax_backward`).
    """
    return software.logit_bytes + _FP32 + np.where(np.asarray(plan.tp) > 1, _FP32, 0.0)


def norm_copy_bytes(block: Block, plan: Plan, token_bytes: Shaped[Array, "plan"]) -> Shaped[Array, "plan"]:
    """Bytes that norms run op by op keep in fp32, their input and a product, beyond the input in low precision.

    `token_bytes`: bytes of one element of every token.
    """
    wide = sum(saved.elements for op in block.ops if op.kind == "norm" for saved in op.saved)
    ratio = 2 * _FP32 / element_bytes(plan.precision) - 1
    return np.asarray(token_bytes * wide * ratio / split_ranks(plan, "sequence"))


class TrafficBytes(NamedTuple):
    """Bytes of what passes through a layer."""

    state: Shaped[Array, "plan"]
    """B. The rank's part of the hidden states."""
    gathered: Shaped[Array, "plan"]
    """B. The hidden states gathered over the TP group; 0 where none are."""
    inner: Shaped[Array, "plan"]
    """B. The inner activations of the MLP."""
    heads: Shaped[Array, "plan"]
    """B. The queries."""
    tokens: Shaped[Array, "plan"]
    """B. One element of every token."""
    repeated: Shaped[Array, "plan"]
    """B. The growth of keys and values that are repeated for every head; a single head is only viewed."""


def traffic_bytes(block: Block, plan: Plan, sequence: int, hidden: int) -> TrafficBytes:
    """What passes through a layer under each plan."""
    rank_tokens, element = tokens(plan, sequence), element_bytes(plan.precision)
    is_split = np.asarray(plan.sequence_parallel).astype(bool)
    inner, heads, repeated = np.zeros((3, plan.size))
    for op in _mlp_ends(block):
        copies = rank_tokens * (max(block.top_k, 1) * plan.expert_gather if op.expert else 1)
        inner = inner + copies * op.k * element / split_ranks(plan, "row", expert=op.expert)
    core = next((op for op in block.ops if op.kind == "attention"), None)
    if core is not None:
        heads = rank_tokens * core.heads * core.head_dim * element / np.asarray(plan.tp)
        several = core.kv_heads > np.asarray(plan.tp)
        repeated = np.where(several, 2 * heads * (1 - core.kv_heads / core.heads), 0.0)
    return TrafficBytes(
        state=rank_tokens * hidden * element / split_ranks(plan, "sequence"),
        gathered=np.where(is_split, rank_tokens * hidden * element, 0.0),
        inner=inner,
        heads=heads,
        tokens=rank_tokens * element,
        repeated=repeated,
    )


def _mlp_ends(block: Block) -> list[TensorOp]:
    """The products that close an MLP: those whose result is summed over the TP group, except attention's."""
    return [op for op in block.ops if op.kind == "gemm" and op.split == "row"][1:]


def plain_layer_bytes(
    block: Block, plan: Plan, software: Software, traffic: TrafficBytes, saved: Shaped[Array, "plan"]
) -> Shaped[Array, "plan"]:
    """Bytes a layer keeps without recomputation: `saved` by the ops' count, and what nothing fuses away.

    That is, run op by op: fp32 copies in norms, the MLP's activation and its product, keys and values repeated for
    every head.
    """
    if software.fuses:
        return saved + traffic.repeated
    copies = norm_copy_bytes(block, plan, traffic.tokens)
    return np.asarray(saved + copies + traffic.inner + traffic.repeated)


def working_bytes(
    block: Block, plan: Plan, software: Software, traffic: TrafficBytes, kept: Shaped[Array, "plan"]
) -> Shaped[Array, "tensor plan"]:
    """The most bytes alive during a layer's backward pass: those that it keeps and those that pass through it.

    Three moments: the last product of the MLP, the gated product before it, and attention. DTensor gathers along the
    sequence, so that a collective's own buffer and the reordered copy exist at once
    (distributed/_functional_collectives.py, all_gather_tensor: cat of chunks). AsyncTP writes each part where it belongs;
    but with several sequences they lie in turns, and what reads them flat copies them
    (distributed/_symmetric_memory, `_fused_all_gather_matmul_impl`: unflatten).
    A gradient gathered in fp8 has half the bytes, and a transposed copy (torchao, preprocess_addmm).
    """
    element = element_bytes(plan.precision)
    mlp = (
        sum((op.weight for op in _mlp_ends(block) if not op.expert), 0.0) * element / split_ranks(plan, "row")
    )
    weights = sum(op.weight for op in block.ops if not op.expert) * element
    freed = (3 if software.fuses else 4) * traffic.inner
    gradients = 2 * traffic.state + weights / np.asarray(plan.tp, dtype=float) - freed
    ring = np.where(np.asarray(plan.cp) > 1, _ring_bytes(plan, traffic.heads, element), 0.0)
    product = np.maximum(traffic.gathered + traffic.inner, 2 * traffic.inner) + mlp
    copied = np.where(np.asarray(plan.micro_batch) > 1, traffic.gathered, 0.0)
    attention = [gradients + np.maximum(traffic.gathered + copy, ring) for copy in (traffic.gathered, copied)]
    return np.stack([kept + np.maximum(product, way) for way in attention])


def _ring_bytes(plan: Plan, heads: Shaped[Array, "plan"], element: float) -> Shaped[Array, "plan"]:
    """Bytes of ring attention's backward pass over a context group.

    Keys and values, already repeated for every head: joined, and gathered from all; fp32 gradients of queries, keys and
    values; those of keys and values joined, and on their way (tensor/experimental/_context_parallel/_attention.py,
    `_templated_ring_attention_backward`).
    """
    gathered = 2 * heads * (1 + np.asarray(plan.cp))
    return np.asarray(gathered + (3 + 2 + 2) * heads * _FP32 / element)


def beyond_kept_bytes(
    working: Shaped[Array, "tensor plan"], kept: Shaped[Array, "recompute plan"]
) -> Shaped[Array, "recompute tensor plan"]:
    """Bytes that a layer running backward holds beyond what its micro-batch keeps of it, under each way to recompute."""
    beyond = np.maximum(working - kept[:, None], 0.0)
    beyond[Recompute.FULL] = working  # what is kept is its input alone
    return np.asarray(beyond)


@dataclass(frozen=True, kw_only=True)
class TorchLayout:
    """What the highest moment of a step depends on, before ZeRO divides it."""

    blocks: Shaped[Array, "stage block plan"]
    """The copies of each block in a stage."""
    chunks_in_flight: Shaped[Array, "stage plan"]
    """The model chunks of micro-batches whose activations a stage holds at once."""
    dense: Shaped[Array, "block plan"]
    """The parameters of each block on a rank, except experts."""
    expert: Shaped[Array, "block plan"]
    """The parameters of its experts."""
    block_bytes: Shaped[Array, "block plan"]
    """B. The bytes that a micro-batch keeps in each block."""
    layers_bytes: Shaped[Array, "stage plan"]
    """B. The bytes that it keeps in all layers of a stage."""
    state_bytes: Shaped[Array, "plan"]
    """B. The rank's part of the hidden states."""
    logit_bytes: Shaped[Array, "plan"]
    """B. The loss."""
    working_bytes: Shaped[Array, "plan"]
    """B. A layer that runs backward, beyond what its micro-batch keeps of it."""


class Moment(NamedTuple):
    """Bytes at one moment of a step, of the kinds that change within it."""

    weights: Shaped[Array, "stage plan"]
    gradients: Shaped[Array, "stage plan"]
    activations: Shaped[Array, "stage plan"]
    logits: Shaped[Array, "stage plan"]
    buffers: Shaped[Array, "stage plan"]


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Parameters and bytes that the moments of a step are made of."""

    stage: Shaped[Array, "stage plan"]
    """The parameters of a rank."""
    embedding: Shaped[Array, "stage plan"]
    """The parameters of the embedding on a rank."""
    table: Shaped[Array, "stage plan"]
    """The parameters of the whole embedding, not divided over the TP group."""
    head: Shaped[Array, "stage plan"]
    """The parameters of the head."""
    layer: Shaped[Array, "stage plan"]
    """The parameters of the largest layer."""
    chunk_bytes: Shaped[Array, "stage plan"]
    """B. The bytes that a micro-batch keeps in one chunk."""
    head_bytes: Shaped[Array, "stage plan"]
    """B. The bytes that the head keeps of the current micro-batch."""
    waiting_bytes: Shaped[Array, "stage plan"]
    """B. The bytes that it keeps of all others whose loss waits."""
    output_bytes: Shaped[Array, "stage plan"]
    """B. The logits that outlive their loss."""
    loss_bytes: Shaped[Array, "stage plan"]
    """B. The loss."""
    working_bytes: Shaped[Array, "stage plan"]
    """B. The working bytes, as in TorchLayout."""

    def layer_moment(self, weights: Array, gradients: Array, chunks: Array, working: Array) -> Moment:
        """A layer that runs backward, with a number of chunks in flight."""
        zero = np.zeros_like(self.stage)
        activations = chunks * self.chunk_bytes + self.waiting_bytes + working
        return Moment(weights + zero, gradients + zero, activations, self.output_bytes + zero, zero)

    def loss_moment(self, weights: Array, gradients: Array, chunks: Array) -> Moment:
        """The loss, forward or backward, with a number of chunks in flight."""
        zero = np.zeros_like(self.stage)
        activations = chunks * self.chunk_bytes + self.waiting_bytes + self.head_bytes
        return Moment(
            weights + zero, gradients + zero, activations, self.output_bytes + self.loss_bytes, zero
        )


def _sizes(plan: Plan, software: Software, layout: TorchLayout) -> _Sizes:
    """What the moments of a step are made of."""
    blocks, dense = layout.blocks, layout.dense
    is_piped = np.asarray(plan.pp) > 1
    micro_batches = np.asarray(plan.micro_batches, dtype=float)
    is_first, is_last = blocks[:, 0] > 0, blocks[:, -1] > 0
    logits = layout.logit_bytes / logit_bytes(plan, software)
    waiting = np.where(_is_forward_first(plan), micro_batches, 1.0)
    # a stage keeps what it sent; what it received lies in the buffers, which frozen layers do not keep
    states = is_piped * layout.state_bytes * (is_first.astype(float) - is_last)
    stage_bytes = layout.layers_bytes + blocks[:, 0] * layout.block_bytes[0] + states
    none = np.zeros_like(is_first, dtype=float)
    return _Sizes(
        stage=(blocks * (dense + layout.expert)).sum(axis=1),
        embedding=blocks[:, 0] * dense[0],
        table=blocks[:, 0] * dense[0] * plan.tp,
        head=blocks[:, -1] * dense[-1],
        layer=(dense + layout.expert)[1:-1].max(axis=0) + none,
        chunk_bytes=np.maximum(stage_bytes, 0.0) / _chunks(plan),
        head_bytes=is_last * layout.block_bytes[-1],
        waiting_bytes=is_last * (layout.block_bytes[-1] + logits * _FP32) * (waiting - 1),
        output_bytes=is_last
        * logits
        * element_bytes(plan.precision)
        * np.where(is_piped, micro_batches, 1.0),
        loss_bytes=is_last * layout.logit_bytes,
        working_bytes=layout.working_bytes + none,
    )


def _chunks(plan: Plan) -> Shaped[Array, "plan"]:
    """Model chunks of a rank that take turns."""
    return np.where(np.asarray(plan.pp) > 1, plan.virtual_stages, 1.0)


def highest_moment(plan: Plan, software: Software, layout: TorchLayout) -> Moment:
    """The highest moment of each class of stages."""
    sizes = _sizes(plan, software, layout)
    is_piped, is_sharded = np.asarray(plan.pp) > 1, np.asarray(plan.zero) >= 3
    # weights gathered once a step, gradients whole until its end
    is_whole = is_piped & is_sharded & (not software.regather)
    if is_whole.all():
        moment = _whole_moment(plan, software, layout, sizes)
    elif not is_whole.any():
        moment = _divided_moment(plan, software, layout, sizes)
    else:
        undivided = _whole_moment(plan, software, layout, sizes)
        divided = _divided_moment(plan, software, layout, sizes)
        moment = Moment(*(np.where(is_whole, *pair) for pair in zip(undivided, divided, strict=True)))
    states = 2 * _chunks(plan) - (layout.blocks[:, 0] > 0) - (layout.blocks[:, -1] > 0)
    received = np.asarray(plan.micro_batches, dtype=float) * layout.state_bytes * states
    shard = np.asarray(plan.shard_ranks, dtype=float)
    gathers = np.maximum(sizes.embedding + sizes.head, sizes.layer) + sizes.layer * (1 + 1 / shard)
    gathers = element_bytes(plan.precision) * gathers
    buffers = np.where(is_piped, received, 0.0) + np.where(is_sharded, gathers, 0.0)
    return moment._replace(buffers=moment.buffers + buffers)


def _is_forward_first(plan: Plan) -> Shaped[Array, "plan"]:
    """Whether all forward passes come before the first backward pass."""
    schedule = np.asarray(plan.schedule)
    in_turn = (schedule == Schedule.GPIPE) | (schedule == Schedule.BREADTH_FIRST)
    return np.asarray(in_turn & (np.asarray(plan.pp) > 1))


def has_chunks_apart(plan: Plan) -> Shaped[Array, "plan"]:
    """Whether a chunk's gradients are reduced before the next chunk of the rank has any."""
    schedule = np.asarray(plan.schedule)
    rounds = (schedule == Schedule.INTERLEAVED) & (np.asarray(plan.micro_batches) <= np.asarray(plan.pp))
    return np.asarray((schedule == Schedule.BREADTH_FIRST) | rounds) & (np.asarray(plan.virtual_stages) > 1)


def _highest_of(options: list[Moment]) -> Moment:
    """The option with most bytes, stage by stage and plan by plan."""
    best, most = options[0], sum(options[0])
    for option in options[1:]:
        total = sum(option)
        higher = np.asarray(total > most)
        best = Moment(*(np.where(higher, new, old) for new, old in zip(option, best, strict=True)))
        most = np.where(higher, total, most)
    return best


def _whole_moment(plan: Plan, software: Software, layout: TorchLayout, sizes: _Sizes) -> Moment:
    """FSDP under a pipeline: weights gathered once a step, gradients added up whole until the last micro-batch.

    pipelining/stage.py, `backward_maybe_with_nosync` and `perform_reduce_grad`; fsdp/_fully_shard/_fsdp_param.py,
    `to_accumulated_grad_if_needed`. A lookup's gradient stays a whole table per rank, to be summed over the TP group when
    it is reduced (tensor/_ops/_embedding_ops.py: no strategy divides it by rows).
    """
    stored, kept = element_bytes(plan.precision), software.gradient_memory
    apart, chunks, in_flight = has_chunks_apart(plan), _chunks(plan), layout.chunks_in_flight
    micro_batches = np.asarray(plan.micro_batches, dtype=float)
    layers = (sizes.stage - sizes.embedding - sizes.head) * np.where(apart, 1 / chunks, 1.0)
    weights = sizes.stage * stored
    weights_left = np.where(apart, (layers + sizes.embedding) * stored, weights)
    first = (layers + sizes.head + np.where(apart, 0.0, sizes.table)) * kept
    last = (layers + sizes.table + np.where(apart, 0.0, sizes.head)) * kept
    passes = np.where(apart, micro_batches, micro_batches * chunks)
    none = np.zeros_like(weights)
    before, after = np.minimum(in_flight, micro_batches * chunks - 1), np.minimum(in_flight, passes - 1)
    # what a chunk's head keeps is gone when an earlier chunk runs backward, except the logits
    later = replace(sizes, waiting_bytes=np.where(apart, 0.0, sizes.waiting_bytes))
    return _highest_of(
        [
            sizes.layer_moment(weights, none, in_flight, sizes.working_bytes),
            sizes.loss_moment(weights, none, in_flight),
            sizes.layer_moment(weights, first, before, sizes.working_bytes),
            sizes.loss_moment(weights, first, before),
            later.layer_moment(weights_left, last, after, sizes.working_bytes),
            later.layer_moment(weights_left, last, np.minimum(in_flight, passes) - 1, sizes.table * stored),
        ]
    )


def _divided_moment(plan: Plan, software: Software, layout: TorchLayout, sizes: _Sizes) -> Moment:
    """No gradient waits: the loss, or the last layer backward.

    Sharded: that layer's weights (kept after the forward pass) and, behind the loss, the weights of embedding and head,
    the head's gradient, and of a layer's gradient the copy that is being reduced (_fsdp_collectives.py, foreach_reduce).
    """
    stored = element_bytes(plan.precision)
    is_sharded = np.asarray(plan.zero) >= 3
    none = np.zeros_like(sizes.stage)
    weights = (sizes.embedding + sizes.head + sizes.head + sizes.layer) * stored
    behind = weights + sizes.layer * software.gradient_memory
    loss = sizes.loss_moment(none, none, layout.chunks_in_flight)
    layer = sizes.layer_moment(none, none, layout.chunks_in_flight, sizes.working_bytes)
    return _highest_of(
        [
            loss._replace(buffers=np.where(is_sharded, sizes.layer * stored, 0.0)),
            layer._replace(buffers=np.where(is_sharded, behind, 0.0)),
        ]
    )
