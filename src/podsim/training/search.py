"""Every legal plan of a model on a cluster, with memory and bounds: the best, the Pareto front, what was cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from podsim.axes import Shaped
from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.records import dataclass, field
from podsim.training.batch import Keyed, PlanTables, chunks, distinct_keys, layout_of, prepare
from podsim.training.contenders import Contenders, least_layout_seconds, runs_of_degrees
from podsim.training.divisions import FittingPlans, map_all, space_memory, until_interrupted
from podsim.training.groups import GROUP_KEY, end_table
from podsim.training.layout import Layout, StepEnd
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.search_limits import Space
from podsim.training.search_space import SearchSpace, space
from podsim.training.software import Software, load_software, usable_bytes
from podsim.training.step import step_seconds as seconds_of_step
from podsim.workload.model import Model


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search; a plan is named by its position in the flattened table of flags and combinations."""

    combinations: Plan
    """The plans that have a time (`search`), without the two flags; where none fits, that with the least memory."""
    flags: Shaped[Array, "flags field"]
    """The values of overlap_grad and overlap_param."""
    step_seconds: Shaped[Array, "flags plan"]
    """s. The time of a step; infinite where the flags equal another plan, or where it does not fit."""
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
        return np.asarray(self.step_seconds.ravel()[positions])

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


@dataclass(frozen=True, kw_only=True)
class _Times:
    """What the times of plans that fit follow from; these come one division after the other."""

    flags: Shaped[Array, "flags field"]
    fitting: FittingPlans
    tables: PlanTables
    """The tables of the rows that have a plan."""
    ends: Sequence[Keyed[StepEnd]]
    """The ends of these rows under each division."""
    places: Shaped[Array, "row"]
    """The position of each row in the tables."""

    def _layouts(self, rows: Shaped[Array, "plan"], modes: Shaped[Array, "plan"]) -> Layout:
        return layout_of(self.tables, self.places[rows], self.fitting.space.columns(modes))

    def least_seconds(self, jobs: int, report: Callable[[float], None]) -> tuple[Shaped[Array, "plan"], bool]:
        """(s, the least time of each plan, infinite after an interruption; whether there was none)."""
        width = len(self.fitting.space.modes)
        layout = self.fitting.rows * width + self.fitting.modes
        layouts, number = _numbered(layout, self.places.size * width)

        def least(chunk: slice) -> Shaped[Array, "plan"]:
            own = self._layouts(*np.divmod(layouts[chunk], width))
            return least_layout_seconds(own, self.tables.software, self.tables.core_share)

        parts = list(chunks(layouts.size))
        bound = np.concatenate(until_interrupted(map_all(least, parts, jobs), len(parts), report))
        seconds = np.append(bound, np.full(layouts.size - bound.size, np.inf))
        ends = [
            self.ends[division].of(self.places[rows]).last.optimizer
            for division, rows in self.fitting.by_division()
        ]
        return seconds[number[layout]] + np.concatenate(ends), bound.size == layouts.size

    def _part_seconds(self, part: tuple[int, Array]) -> Shaped[Array, "flags position"]:
        """Step seconds of plans of a division, with all flags; infinite where a flag is redundant."""
        number, positions = part
        division, rows = self.fitting.space.divisions[number], self.fitting.rows[positions]
        layout = self._layouts(rows, self.fitting.modes[positions])
        end = self.ends[number].of(self.places[rows])
        skip = _is_redundant(layout.plan, division.zero, self.flags)
        tried = np.flatnonzero(~skip.all(axis=1))
        flags = self.flags[tried]
        plan = layout.plan.having({
            "zero": division.zero, "shard": division.shard, "overlap_grad": flags[:, :1], "overlap_param": flags[:, 1:],
        })  # fmt: skip
        seconds = np.full((len(self.flags), positions.size), np.inf)
        seconds[tried] = seconds_of_step(layout, plan, self.tables.software, end, self.tables.core_share)
        seconds[skip] = np.inf
        return seconds

    def seconds_at(self, positions: Shaped[Array, "position"], jobs: int) -> Shaped[Array, "flags position"]:
        """Step seconds of plans at ascending positions."""
        borders = np.searchsorted(positions, self.fitting.borders).tolist()
        parts = [
            (number, positions[low:high][part])
            for number, (low, high) in enumerate(pairwise(borders))
            for part in chunks(high - low)
        ]
        none = np.empty((len(self.flags), 0))
        return np.concatenate([none, *map_all(self._part_seconds, parts, jobs)], axis=1)

    def contenders(
        self, least: Shaped[Array, "plan"], jobs: int, roomy: float
    ) -> tuple[Shaped[Array, "timed"], Shaped[Array, "flags timed"]]:
        """(positions of all plans that may be the fastest of their degrees or on the front, their step seconds)."""
        runs, degrees = runs_of_degrees(self.fitting.space.rows)
        copies = len(self.ends)
        shift = np.repeat(np.arange(copies), np.diff(self.fitting.borders)) * degrees.size
        known = Contenders(
            runs=runs[self.fitting.rows] + shift, degrees=np.tile(degrees, copies), least_seconds=least,
            memory_bytes=self.fitting.memory_bytes, roomy_bytes=roomy,
        )  # fmt: skip
        first = known.first()
        seconds = self.seconds_at(first, jobs)
        others = np.setdiff1d(known.after(first, seconds.min(axis=0)), first)
        positions = np.concatenate([first, others])
        seconds = np.concatenate([seconds, self.seconds_at(others, jobs)], axis=1)
        order = np.argsort(positions)
        return positions[order], seconds[:, order]


def _numbered(used: Array, count: int) -> tuple[Array, Shaped[Array, "position"]]:
    """(the positions below `count` that are used, ascending; the number of each position among them)."""
    is_used = np.zeros(count, dtype=bool)
    is_used[used] = True
    return np.flatnonzero(is_used), np.cumsum(is_used, dtype=np.int32) - np.int32(1)


def _times(model: Model, cluster: Cluster, fitting: FittingPlans, software: Software, flags: Array) -> _Times:
    """Tables for the times of plans that fit."""
    rows = fitting.space.rows
    with_plan, places = _numbered(fitting.rows, rows.size)
    tables = prepare(model, cluster, rows.take(with_plan), search=True)
    first, group = distinct_keys(tables.plan, [name for name in GROUP_KEY if name not in ("zero", "shard")])
    groups, ends = tables.plan.take(first), []
    for number, own in fitting.by_division():
        division = fitting.space.divisions[number]
        seen, number_of = _numbered(group[places[own]] if own.size else np.zeros(1, np.intp), first.size)
        sub = groups.take(seen).having({"zero": division.zero, "shard": division.shard})
        ends.append(Keyed(end_table(model, cluster, sub.arrays().wide(), software), number_of[group]))
    return _Times(flags=flags, fitting=fitting, tables=tables, ends=ends, places=places)


def _count_plans(
    plans: SearchSpace, flags: Shaped[Array, "flags field"]
) -> tuple[list[Shaped[Array, "row"]], Shaped[Array, "row"]]:
    """(the number of flags of each row under each division, the number of plans of each row)."""
    counts = [(~_is_redundant(plans.rows, division.zero, flags)).sum(axis=0) for division in plans.divisions]
    modes, number = plans.is_legal(plans.rows.pp).sum(axis=1), np.zeros(plans.rows.size, dtype=np.int64)
    for division, own in zip(plans.divisions, counts, strict=True):
        number[division.rows] += (own * modes)[division.rows]
    return counts, number


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
    (evaluated, all) plans; a KeyboardInterrupt gives the best so far.  `jobs` threads share the work; 0: one a
    processor.  PlanError when no combination is legal, saying what cut them.
    """
    wanted = wanted or {}
    software = load_software(fixed.software, cluster.gpu, fixed.precision)
    plans = space(model, cluster, fixed, cluster.gpus, wanted, software)
    flags = _flags(wanted, software)
    counts, number = _count_plans(plans, flags)
    total = int(number.sum())
    if total == 0:
        raise PlanError([_no_plan(cluster.gpus, fixed, plans.cut)])

    def report(share: float) -> None:
        if progress:
            progress(round(share * total), total)

    memory, room = space_memory(model, plans, software), usable_bytes(cluster.gpu, software)
    fitting, decided = memory.fitting(room, jobs, lambda share: report(share / 2))
    fitting_number = sum(int(counts[at][rows].sum()) for at, rows in fitting.by_division())
    complete, roomy = decided == number.size, room / (1 + headroom)
    if fitting_number == 0:
        fitting, _ = memory.fitting(np.inf, jobs, lambda share: None)
        timed = np.array([fitting.memory_bytes.argmin()])
        step_seconds = np.full((len(flags), 1), np.inf)
    else:
        times = _times(model, cluster, fitting, software, flags)
        if every:
            timed = np.arange(fitting.rows.size)
            step_seconds = times.seconds_at(timed, jobs)
        else:
            least, is_all = times.least_seconds(jobs, lambda share: report((1 + share) / 2))
            timed, step_seconds = times.contenders(least, jobs, roomy)
            complete = complete and is_all
    order, memory_bytes = _rank(step_seconds), fitting.memory_bytes[timed]
    return SearchResult(
        combinations=fitting.take(timed), flags=flags, step_seconds=step_seconds, memory_bytes=memory_bytes,
        order=order, pareto=_front(memory_bytes, order), evaluated=int(number[:decided].sum()),
        fitting=fitting_number, cut=plans.cut, complete=complete, roomy_bytes=roomy,
    )  # fmt: skip


def _no_plan(gpus: int, fixed: Plan, cut: dict[str, int]) -> str:
    reasons = ", ".join(
        f"{reason} ({number:,})" for reason, number in sorted(cut.items(), key=lambda c: -c[1])
    )
    return (
        f"no plan on {gpus} GPUs with global_batch={fixed.global_batch} is legal; combinations cut by rule: "
        f"{reasons or 'none'}. A number of GPUs and a batch with more divisors in common leave more room"
    )


def _rank(step_seconds: Shaped[Array, "flags plan"]) -> Array:
    """Positions of the plans that have a time, fastest first; of equal ones the first."""
    order = np.flatnonzero(np.isfinite(step_seconds))
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
