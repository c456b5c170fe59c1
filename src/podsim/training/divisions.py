"""The plans of a search by what their data-parallel ranks divide, so that each layout is computed once for all of them.

A search has several times as many plans as layouts: plans of one layout differ only in zero and shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.records import dataclass
from podsim.training.batch import Keyed, PlanTables, distinct_keys, gather, prepare
from podsim.training.groups import GROUP_KEY, end_table
from podsim.training.layout import Layout, StepEnd
from podsim.training.memory import memory_kind_bytes
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.training.step import step_seconds
from podsim.workload.model import Model

_DIVIDED = ("zero", "shard")
"""The fields that say what data-parallel ranks divide."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """All plans of one zero and one shard, in the order of their layouts."""

    zero: int
    shard: int
    start: int
    """The position of the first of them among all plans."""
    layouts: Shaped[Array, "plan"]
    """The position of the layout of each."""
    ends: Keyed[StepEnd]


def sort_by_division(plans: Plan, layouts: Shaped[Array, "plan"]) -> tuple[Plan, Shaped[Array, "plan"]]:
    """The plans and their layouts, stably sorted by zero and shard."""
    _, division = distinct_keys(plans.arrays(), _DIVIDED)
    order = np.argsort(division.astype(np.int16), kind="stable")  # numpy sorts short numbers by their digits
    return plans.take(order), layouts[order]


def divide_plans(
    model: Model, cluster: Cluster, plans: Plan, layouts: Shaped[Array, "plan"], software: Software
) -> tuple[PlanTables, list[Division]]:
    """(tables of the distinct layouts of plans that are `sort_by_division`, the plans by what they divide).

    Plans of one number in `layouts` differ in zero and shard alone.
    """
    plan_of = np.full(int(layouts.max()) + 1, -1, dtype=layouts.dtype)
    plan_of[layouts] = np.arange(layouts.size)
    legal = plan_of >= 0
    number = np.cumsum(legal, dtype=np.int32) - np.int32(1)
    tables = prepare(model, cluster, plans.take(plan_of[legal]), search=True)
    first, group = distinct_keys(tables.plan, [name for name in GROUP_KEY if name not in _DIVIDED])
    groups = tables.plan.take(first)
    zero, shard = np.asarray(plans.zero), np.asarray(plans.shard)
    borders = np.flatnonzero((zero[1:] != zero[:-1]) | (shard[1:] != shard[:-1])) + 1
    divisions = []
    for start, stop in pairwise([0, *borders.tolist(), layouts.size]):
        own = number[layouts[start:stop]]
        seen = np.bincount(group[own], minlength=first.size) > 0
        fields_of = {"zero": int(zero[start]), "shard": int(shard[start])}
        sub = groups.take(np.flatnonzero(seen)).having(fields_of).arrays().wide()
        ends = Keyed(
            end_table(model, cluster, sub, software), (np.cumsum(seen, dtype=np.int32) - 1)[group[own]]
        )
        divisions.append(Division(**fields_of, start=start, layouts=own, ends=ends))
    return tables, divisions


def divided_chunk(
    layout: Layout, divisions: Sequence[Division], chunk: slice
) -> Iterator[tuple[slice, Division, Shaped[Array, "plan"] | None, Layout, StepEnd]]:
    """What the plans of a chunk of layouts are, division by division.

    Gives (slice of all plans, their division, the position of each one's layout in the chunk, or None where all are
    in it, layouts, ends).
    """
    for division in divisions:
        # of the layouts' own type: else all of them would be converted
        bounds = np.array([chunk.start, chunk.stop], dtype=division.layouts.dtype)
        low, high = np.searchsorted(division.layouts, bounds).tolist()
        if low == high:
            continue
        every = high - low == layout.plan.size
        index = None if every else division.layouts[low:high] - chunk.start
        own = layout if index is None else gather(layout, index)
        part = slice(division.start + low, division.start + high)
        yield part, division, index, own, division.ends.of(slice(low, high))


def division_seconds(
    tables: PlanTables, layout: Layout, end: StepEnd, division: Division, flags: Shaped[Array, "flags field"]
) -> Shaped[Array, "flags plan"]:
    """Step seconds of layouts under one way to divide; `flags` has values of overlap_grad and overlap_param."""
    divided = {"zero": division.zero, "shard": division.shard}
    overlaps = {"overlap_grad": flags[:, :1], "overlap_param": flags[:, 1:]}
    plan = layout.plan.having({**divided, **overlaps})
    return step_seconds(layout, plan, tables.software, end, tables.core_share)


def division_bytes(layout: Layout, division: Division, software: Software) -> Shaped[Array, "plan"]:
    """Bytes on the fullest stage of layouts under one way to divide."""
    plan = layout.plan.having({"zero": division.zero, "shard": division.shard})
    total = reduce(np.add, memory_kind_bytes(plan, software, layout.held))
    return np.asarray(np.where(layout.stages.count > 0, total, 0.0).max(axis=0))
