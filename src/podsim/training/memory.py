"""Bytes of memory by kind, for every class of pipeline stage; the fullest decides whether a plan fits.

Sources: arXiv 2205.05198 (activations), Rajbhandari et al. 2020 (ZeRO), Narayanan et al. 2021 (micro-batches in
flight of each schedule).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.parts import PRECISIONS
from podsim.records import dataclass, replace
from podsim.training.layout import Counts, HeldWeights, Stages
from podsim.training.memory_torch import (
    TorchLayout,
    beyond_kept_bytes,
    highest_moment,
    logit_bytes,
    norm_copy_bytes,
    op_checkpoint_bytes,
    plain_layer_bytes,
    traffic_bytes,
    working_bytes,
)
from podsim.training.pipeline_stages import of_mode, recomputed_share, repeated_inputs
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Placement, Recompute, has_any
from podsim.training.schedule_sizes import micro_batches_in_flight, schedule_number, weight_copies
from podsim.training.shapes import element_bytes, repeated_share, split_ranks, tokens
from podsim.training.software import Software
from podsim.workload.model import Block, Model, Share, Split, TensorOp

KINDS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "floor")
"""The kinds of memory."""
WEIGHT_KEY = ("tp", "ep", "expert_tp")
ACTIVATION_KEY = ("tp", "cp", "ep", "expert_tp", "micro_batch", "sequence_parallel", "flash")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Parameters of one copy of each block on one rank."""

    dense: Shaped[Array, "block plan"]
    """The parameters, except experts."""
    expert: Shaped[Array, "block plan"]
    """The parameters of experts."""
    tied: Shaped[Array, "plan"]
    """The parameters of the last stage's own copy of an embedding table that it shares, where it holds no embedding."""
    tensor: Shaped[Array, "plan"]
    """The parameters of the largest tensor, divided as its block is."""
    trained: Weights | None = None
    """The parameters that are trained, where fine-tuning leaves only a part."""
    stored: Weights | None = None
    """The parameters in 16 bits that take as many bytes, where fine-tuning quantises some."""


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes that one micro-batch leaves in one copy of each block until its backward pass, and transient bytes."""

    kept: Shaped[Array, "recompute block plan"]
    """B. The activations, under each way to recompute."""
    logits: Shaped[Array, "plan"]
    """B. The logits, and what the loss keeps of them."""
    gathered: Shaped[Array, "plan"]
    """B. A gathered input and its gradient, under sequence parallelism."""
    working: Shaped[Array, "recompute tensor plan"]
    """B. A layer running backward in PyTorch's runtime, beyond what its micro-batch keeps."""


def weight_table(model: Model, plan: Plan) -> Weights:
    """Parameters per rank, for plans that differ in WEIGHT_KEY."""
    weights = _weights_of(model, model.shares, plan)
    if model.training == "full":
        return weights
    trained = _weights_of(model, model.trained_shares, plan)
    table = next((op for op in model.embedding.ops if op.split == "vocab"), None)
    if table is None or table.gradient != "both":
        trained = replace(trained, tied=np.zeros_like(trained.tied))
    return replace(weights, trained=trained, stored=_weights_of(model, model.stored_shares, plan))


def _weights_of(model: Model, shares_of_blocks: tuple[tuple[Share, Share], ...], plan: Plan) -> Weights:
    tp, expert_tp = np.asarray(plan.tp, dtype=float), plan.expert_ranks
    dense = np.zeros((len(model.kinds), plan.size))
    expert = np.zeros_like(dense)
    for position, shares in enumerate(shares_of_blocks):
        for share, table, ranks in zip(shares, (dense, expert), (tp, expert_tp), strict=True):
            table[position] = share.replicated + share.divided / ranks
            for heads, held in share.kv:
                table[position] += held * repeated_share(heads, ranks)
    shared = 0
    if model.ends_share_table and any(op.kind == "gemm" and op.split == "vocab" for op in model.head.ops):
        shared = sum(
            op.weight for op in model.embedding.ops if op.kind == "embedding" and op.split == "vocab"
        )
    expert = expert / np.asarray(plan.ep)
    tensor = ((dense + expert) * np.array([[block.largest_share] for block in model.kinds])).max(axis=0)
    return Weights(dense=dense, expert=expert, tied=shared / tp, tensor=tensor)


def activation_table(model: Model, plan: Plan, software: Software) -> Activations:
    """Stored activations per micro-batch, for plans that differ in ACTIVATION_KEY."""
    sequence, element = plan.length(model), element_bytes(plan.precision)
    rank_tokens, torch = tokens(plan, sequence), software.runtime == "torch"
    ranks = {(s, e): split_ranks(plan, s, expert=e) for s in get_args(Split) for e in (False, True)}
    working = np.zeros((len(Recompute), 2, plan.size))
    columns = []
    for position, block in enumerate(model.kinds):
        kept = _block_bytes(block, plan, software, sequence, ranks)
        if 0 < position < len(model.kinds) - 1:
            if torch and block.is_reached:
                traffic = traffic_bytes(block, plan, sequence, model.hidden)
                plain = plain_layer_bytes(block, plan, software, traffic, kept[Recompute.NONE])
                kept[Recompute.NONE] = plain
                alive = working_bytes(block, plan, software, traffic, plain)
                if software.selective == "ops":
                    kept[Recompute.SELECTIVE] = op_checkpoint_bytes(block, plan, sequence, model.hidden)
            kept[: Recompute.FULL] *= software.activation_scale
            kept[Recompute.FULL] = (
                rank_tokens * model.hidden * element / ranks["sequence", False] * block.is_reached
            )
            if (
                software.selective == "ops" and not torch
            ):  # half of what lies between products is computed again
                kept[Recompute.SELECTIVE] = 0.5 * (kept[Recompute.NONE] + kept[Recompute.FULL])
            if torch and block.is_reached:
                working = np.maximum(working, beyond_kept_bytes(alive, kept))
        else:
            if torch:  # no compiler sees the ends: norms keep fp32 copies
                kept[: Recompute.FULL] += norm_copy_bytes(block, plan, rank_tokens * element)
            kept[Recompute.FULL] = kept[Recompute.NONE]  # embedding and head are never recomputed
        columns.append(kept)
    logits = sum(op.n * op.share for op in model.head.ops if op.split == "vocab" and op.kind == "gemm")
    of_logit = logit_bytes(plan, software) if torch else software.logit_bytes
    is_split = np.asarray(plan.sequence_parallel).astype(bool)
    return Activations(
        kept=np.stack(columns, axis=1),
        logits=rank_tokens * logits / np.asarray(plan.tp) * of_logit,
        gathered=np.where(is_split, 2 * rank_tokens * model.hidden * element, 0.0),
        working=working,
    )


def _block_bytes(
    block: Block, plan: Plan, software: Software, sequence: int, ranks: Mapping[tuple[str, bool], Array]
) -> Shaped[Array, "recompute plan"]:
    """Bytes that the ops of a block keep without recomputation and with selective; nothing yet with full.

    `ranks`: those that each split divides over, of experts or of the rest.
    """
    kept = np.zeros((len(Recompute), plan.size))
    rank_tokens = tokens(plan, sequence)
    routed = max(block.top_k, 1) * (plan.capacity_factor or 1.0)
    copies = rank_tokens, rank_tokens * (plan.expert_gather * routed)
    is_light = software.selective == "outputs"
    repeated = repeated_inputs(block) if is_light else ()
    for op in block.ops:
        if op.gradient == "none" or (software.runtime == "torch" and op.kind == "cross_entropy"):
            continue  # nothing to compute a gradient from; part of the loss
        stored = _stored_bytes(op, plan, software, ranks, copies)
        core = _core_bytes(op, plan, sequence) if op.kind == "attention" else 0.0
        kept[Recompute.SELECTIVE] += (id(op) not in repeated) * stored + is_light * core
        kept[Recompute.NONE] += stored + core
    return kept


def _stored_bytes(
    op: TensorOp,
    plan: Plan,
    software: Software,
    ranks: Mapping[tuple[str, bool], Array],
    copies: tuple[Array, Array],
) -> Shaped[Array, "plan"]:
    """Bytes an op keeps for the backward pass, its attention core's own apart.

    `copies`: tokens, and tokens of all experts that each is routed to.
    """
    element = element_bytes(plan.precision)
    stored = np.zeros(copies[0].size)
    if PRECISIONS[plan.precision].is_cast and software.fp8_gather and op.kind == "gemm":
        element = 1.0 if op.split in ("column", "row") else element  # products keep the operands they cast
    if op.kind == "activation" and software.activation_bytes:
        element = software.activation_bytes
    for saved in op.saved:
        gathered = software.keeps_gathered and op.split in ("column", "vocab") and saved.split == "sequence"
        share = ranks["none" if gathered else saved.split, op.expert]
        stored = stored + copies[op.expert] * saved.elements * (saved.bytes or element) / share
    return stored * op.share


def _core_bytes(op: TensorOp, plan: Plan, sequence: int) -> Shaped[Array, "plan"]:
    """Bytes the attention core stores: 5 a s per token unfused (softmax, mask, dropout's output), one log-sum fused."""
    element = element_bytes(plan.precision)
    heads = tokens(plan, sequence) * op.heads / np.asarray(plan.tp) * op.share
    scores = heads * sequence * op.key_share * (2 * element + 1 if op.dropout else element)
    return np.asarray(np.where(np.asarray(plan.flash).astype(bool), heads * 4.0, scores))


def held_weights(plan: Plan, software: Software, stages: Stages, weights: Weights) -> HeldWeights:
    """What each class of stages of plans holds of weights."""
    return HeldWeights(
        counts=_counts(stages, weights),
        copies=weight_copies(plan, stages.first),
        largest=weights.tensor if software.gathers_tensors else (weights.dense + weights.expert).max(axis=0),
        trained=None if weights.trained is None else _counts(stages, weights.trained),
        stored=None if weights.stored is None else _counts(stages, weights.stored),
    )


def _counts(stages: Stages, weights: Weights) -> Counts:
    """Parameters of each class of stages."""
    blocks = stages.blocks
    dense = (blocks * weights.dense).sum(axis=1)
    if has_any(weights.tied):
        dense += np.where((blocks[:, -1] > 0) & (blocks[:, 0] == 0), weights.tied, 0.0)
    return Counts(dense, (blocks * weights.expert).sum(axis=1) if has_any(weights.expert) else None)


def _fullest(plan: Plan, stages: Stages) -> Shaped[Array, "stage plan"]:
    """The stage of each class with most in flight: the first, or the last where parts go down the ranks and up again."""
    return np.where(plan.placement == int(Placement.VEE), stages.last, stages.first)


def torch_layout(plan: Plan, stages: Stages, weights: Weights, activations: Activations) -> TorchLayout:
    """What the memory of PyTorch's own runtime depends on, before ZeRO divides it."""
    blocks, layers = _kept_bytes(plan, stages.blocks, activations.kept)
    alone, overlapped = of_mode(plan, activations.working)
    return TorchLayout(
        blocks=stages.blocks,
        chunks_in_flight=schedule_number(plan, _fullest(plan, stages), "activations"),
        dense=weights.dense,
        expert=weights.expert,
        block_bytes=blocks,
        layers_bytes=layers,
        state_bytes=activations.kept[Recompute.FULL, 1],
        logit_bytes=activations.logits,
        working_bytes=np.where(plan.overlap_tp, overlapped, alone),
    )


def undivided_bytes(
    plan: Plan, software: Software, stages: Stages, activations: Activations
) -> tuple[Array, Array, Array, Array]:
    """Bytes of activations, logits, buffers and the floor, whatever ZeRO divides; not of PyTorch's own runtime."""
    kept = _activation_bytes(plan, stages, activations)
    logits = activations.logits * (stages.blocks[:, -1] > 0)
    fused = np.minimum(logits, 0.0)
    floor = software.memory_floor + software.reserved + software.reserved_share * kept
    return kept + fused, logits - fused, activations.gathered, np.asarray(floor)


def memory_kind_bytes(
    plan: Plan, software: Software, stages: Stages, weights: Weights, activations: Activations
) -> tuple[Shaped[Array, "stage plan"], ...]:
    """Bytes of each kind, in the order of KINDS, for each class of stages of plans (the arrays broadcast)."""
    held = held_weights(plan, software, stages, weights)
    if software.runtime != "torch":
        *trained, largest = divided_bytes(plan, software, held)
        kept, logits, gathered, floor = undivided_bytes(plan, software, stages, activations)
        return (*trained, kept, logits, largest + gathered, floor)
    zero, floor = np.asarray(plan.zero), np.asarray(software.memory_floor + software.reserved)
    moment = highest_moment(plan, software, torch_layout(plan, stages, weights, activations))
    if held.trained is not None and held.stored is not None:
        stored, taught = (
            part.total / np.maximum(held.counts.total, 1.0) for part in (held.stored, held.trained)
        )
        moment = moment._replace(weights=moment.weights * stored, gradients=moment.gradients * taught)
    # the moment includes what is not divided
    trained = _trained_bytes(plan, software, held, np.zeros_like(zero, dtype=bool))
    trained[0] = np.where(zero >= 3, moment.weights, trained[0])
    trained[1] = trained[1] + np.where(zero >= 3, moment.gradients, 0.0)
    return (*held.copied(trained), moment.activations, moment.logits, moment.buffers, floor)


def divided_bytes(
    plan: Plan, software: Software, held: HeldWeights
) -> tuple[Shaped[Array, "stage plan"], ...]:
    """Bytes of weights, gradients, optimizer, and of the layer that ZeRO 3 gathers."""
    # a framework that gathers weights once a step keeps them, and all gradients, until its pipeline has run
    is_whole = (np.asarray(plan.pp) > 1) & (np.asarray(plan.zero) >= 3) & (not software.regather)
    largest = held.largest * (2 * element_bytes(plan.precision) + software.gradient_memory)
    gathered = np.where((np.asarray(plan.zero) >= 3) & ~is_whole, largest, 0.0)
    return (*held.copied(_trained_bytes(plan, software, held, is_whole)), gathered)


def _trained_bytes(plan: Plan, software: Software, held: HeldWeights, is_whole: Array) -> list[Array]:
    """[weights, gradients, optimizer] of one copy; where `is_whole`, ZeRO 3 divides neither weights nor gradients."""
    zero = np.asarray(plan.zero)
    counts = held.trained or held.counts
    parameters, divided = _division(plan, counts)
    held_copy = _division(plan, held.stored) if held.stored else (parameters, divided)

    def from_level(level: int, undivided: Array, part: Array, but: Array | bool = False) -> Array:
        """Parameters of which a rank holds its part from a ZeRO level on, all of them before."""
        return np.where((zero >= level) & (but == 0), part, undivided)

    stored = element_bytes(plan.precision)
    master = 4.0 if stored < 4 else 0.0
    moments = 2 * PRECISIONS[plan.optimizer_precision].bytes
    sums = (zero >= 1) * (software.accumulator_memory if plan.precision == "bf16" else 0.0)
    # a chunk's gradients, until they are reduced after a round of a pipeline
    by_round = (zero - plan.exchange_level) * software.gradient_memory / plan.virtual_stages
    chunk = (
        by_round * sum(count * (ranks > 1) for count, ranks in _copies(plan, counts))
        if has_any(by_round)
        else 0.0
    )
    return [
        from_level(3, *held_copy, is_whole) * (stored * ~((zero >= 3) & software.gathers_tensors)),
        from_level(2, parameters, divided, is_whole) * software.gradient_memory + sums * parameters + chunk,
        from_level(1, parameters, divided) * (master + moments),
    ]


def _division(plan: Plan, counts: Counts) -> tuple[Array, Array]:
    """(parameters of a rank, those that it holds where ZeRO divides them)."""
    parameters = counts.total
    if not has_any(np.asarray(plan.zero) >= 1):
        return parameters, parameters
    return parameters, np.asarray(sum(count / ranks for count, ranks in _copies(plan, counts)))


def _copies(plan: Plan, counts: Counts) -> list[tuple[Array, Array]]:
    """(parameters, the ranks over which ZeRO divides them), without and with experts."""
    shard = np.asarray(plan.shard_ranks, dtype=float)
    dense = [(counts.dense, shard)]
    return dense if counts.expert is None else [*dense, (counts.expert, plan.expert_copies(plan.shard_ranks))]


def _activation_bytes(plan: Plan, stages: Stages, activations: Activations) -> Shaped[Array, "stage plan"]:
    """Bytes of stored activations: those in flight, and the layer being recomputed."""
    blocks, kept = stages.blocks, activations.kept
    of_block, layers = _kept_bytes(plan, blocks, kept)
    stage = layers + blocks[:, 0] * of_block[0] + blocks[:, -1] * of_block[-1]
    again = kept[Recompute.NONE, 1:-1].max(axis=0) * (np.asarray(plan.recompute) == int(Recompute.FULL))
    return np.asarray(stage * micro_batches_in_flight(plan, _fullest(plan, stages)) + again)


def _kept_bytes(
    plan: Plan, blocks: Shaped[Array, "stage block plan"], kept: Shaped[Array, "recompute block plan"]
) -> tuple[Shaped[Array, "block plan"], Shaped[Array, "stage plan"]]:
    """(bytes a micro-batch leaves in each block if it recomputes, and in all layers of a stage)."""
    of_block, share = of_mode(plan, kept), recomputed_share(plan, blocks)
    layers = (blocks[:, 1:-1] * of_block[1:-1]).sum(axis=1)
    if share is not None:
        layers = share * layers + (1 - share) * (blocks[:, 1:-1] * kept[Recompute.NONE, 1:-1]).sum(axis=1)
    return of_block, layers
