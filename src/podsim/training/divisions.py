"""Which plans of a search fit, found before any of them gets a time.

Memory is what ranks divide, of few distinct plans, and what they do not, of layouts alone: each is computed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from podsim.axes import Shaped
from podsim.records import dataclass
from podsim.training.batch import Keyed, chunks, distinct_keys, keyed_table
from podsim.training.layout import Stages
from podsim.training.memory import (
    ACTIVATION_KEY,
    WEIGHT_KEY,
    Activations,
    Weights,
    activation_table,
    divided_bytes,
    held_weights,
    memory_kind_bytes,
    undivided_bytes,
    weight_table,
)
from podsim.training.pipeline_stages import STAGE_KEY, stages_table
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS, Array, Recompute
from podsim.training.search_space import LATER, Division, SearchSpace
from podsim.training.software import Software
from podsim.workload.model import Model

S = TypeVar("S")
T = TypeVar("T")
_DIVIDED_KEY = ("tp", "pp", "virtual_stages", "schedule", "dp", "cp", "ep", "expert_tp")
"""The fields that the bytes which ranks divide depend on, with zero and shard."""


class _Fitting(NamedTuple):
    """Plans of one division that fit, by ascending rows and modes."""

    rows: Shaped[Array, "plan"]
    modes: Shaped[Array, "plan"]
    memory_bytes: Shaped[Array, "plan"]


def map_all(function: Callable[[S], T], items: Iterable[S], jobs: int) -> Iterator[T]:
    """What a function gives of each item, by one or several threads."""
    if jobs == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(jobs or os.cpu_count())
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def until_interrupted(results: Iterator[T], count: int, report: Callable[[float], None]) -> list[T]:
    """The results before a KeyboardInterrupt, which must not be the first; reports the share of their number."""
    known: list[T] = []
    try:
        for result in results:
            known.append(result)
            report(len(known) / count)
    except KeyboardInterrupt:
        if not known:
            raise
    return known


@dataclass(frozen=True, kw_only=True)
class FittingPlans:
    """The plans of a space that fit, one division after the other, by ascending rows and modes."""

    space: SearchSpace
    rows: Shaped[Array, "plan"]
    modes: Shaped[Array, "plan"]
    memory_bytes: Shaped[Array, "plan"]
    borders: Sequence[int]
    """The first plan of each division, and the number of plans."""

    def take(self, positions: Shaped[Array, "position"]) -> Plan:
        """Plans at positions."""
        number = np.searchsorted(self.borders, positions, side="right") - 1
        divided = np.array([(division.zero, division.shard) for division in self.space.divisions])[number]
        columns = self.space.columns(self.modes[positions])
        rows = self.space.rows.take(self.rows[positions])
        return rows.having({**columns, "zero": divided[:, 0], "shard": divided[:, 1]})

    def by_division(self) -> Iterator[tuple[int, Shaped[Array, "plan"]]]:
        """(number of a division, the rows of its plans)."""
        for number, (low, high) in enumerate(pairwise(self.borders)):
            yield number, self.rows[low:high]


@dataclass(frozen=True, kw_only=True)
class SpaceMemory:
    """What the memory of the plans of a space depends on."""

    space: SearchSpace
    software: Software
    stages: Keyed[Stages]
    weights: Keyed[Weights]
    activations: Keyed[Activations]
    divided: Sequence[Shaped[Array, "stage plan"]]
    """B. The bytes that ranks divide, under each division, of plans that differ in _DIVIDED_KEY; none in PyTorch's own
    runtime, where they depend on the rest."""
    groups: Shaped[Array, "row"]
    """The position of each row's among them."""
    names: Sequence[str]
    """The fields that memory depends on."""

    def fitting(self, room: float, jobs: int, report: Callable[[float], None]) -> tuple[FittingPlans, int]:
        """(the plans that fit in a room, the number of rows that were looked at before an interruption)."""
        parts = list(chunks(self.space.rows.size, 4096))
        results = map_all(lambda part: self._fitting(part, room), parts, jobs)
        decided = until_interrupted(results, len(parts), report)
        divisions = [
            _Fitting(*map(np.concatenate, zip(*own, strict=True))) for own in zip(*decided, strict=True)
        ]
        borders = np.cumsum([0, *(own.rows.size for own in divisions)]).tolist()
        every = _Fitting(*map(np.concatenate, zip(*divisions, strict=True)))
        plans = FittingPlans(space=self.space, borders=borders, **every._asdict())
        return plans, parts[len(decided) - 1].stop

    def _fitting(self, part: slice, room: float) -> list[_Fitting]:
        """The plans of each division that fit, of some rows.

        To recompute some of the layers takes no less than to recompute none or all, as memory is linear in their number.
        """
        modes, rows = self.space.modes, np.arange(part.start, part.stop)
        own = self.space.rows.take(rows)
        first, index = distinct_keys(own, self.names)  # an overlap changes no memory
        legal = self.space.is_legal(own.pp)
        memory = np.full((len(self.space.divisions), first.size, len(modes)), np.inf)
        entire, some = np.flatnonzero(modes[:, 1] == 0), np.flatnonzero(modes[:, 1])
        memory[..., entire] = self._bytes(rows[first], entire)
        hopeful = np.arange(first.size)
        if self.divided and Recompute.NONE in modes[:, 0]:
            hopeful = np.flatnonzero((memory <= room * (1 + 1e-9)).any(axis=(0, 2)))
        if hopeful.size and some.size:
            memory[:, hopeful[:, None], some] = self._bytes(rows[first[hopeful]], some)
        fitting = []
        for division, sizes in zip(self.space.divisions, memory, strict=True):
            low, high = np.searchsorted(division.rows, [part.start, part.stop]).tolist()
            wanted = division.rows[low:high]
            at = wanted - part.start
            chosen = sizes[index[at]]
            row, mode = np.nonzero((chosen <= room) & legal[at])
            fitting.append(_Fitting(wanted[row], mode, chosen[row, mode]))
        return fitting

    def _bytes(self, rows: Array, modes: Array) -> Array:
        """B. What the fullest stage of each row holds under each division, with each mode of recomputation."""
        at, mode = np.repeat(rows, modes.size), np.tile(modes, rows.size)
        plan = self.space.rows.take(at).having(self.space.columns(mode)).wide()
        stages, activations, groups = self.stages.of(at), self.activations.of(at), self.groups[at]
        most = []
        if self.divided:
            kept = reduce(np.add, undivided_bytes(plan, self.software, stages, activations))
        for number, division in enumerate(self.space.divisions):
            if self.divided:
                total = kept + self.divided[number].take(groups, axis=1)
            else:
                divided = plan.having({"zero": division.zero, "shard": division.shard})
                parts = memory_kind_bytes(divided, self.software, stages, self.weights.of(at), activations)
                total = reduce(np.add, parts)
            most.append(np.where(stages.count > 0, total, 0.0).max(axis=0))
        return np.reshape(most, (-1, rows.size, modes.size))


def space_memory(model: Model, space: SearchSpace, software: Software) -> SpaceMemory:
    """Tables of the memory of a space."""
    rows, torch = space.rows, software.runtime == "torch"
    stages = keyed_table(rows, STAGE_KEY, partial(stages_table, model))
    weights = keyed_table(rows, WEIGHT_KEY, partial(weight_table, model))
    first, groups = distinct_keys(rows, _DIVIDED_KEY)
    plan = rows.take(first).wide()

    def divided(division: Division) -> Array:
        own = plan.having({"zero": division.zero, "shard": division.shard})
        held = held_weights(own, software, stages.of(first), weights.of(first))
        return np.asarray(reduce(np.add, divided_bytes(own, software, held)))

    left_out = LATER if torch else {*LATER, "overlap_tp"}
    columns = {name: np.asarray(getattr(rows, name)) for name in ARRAY_FIELDS if name not in left_out}
    return SpaceMemory(
        space=space,
        software=software,
        stages=stages,
        weights=weights,
        activations=keyed_table(rows, ACTIVATION_KEY, lambda plan: activation_table(model, plan, software)),
        divided=[] if torch else [divided(division) for division in space.divisions],
        groups=groups,
        names=[name for name, column in columns.items() if (column != column[0]).any()],
    )
