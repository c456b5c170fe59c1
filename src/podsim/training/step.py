"""Seconds and bytes of one training step, for one plan or a million: closed form over arrays.

Tables are built once per distinct key (layers, groups, stages) and gathered for each plan.

Axes: P plans, K distinct keys, S classes of stages, B blocks, X parts of a layer's seconds, Y passes, M memory kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.training.exposed import Waits
from podsim.training.groups import GROUP_KEY, SEND_KEY, Ends, Sends, ends_table, send_table
from podsim.training.laid import Laid, chunks, lay
from podsim.training.layers import KEY, layer_table, longest_stretch
from podsim.training.memory import (
    ACTIVATION_KEY,
    WEIGHT_KEY,
    Activations,
    Weights,
    activation_table,
    memory_kinds,
    weight_table,
)
from podsim.training.pairs import spared
from podsim.training.paths import PATH_KEY, Chosen, Paths, paths_table
from podsim.training.pipeline import STAGE_KEY, Stages, stages_table
from podsim.training.plan import Array, Plan
from podsim.training.shared import shared_through
from podsim.training.software import Software, load_software
from podsim.training.unique import Codes, Keyed, keyed
from podsim.workload.graph import Model

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
    ends: Keyed[Ends] | None
    """None for a search, which has them by what ranks divide"""
    sends: Keyed[Sends]
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
    model: Model, cluster: Cluster, plan: Plan, *, search: bool = False, software: Software | None = None
) -> Prepared:
    """Tables for the plans; for a `search` of layouts, without the ends, and with a layer's seconds summed over parts.

    `software` replaces the catalog's entry of the plan's name, as a fit of its constants does.
    """
    software = software or load_software(plan.software, cluster.gpu)
    plan = plan.arrays()
    if plan.size == 1:
        plan = plan.wide()  # once for all tables, with what it works out of its fields
    codes = Codes()
    split = not search or bool(plan.paired.any())  # what pairs of passes hide is told apart by part

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
        ends=keyed(plan, GROUP_KEY, lambda sub: ends_table(model, cluster, sub, software), codes)
        if not search
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


def combine(ready: Prepared, part: slice) -> StepCost:
    """Seconds and bytes of a slice of the plans, with the split into parts."""
    laid = lay(ready, part)
    assert ready.ends is not None
    timed = _timed(ready, laid, laid.plan, ready.ends.table.take(ready.ends.index[part]))
    kinds = memory_kinds(laid.plan, ready.software, laid.kept)
    kinds_MSP = np.empty((len(kinds), *laid.stage_SP.shape))
    for kind_SP, bytes_SP in zip(kinds_MSP, kinds, strict=True):
        kind_SP[:] = bytes_SP
    total_SP = np.where(laid.stages.many_SU > 0, kinds_MSP.sum(axis=0), 0.0)
    fullest_P = total_SP.argmax(axis=0)
    column = np.arange(fullest_P.size)
    kept_MSP = kinds_MSP if fullest_P.size == 1 else kinds_MSP[:, :0]
    return StepCost(
        timed.seconds_P,
        _parts(ready, laid, timed),
        total_SP[fullest_P, column],
        kinds_MSP[:, fullest_P, column],
        kept_MSP,
    )


def combine_divided(
    ready: Prepared, laid: Laid, ends: Ends, *, zero: int, shard: int, flags: Array
) -> tuple[Array, Array]:
    """Seconds (V, P) and bytes on the fullest stage (P,) of layouts under one way to divide.

    `flags` has V values of overlap_grad and overlap_param (V, 2), which make no difference to memory.
    """
    flagged = {"overlap_grad": flags[:, :1], "overlap_param": flags[:, 1:]}
    plan = laid.plan.having({"zero": zero, "shard": shard, **flagged})
    timed = _timed(ready, laid, plan, ends)
    total_SP = reduce(np.add, memory_kinds(plan, ready.software, laid.kept))
    return timed.seconds_P, np.where(laid.stages.many_SU > 0, total_SP, 0.0).max(axis=0)


@dataclass(frozen=True)
class _Timed:
    """Seconds of P plans, or of V values of their flags."""

    seconds_P: Array
    through_P: Array
    """of the passes of all micro-batches"""
    longest_P: Array
    """of the stage that works longest, less its sends; where ranks share cores, of the mean of all"""
    charged_P: Array
    """of its sends"""
    once_P: Array
    """waits of the step's start and end"""
    optimizer_P: Array
    runs: tuple[_Run, ...]
    """with exchanges beside compute, if any plan has them, and without"""
    beside: Array
    """which of these a plan has"""


@dataclass(frozen=True)
class _Run:
    """Layouts whose exchanges run beside compute, or do not."""

    path_JP: Array
    """seconds of each path"""
    own_SP: Array
    """of one micro-batch on each class of stages"""


def _timed(ready: Prepared, laid: Laid, plan: Plan, ends: Ends) -> _Timed:
    """Step seconds of plans of these layouts."""
    software, groups, paths, passes = ready.software, ends.groups, laid.paths, laid.passes
    waits = Waits(
        plan, software, groups, passes.layer_forward_P, passes.layer_backward_P, passes.forward_BP[0],
        passes.backward_BP[0], laid.charge_P, laid.sends.mean_K, passes.layer_closing_P,
    )  # fmt: skip
    part_layers = np.floor(groups.stage_layers_K / laid.parts_P)
    closed_JP, slowed_P = _closed(laid, waits, part_layers)
    beside = np.where(np.asarray(plan.zero) == 3, plan.overlap_param, plan.overlap_grad).astype(bool)
    runs = tuple(_run(laid, waits, closed_JP, on) for on in (True, False) if (beside == on).any())

    def either(pick: Callable[[_Run], Array]) -> Array:
        found = [pick(run) for run in runs]
        return found[0] if len(found) == 1 else np.where(beside, *found)

    path_P = either(lambda run: run.path_JP.max(axis=0))
    longest_P = busiest_P = laid.micro_batches_P * either(lambda run: run.own_SP.max(axis=0))
    charged_P = 2 * laid.micro_batches_P * laid.chunks_P * laid.charge_P
    if ready.share < 1:
        longest_P = laid.micro_batches_P * either(lambda run: _mean(laid, run.own_SP))
        through_P = shared_through(ready.share, plan.pp, path_P, busiest_P, longest_P, charged_P)
    else:
        through_P = np.maximum(path_P, busiest_P + charged_P)
    once_P = waits.once(part_layers, slowed_P)
    if ends.firsts is not None:
        part_layers = np.floor(ends.firsts.stage_layers_K / laid.parts_P)
        last_P = replace(waits, groups=ends.firsts).once(part_layers, slowed_P)
        ending_P = either(lambda run: _of_first(paths, run.path_JP)) + last_P
        total_P = through_P + once_P
        once_P = np.where(ending_P > total_P, last_P, once_P)
        through_P = np.maximum(total_P, ending_P) - once_P
    seconds_P = through_P + once_P + groups.optimizer_K + software.host_step
    return _Timed(seconds_P, through_P, longest_P, charged_P, once_P, groups.optimizer_K, runs, beside)


def _parts(ready: Prepared, laid: Laid, timed: _Timed) -> Array:
    """Seconds of the parts of a step (X, P)."""
    own_SP = timed.runs[0].own_SP
    if len(timed.runs) > 1:
        own_SP = np.where(timed.beside, own_SP, timed.runs[1].own_SP)
    slowest_P = own_SP.argmax(axis=0)
    column = np.arange(slowest_P.size)

    def of_rank(stage_SP: Array) -> Array:
        """Of the slowest stage, or of the mean of ranks that share cores."""
        found = _mean(laid, stage_SP) if ready.share < 1 else stage_SP[..., slowest_P, column]
        return np.asarray(laid.micro_batches_P * found)

    busy_XP = of_rank(laid.passes.busy_XSP)
    host_P = np.full_like(laid.micro_batches_P, ready.software.host_step)
    waited_P = timed.through_P - timed.longest_P - timed.charged_P
    further_P = 0.0 if laid.further_JP is None else laid.further_JP[0]
    sent_P = np.minimum(laid.paths.sends_JK[0] * laid.sends.near_K + further_P, waited_P)
    waits_P = timed.longest_P - of_rank(laid.stage_SP) + timed.once_P
    bubble_P = waited_P - sent_P
    return np.stack([*busy_XP, timed.charged_P + sent_P, waits_P, bubble_P, timed.optimizer_P, host_P])


def _mean(laid: Laid, stage_SP: Array) -> Array:
    """The mean of all ranks, of what is known of each class of stages (..., P)."""
    many_SP = laid.stages.many_SU
    return np.asarray(np.where(many_SP > 0, stage_SP * many_SP, 0.0).sum(axis=-2) / many_SP.sum(axis=0))


def _closed(laid: Laid, waits: Waits, part_layers: Array) -> tuple[Array, Array]:
    """(seconds that gradients on their way slow each path (J, P), and the path that is then longest (P,))."""
    if (np.asarray(waits.plan.zero) >= 2).all():
        none_JP = np.zeros((1, laid.along_JP.shape[1]))
        return none_JP, none_JP[0]
    paths = laid.paths
    closed_JP = paths.closing_JK * waits.drained(part_layers)
    if (laid.chunks_P > 1).any():
        closed_JP = closed_JP + paths.staying_JK * waits.stayed(part_layers, paths.after_JK)
    most_P, slowed_P = laid.along_JP[0] + closed_JP[0], closed_JP[0]
    for along_P, closed_P in zip(laid.along_JP[1:], closed_JP[1:], strict=True):
        slowed_P = np.where(along_P + closed_P > most_P, closed_P, slowed_P)
        most_P = np.maximum(most_P, along_P + closed_P)
    return closed_JP, slowed_P


def _run(laid: Laid, waits: Waits, closed_JP: Array, beside: bool) -> _Run:
    path_JP = laid.along_JP + _waited(laid, waits, closed_JP, beside)
    if not (np.asarray(waits.plan.zero) >= 2).any():
        return _Run(path_JP, laid.stage_SP)
    return _Run(path_JP, laid.stage_SP + _own(laid, waits, beside))


def _waited(laid: Laid, waits: Waits, closed_JP: Array, beside: bool) -> Array:
    """Seconds that exchanges add along each path, less what pairs of passes spare (J, P), or one for all paths."""
    paths, passes = laid.paths, laid.passes
    total = closed_JP if beside else np.zeros((1, closed_JP.shape[-1]))
    if passes.exchanged is not None:
        whole_WBP = np.stack([passes.forward_BP, passes.backward_BP])
        total = total - spared(paths, whole_WBP, passes.exchanged, waits, beside=beside)
    if not (np.asarray(waits.plan.zero) >= 2).any():
        return total
    alone = waits.forward(paths.passes_JK, paths.layers_JK, beside, hidden=paths.ahead_JK) + waits.backward(
        paths.back_passes_JK, paths.back_layers_JK, beside, edges=paths.back_edges_JK, hidden=paths.back_JK
    )
    return np.asarray(total + waits.kept(alone))


def _of_first(paths: Chosen, path_JP: Array) -> Array:
    """Seconds of the longest path that ends on the rank that holds the embedding (P,)."""
    return np.asarray(np.where(paths.first_JK, path_JP, 0.0).max(axis=0))


def _own(laid: Laid, waits: Waits, beside: bool) -> Array:
    """Seconds that exchanges add to one micro-batch on each class of stages, whatever its rank waits for (S, P).

    In a pipeline the first gather and the last reduction of a pass may hide behind waiting.
    """
    v_P, layers_SP = laid.chunks_P, laid.passes.layers_SP
    hidden = np.where(np.asarray(laid.plan.pp) > 1, v_P, 0.0)
    edges = laid.stages.counts_SBU[:, 0] * (hidden == 0)
    ahead = waits.forward(v_P, layers_SP, beside, hidden=hidden)
    back = waits.backward(v_P, layers_SP, beside, edges=edges, hidden=hidden)
    return waits.kept(ahead + back) * ~laid.plan.paired
