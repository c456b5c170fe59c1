"""Max-min sharing: shares worked by hand, theorems, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import ClusterError
from podsim.network.flow import max_min_rates

NEAR = 1e-9


def routes(*rows):
    return np.cumsum([0, *map(len, rows)]), np.array([link for row in rows for link in row], dtype=np.int64)


def test_two_flows_share_a_link():
    assert max_min_rates(routes([0], [0]), [10.0]).tolist() == [5.0, 5.0]


def test_the_textbook_line():
    # Bertsekas and Gallager, figure 6.17 in spirit: one long flow over three links, one short flow on each
    rates = max_min_rates(routes([0, 1, 2], [0], [1], [2]), [1.0, 2.0, 3.0])
    assert rates.tolist() == [0.5, 0.5, 1.5, 2.5]


def test_weights_share_in_proportion():
    assert max_min_rates(routes([0], [0]), [9.0], weights=[1.0, 2.0]).tolist() == [3.0, 6.0]


def test_a_local_flow_is_infinite():
    assert max_min_rates(routes([], [0]), [7.0]).tolist() == [np.inf, 7.0]


def test_an_infinite_link_never_binds():
    assert max_min_rates(routes([0, 1], [1]), [4.0, np.inf]).tolist() == [4.0, np.inf]


def test_no_flows():
    assert max_min_rates(([0], []), [1.0]).shape == (0,)


def test_copies_stand_for_equal_flows():
    assert max_min_rates(routes([0], [0]), [10.0], copies=[4, 1]).tolist() == [2.0, 2.0]


def test_a_faster_link_can_slow_another_flow():
    # flows A (links 0, 1) and B (link 1): widening link 0 lets A rise, and B falls. Monotonicity is not a law here.
    before = max_min_rates(routes([0, 1], [1]), [1.0, 10.0])
    after = max_min_rates(routes([0, 1], [1]), [4.0, 10.0])
    assert before.tolist() == [1.0, 9.0]
    assert after.tolist() == [4.0, 6.0]


@pytest.mark.parametrize(
    ("rows", "capacities", "options", "message"),
    [
        ([[0], [1]], [1.0, 0.0], {}, "flow 1 goes through link 1 of zero capacity"),
        ([[0], [2]], [1.0, 1.0], {}, "flow 1 uses link 2; there are links 0 to 1"),
        ([[0], [-1]], [1.0, 1.0], {}, "flow 1 uses link -1"),
        ([[0]], [float("nan")], {}, "link 0 has capacity nan"),
        ([[0]], [-1.0], {}, "link 0 has capacity -1"),
        ([[0], [0]], [1.0], {"weights": [1.0, float("nan")]}, "flow 1 has weight nan"),
        ([[0], [0]], [1.0], {"weights": [1.0, 0.0]}, "flow 1 has weight 0"),
        ([[0], [0]], [1.0], {"copies": [0, 1]}, "flow 0 has copies 0"),
        ([[0], [0]], [1.0], {"weights": [1.0]}, "1 weights and 2 copies for 2 flows"),
    ],
)
def test_refusals_name_the_row(rows, capacities, options, message):
    with pytest.raises(ClusterError, match=message):
        max_min_rates(routes(*rows), capacities, **options)


@pytest.mark.parametrize("indptr", [[], [1, 1], [0, 2], [0, 1, 0, 1]])
def test_indptr_must_fit(indptr):
    with pytest.raises(ClusterError, match="indptr must rise"):
        max_min_rates((indptr, [0]), [1.0])


def test_an_idle_link_may_have_no_capacity():
    assert max_min_rates(routes([1]), [0.0, 3.0]).tolist() == [3.0]


@st.composite
def networks(draw):
    n_links = draw(st.integers(1, 8))
    capacities = draw(st.lists(st.floats(0.1, 100.0), min_size=n_links, max_size=n_links))
    route = st.lists(st.integers(0, n_links - 1), max_size=4, unique=True)
    rows = draw(st.lists(route, min_size=1, max_size=20))
    weights = draw(st.lists(st.floats(0.1, 10.0), min_size=len(rows), max_size=len(rows)))
    return rows, np.array(capacities), np.array(weights)


def used(rows, rates, n_links):
    load = np.zeros(n_links)
    for row, rate in zip(rows, rates, strict=True):
        load[row] += rate if row else 0.0
    return load


@settings(max_examples=150, deadline=None)
@given(networks())
def test_capacity_no_link_carries_more_than_it_has(network):
    rows, capacities, weights = network
    rates = max_min_rates(routes(*rows), capacities, weights)
    assert np.all(used(rows, rates, len(capacities)) <= capacities * (1 + NEAR))
    assert np.all(rates > 0)


@settings(max_examples=150, deadline=None)
@given(networks())
def test_bottleneck_each_flow_is_among_the_largest_on_a_full_link(network):
    # the characterisation of max-min fairness, and so of work conservation: every flow is held by a full link
    rows, capacities, weights = network
    rates = max_min_rates(routes(*rows), capacities, weights)
    load = used(rows, rates, len(capacities))
    for f, row in enumerate(rows):
        held = [
            load[link] >= capacities[link] * (1 - NEAR)
            and all(
                rates[f] / weights[f] >= rates[g] / weights[g] * (1 - NEAR)
                for g, r in enumerate(rows)
                if link in r
            )
            for link in row
        ]
        assert any(held) or not row


@settings(max_examples=100, deadline=None)
@given(networks())
def test_work_conservation_a_lone_link_is_full(network):
    _, capacities, weights = network
    rates = max_min_rates(routes(*[[0]] * len(weights)), capacities, weights)
    assert rates.sum() == pytest.approx(capacities[0])


@settings(max_examples=100, deadline=None)
@given(networks(), st.floats(1e-6, 1e12))
def test_units_scaling_capacities_scales_rates(network, factor):
    rows, capacities, weights = network
    rates = max_min_rates(routes(*rows), capacities, weights)
    scaled = max_min_rates(routes(*rows), capacities * factor, weights)
    assert scaled == pytest.approx(rates * factor, rel=NEAR)


@settings(max_examples=100, deadline=None)
@given(networks(), st.floats(1e-3, 1e3))
def test_weights_count_only_against_each_other(network, factor):
    rows, capacities, weights = network
    rates = max_min_rates(routes(*rows), capacities, weights)
    assert max_min_rates(routes(*rows), capacities, weights * factor) == pytest.approx(rates, rel=NEAR)


def test_a_permutation_of_flows_permutes_rates():
    rng = np.random.default_rng(1)
    rows = [list(rng.choice(12, 3, replace=False)) for _ in range(60)]
    capacities = rng.uniform(1, 9, 12)
    order = rng.permutation(60)
    straight = max_min_rates(routes(*rows), capacities)
    shuffled = max_min_rates(routes(*[rows[i] for i in order]), capacities)
    assert shuffled == pytest.approx(straight[order], rel=NEAR)


def test_use_counts_a_link_more_than_once_or_in_part() -> None:
    """A flow striped over four links of 1 has 4; one that takes two of a link of 1 a unit has a half."""
    striped = max_min_rates(([0, 4], [0, 1, 2, 3]), [1.0] * 4, use=[0.25] * 4)
    assert striped == pytest.approx([4.0])
    assert max_min_rates(([0, 1], [0]), [1.0], use=[2.0]) == pytest.approx([0.5])
    listed, counted = ([0, 2], [0, 0]), ([0, 1], [0])
    assert max_min_rates(listed, [3.0]) == pytest.approx(max_min_rates(counted, [3.0], use=[2.0]))


@pytest.mark.parametrize(
    ("use", "says"), [([1.0], "1 values of use"), ([1.0, 0.0], "use 0"), ([1.0, np.nan], "use nan")]
)
def test_use_that_is_none(use: list[float], says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        max_min_rates(([0, 1, 2], [0, 0]), [1.0], use=use)


@pytest.mark.parametrize("seed", range(5))
def test_rates_without_the_c_library_are_the_same(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *rng.integers(0, 4, 60)])
    links, capacities = rng.integers(0, 12, ends[-1]), rng.integers(1, 4, 12).astype(float)
    weights, use = rng.integers(1, 3, 60).astype(float), rng.integers(1, 3, ends[-1]).astype(float)
    rates = max_min_rates((ends, links), capacities, weights, use=use)
    monkeypatch.setattr("podsim.network.flow.is_compiled", lambda: False)
    assert max_min_rates((ends, links), capacities, weights, use=use) == pytest.approx(rates, rel=1e-12)


@pytest.mark.parametrize(("entry", "flow"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_a_wrong_use_names_its_flow(entry, flow):
    # flows of two links, of one, of none, and of one
    use = [1.0] * 4
    use[entry] = -1.0
    with pytest.raises(ClusterError, match=f"flow {flow} has use -1"):
        max_min_rates(([0, 2, 3, 3, 4], [0, 1, 0, 1]), [1.0, 1.0], use=use)
