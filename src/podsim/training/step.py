"""Seconds and bytes of one training step, for one plan or a million: closed form over arrays.

Tables are built once per distinct key (layers, groups, stages) and gathered for each plan.

Axes: P plans, K distinct keys, S classes of stages, B blocks, X parts of a layer's seconds, Y passes, M memory kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from podsim.training.groups import GROUP_KEY, SEND_KEY, Groups, group_table, send_table
from podsim.training.layers import KEY, PARTS, Pass, layer_table
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
from podsim.training.pipeline import STAGE_KEY, Stages, stages_table
from podsim.training.plan import Array, Plan, Recompute
from podsim.training.software import Software, load_software
from podsim.training.unique import Keyed, keyed

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
    sends: Keyed[Array]


def prepare(
    model: Model, cluster: Cluster, plan: Plan, *, split: bool = True, software: Software | None = None
) -> Prepared:
    """Tables for the plans; with `split` false a layer's seconds are summed over parts, for a search.

    `software` replaces the catalog's entry of the plan's name, as a fit of its constants does.
    """
    software = software or load_software(plan.software, cluster.gpu)
    plan = plan.arrays()

    def layers(sub: Plan) -> Array:
        table_YXBK = layer_table(model, cluster, sub, software)
        return table_YXBK if split else table_YXBK.sum(axis=1, keepdims=True)

    return Prepared(
        model=model,
        plan=plan,
        software=software,
        layers=keyed(plan, KEY, layers),
        stages=keyed(plan, STAGE_KEY, lambda sub: stages_table(model, sub)),
        weights=keyed(plan, WEIGHT_KEY, lambda sub: weight_table(model, sub)),
        activations=keyed(plan, ACTIVATION_KEY, lambda sub: activation_table(model, sub, software)),
        groups=keyed(plan, GROUP_KEY, lambda sub: group_table(model, cluster, sub, software)),
        sends=keyed(plan, SEND_KEY, lambda sub: send_table(model, cluster, sub, software)),
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
    layers_YXBP = ready.layers.table[..., ready.layers.index[part]]
    sends_P = ready.sends.table[ready.sends.index[part]]

    timed = plan.having(flags) if flags else plan
    seconds_P, parts_XP = _seconds(ready, timed, stages, groups, layers_YXBP, sends_P)
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


def _backward(plan: Plan, layers_YXBP: Array, counts_SBP: Array) -> Array:
    """Backward seconds of one micro-batch through each class of stage (X, S, P), under the plan's recomputation."""
    mode = np.asarray(plan.recompute)
    chosen_XBP = np.where(
        mode == Recompute.NONE,
        layers_YXBP[Pass.BACKWARD],
        np.where(
            mode == Recompute.SELECTIVE,
            layers_YXBP[Pass.BACKWARD_SELECTIVE],
            layers_YXBP[Pass.BACKWARD_FULL],
        ),
    )
    back_XSP = _held(counts_SBP, chosen_XBP)
    share_SP = recomputed_share(plan, counts_SBP)
    if share_SP is not None:
        plain_XSP = _held(counts_SBP, layers_YXBP[Pass.BACKWARD])
        back_XSP = share_SP * back_XSP + (1 - share_SP) * plain_XSP
    return back_XSP


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


def _seconds(
    ready: Prepared, plan: Plan, stages: Stages, groups: Groups, layers_YXBP: Array, sends_P: Array
) -> tuple[Array, Array]:
    """Step seconds (..., P) and, where the layer table is split, its parts (X, P)."""
    software = ready.software
    m_P = np.asarray(plan.micro_batches, dtype=float)
    v_P = np.asarray(plan.virtual_stages, dtype=float)
    forward_XSP = _held(stages.counts_SBU, layers_YXBP[Pass.FORWARD])
    backward_XSP = _backward(plan, layers_YXBP, stages.counts_SBU)
    forward_SP, backward_SP = forward_XSP.sum(axis=0), backward_XSP.sum(axis=0)
    gather_SP = groups.exposed_weights(plan, forward_SP, backward_SP, software)
    stage_SP = np.where(stages.many_SU > 0, forward_SP + backward_SP + gather_SP, 0.0)
    slowest_P = stage_SP.argmax(axis=-2)
    longest_P = _at(stage_SP, slowest_P)
    bubble_P = ((stage_SP * stages.many_SU).sum(axis=-2) - longest_P) / v_P
    fill_P = 2 * (np.asarray(plan.pp) - 1) * sends_P
    send_P = np.where(
        np.asarray(plan.pp) > 1,
        2 * m_P * v_P * (sends_P * software.pipeline_exposed + software.host_send) + fill_P,
        0.0,
    )
    reduce_P = groups.exposed_gradients(
        plan, _at(backward_SP, slowest_P), _at(forward_SP, slowest_P), m_P, software
    )
    base_P = m_P * longest_P + software.host_step + send_P + bubble_P + groups.optimizer_K
    seconds_P = base_P + reduce_P
    if layers_YXBP.shape[1] != len(PARTS):
        return seconds_P, np.empty((0, seconds_P.shape[-1]))
    busy_XP = m_P * _at(forward_XSP + backward_XSP, slowest_P[None])
    host_P = np.full_like(m_P, software.host_step)
    waits_P = m_P * _at(gather_SP, slowest_P) + reduce_P
    return seconds_P, np.stack([*busy_XP, send_P, waits_P, bubble_P, groups.optimizer_K, host_P])
