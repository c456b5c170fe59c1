"""The plans of a search by what their data-parallel ranks divide: each layout is worked out once for all ways to do so.

Axes: C plans, L layouts (plans of one layout differ in zero and shard alone), G layouts whose ranks exchange alike,
N plans of one division.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.training.groups import GROUP_KEY, Ends, ends_table
from podsim.training.laid import Laid, chunks, lay
from podsim.training.plan import Array, Plan
from podsim.training.software import Software
from podsim.training.step import Prepared, prepare
from podsim.training.unique import Keyed, distinct
from podsim.workload.graph import Model

_DIVIDED = ("zero", "shard")


@dataclass(frozen=True, kw_only=True)
class Division:
    """All plans of one zero and one shard, in the order of their layouts."""

    zero: int
    shard: int
    start: int
    """position of the first of them among all plans"""
    layouts_N: Array
    ends: Keyed[Ends]


@dataclass(frozen=True, kw_only=True)
class Some:
    """Some plans of one division, beside each other."""

    part: slice
    """which of all plans"""
    laid: Laid
    ends: Ends
    zero: int
    shard: int


def in_order(plans: Plan, layouts_C: Array) -> tuple[Plan, Array]:
    """The plans and their layouts by zero and shard, each of these in the order that they had."""
    plans = plans.arrays()
    _, division_C = distinct(plans, _DIVIDED)
    order = np.argsort(
        division_C.astype(np.int16), kind="stable"
    )  # numpy sorts short numbers by their digits
    return plans.take(order), layouts_C[order]


def divide(
    model: Model, cluster: Cluster, plans: Plan, layouts_C: Array, software: Software
) -> tuple[Prepared, list[Division]]:
    """Tables of the layouts of plans that are `in_order`, and the plans by what they divide."""
    count = int(layouts_C.max()) + 1
    some_L = np.full(count, -1)
    some_L[layouts_C] = np.arange(layouts_C.size)
    legal_L = some_L >= 0
    rank_L = np.cumsum(legal_L, dtype=np.int32) - np.int32(1)
    ready = prepare(model, cluster, plans.take(some_L[legal_L]), search=True)
    first_G, group_L = distinct(ready.plan, [name for name in GROUP_KEY if name not in _DIVIDED])
    groups = ready.plan.take(first_G)
    zero_C, shard_C = np.asarray(plans.zero), np.asarray(plans.shard)
    borders = np.flatnonzero((zero_C[1:] != zero_C[:-1]) | (shard_C[1:] != shard_C[:-1])) + 1
    out = []
    for start, stop in pairwise([0, *borders.tolist(), layouts_C.size]):
        layouts_N = rank_L[layouts_C[start:stop]]
        group_N = group_L[layouts_N]
        seen_G = np.bincount(group_N, minlength=first_G.size) > 0
        divided = {"zero": int(zero_C[start]), "shard": int(shard_C[start])}
        own = groups.take(np.flatnonzero(seen_G)).having(divided).arrays().wide()
        ends = Keyed(ends_table(model, cluster, own, software), (np.cumsum(seen_G) - 1)[group_N])
        out.append(Division(**divided, start=start, layouts_N=layouts_N, ends=ends))
    return ready, out


def slices(ready: Prepared, divisions: list[Division]) -> Iterator[Some]:
    """All plans of the divisions, so many at once that they fit the caches."""
    for layouts in chunks(ready.plan.size):
        laid = lay(ready, layouts)
        for division in divisions:
            # of the layouts' own type: else all of them would be converted
            bounds = np.array([layouts.start, layouts.stop], dtype=division.layouts_N.dtype)
            low, high = np.searchsorted(division.layouts_N, bounds).tolist()
            if low == high:
                continue
            every = high - low == laid.plan.size
            yield Some(
                part=slice(division.start + low, division.start + high),
                laid=laid if every else laid.take(division.layouts_N[low:high] - layouts.start),
                ends=division.ends.table.take(division.ends.index[low:high]),
                zero=division.zero,
                shard=division.shard,
            )
