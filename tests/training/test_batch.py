from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsim.training.batch import distinct_keys, keyed_table
from podsim.training.plan import Plan


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4000)), min_size=1, max_size=60))
def test_every_plan_finds_its_own_key(pairs: list[tuple[int, int]]) -> None:
    tp, dp = np.array(pairs).T
    plan = Plan(tp=tp, dp=dp).arrays()
    first, index = distinct_keys(plan, ("tp", "dp"))
    assert len(first) == len(set(pairs))
    assert (tp[first][index] == tp).all()
    assert (dp[first][index] == dp).all()


def test_combinations_too_many_to_count_find_their_keys_too() -> None:
    """Two columns of 3,000 values span nine million codes."""
    tp, dp = np.random.default_rng(0).permuted(np.tile(np.arange(1, 3001), (2, 1)), axis=1)
    tp, dp = np.append(tp, tp[:500]), np.append(dp, dp[:500])
    first, index = distinct_keys(Plan(tp=tp, dp=dp).arrays(), ("tp", "dp"))
    assert len(first) == 3000
    assert (tp[first][index] == tp).all()
    assert (dp[first][index] == dp).all()


def test_a_table_is_computed_once_per_key() -> None:
    seen: list[int] = []

    def cost(plan: Plan) -> np.ndarray:
        seen.append(plan.size)
        return np.asarray(plan.tp) * 10

    table = keyed_table(Plan(tp=np.tile([1, 2, 4], 100), dp=np.arange(300)).arrays(), ("tp",), cost)
    assert seen == [3]
    assert table.table[table.index].tolist() == [10, 20, 40] * 100
