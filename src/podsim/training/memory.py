"""Bytes of memory by kind, for every class of pipeline stage; the fullest decides whether a plan fits.

Axes: S classes of stages, B blocks, K plans (distinct keys), P plans, R = 3 ways of recomputing, M = kinds (KINDS).
Sources: Korthikanti et al. 2022 (activations), Rajbhandari et al. 2020 (ZeRO), Narayanan et al. 2021 (micro-batches in
flight of each schedule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from podsim.hardware.parts import PRECISIONS
from podsim.schedules.entries import SCHEDULES, ScheduleEntry
from podsim.training.memory_torch import (
    InTorch,
    beyond_kept,
    kept_by_ops,
    kept_by_products,
    logit_bytes,
    moments,
    norm_copies,
    passing,
    working_set,
)
from podsim.training.plan import SCHEDULE_CODES, Array, Plan, Recompute
from podsim.training.shapes import element_bytes, repeated, tokens, width
from podsim.training.software import Software
from podsim.workload.graph import Model, Split, TensorOp

KINDS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "floor")
WEIGHT_KEY = ("tp", "ep")
ACTIVATION_KEY = ("tp", "cp", "ep", "micro_batch", "sequence_parallel", "flash")


class Weights(NamedTuple):
    """Parameters of one copy of each block on one rank."""

    dense_BK: Array
    expert_BK: Array
    tied_K: Array
    """of the head's own copy of a tied embedding table, on a stage that has no embedding"""


class Activations(NamedTuple):
    """Bytes one micro-batch leaves in one copy of each block until its backward pass, and transient bytes."""

    kept_RBK: Array
    logits_K: Array
    gathered_K: Array
    """sequence parallelism: a gathered input and its gradient"""
    working_WK: Array
    """a layer that runs backward in PyTorch's own runtime: with plain collectives, with overlapped ones; else zero"""


def weight_table(model: Model, plan: Plan) -> Weights:
    """Parameters per rank, for K plans that differ in WEIGHT_KEY."""
    tp_K = np.asarray(plan.tp, dtype=float)
    dense_BK = np.zeros((len(model.kinds), plan.size))
    expert_BK = np.zeros_like(dense_BK)
    for position, shares in enumerate(model.shares):
        for share, table in zip(shares, (dense_BK, expert_BK), strict=True):
            table[position] = share.whole + share.divided / tp_K
            for heads, held in share.kv:
                table[position] += held * repeated(heads, tp_K)
    shared = 0
    if model.tied_embeddings and any(op.kind == "gemm" and op.split == "vocab" for op in model.head.ops):
        shared = sum(
            op.weight for op in model.embedding.ops if op.kind == "embedding" and op.split == "vocab"
        )
    return Weights(dense_BK, expert_BK / np.asarray(plan.ep), shared / tp_K)


def activation_table(model: Model, plan: Plan, software: Software) -> Activations:
    """Stored activations per micro-batch, for K plans that differ in ACTIVATION_KEY."""
    sequence = plan.length(model)
    t_K = tokens(plan, sequence)
    element = element_bytes(plan.precision)
    kept_RBK = np.zeros((3, len(model.kinds), plan.size))
    working_WK = np.zeros((2, plan.size))
    torch = software.runtime == "torch"
    ranks = {split: width(plan, split) for split in get_args(Split)}
    for position, block in enumerate(model.kinds):
        routed_K = t_K * max(block.top_k, 1)
        for op in block.ops:
            if torch and op.kind == "cross_entropy":
                continue  # part of the loss
            stored_K = _stored(op, plan, ranks, t_K, routed_K, software, element)
            kept_RBK[Recompute.SELECTIVE, position] += stored_K
            if op.kind == "attention":
                stored_K = stored_K + _core_bytes(op, plan, sequence, element)
            kept_RBK[Recompute.NONE, position] += stored_K
        layer = 0 < position < len(model.kinds) - 1
        if torch and not layer:  # no compiler sees the ends: norms keep fp32 copies
            kept_RBK[: Recompute.FULL, position] += norm_copies(block, plan, t_K * element)
        if torch and layer:
            through = passing(block, plan, sequence, model.hidden)
            every_K = kept_by_ops(block, plan, software, through, kept_RBK[Recompute.NONE, position])
            kept_RBK[Recompute.NONE, position] = every_K
            working_WK = np.maximum(working_WK, working_set(block, plan, software, through, every_K))
            if software.selective == "ops":
                kept_RBK[Recompute.SELECTIVE, position] = kept_by_products(
                    block, plan, sequence, model.hidden
                )
        if layer:
            kept_RBK[: Recompute.FULL, position] *= software.activation_scale
        kept_RBK[Recompute.FULL, position] = t_K * model.hidden * element / ranks["sequence"]
    if (
        software.selective == "ops" and not torch
    ):  # half of what lies between matrix products is computed again
        inside = slice(1, -1)
        kept_RBK[Recompute.SELECTIVE, inside] = 0.5 * (kept_RBK[0, inside] + kept_RBK[2, inside])
    for edge in (0, -1):  # embedding and head are never recomputed
        kept_RBK[Recompute.FULL, edge] = kept_RBK[Recompute.NONE, edge]
    logits = sum(op.n for op in model.head.ops if op.split == "vocab" and op.kind == "gemm")
    split_K = np.asarray(plan.sequence_parallel).astype(bool)
    gathered_K = np.where(split_K, 2 * t_K * model.hidden * element, 0.0)
    each_K = logit_bytes(plan, software) if torch else software.logit_bytes
    return Activations(kept_RBK, t_K * logits / np.asarray(plan.tp) * each_K, gathered_K, working_WK)


def _stored(
    op: TensorOp,
    plan: Plan,
    ranks: dict[str, Array],
    t_K: Array,
    routed_K: Array,
    software: Software,
    element: float,
) -> Array:
    """Bytes an op keeps for the backward pass, its attention core's own apart (K,); `ranks`: what a split divides by."""
    stored_K = np.zeros(t_K.size)
    if plan.precision == "fp8" and software.fp8_gather and software.runtime == "torch" and op.kind == "gemm":
        element = 1.0 if op.split in ("column", "row") else element  # products keep the operands they cast
    for saved in op.saved:
        gathered = software.keeps_gathered and op.split in ("column", "vocab") and saved.split == "sequence"
        ranks_K = ranks["none" if gathered else saved.split]
        count_K = routed_K if saved.expert else t_K
        stored_K = stored_K + count_K * saved.elements * (saved.bytes or element) / ranks_K
    return stored_K


def _core_bytes(op: TensorOp, plan: Plan, sequence: int, element: float) -> Array:
    """Bytes the attention core stores: 5 a s per token unfused (softmax, mask, dropout's output), one log-sum fused."""
    heads_K = tokens(plan, sequence) * np.maximum(op.heads / np.asarray(plan.tp), 1.0)
    return np.where(
        np.asarray(plan.flash).astype(bool),
        heads_K * 4.0,
        heads_K * sequence * (2 * element + 1 if op.dropout else element),
    )


def in_flight(plan: Plan, first_SP: Array) -> Array:
    """Micro-batches (of a whole stage) whose activations a stage holds at once (S, P).

    1F1B: as many as stages from here to the end.  Interleaved: 2 (p - i - 1) + (v - 1) p + 1 chunks.  GPipe: all.
    Each schedule says its own (`schedules/entries.py`); it is what a play of its table holds at most, if weight
    gradients free what split backward passes hold.
    """
    v_P = np.asarray(plan.virtual_stages, dtype=float)
    chunks_SP = _of_schedule(plan, first_SP, "activations")
    return np.asarray(chunks_SP / v_P)


def weight_copies(plan: Plan, first_SP: Array) -> tuple[Array, Array] | None:
    """(homes, versions): copies of a stage's parameters that are trained, and of its weights that are kept (S, P).

    None where no plan has more than one of either.

    DualPipe trains each part on two ranks, so that a rank has twice its share of weights, gradients and optimizer.
    Asynchronous schedules train one copy and keep older versions of its weights for backward passes to come.
    """
    if not any(code in _COPIED for code in _present(plan)):
        return None
    copies_SP = _of_schedule(plan, first_SP, "copies")
    endless = np.isin(plan.schedule, _ENDLESS)
    return np.where(endless, 1.0, copies_SP), np.where(endless, copies_SP, 1.0)


_ENTRIES = {int(SCHEDULE_CODES[name]): entry for name, entry in SCHEDULES.items()}
_ENDLESS = tuple(code for code, entry in _ENTRIES.items() if not entry.flush)
_COPIED = tuple(code for code, entry in _ENTRIES.items() if entry.copies is not ScheduleEntry.copies)
"""schedules that keep more than one copy of weights"""


def _present(plan: Plan) -> list[int]:
    """The schedules that some plan has."""
    return np.flatnonzero(np.bincount(np.ravel(plan.schedule), minlength=len(_ENTRIES))).tolist()


def _of_schedule(plan: Plan, first_SP: Array, what: str) -> Array:
    """What each plan's schedule says of its sizes (S, P)."""
    p_P, v_P, m_P = (np.asarray(x, dtype=float) for x in (plan.pp, plan.virtual_stages, plan.micro_batches))
    codes = _present(plan)
    shape = np.broadcast_shapes(np.shape(first_SP), np.shape(m_P))
    out_SP = np.broadcast_to(getattr(_ENTRIES[codes[0]], what)(p_P, v_P, m_P, first_SP), shape)
    for code in codes[1:]:
        held_SP = getattr(_ENTRIES[code], what)(p_P, v_P, m_P, first_SP)
        out_SP = np.where(np.asarray(plan.schedule) == code, held_SP, out_SP)
    return np.asarray(out_SP)


@dataclass(frozen=True)
class Kept:
    """What stages hold whatever ZeRO divides; classes that a pipeline lacks get garbage to be masked."""

    dense_SP: Array
    """parameters"""
    expert_SP: Array | None
    """of experts; None without any"""
    copies: tuple[Array, Array] | None
    activations_SP: Array
    logits_SP: Array
    gathered_P: Array
    largest_P: Array
    """parameters of the largest block"""
    torch: InTorch | None
    """of PyTorch's own runtime, in place of activations, logits and what is gathered; None for others"""


def kept_memory(
    plan: Plan,
    software: Software,
    counts_SBP: Array,
    first_SP: Array,
    weights: Weights,
    kept_RBP: Array,
    logits_P: Array,
    gathered_P: Array,
    working_WP: Array,
) -> Kept:
    """What each class of stages of P plans holds."""
    mixture = bool(weights.expert_BK.any())
    dense_SP = (counts_SBP * weights.dense_BK).sum(axis=1)
    if weights.tied_K.any():
        dense_SP += np.where((counts_SBP[:, -1] > 0) & (counts_SBP[:, 0] == 0), weights.tied_K, 0.0)
    return Kept(
        dense_SP=dense_SP,
        expert_SP=(counts_SBP * weights.expert_BK).sum(axis=1) if mixture else None,
        copies=weight_copies(plan, first_SP),
        activations_SP=_activations(plan, counts_SBP, first_SP, kept_RBP),
        logits_SP=logits_P * (counts_SBP[:, -1] > 0),
        gathered_P=gathered_P,
        largest_P=(weights.dense_BK + weights.expert_BK).max(axis=0),
        torch=_in_torch(plan, counts_SBP, first_SP, weights, kept_RBP, logits_P, working_WP)
        if software.runtime == "torch"
        else None,
    )


def _in_torch(
    plan: Plan,
    counts_SBP: Array,
    first_SP: Array,
    weights: Weights,
    kept_RBP: Array,
    logits_P: Array,
    working_WP: Array,
) -> InTorch:
    chosen_BP, layers_SP = _kept(plan, counts_SBP, kept_RBP)
    work_P = np.where(plan.overlap_tp, working_WP[1], working_WP[0])
    return InTorch(
        counts_SBP=counts_SBP,
        chunks_SP=_of_schedule(plan, first_SP, "activations"),
        dense_BP=weights.dense_BK,
        expert_BP=weights.expert_BK,
        kept_BP=chosen_BP,
        layers_SP=layers_SP,
        slice_P=kept_RBP[Recompute.FULL, 1],
        logits_P=logits_P,
        work_P=beyond_kept(plan, work_P, kept_RBP[:, 1:-1].max(axis=1)),
    )


def memory_kinds(plan: Plan, software: Software, kept: Kept) -> tuple[Array, ...]:
    """Bytes of each kind, in the order of KINDS, for each class of stages of P plans (broadcast to S, P)."""
    zero = np.asarray(plan.zero)
    held_SP = kept.dense_SP if kept.expert_SP is None else kept.dense_SP + kept.expert_SP
    divided_SP = held_SP
    if (zero >= 1).any():
        shard_P = np.asarray(plan.shard_ranks, dtype=float)
        divided_SP = kept.dense_SP * (1 / shard_P)
        if kept.expert_SP is not None:
            divided_SP = divided_SP + kept.expert_SP * (1 / np.maximum(shard_P / plan.ep, 1.0))

    def least(level: int, but: Array | bool = False) -> Array:
        """Parameters of which a rank holds its part from a ZeRO level on, all of them before."""
        divided = (zero >= level) & ~np.asarray(but)
        if divided.all():
            return divided_SP
        return np.where(divided, divided_SP, held_SP) if divided.any() else held_SP

    stored = element_bytes(plan.precision)
    master = 4.0 if stored < 4 else 0.0
    moments_bytes = 2 * PRECISIONS[plan.optimizer_precision].bytes
    # a framework that gathers weights once a step keeps them, and whole gradients, until its pipeline has run
    whole = (np.asarray(plan.pp) > 1) & (zero >= 3) & (not software.regather)
    if kept.torch is not None:
        whole = np.zeros_like(whole)  # what is whole is part of the moment
    trained = [
        least(3, whole) * stored,
        least(2, whole) * software.gradient_memory,
        least(1) * (master + moments_bytes),
    ]
    floor = np.asarray(software.memory_floor)
    if kept.torch is not None:
        high = moments(plan, software, kept.torch)
        sharded = zero >= 3
        trained[0] = np.where(sharded, high.weights, trained[0])
        trained[1] = trained[1] + np.where(sharded, high.gradients, 0.0)
        rest = (high.activations, high.logits, high.buffers, floor + software.reserved)
    else:
        layer_P = np.where(
            (zero >= 3) & ~whole, kept.largest_P * (2 * stored + software.gradient_memory), 0.0
        )
        rest = (kept.activations_SP, kept.logits_SP, layer_P + kept.gathered_P, floor)
    if kept.copies is not None:
        homes_SP, versions_SP = kept.copies
        trained = [part_SP * homes_SP for part_SP in trained]
        trained[0] = trained[0] * versions_SP
    return (*trained, *rest)


def recomputed_share(plan: Plan, counts_SBP: Array) -> Array | None:
    """Share of a stage's layers that are computed again (S, P); None where no plan limits it."""
    some = (np.asarray(plan.recompute) == Recompute.FULL) & (np.asarray(plan.recompute_layers) > 0)
    if not some.any():
        return None
    layers_SP = counts_SBP[:, 1:-1].sum(axis=1)
    return np.where(some, np.minimum(plan.recompute_layers / np.maximum(layers_SP, 1), 1.0), 1.0)


def _activations(plan: Plan, counts_SBP: Array, first_SP: Array, kept_RBP: Array) -> Array:
    """Bytes of stored activations (S, P): those in flight, and the layer being recomputed."""
    chosen_BP, layers_SP = _kept(plan, counts_SBP, kept_RBP)
    full_SP = layers_SP + counts_SBP[:, 0] * chosen_BP[0] + counts_SBP[:, -1] * chosen_BP[-1]
    working_P = np.where(np.asarray(plan.recompute) == Recompute.FULL, kept_RBP[0, 1:-1].max(axis=0), 0.0)
    return np.asarray(full_SP * in_flight(plan, first_SP) + working_P)


def _kept(plan: Plan, counts_SBP: Array, kept_RBP: Array) -> tuple[Array, Array]:
    """Bytes a micro-batch leaves in each block if it recomputes (B, P), and in all layers of a stage (S, P)."""
    mode = np.asarray(plan.recompute)
    share_SP = recomputed_share(plan, counts_SBP)
    chosen_BP = np.where(
        mode == Recompute.NONE, kept_RBP[0], np.where(mode == Recompute.SELECTIVE, kept_RBP[1], kept_RBP[2])
    )
    layers_SP = (counts_SBP[:, 1:-1] * chosen_BP[1:-1]).sum(axis=1)
    if share_SP is not None:
        plain_SP = (counts_SBP[:, 1:-1] * kept_RBP[0, 1:-1]).sum(axis=1)
        layers_SP = share_SP * layers_SP + (1 - share_SP) * plain_SP
    return chosen_BP, layers_SP
