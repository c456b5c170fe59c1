"""Closed forms: published intervals, the exact optimum, efficiency, Erlang's share, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import lambertw

from podsim.errors import PodsimError
from podsim.fleet.reliability import (
    LongRun,
    best_interval_seconds,
    blocked_share,
    daly_interval_seconds,
    expected_seconds,
    failure_free_seconds,
    first_order_efficiency,
    overhead,
    segments,
    steady_restart_seconds,
    young_interval_seconds,
)

DAY = 86400.0
QUICK = settings(max_examples=40, deadline=None)
stalls = st.floats(1e-3, 1e4)
mtbfs = st.floats(60.0, 1e8)

VECTORS = [  # stall, mtbf, restart, Young, Daly, minimum, efficiency
    (40.0, 28440.0, 300.0, 1508.4, 1481.8, 1481.8, 0.93795),
    (40.0, 11124.0, 600.0, 943.4, 916.9, 916.9, 0.86940),
    (50.5, 11124.0, 600.0, 1060.0, 1026.6, 1026.6, 0.86005),
    (5.0, 28440.0, 300.0, 533.3, 530.0, 530.0, 0.97107),
    (40.0, 604800.0, 1800.0, 6955.9, 6929.2, 6929.2, 0.98561),
]


@pytest.mark.parametrize(("stall", "mtbf", "restart", "young", "daly", "best", "efficiency"), VECTORS)
def test_published_vectors(
    stall: float, mtbf: float, restart: float, young: float, daly: float, best: float, efficiency: float
) -> None:
    assert float(young_interval_seconds(stall, mtbf)) == pytest.approx(young, abs=0.051)
    assert float(daly_interval_seconds(stall, mtbf)) == pytest.approx(daly, abs=0.051)
    exact = float(best_interval_seconds(stall, mtbf))
    assert exact == pytest.approx(best, abs=0.051)
    assert 1 / float(overhead(exact, stall=stall, mtbf=mtbf, restart=restart)) == pytest.approx(
        efficiency, abs=6e-6
    )


@QUICK
@given(stalls, mtbfs)
def test_the_best_interval_is_lamberts_and_the_minimum(stall: float, mtbf: float) -> None:
    exact = float(best_interval_seconds(stall, mtbf))
    w = float(lambertw(-math.exp(-1.0 - stall / mtbf)).real)
    if stall / mtbf > 1e-6:  # below, 1 + w has lost its digits
        assert exact == pytest.approx(mtbf * (1.0 + w), rel=1e-6)
    assert 0 < exact <= mtbf
    here = float(overhead(exact, stall=stall, mtbf=mtbf))
    for other in (0.9 * exact, 1.1 * exact):
        assert float(overhead(other, stall=stall, mtbf=mtbf)) >= here * (1 - 1e-12)
    assert float(young_interval_seconds(stall, mtbf)) >= exact * (1 - 1e-9)


@QUICK
@given(st.floats(1e-6, 0.5))
def test_daly_is_close(share: float) -> None:
    assert float(daly_interval_seconds(share, 1.0)) == pytest.approx(
        float(best_interval_seconds(share, 1.0)), rel=6e-3
    )


def test_scipy_finds_the_same_minimum() -> None:
    found = minimize_scalar(
        lambda t: float(overhead(t, stall=40.0, mtbf=11124.0)), bounds=(1.0, 1e4), method="bounded",
        options={"xatol": 1e-6},
    )  # fmt: skip
    assert found.x == pytest.approx(float(best_interval_seconds(40.0, 11124.0)), rel=1e-6)


def test_daly_ends_at_the_mtbf() -> None:
    assert float(daly_interval_seconds(300.0, 100.0)) == 100.0


def test_arrays_broadcast() -> None:
    found = best_interval_seconds(np.array([5.0, 40.0])[:, None], np.array([1e4, 1e5, 1e6]))
    assert found.shape == (2, 3)
    assert float(found[1, 2]) == float(best_interval_seconds(40.0, 1e6))


@pytest.mark.parametrize("law", [young_interval_seconds, daly_interval_seconds, best_interval_seconds])
@pytest.mark.parametrize("bad", [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0), (1.0, math.inf)])
def test_intervals_refuse(law: object, bad: tuple[float, float]) -> None:
    with pytest.raises(PodsimError, match="must be a finite number of seconds, positive"):
        law(*bad)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("nodes", "start", "interval", "write", "share"),
    [(128, 300, 3600, 30, 0.9717), (2048, 300, 3600, 30, 0.6709), (2048, 300, 600, 30, 0.8643),
     (2048, 60, 600, 6, 0.9352)],
)  # fmt: skip
def test_first_order_vectors(nodes: int, start: float, interval: float, write: float, share: float) -> None:
    found = first_order_efficiency(nodes, 6.5e-3 / DAY, start, interval, write)
    assert found == pytest.approx(share, abs=6e-5)


def test_first_order_is_the_limit_of_the_exact() -> None:
    mtbf, restart, stall = 1e8, 300.0, 30.0
    exact = 1 / float(overhead(3600.0, stall=stall, mtbf=mtbf, restart=restart))
    assert first_order_efficiency(1, 1 / mtbf, restart, 3600.0, stall) == pytest.approx(exact, abs=1e-6)


RUN = LongRun(work=10 * DAY, mtbf=8 * 3600.0, interval=1800.0, stall=30.0, restart=400.0)


def test_segments() -> None:
    assert segments(RUN) == (480, 0.0)
    full, last = segments(replace(RUN, work=10 * DAY + 100.0))
    assert (full, last) == (480, pytest.approx(100.0))
    assert segments(replace(RUN, work=100.0)) == (0, 100.0)


def test_failure_free() -> None:
    assert failure_free_seconds(RUN) == 10 * DAY + 480 * 30.0
    assert failure_free_seconds(replace(RUN, work=100.0, persist=7.0)) == 137.0


def test_expected_is_the_long_run_overhead() -> None:
    assert expected_seconds(RUN) == pytest.approx(
        RUN.work * float(overhead(1800.0, stall=30.0, mtbf=RUN.mtbf, restart=400.0)), rel=1e-12
    )


def test_one_interval_by_hand() -> None:
    """Of two exponential hazards the mean time to survive s seconds, starting over each time, is M (e^(s/M) - 1)."""
    one = LongRun(work=100.0, mtbf=50.0, interval=100.0, stall=0.0)
    assert expected_seconds(one) == pytest.approx(50.0 * (math.e**2 - 1))


@QUICK
@given(st.floats(600.0, 1e6), st.floats(0, 3600), st.floats(0, 600), st.floats(0, 1), st.floats(0, 3600))
def test_failures_only_cost(mtbf: float, restart: float, persist: float, hang: float, timeout: float) -> None:
    run = replace(RUN, mtbf=mtbf, restart=restart, persist=persist, hang=hang, timeout=timeout)
    assert expected_seconds(run) >= failure_free_seconds(run) * (1 - 1e-9)
    assert expected_seconds(replace(run, restart=restart + 10)) >= expected_seconds(run)
    steady = float(steady_restart_seconds(run, mtbf))
    assert restart <= steady * (1 + 1e-9) + 1e-9
    assert steady <= restart + timeout + 1e-6


def test_rare_failures_cost_nothing() -> None:
    run = replace(RUN, mtbf=1e14)
    assert expected_seconds(run) == pytest.approx(failure_free_seconds(run), rel=1e-6)


def test_slow_nodes_that_stay() -> None:
    run = replace(RUN, slow=0.005, nodes=128, slowdown=0.1)
    beside = 1 - 0.995**128
    assert beside == pytest.approx(0.47, abs=0.005)  # MegaScale's share of slow machines, at 128 nodes
    slow = expected_seconds(replace(run, slow=1.0, nodes=1))
    assert expected_seconds(run) == pytest.approx((1 - beside) * expected_seconds(RUN) + beside * slow)


@pytest.mark.parametrize(
    "changes",
    [
        {"spread": 0.5},
        {"slow": 0.1, "slowdown": 0.1, "found": 1e4},
        {"slow": 0.1, "slowdown": 0.1, "drain": 0.3},
    ],
)
def test_what_has_no_closed_form(changes: dict[str, float]) -> None:
    with pytest.raises(PodsimError, match="no closed form"):
        expected_seconds(replace(RUN, **changes))  # type: ignore[arg-type]


def test_a_run_that_never_ends_is_infinite() -> None:
    assert expected_seconds(replace(RUN, mtbf=1.0)) == math.inf


def test_erlang() -> None:
    assert blocked_share(0, 1.0) == 0.5
    assert blocked_share(1, 1.0) == pytest.approx(0.2)
    a, n = 3.0, 5
    terms = [a**k / math.factorial(k) for k in range(n + 2)]
    assert blocked_share(n, a) == pytest.approx(terms[-1] / sum(terms))
    assert blocked_share(10, 0.0) == 0.0


def test_all_mistakes_at_once() -> None:
    with pytest.raises(PodsimError) as caught:
        LongRun(
            work=-1.0, mtbf=math.nan, interval=0.0, stall=-2.0, hang=1.5, nodes=0, spares=-1, spread=math.inf
        )
    for word in (
        "work=-1",
        "mtbf=nan",
        "interval=0",
        "stall=-2",
        "hang=1.5",
        "nodes=0",
        "spares=-1",
        "spread=inf",
    ):
        assert word in str(caught.value)
