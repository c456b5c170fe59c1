"""Every legal plan of a model on a cluster, each with its time and memory: the best, the Pareto front, what was cut.

The space is the product of all degrees, sharding, recomputation, schedule and overlaps that a plan can have; what
changes the numbers trained (precision, batch, sequence) is the user's choice and stays fixed.  Axis: P plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.errors import PlanError
from podsim.training.plan import Array, Plan, Recompute, Schedule
from podsim.training.rules import RULES, Facts, facts
from podsim.training.software import Software, load_software
from podsim.training.step import chunks, combine, prepare

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.workload.graph import Model

__all__ = ["Found", "Space", "search", "space"]


@dataclass(frozen=True, kw_only=True)
class Space:
    """Values that each field may take; an empty tuple means every legal one."""

    tp: Sequence[int] = ()
    pp: Sequence[int] = ()
    virtual_stages: Sequence[int] = ()
    cp: Sequence[int] = ()
    ep: Sequence[int] = ()
    micro_batch: Sequence[int] = ()
    sequence_parallel: Sequence[bool] = ()
    zero: Sequence[int] = ()
    shard: Sequence[int] = ()
    recompute: Sequence[int] = ()
    recompute_layers: Sequence[int] = ()
    schedule: Sequence[int] = ()
    flash: Sequence[bool] = ()
    overlap_grad: Sequence[bool] = ()
    overlap_param: Sequence[bool] = ()
    overlap_tp: Sequence[bool] = ()


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a search: P plans in the order of their throughput among those that fit."""

    plans: Plan
    """every legal plan (arrays of P)"""
    seconds_P: Array
    memory_P: Array
    fits_P: Array
    order: Array
    """positions of the plans that fit, fastest first"""
    pareto: Array
    """positions on the front of memory against time, fastest first"""
    evaluated: int
    cut: dict[str, int] = field(default_factory=dict)
    """combinations that were never evaluated, by the rule they break"""
    complete: bool = True
    """false when it was interrupted: the best of what had been evaluated"""


def _divisors(number: int) -> Array:
    values = np.arange(1, number + 1)
    return values[number % values == 0]


def _choices(given: Sequence[Any], default: Sequence[Any] | Array) -> Array:
    return np.asarray(given if len(given) else default)


def _product(plan: dict[str, Array], name: str, values: Array) -> dict[str, Array]:
    """Every combination of the plans so far with the values of one more field."""
    count = next(iter(plan.values())).size
    out = {key: np.repeat(value, values.size) for key, value in plan.items()}
    out[name] = np.tile(values, count)
    return out


@dataclass
class _Growth:
    """A space being built field by field, with what each rule cut."""

    fixed: Plan
    facts: Facts
    columns: dict[str, Array]
    cut: dict[str, int]

    def add(self, name: str, values: Array, rules: Sequence[str] = ()) -> None:
        """One more field, then drop what breaks the named rules."""
        self.columns = _product(self.columns, name, values)
        self.drop(rules)

    def drop(self, rules: Sequence[str]) -> None:
        """Keep what obeys the named rules."""
        if not rules:
            return
        plan = replace(self.fixed, **self.columns)

        keep = np.ones(next(iter(self.columns.values())).size, dtype=bool)
        for name, violated, _ in RULES:
            if name in rules:
                wrong = np.broadcast_to(np.asarray(violated(plan, self.facts), dtype=bool), keep.shape) & keep
                self._count(name, int(wrong.sum()))
                keep &= ~wrong
        self.columns = {key: value[keep] for key, value in self.columns.items()}

    def keep(self, reason: str, wanted: Array) -> None:
        """Keep where `wanted`; count the rest under a reason."""
        self._count(reason, int(wanted.size - wanted.sum()))
        self.columns = {key: value[wanted] for key, value in self.columns.items()}

    def _count(self, reason: str, number: int) -> None:
        if number:
            self.cut[reason] = self.cut.get(reason, 0) + number


def space(
    model: Model, cluster: Cluster, fixed: Plan, gpus: int, wanted: Space, software: Software
) -> tuple[Plan, dict[str, int]]:
    """(every legal plan on exactly `gpus` GPUs, what each rule cut), without costing any.

    `fixed` gives the global batch, the sequence, the precisions and the software.
    """
    known = facts(model, cluster, fixed.length(model))
    divisors = _divisors(gpus)
    grow = _Growth(fixed, known, {"tp": _choices(wanted.tp, divisors)}, {})
    grow.drop(["heads", "kv heads", "mlp width"])
    grow.add("pp", _choices(wanted.pp, divisors), ["layers"])
    grow.keep("gpus", gpus % (grow.columns["tp"] * grow.columns["pp"]) == 0)
    grow.add("cp", _choices(wanted.cp, divisors[divisors <= 64]), ["context"])
    model_ranks = grow.columns["tp"] * grow.columns["pp"] * grow.columns["cp"]
    grow.keep("gpus", gpus % model_ranks == 0)
    grow.columns["dp"] = gpus // (grow.columns["tp"] * grow.columns["pp"] * grow.columns["cp"])
    grow.add("ep", _choices(wanted.ep, _divisors(known.experts) if known.experts else np.ones(1, int)), ["expert groups"])
    per_replica = _divisors(int(fixed.global_batch))
    grow.add("micro_batch", _choices(wanted.micro_batch, per_replica[per_replica <= 32]), ["batch"])
    _add_pipeline(grow, wanted, known)
    grow.add("sequence_parallel", _choices(wanted.sequence_parallel, [False, True]), ["sequence parallel", "sequence split"])
    _add_memory(grow, wanted, known)
    _add_overlaps(grow, wanted, software)
    return replace(fixed, **grow.columns), grow.cut


def _add_pipeline(grow: _Growth, wanted: Space, known: Facts) -> None:
    chunk = _divisors(known.layers)
    grow.add("virtual_stages", _choices(wanted.virtual_stages, chunk[chunk <= 16]))
    grow.add("schedule", _choices(wanted.schedule, list(Schedule)))
    grow.drop(["virtual stages", "interleaved pipeline", "layers", "interleaved layers", "interleaved batches"])
    alone = grow.columns["pp"] == 1
    grow.keep("one stage has one schedule", ~alone | (grow.columns["schedule"] == Schedule.ONE_F_ONE_B))


def _add_memory(grow: _Growth, wanted: Space, known: Facts) -> None:
    grow.add("zero", _choices(wanted.zero, [0, 1, 2, 3]), ["zero", "zero 2 pipeline"])
    ranks = grow.columns["dp"] * grow.columns["cp"]
    grow.keep("zero divides over two ranks or more", (ranks > 1) | (grow.columns["zero"] == 0))
    shards = [0, *(s for s in wanted.shard if s)] if wanted.shard else [0]
    grow.add("shard", np.asarray(shards), ["shard"])
    modes = [(mode, 0) for mode in (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)]
    layers = [*wanted.recompute_layers] if wanted.recompute_layers else [1, 2, 4, 8]
    modes += [(Recompute.FULL, count) for count in layers if count]
    if wanted.recompute:
        modes = [pair for pair in modes if pair[0] in wanted.recompute]
    pairs = np.array(modes)
    grow.add("recompute", np.arange(len(pairs)))
    which = grow.columns["recompute"]
    grow.columns["recompute_layers"] = pairs[which, 1]
    grow.columns["recompute"] = pairs[which, 0]
    grow.drop(["recompute layers"])
    stage = -(-known.layers // grow.columns["pp"])
    grow.keep("recomputing every layer is full recomputation", grow.columns["recompute_layers"] < stage)
    grow.add("flash", _choices(wanted.flash, [True, False]), ["flash"])


def _add_overlaps(grow: _Growth, wanted: Space, software: Software) -> None:
    column = grow.columns
    useful: dict[str, Callable[[dict[str, Array]], Array]] = {
        "overlap_grad": lambda c: (c["dp"] * c["cp"] > 1) & (c["zero"] < 3),
        "overlap_param": lambda c: c["zero"] > 0,
        "overlap_tp": lambda c: c["tp"] > 1,
    }
    for name, has_effect in useful.items():
        able = name in software.can_overlap
        values = _choices(getattr(wanted, name), [True, False] if able else [False])
        grow.add(name, values)
        column = grow.columns
        idle = ~has_effect(column)
        grow.keep(f"{name} without effect", ~idle | (column[name] == values[-1]))


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

    `memory` is the room on a GPU in B (default: the GPU's).  `progress` is called with (evaluated, all); a
    KeyboardInterrupt gives the best so far.  PlanError when no combination is legal, saying what cut them.
    """
    count = gpus or cluster.gpus
    software = load_software(fixed.software)
    plans, cut = space(model, cluster, fixed, count, wanted or Space(), software)
    total = plans.size if np.size(plans.tp) else 0
    if total == 0:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in cut.items())
        raise PlanError([f"no plan of {count} GPUs with global_batch={fixed.global_batch} is legal; cut by: {reasons}"])
    seconds_P, memory_P = np.full(total, np.inf), np.full(total, np.inf)
    ready = prepare(model, cluster, plans, split=False)
    done = 0
    try:
        for part in chunks(total):
            cost = combine(ready, part)
            seconds_P[part], memory_P[part] = cost.seconds_P, cost.memory_P
            done = part.stop
            if progress:
                progress(done, total)
    except KeyboardInterrupt:
        pass
    fits_P = memory_P <= (memory or cluster.gpu.memory)
    order = np.flatnonzero(fits_P)
    order = order[np.argsort(seconds_P[order], kind="stable")]
    return Found(
        plans=ready.plan,
        seconds_P=seconds_P,
        memory_P=memory_P,
        fits_P=fits_P,
        order=order,
        pareto=_front(seconds_P, memory_P, order),
        evaluated=done,
        cut=cut,
        complete=done == total,
    )


def _front(seconds_P: Array, memory_P: Array, order: Array) -> Array:
    """Plans that nothing beats in both time and memory, fastest first."""
    memory = memory_P[order]
    if memory.size == 0:
        return order
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(memory)[:-1]])
    return order[memory < best_before]


