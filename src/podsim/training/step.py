"""Seconds and bytes of one training step, for one plan or a million: closed form over arrays.

Tables are built once per distinct key (layers, groups, stages) and gathered for each plan.

Axes: P plans, K distinct keys, S classes of stages, B blocks, X parts of a layer's seconds, Y passes, M memory kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from podsim.training.exposed import Waits
from podsim.training.groups import GROUP_KEY, SEND_KEY, Groups, group_table, send_table
from podsim.training.layers import KEY, PARTS, Pass, layer_table, longest_stretch, syncs_of
from podsim.training.memory import (
    ACTIVATION_KEY,
    WEIGHT_KEY,
    Activations,
    Weights,
    activation_table,
    memory_MSP,
    recomputed_share,
    weight_table,
)
from podsim.training.pairs import Exchanged, spared
from podsim.training.paths import PATH_KEY, Chosen, Paths, paths_table
from podsim.training.pipeline import STAGE_KEY, Stages, stages_table
from podsim.training.plan import Array, Placement, Plan, Recompute
from podsim.training.shared import shared_through
from podsim.training.software import Software, load_software
from podsim.training.unique import Codes, Keyed, keyed

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.workload.graph import Model

__all__ = ["SPLIT", "Prepared", "StepCost", "chunks", "combine", "prepare", "step_cost"]

SPLIT = ("compute", "memory", "launch", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "host")
"""the parts of a step, in the order of StepCost.parts"""


@dataclass(frozen=True)
class StepCost:
    """Seconds and bytes of P plans."""

    seconds_P: Array
    parts_XP: Array
    """seconds by part (SPLIT); their sum is seconds_P"""
    memory_P: Array
    """B on the fullest stage"""
    kinds_MP: Array
    """B by kind (KINDS) on the fullest stage"""
    stages_MSP: Array
    """B by kind for each class of stages; kept for a single plan only"""


@dataclass(frozen=True)
class Prepared:
    """Every table that the plans at hand need."""

    model: Model
    plan: Plan
    software: Software
    layers: Keyed[Array]
    stages: Keyed[Stages]
    weights: Keyed[Weights]
    activations: Keyed[Activations]
    groups: Keyed[Groups]
    firsts: Keyed[Groups] | None
    """of the first stage, where another may end last; None where none may"""
    sends: Keyed[Array]
    paths: Keyed[Paths]
    stretches: Array | None
    """of the layers' keys: compute of a forward pass between two syncs, at most; None where no passes are paired"""
    share: float = 1.0
    """cores that a rank of a measured machine has to itself (podsim.hardware.measured.Host)"""

    @property
    def apart(self) -> bool:
        """Whether some plan's schedule computes gradients of weights apart."""
        return bool(self.paths.table.apart_JBK.any())


def prepare(
    model: Model, cluster: Cluster, plan: Plan, *, split: bool = True, software: Software | None = None
) -> Prepared:
    """Tables for the plans; with `split` false a layer's seconds are summed over parts, for a search.

    `software` replaces the catalog's entry of the plan's name, as a fit of its constants does.
    """
    software = software or load_software(plan.software, cluster.gpu)
    plan = plan.arrays()
    codes = Codes()
    split = split or bool(plan.paired.any())  # what pairs of passes hide is told apart by part

    def layers(sub: Plan) -> Array:
        table_YXBK = layer_table(model, cluster, sub, software)
        return table_YXBK if split else table_YXBK.sum(axis=1, keepdims=True)

    return Prepared(
        model=model,
        plan=plan,
        software=software,
        layers=keyed(plan, KEY, layers, codes),
        stages=keyed(plan, STAGE_KEY, lambda sub: stages_table(model, sub), codes),
        weights=keyed(plan, WEIGHT_KEY, lambda sub: weight_table(model, sub), codes),
        activations=keyed(plan, ACTIVATION_KEY, lambda sub: activation_table(model, sub, software), codes),
        groups=keyed(plan, GROUP_KEY, lambda sub: group_table(model, cluster, sub, software), codes),
        firsts=keyed(
            plan, GROUP_KEY, lambda sub: group_table(model, cluster, sub, software, first=True), codes
        )
        if plan.loose_end.any()
        else None,
        sends=keyed(plan, SEND_KEY, lambda sub: send_table(model, cluster, sub, software), codes),
        paths=keyed(plan, PATH_KEY, lambda sub: paths_table(model, sub), codes),
        stretches=keyed(plan, KEY, lambda sub: longest_stretch(model, cluster, sub, software), codes).table
        if plan.paired.any()
        else None,
        share=cluster.host.share if cluster.host is not None else 1.0,
    )


def step_cost(model: Model, cluster: Cluster, plan: Plan, *, software: Software | None = None) -> StepCost:
    """Seconds and bytes of every plan, with the split into parts."""
    ready = prepare(model, cluster, plan, software=software)
    pieces = [combine(ready, part) for part in chunks(ready.plan.size)]
    if len(pieces) == 1:
        return pieces[0]
    return StepCost(
        np.concatenate([p.seconds_P for p in pieces]),
        np.concatenate([p.parts_XP for p in pieces], axis=1),
        np.concatenate([p.memory_P for p in pieces]),
        np.concatenate([p.kinds_MP for p in pieces], axis=1),
        np.concatenate([p.stages_MSP for p in pieces], axis=2),
    )


def chunks(size: int, length: int = 8192) -> Iterator[slice]:
    """Slices that fit the caches."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


def combine(ready: Prepared, part: slice, flags: dict[str, Array] | None = None) -> StepCost:
    """Seconds and bytes of a slice of the plans.

    `flags` may replace overlap_grad and overlap_param by arrays of shape (V, 1): seconds then have the shape (V, P),
    and memory, which they do not touch, is computed once.
    """
    plan = ready.plan.take(part).wide()
    stages = ready.stages.table.take(ready.stages.index[part])
    weights = Weights(*(t[..., ready.weights.index[part]] for t in ready.weights.table))
    groups = ready.groups.table.take(ready.groups.index[part])
    firsts = None if ready.firsts is None else ready.firsts.table.take(ready.firsts.index[part])
    layers_YXBP = ready.layers.table[..., ready.layers.index[part]]
    sends_P = ready.sends.table[ready.sends.index[part]]
    paths = ready.paths.table.take(ready.paths.index[part])

    stretch_P = None if ready.stretches is None else ready.stretches[ready.layers.index[part]]

    timed = plan.having(flags) if flags else plan
    seconds_P, parts_XP = _seconds(
        ready, timed, stages, (groups, firsts), paths, layers_YXBP, sends_P, stretch_P
    )
    kinds_MSP = memory_MSP(
        plan,
        ready.software,
        stages.counts_SBU,
        stages.first_SU,
        weights,
        *(table[..., ready.activations.index[part]] for table in ready.activations.table),
    )
    total_SP = np.where(stages.many_SU > 0, kinds_MSP.sum(axis=0), 0.0)
    if flags is not None:
        none = np.empty((0, seconds_P.shape[-1]))
        return StepCost(seconds_P, parts_XP, total_SP.max(axis=0), none, none)
    fullest_P = total_SP.argmax(axis=0)
    column = np.arange(fullest_P.size)
    kept_MSP = kinds_MSP if fullest_P.size == 1 else kinds_MSP[:, :0]
    return StepCost(
        seconds_P, parts_XP, total_SP[fullest_P, column], kinds_MSP[:, fullest_P, column], kept_MSP
    )


def _chosen(plan: Plan, layers_YXBP: Array) -> Array:
    """Backward seconds of each block under the plan's recomputation, of all layers if of any (X, B, P)."""
    mode = np.asarray(plan.recompute)
    some = np.where(
        mode == Recompute.SELECTIVE, layers_YXBP[Pass.BACKWARD_SELECTIVE], layers_YXBP[Pass.BACKWARD_FULL]
    )
    return np.asarray(np.where(mode == Recompute.NONE, layers_YXBP[Pass.BACKWARD], some))


def _held(counts_SBP: Array, values_XBP: Array) -> Array:
    """Sum of a stage's blocks (X, S, P)."""
    total = counts_SBP[None, :, 0] * values_XBP[:, None, 0]
    for block in range(1, counts_SBP.shape[1]):
        total += counts_SBP[None, :, block] * values_XBP[:, None, block]
    return total


def _at(stage_SP: Array, chosen_P: Array) -> Array:
    """The value of each plan's chosen class: (..., S, P) and (..., P) give (..., P)."""
    index = chosen_P[..., None, :]
    depth = max(stage_SP.ndim, index.ndim)
    stage_SP = stage_SP.reshape((1,) * (depth - stage_SP.ndim) + stage_SP.shape)
    index = index.reshape((1,) * (depth - index.ndim) + index.shape)
    return np.asarray(np.take_along_axis(stage_SP, index, axis=-2)[..., 0, :])


@dataclass(frozen=True)
class _Passes:
    """Seconds of one micro-batch through stages and blocks."""

    forward_XSP: Array
    backward_XSP: Array
    layers_SP: Array
    forward_BP: Array
    """by block, all parts together"""
    backward_BP: Array
    """of the stage that recomputes least"""
    weight_BP: Array
    closing_BP: Array
    """of the last pass in a step"""
    exchanged: Exchanged | None
    """what a pass beside another may hide; None where no schedule has such"""


def _passes(model: Model, plan: Plan, stages: Stages, layers_YXBP: Array, stretch_P: Array | None) -> _Passes:
    chosen_XBP = _chosen(plan, layers_YXBP)
    backward_XSP = _held(stages.counts_SBU, chosen_XBP)
    share_SP = recomputed_share(plan, stages.counts_SBU)
    if share_SP is not None:
        plain_XBP = layers_YXBP[Pass.BACKWARD]
        backward_XSP = share_SP * backward_XSP + (1 - share_SP) * _held(stages.counts_SBU, plain_XBP)
        least_P = np.where(stages.many_SU > 0, share_SP, 1.0).min(axis=0)
        chosen_XBP = least_P * chosen_XBP + (1 - least_P) * plain_XBP
    backward_BP, weight_BP = chosen_XBP.sum(axis=0), layers_YXBP[Pass.WEIGHT].sum(axis=0)
    return _Passes(
        _held(stages.counts_SBU, layers_YXBP[Pass.FORWARD]),
        backward_XSP,
        stages.counts_SBU[:, 1:-1].sum(axis=1),
        layers_YXBP[Pass.FORWARD].sum(axis=0),
        backward_BP,
        weight_BP,
        np.where(plan.loose_end, weight_BP, backward_BP) if plan.loose_end.any() else backward_BP,
        None if stretch_P is None else _exchanged(model, layers_YXBP, chosen_XBP, stretch_P),
    )


def _exchanged(model: Model, layers_YXBP: Array, chosen_XBP: Array, stretch_P: Array) -> Exchanged:
    """What passes exchange within the tensor-, context- and expert-parallel groups."""
    kinds, sync = slice(PARTS.index("tp"), None), PARTS.index("tp")
    behind_B = np.maximum([syncs_of(model, block)[1] for block in model.kinds], 1)
    return Exchanged(
        np.stack([layers_YXBP[Pass.FORWARD, kinds].sum(axis=0), chosen_XBP[kinds].sum(axis=0)]),
        layers_YXBP[Pass.BACKWARD, sync] / behind_B[:, None],
        layers_YXBP[Pass.BACKWARD, sync],
        stretch_P + layers_YXBP[Pass.FORWARD, PARTS.index("launch")].max(axis=0),
    )


def _along(paths: Chosen, apart: bool, passes: _Passes, sends_P: Array, charge_P: Array) -> Array:
    """Seconds of each path, exchanges apart (J, P); `apart`: some schedule computes gradients of weights apart."""
    total = paths.sends_JK * sends_P
    total += paths.charges_JK * charge_P
    for block, seconds_P in enumerate(passes.forward_BP):
        total += paths.forward_JBK[:, block] * seconds_P
        total += paths.backward_JBK[:, block] * passes.backward_BP[block]
        if apart:
            total += paths.apart_JBK[:, block] * passes.weight_BP[block]
    return total


def _waited(paths: Chosen, waits: Waits, passes: _Passes, closed_JP: Array, beside: bool) -> Array:
    """Seconds that exchanges add along each path, less what pairs of passes spare (J, P), or one for all paths."""
    total = np.zeros((1, closed_JP.shape[-1]))
    if beside:
        total = closed_JP
    if passes.exchanged is not None:
        whole_WBP = np.stack([passes.forward_BP, passes.backward_BP])
        total = total - spared(paths, whole_WBP, passes.exchanged, waits, beside=beside)
    if not (np.asarray(waits.plan.zero) >= 2).any():
        return np.asarray(total)
    alone = waits.forward(paths.passes_JK, paths.layers_JK, beside, hidden=paths.ahead_JK) + waits.backward(
        paths.back_passes_JK, paths.back_layers_JK, beside, edges=paths.back_edges_JK, hidden=paths.back_JK
    )
    return np.asarray(total + waits.kept(alone))


def _of_first(paths: Chosen, path_JP: Array) -> Array:
    """Seconds of the longest path that ends on the rank that holds the embedding (P,)."""
    return np.asarray(np.where(paths.first_JK, path_JP, 0.0).max(axis=0))


def _seconds(
    ready: Prepared,
    plan: Plan,
    stages: Stages,
    ends: tuple[Groups, Groups | None],
    paths: Chosen,
    layers_YXBP: Array,
    sends_P: Array,
    stretch_P: Array | None,
) -> tuple[Array, Array]:
    """Step seconds (..., P) and, where the layer table is split, its parts (X, P).

    `ends`: what the rank that ends last exchanges, and what the first stage does, where the two may differ.
    """
    software, groups = ready.software, ends[0]
    m_P = np.asarray(plan.micro_batches, dtype=float)
    piped_P = np.asarray(plan.pp) > 1
    v_P = np.where(piped_P, plan.virtual_stages, 1.0)
    charge_P = np.where(piped_P, sends_P * software.pipeline_exposed + software.host_send, 0.0)
    passes = _passes(ready.model, plan, stages, layers_YXBP, stretch_P)
    count_B = np.array([block.count for block in ready.model.kinds[1:-1]], dtype=float)
    count_B /= count_B.sum()
    waits = Waits(
        plan, software, groups, count_B @ passes.forward_BP[1:-1], count_B @ passes.backward_BP[1:-1],
        passes.forward_BP[0], passes.backward_BP[0], charge_P, sends_P, count_B @ passes.closing_BP[1:-1],
    )  # fmt: skip
    along_JP = _along(paths, ready.apart, passes, sends_P, charge_P)
    busy_XSP = passes.forward_XSP + passes.backward_XSP
    if passes.exchanged is not None:
        busy_XSP[PARTS.index("tp") :] *= ~plan.paired
    stage_SP = np.where(stages.many_SU > 0, busy_XSP.sum(axis=0), 0.0)
    parts_P = np.where(plan.placement == Placement.TWO_WAYS, 2.0, v_P)
    part_layers = np.floor(groups.stage_layers_K / parts_P)
    closed_JP = paths.closing_JK * waits.drained(part_layers)
    if (v_P > 1).any():
        closed_JP = closed_JP + paths.staying_JK * waits.stayed(part_layers, paths.after_JK)
    slowed_P = _at(closed_JP, (along_JP + closed_JP).argmax(axis=0))
    beside = np.where(np.asarray(plan.zero) == 3, plan.overlap_param, plan.overlap_grad).astype(bool)
    paths_JP = [along_JP + _waited(paths, waits, passes, closed_JP, on) for on in (True, False)]
    path_P = np.where(beside, *(path_JP.max(axis=0) for path_JP in paths_JP))
    own_SP = stage_SP
    if (np.asarray(plan.zero) >= 2).any():
        own = (stage_SP + _own(waits, stages.counts_SBU, passes.layers_SP, plan, on) for on in (True, False))
        own_SP = np.where(beside[..., None, :], *own)
    slowest_P = own_SP.argmax(axis=-2)
    alike_SP = stages.many_SU if ready.share < 1 else None
    longest_P = m_P * _of_rank(own_SP, slowest_P, alike_SP)
    charged_P = 2 * m_P * v_P * charge_P
    through_P = (
        np.maximum(path_P, longest_P + charged_P)
        if alike_SP is None
        else shared_through(ready.share, plan.pp, path_P, m_P * _at(own_SP, slowest_P), longest_P, charged_P)
    )
    once_P = waits.once(part_layers, slowed_P)
    if ends[1] is not None:
        first = replace(waits, groups=ends[1])
        last_P = first.once(np.floor(ends[1].stage_layers_K / parts_P), slowed_P)
        ending_P = np.where(beside, *(_of_first(paths, path_JP) for path_JP in paths_JP)) + last_P
        total_P = through_P + once_P
        once_P = np.where(ending_P > total_P, last_P, once_P)
        through_P = np.maximum(total_P, ending_P) - once_P
    seconds_P = through_P + once_P + groups.optimizer_K + software.host_step
    if layers_YXBP.shape[1] != len(PARTS) or seconds_P.ndim > 1:
        return seconds_P, np.empty((0, seconds_P.shape[-1]))
    busy_XP = m_P * _of_rank(busy_XSP, slowest_P[None], alike_SP)
    host_P = np.full_like(m_P, software.host_step)
    sent_P = np.minimum(paths.sends_JK[0] * sends_P, through_P - longest_P - charged_P)
    waits_P = longest_P - m_P * _of_rank(stage_SP, slowest_P, alike_SP) + once_P
    bubble_P = through_P - longest_P - charged_P - sent_P
    return seconds_P, np.stack([*busy_XP, charged_P + sent_P, waits_P, bubble_P, groups.optimizer_K, host_P])


def _of_rank(stage_SP: Array, slowest_P: Array, alike_SP: Array | None) -> Array:
    """The value of the slowest stage; where ranks share cores (`alike_SP` ranks of each class) the mean of all ranks."""
    if alike_SP is None:
        return _at(stage_SP, slowest_P)
    return np.asarray(np.where(alike_SP > 0, stage_SP * alike_SP, 0.0).sum(axis=-2) / alike_SP.sum(axis=-2))


def _own(waits: Waits, counts_SBP: Array, layers_SP: Array, plan: Plan, beside: bool) -> Array:
    """Seconds that exchanges add to one micro-batch on each class of stages, whatever its rank waits for (S, P).

    In a pipeline the first gather and the last reduction of a pass may hide behind waiting.
    """
    piped_P = np.asarray(plan.pp) > 1
    v_P = np.where(piped_P, plan.virtual_stages, 1.0)
    hidden = np.where(piped_P, v_P, 0.0)
    ahead = waits.forward(v_P, layers_SP, beside, hidden=hidden)
    back = waits.backward(v_P, layers_SP, beside, edges=counts_SBP[:, 0] * (hidden == 0), hidden=hidden)
    return waits.kept(ahead + back) * ~plan.paired
