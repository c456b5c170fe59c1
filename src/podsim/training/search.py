"""Every legal plan of a model on a cluster, each with its time and memory: the best, the Pareto front, what was cut.

Axes: C combinations of all fields but two flags (overlap_grad, overlap_param), V values of these two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.divisions import divide, in_order, slices
from podsim.training.plan import Array, Plan
from podsim.training.software import Software, load_software
from podsim.training.space import Space, space
from podsim.training.step import combine_divided
from podsim.workload.graph import Model


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a search; a plan is named by its position in the flattened (V, C) table."""

    combinations: Plan
    """C plans, without the two flags"""
    flags: Array
    """(V, 2) values of overlap_grad and overlap_param"""
    seconds_VC: Array
    """s; infinite where the flags make no difference to another plan, or a plan was not reached"""
    memory_C: Array
    """B on the fullest stage"""
    order: Array
    """positions of the plans that fit, fastest first"""
    pareto: Array
    """positions on the front of memory against time, fastest first"""
    evaluated: int
    """plans that got a time and a memory, whether they fit or not"""
    cut: dict[str, int] = field(default_factory=dict)
    """combinations that were never evaluated, by the rule they break"""
    complete: bool = True
    """false when it was interrupted: the best of what had been evaluated"""

    def plan(self, position: int) -> Plan:
        """The plan at a position, scalar."""
        flag, place = divmod(int(position), self.memory_C.size)
        grad, param = self.flags[flag].tolist()
        return self.combinations.take(place).having({"overlap_grad": grad, "overlap_param": param})

    def seconds(self, position: int) -> float:
        """Step seconds of the plan at a position."""
        return float(self.seconds_VC.ravel()[position])

    def memory(self, position: int) -> float:
        """Bytes of the plan at a position."""
        return float(self.memory_C[int(position) % self.memory_C.size])


def _flags(wanted: Space, software: Software) -> Array:
    """(V, 2) values of overlap_grad and overlap_param that the framework can run, the most overlapped first."""

    def values(name: str) -> list[bool]:
        given = wanted.get(name, ())
        able = name in software.can_overlap
        return [bool(v) for v in given] if len(given) else ([True, False] if able else [False])

    return np.array([(g, p) for g in values("overlap_grad") for p in values("overlap_param")])


def _redundant(plan: Plan, zero: int, flags: Array) -> Array:
    """(V, C) where a flag has nothing to hide, and another value of it was already tried."""
    idle_grad = (np.asarray(plan.dp) * plan.cp == 1) | (zero == 3)
    grad, param = flags[:, :1], flags[:, 1:]
    return np.asarray((idle_grad & (grad != flags[0, 0])) | ((zero == 0) & (param != flags[0, 1])))


def search(
    model: Model,
    cluster: Cluster,
    fixed: Plan,
    *,
    gpus: int | None = None,
    wanted: Space | None = None,
    memory: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Cost every legal plan on exactly `gpus` GPUs (default: the whole cluster).

    `fixed` gives what a search does not choose: batch, sequence, precisions, software.  `memory` is the room on a GPU
    in B (default: the GPU's).  `progress` is called with (evaluated, all) combinations; a KeyboardInterrupt gives the
    best so far.  PlanError when no combination is legal, saying what cut them.
    """
    count = gpus or cluster.gpus
    wanted = wanted or {}
    software = load_software(fixed.software, cluster.gpu)
    plans, layouts_C, cut = space(model, cluster, fixed, count, wanted, software)
    total = int(np.size(plans.tp))
    if total == 0:
        raise PlanError([_nothing(count, fixed, cut)])
    plans, layouts_C = in_order(plans, layouts_C)
    flags = _flags(wanted, software)
    seconds_VC = np.full((len(flags), total), np.inf)
    memory_C = np.full(total, np.inf)
    done = evaluated = 0
    try:
        ready, divisions = divide(model, cluster, plans, layouts_C, software)
        for some in slices(ready, divisions):
            skip = _redundant(some.laid.plan, some.zero, flags)
            tried = np.flatnonzero(~skip.all(axis=1))
            seconds_VP, memory_C[some.part] = combine_divided(
                ready, some.laid, some.ends, zero=some.zero, shard=some.shard, flags=flags[tried]
            )
            seconds_VC[tried, some.part] = np.where(skip[tried], np.inf, seconds_VP)
            done, evaluated = done + skip.shape[1], evaluated + int(skip.size - np.count_nonzero(skip))
            if progress:
                progress(done, total)
    except KeyboardInterrupt:
        if done == 0:
            raise
    order = _ranked(seconds_VC, memory_C <= (memory or cluster.gpu.memory))
    return Found(
        combinations=plans,
        flags=flags,
        seconds_VC=seconds_VC,
        memory_C=memory_C,
        order=order,
        pareto=_front(memory_C, order),
        evaluated=evaluated,
        cut=cut,
        complete=done == total,
    )


def _nothing(gpus: int, fixed: Plan, cut: dict[str, int]) -> str:
    reasons = ", ".join(
        f"{reason} ({number:,})" for reason, number in sorted(cut.items(), key=lambda c: -c[1])
    )
    return (
        f"no plan on {gpus} GPUs with global_batch={fixed.global_batch} is legal; combinations cut by rule: "
        f"{reasons or 'none'}. A number of GPUs and a batch with more divisors in common leave more room"
    )


def _ranked(seconds_VC: Array, fits_C: Array) -> Array:
    """Positions of the plans that fit, fastest first; of equal ones the first."""
    order = np.flatnonzero(np.isfinite(seconds_VC) & fits_C)
    seconds = seconds_VC.ravel()[order]
    rank = np.argsort(
        seconds
    )  # several times as quick as a stable sort; equal ones are put in order afterwards
    seconds = seconds[rank]
    same = np.concatenate([[False], seconds[1:] == seconds[:-1]])
    tied = np.flatnonzero(same | np.concatenate([same[1:], [False]]))
    rank[tied] = rank[tied][np.lexsort((rank[tied], seconds[tied]))]
    return np.asarray(order[rank])


def _front(memory_C: Array, order: Array) -> Array:
    """Plans that nothing beats in both time and memory, fastest first."""
    if order.size == 0:
        return order
    memory = memory_C[order % memory_C.size]
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(memory)[:-1]])
    return np.asarray(order[memory < best_before])
