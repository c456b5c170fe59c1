"""What of a step does not depend on what its data-parallel ranks divide: passes, paths and activations of layouts.

A search has several times as many plans as layouts, so each layout is worked out once, for every way to divide it.

Axes: P layouts, S classes of stages, B blocks, X parts of a layer's seconds, Y passes, J paths, U pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.training.groups import Sends
from podsim.training.layers import PARTS, Pass, syncs_of
from podsim.training.memory import Kept, Weights, kept_memory, recomputed_share
from podsim.training.pairs import Exchanged
from podsim.training.paths import Chosen
from podsim.training.pipeline import Stages
from podsim.training.plan import BESIDE, Array, Placement, Plan, Recompute
from podsim.training.unique import gathered
from podsim.workload.graph import Model

if TYPE_CHECKING:
    from podsim.training.step import Prepared


@dataclass(frozen=True)
class Passes:
    """Seconds of one micro-batch through stages and blocks."""

    busy_XSP: Array
    """forward and backward, less what pairs of passes may hide"""
    layers_SP: Array
    forward_BP: Array
    """by block, all parts together"""
    backward_BP: Array
    """of the stage that recomputes least"""
    weight_BP: Array
    layer_forward_P: Array
    """of the mean layer"""
    layer_backward_P: Array
    layer_closing_P: Array
    """of its last pass in a step"""
    exchanged: Exchanged | None
    """what a pass beside another may hide; None where no schedule has such"""


@dataclass(frozen=True)
class Laid:
    """P layouts."""

    plan: Plan
    stages: Stages
    paths: Chosen
    passes: Passes
    sends: Sends
    further_JP: Array | None
    """seconds of each path's sends beyond those within a node; None where no node has several stages, but not all"""
    charge_P: Array
    """what a send or receive takes of the compute stream"""
    micro_batches_P: Array
    chunks_P: Array
    """model chunks of a rank that take turns"""
    parts_P: Array
    """model parts of a rank"""
    along_JP: Array
    """seconds of each path, exchanges apart"""
    stage_SP: Array
    """seconds of a micro-batch on each class of stages; 0 where a pipeline lacks the class"""
    kept: Kept

    def take(self, rows: Array) -> Laid:
        """Some of the layouts."""
        found: Laid = _taken(self, rows)
        return found


def _taken(thing: Any, rows: Array) -> Any:
    """Arrays by their last axis, whatever holds them."""
    if isinstance(thing, np.ndarray):
        return gathered(thing, rows)
    if isinstance(thing, (Plan, Chosen)):
        return thing.take(rows)
    if isinstance(thing, Sends):
        return Sends(*(_taken(part, rows) for part in thing))
    if isinstance(thing, tuple):
        return tuple(_taken(part, rows) for part in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **{f.name: _taken(getattr(thing, f.name), rows) for f in fields(thing)})
    return thing


def chunks(size: int, length: int = 8192) -> Iterator[slice]:
    """Slices that fit the caches."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


def lay(ready: Prepared, part: slice | Array) -> Laid:
    """The layouts of some of the plans at hand."""
    plan, software = ready.plan, ready.software
    if plan.size > 1:
        plan = plan.take(part).wide()
    stages = ready.stages.table.take(ready.stages.index[part])
    layers_YXBP = gathered(ready.layers.table, ready.layers.index[part])
    sends = Sends(*(gathered(column, ready.sends.index[part]) for column in ready.sends.table))
    paths = ready.paths.table.take(ready.paths.index[part])
    stretch_P = None if ready.stretches is None else ready.stretches[ready.layers.index[part]]
    passes = _passes(ready.model, plan, stages, layers_YXBP, stretch_P)
    piped_P = np.asarray(plan.pp) > 1
    chunks_P = np.where(piped_P, plan.virtual_stages, 1.0)
    charge_P = np.where(piped_P, sends.mean_K * software.pipeline_exposed + software.host_send, 0.0)
    further_JP = _further(paths, sends)
    return Laid(
        plan=plan,
        stages=stages,
        paths=paths,
        passes=passes,
        sends=sends,
        further_JP=further_JP,
        charge_P=charge_P,
        micro_batches_P=np.asarray(plan.micro_batches, dtype=float),
        chunks_P=chunks_P,
        parts_P=np.where(plan.placement == Placement.TWO_WAYS, 2.0, chunks_P),
        along_JP=_along(paths, ready.apart, passes, sends.near_K, charge_P, further_JP),
        stage_SP=np.where(stages.many_SU > 0, passes.busy_XSP.sum(axis=0), 0.0),
        kept=kept_memory(
            plan,
            software,
            stages.counts_SBU,
            stages.first_SU,
            Weights(*(gathered(table, ready.weights.index[part]) for table in ready.weights.table)),
            *(gathered(table, ready.activations.index[part]) for table in ready.activations.table),
        ),
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


def _passes(model: Model, plan: Plan, stages: Stages, layers_YXBP: Array, stretch_P: Array | None) -> Passes:
    chosen_XBP = _chosen(plan, layers_YXBP)
    backward_XSP = _held(stages.counts_SBU, chosen_XBP)
    share_SP = recomputed_share(plan, stages.counts_SBU)
    if share_SP is not None:
        plain_XBP = layers_YXBP[Pass.BACKWARD]
        backward_XSP = share_SP * backward_XSP + (1 - share_SP) * _held(stages.counts_SBU, plain_XBP)
        least_P = np.where(stages.many_SU > 0, share_SP, 1.0).min(axis=0)
        chosen_XBP = least_P * chosen_XBP + (1 - least_P) * plain_XBP
    busy_XSP = _held(stages.counts_SBU, layers_YXBP[Pass.FORWARD]) + backward_XSP
    forward_BP = layers_YXBP[Pass.FORWARD].sum(axis=0)
    backward_BP, weight_BP = chosen_XBP.sum(axis=0), layers_YXBP[Pass.WEIGHT].sum(axis=0)
    closing_BP = np.where(plan.loose_end, weight_BP, backward_BP) if plan.loose_end.any() else backward_BP
    if stretch_P is not None:
        busy_XSP[PARTS.index("tp") :] *= ~plan.paired
    count_B = np.array([block.count for block in model.kinds[1:-1]], dtype=float)
    count_B /= count_B.sum()
    return Passes(
        busy_XSP,
        stages.counts_SBU[:, 1:-1].sum(axis=1),
        forward_BP,
        backward_BP,
        weight_BP,
        count_B @ forward_BP[1:-1],
        count_B @ backward_BP[1:-1],
        count_B @ closing_BP[1:-1],
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


def _further(paths: Chosen, sends: Sends) -> Array | None:
    """What sends to other nodes add to each path (J, P), where some stages share a node and others do not."""
    if not sends.further_K.any():
        return None
    place_P = np.searchsorted(BESIDE, sends.beside_K)
    far_JP = np.take_along_axis(paths.far_XJK, place_P[None, None], axis=0)[0]
    return np.asarray(far_JP * sends.further_K)


def _along(
    paths: Chosen, apart: bool, passes: Passes, sends_P: Array, charge_P: Array, further_JP: Array | None
) -> Array:
    """Seconds of each path, exchanges apart (J, P); `apart`: some schedule computes gradients of weights apart."""
    total = paths.sends_JK * sends_P
    total += paths.charges_JK * charge_P
    if further_JP is not None:
        total += further_JP
    for block, seconds_P in enumerate(passes.forward_BP):
        total += paths.forward_JBK[:, block] * seconds_P
        total += paths.backward_JBK[:, block] * passes.backward_BP[block]
        if apart:
            total += paths.apart_JBK[:, block] * passes.weight_BP[block]
    return total
