"""The plans of a search by what their data-parallel ranks divide, so that each layout is computed once for all of them.

A search has several times as many plans as layouts: plans of one layout differ only in zero and shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.batch import Keyed, PlanTables, distinct_keys, gather, layout_of, prepare
from podsim.training.groups import GROUP_KEY, end_table
from podsim.training.layout import Layout, StepEnd
from podsim.training.memory import memory_kind_bytes
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.training.step import step_times
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
    plans = plans.arrays()
    _, division = distinct_keys(plans, _DIVIDED)
    order = np.argsort(division.astype(np.int16), kind="stable")  # numpy sorts short numbers by their digits
    return plans.take(order), layouts[order]


def divide_plans(
    model: Model, cluster: Cluster, plans: Plan, layouts: Shaped[Array, "plan"], software: Software
) -> tuple[PlanTables, list[Division]]:
    """(tables of the distinct layouts of plans that are `sort_by_division`, the plans by what they divide).

    Plans of one number in `layouts` differ in zero and shard alone.
    """
    plan_of = np.full(int(layouts.max()) + 1, -1)
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
        ends = Keyed(end_table(model, cluster, sub, software), (np.cumsum(seen) - 1)[group[own]])
        divisions.append(Division(**fields_of, start=start, layouts=own, ends=ends))
    return tables, divisions


def divided_chunk(
    tables: PlanTables, divisions: Sequence[Division], chunk: slice
) -> Iterator[tuple[slice, Division, Layout, StepEnd]]:
    """(slice of all plans, their division, layouts and ends) of a chunk of layouts, each computed once."""
    layout = layout_of(tables, chunk)
    for division in divisions:
        # of the layouts' own type: else all of them would be converted
        bounds = np.array([chunk.start, chunk.stop], dtype=division.layouts.dtype)
        low, high = np.searchsorted(division.layouts, bounds).tolist()
        if low == high:
            continue
        every = high - low == layout.plan.size
        own = layout if every else gather(layout, division.layouts[low:high] - chunk.start)
        part = slice(division.start + low, division.start + high)
        yield part, division, own, division.ends.of(slice(low, high))


def cost_division(
    tables: PlanTables, layout: Layout, end: StepEnd, division: Division, flags: Shaped[Array, "flags field"]
) -> tuple[Shaped[Array, "flags plan"], Shaped[Array, "plan"]]:
    """(step seconds, bytes on the fullest stage) of layouts under one way to divide.

    `flags` has values of overlap_grad and overlap_param, which make no difference to memory.
    """
    divided = {"zero": division.zero, "shard": division.shard}
    overlaps = {"overlap_grad": flags[:, :1], "overlap_param": flags[:, 1:]}
    plan = layout.plan.having({**divided, **overlaps})
    times = step_times(layout, plan, tables.software, end, tables.core_share)
    total = reduce(np.add, memory_kind_bytes(plan, tables.software, layout.held))
    return times.step, np.where(layout.stages.count > 0, total, 0.0).max(axis=0)
