"""Two passes on one GPU in the order that ends soonest."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.pairs import shortest_starts
from podsim.simulation.pieces import Stream
from podsim.training.plan import Plan

chains = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1)), min_size=1, max_size=5)


def arrays(chain):
    return np.array([float(s) for s, _ in chain]), np.array([m for _, m in chain])


def ends_soonest(first, second):
    """By trial: every order in which the ops of two chains may be taken, each as soon as stream and chain are free."""
    n, m = len(first), len(second)
    best = np.inf
    for mine in combinations(range(n + m), n):
        left = [iter(first), iter(second)]
        free, ready = {0: 0.0, 1: 0.0}, [0.0, 0.0]
        for turn in range(n + m):
            d = 0 if turn in mine else 1
            seconds, stream = next(left[d])
            free[stream] = ready[d] = max(free[stream], ready[d]) + seconds
        best = min(best, max(ready))
    return best


@settings(max_examples=60, deadline=None, derandomize=True)
@given(chains, chains)
def test_no_order_ends_sooner(first, second):
    (a, on_a), (b, on_b) = arrays(first), arrays(second)
    starts, others = shortest_starts(a, on_a, b, on_b)
    assert np.all(np.diff(starts) >= a[:-1] - 1e-9)
    assert np.all(np.diff(others) >= b[:-1] - 1e-9)
    for i, start in enumerate(starts):
        clash = (on_b == on_a[i]) & (others < start + a[i] - 1e-9) & (others + b > start + 1e-9)
        assert not clash.any()
    assert max(starts[-1] + a[-1], others[-1] + b[-1]) == pytest.approx(ends_soonest(first, second))


def test_compute_hides_the_other_pass_exchanging():
    """4 s of compute and 2 s of exchange, twice, are over in 10 s: only the last exchange finds nothing beside it."""
    seconds, stream = np.array([4.0, 2.0]), np.array([0, 1])
    starts, others = shortest_starts(seconds, stream, seconds, stream)
    assert sorted([*starts, *others]) == [0.0, 4.0, 4.0, 8.0]


@pytest.mark.parametrize("fields", [
    {"tp": 4, "dp": 2, "recompute": "full"}, {"tp": 2, "dp": 4, "zero": 3}, {"tp": 8, "overlap_tp": True},
])  # fmt: skip
@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipe-v"])
def test_one_op_for_what_no_exchange_parts_changes_nothing(two, small, fields, schedule):
    plan = Plan(
        pp=2,
        global_batch=32,
        schedule=schedule,
        virtual_stages=2 if schedule == "dualpipe-v" else 1,
        **fields,
    )
    whole, merged = (lower(small, two, plan, kernels=kernels) for kernels in (True, False))
    assert len(merged.what) < len(whole.what)
    assert play(merged.ops).seconds == pytest.approx(play(whole.ops).seconds, rel=1e-9)
    for stream in (Stream.COMPUTE, Stream.GROUP):
        sums = [one.ops.seconds[one.ops.stream % len(Stream) == stream].sum() for one in (whole, merged)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-9)
