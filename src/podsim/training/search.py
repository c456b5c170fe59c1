"""Every legal plan of a model on a cluster, with memory and bounds: the best, the Pareto front, what was cut."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from podsim.axes import Shaped
from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.records import dataclass, field
from podsim.training.batch import PlanTables, chunks, layout_of
from podsim.training.contenders import Contenders, least_layout_seconds
from podsim.training.divisions import (
    Division,
    divide_plans,
    divided_chunk,
    division_bytes,
    division_seconds,
    sort_by_division,
)
from podsim.training.layout import Layout, StepEnd
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.search_limits import Space
from podsim.training.search_space import space
from podsim.training.software import Software, load_software, usable_bytes
from podsim.workload.model import Model

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search; a plan is named by its position in the flattened table of flags and combinations."""

    combinations: Plan
    """The plans without the two flags."""
    flags: Shaped[Array, "flags field"]
    """The values of overlap_grad and overlap_param."""
    timed: Shaped[Array, "timed"]
    """The combinations that have a time (`search`), ascending."""
    step_seconds: Shaped[Array, "flags timed"]
    """s. The time of a step; infinite where the flags equal another plan."""
    memory_bytes: Shaped[Array, "plan"]
    """B. The memory of the fullest stage."""
    order: Array
    """The positions of the plans that fit and have a time, fastest first."""
    pareto: Array
    """The positions on the front of memory against time, fastest first."""
    evaluated: int
    """The number of plans with a memory and a time or a bound of it, whether they fit or not."""
    fitting: int
    """The number of them that fit."""
    cut: dict[str, int] = field(default_factory=dict)
    """The number of combinations never evaluated, by the rule that they break."""
    complete: bool = True
    """Whether the search was completed; False if it was interrupted, with the best so far."""
    roomy_bytes: float = np.inf
    """B. The memory up to which a plan has headroom."""

    def roomy_first(self) -> tuple[Array, int]:
        """The positions of `order`, those of plans with headroom first, and the number of these."""
        is_roomy = self.memory_bytes[self.order % self.memory_bytes.size] <= self.roomy_bytes
        positions = np.concatenate([self.order[is_roomy], self.order[~is_roomy]])
        return positions, int(is_roomy.sum())

    def plan(self, position: int) -> Plan:
        """The plan at a position, scalar."""
        flag, combination = divmod(int(position), self.memory_bytes.size)
        grad, param = self.flags[flag].tolist()
        return self.combinations.take(combination).having({"overlap_grad": grad, "overlap_param": param})

    def seconds_of(self, positions: Array) -> Array:
        """Step seconds of the plans at positions, which must have a time."""
        flag, combination = np.divmod(positions, self.memory_bytes.size)
        return np.asarray(self.step_seconds[flag, np.searchsorted(self.timed, combination)])

    def seconds(self, position: int) -> float:
        """Step seconds of the plan at a position."""
        return float(self.seconds_of(np.array(position)))

    def memory(self, position: int) -> float:
        """Bytes of the plan at a position."""
        return float(self.memory_bytes[int(position) % self.memory_bytes.size])


def _flags(wanted: Space, software: Software) -> Shaped[Array, "flags field"]:
    """Values of overlap_grad and overlap_param that the framework can run, the most overlapped first."""

    def values(name: str) -> list[bool]:
        given = wanted.get(name, ())
        able = name in software.can_overlap
        return [bool(v) for v in given] if len(given) else ([True, False] if able else [False])

    return np.array([(g, p) for g in values("overlap_grad") for p in values("overlap_param")])


def _is_redundant(plan: Plan, zero: int, flags: Shaped[Array, "flags field"]) -> Shaped[Array, "flags plan"]:
    """Whether a flag has nothing to hide, and another value of it was already tried."""
    idle_grad = (np.asarray(plan.dp) * plan.cp == 1) | (zero == 3)
    grad, param = flags[:, :1], flags[:, 1:]
    return np.asarray((idle_grad & (grad != flags[0, 0])) | ((zero == 0) & (param != flags[0, 1])))


def _flag_count(plan: Plan, zero: int, flags: Shaped[Array, "flags field"]) -> Shaped[Array, "plan"]:
    """The number of flags that are not redundant."""
    idle_grad = (np.asarray(plan.dp) * plan.cp == 1) | (zero == 3)
    grads, params = np.unique(flags[:, 0]).size, np.unique(flags[:, 1]).size
    return np.where(idle_grad, 1, grads) * (1 if zero == 0 else params)


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """Memory and least times of all plans, filled chunk by chunk; no two chunks share a plan."""

    tables: PlanTables
    divisions: Sequence[Division]
    flags: Shaped[Array, "flags field"]
    room: float
    """B. The memory of a GPU that a plan may use."""
    least_seconds: Shaped[Array, "plan"]
    """s. The least time of each plan; infinite where it does not fit."""
    memory_bytes: Shaped[Array, "plan"]
    step_seconds: Shaped[Array, "flags plan"] | None
    """s. The times of all plans; None where only contenders get one."""

    def fill(self, chunk: slice) -> tuple[int, int, int]:
        """Bound the plans of a chunk of layouts; (combinations, plans among them, plans that fit)."""
        layout = layout_of(self.tables, chunk)
        least = least_layout_seconds(layout, self.tables.software, self.tables.core_share)
        done = evaluated = fitting = 0
        for part, division, index, own, end in divided_chunk(layout, self.divisions, chunk):
            memory = self.memory_bytes[part] = division_bytes(own, division, self.tables.software)
            fits = memory <= self.room
            lowest = (least if index is None else least[index]) + end.last.optimizer
            self.least_seconds[part] = np.where(fits, lowest, np.inf)
            count = np.broadcast_to(_flag_count(own.plan, division.zero, self.flags), memory.shape)
            done, evaluated = done + memory.size, evaluated + int(count.sum())
            fitting += int(count[fits].sum())
            if self.step_seconds is not None:
                self.step_seconds[:, part] = self.flag_seconds(division, own, end)
        return done, evaluated, fitting

    def flag_seconds(self, division: Division, layout: Layout, end: StepEnd) -> Shaped[Array, "flags plan"]:
        """Step seconds of layouts under one way to divide, with all flags; infinite where a flag is redundant."""
        skip = _is_redundant(layout.plan, division.zero, self.flags)
        tried = np.flatnonzero(~skip.all(axis=1))
        seconds = np.full((len(self.flags), layout.plan.size), np.inf)
        seconds[tried] = division_seconds(self.tables, layout, end, division, self.flags[tried])
        seconds[skip] = np.inf
        return seconds

    def part_seconds(self, part: tuple[Division, Array]) -> Shaped[Array, "flags position"]:
        """Step seconds of plans of one division, by their positions in it."""
        division, own = part
        layout = layout_of(self.tables, division.layouts[own])
        return self.flag_seconds(division, layout, division.ends.of(own))

    def seconds_at(self, positions: Shaped[Array, "position"], jobs: int) -> Shaped[Array, "flags position"]:
        """Step seconds of plans at ascending positions."""
        if not positions.size:
            return np.empty((len(self.flags), 0))
        starts = [division.start for division in self.divisions]
        borders = [0, *np.searchsorted(positions, starts[1:]).tolist(), positions.size]
        parts = [
            (division, positions[low:high][part] - division.start)
            for division, (low, high) in zip(self.divisions, pairwise(borders), strict=True)
            for part in chunks(high - low)
        ]
        return np.concatenate(list(_map_all(self.part_seconds, parts, jobs)), axis=1)

    def contenders(
        self, plans: Plan, jobs: int, roomy: float
    ) -> tuple[Shaped[Array, "timed"], Shaped[Array, "flags timed"]]:
        """(positions of all plans that may be the fastest of their degrees or on the front, their step seconds)."""
        known = Contenders(
            plans=plans, least_seconds=self.least_seconds, memory_bytes=self.memory_bytes, roomy_bytes=roomy
        )  # fmt: skip
        first = known.first()
        seconds = self.seconds_at(first, jobs)
        if first.size == 0:
            return first, seconds
        last = known.after(first, seconds.min(axis=0))
        positions = np.union1d(first, last)
        every = np.empty((len(self.flags), positions.size))
        is_first = np.isin(positions, first, assume_unique=True)
        every[:, is_first], every[:, ~is_first] = seconds, self.seconds_at(positions[~is_first], jobs)
        return positions, every


def _map_all(function: Callable[[S], T], items: Iterable[S], jobs: int) -> Iterator[T]:
    """What a function gives of each item, by one or several threads."""
    if jobs == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(jobs or os.cpu_count())
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def _new_bounds(
    model: Model,
    cluster: Cluster,
    space: tuple[Plan, Array],
    flags: Array,
    software: Software,
    *,
    every: bool,
) -> _Bounds:
    """Bounds of all plans of a space (plans, their layouts), still unknown."""
    plans, layouts = space
    tables, divisions = divide_plans(model, cluster, plans, layouts, software)
    return _Bounds(
        tables=tables,
        divisions=divisions,
        flags=flags,
        room=usable_bytes(cluster.gpu, software),
        least_seconds=np.full(layouts.size, np.inf),
        memory_bytes=np.full(layouts.size, np.inf),
        step_seconds=np.full((len(flags), layouts.size), np.inf) if every else None,
    )


def search(
    model: Model,
    cluster: Cluster,
    fixed: Plan,
    *,
    headroom: float = 0.0,
    wanted: Space | None = None,
    progress: Callable[[int, int], None] | None = None,
    jobs: int = 1,
    every: bool = False,
) -> SearchResult:
    """Weigh every legal plan on all GPUs of a cluster.

    `podsim.training.contenders` says which plans get a time: those that may be the fastest of their degrees, with or
    without the share `headroom` of their memory, or on the front of memory against time; with `every`, all.
    `fixed` gives what a search does not choose: batch, sequence, precisions, software.  `progress` is called with
    (evaluated, all) combinations; a KeyboardInterrupt gives the best so far.  `jobs` threads share the work; 0: one a
    processor.  PlanError when no combination is legal, saying what cut them.
    """
    count = cluster.gpus
    wanted = wanted or {}
    software = load_software(fixed.software, cluster.gpu, fixed.precision)
    plans, layouts, cut = space(model, cluster, fixed, count, wanted, software)
    total = int(np.size(plans.tp))
    if total == 0:
        raise PlanError([_no_plan(count, fixed, cut)])
    plans, layouts = sort_by_division(plans, layouts)
    flags = _flags(wanted, software)
    done = evaluated = fitting = 0
    try:
        bounds = _new_bounds(model, cluster, (plans, layouts), flags, software, every=every)
        for reached, plans_of, fitting_of in _map_all(bounds.fill, chunks(bounds.tables.plan.size), jobs):
            done, evaluated, fitting = done + reached, evaluated + plans_of, fitting + fitting_of
            if progress:
                progress(done, total)
    except KeyboardInterrupt:
        if done == 0:
            raise
    roomy = bounds.room / (1 + headroom)
    if bounds.step_seconds is None:
        timed, step_seconds = bounds.contenders(plans, jobs, roomy)
    else:
        timed, step_seconds = np.arange(total), bounds.step_seconds
    order = _rank(step_seconds, bounds.memory_bytes[timed] <= bounds.room)
    flag, column = np.divmod(order, timed.size)
    order = flag * total + timed[column]
    return SearchResult(
        combinations=plans,
        flags=flags,
        timed=timed,
        step_seconds=step_seconds,
        memory_bytes=bounds.memory_bytes,
        order=order,
        pareto=_front(bounds.memory_bytes, order),
        evaluated=evaluated,
        fitting=fitting,
        cut=cut,
        complete=done == total,
        roomy_bytes=roomy,
    )


def _no_plan(gpus: int, fixed: Plan, cut: dict[str, int]) -> str:
    reasons = ", ".join(
        f"{reason} ({number:,})" for reason, number in sorted(cut.items(), key=lambda c: -c[1])
    )
    return (
        f"no plan on {gpus} GPUs with global_batch={fixed.global_batch} is legal; combinations cut by rule: "
        f"{reasons or 'none'}. A number of GPUs and a batch with more divisors in common leave more room"
    )


def _rank(step_seconds: Shaped[Array, "flags timed"], fits: Shaped[Array, "timed"]) -> Array:
    """Positions of the plans that fit, fastest first; of equal ones the first."""
    order = np.flatnonzero(np.isfinite(step_seconds) & fits)
    seconds = step_seconds.ravel()[order]
    # several times as quick as a stable sort; equal ones are sorted afterwards
    rank = np.argsort(seconds)
    seconds = seconds[rank]
    same = np.concatenate([[False], seconds[1:] == seconds[:-1]])
    tied = np.flatnonzero(same | np.concatenate([same[1:], [False]]))
    rank[tied] = rank[tied][np.lexsort((rank[tied], seconds[tied]))]
    return np.asarray(order[rank])


def _front(memory_bytes: Shaped[Array, "plan"], order: Array) -> Array:
    """Plans that nothing beats in both time and memory, fastest first."""
    if order.size == 0:
        return order
    memory = memory_bytes[order % memory_bytes.size]
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(memory)[:-1]])
    return np.asarray(order[memory < best_before])
