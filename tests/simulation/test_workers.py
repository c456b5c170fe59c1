"""Data-parallel workers: worked by hand, theorems of barriers, bounds and servers, closed forms.

Axes: R rounds, W workers.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import lognorm

from podsim.answers.exchanged import ExchangeRun
from podsim.errors import SimulationError
from podsim.network.collectives import summary
from podsim.network.collectives.direct import parameter_server_all_reduce
from podsim.simulation.events import play
from podsim.simulation.workers import Exchange, lower_all_reduce, lower_servers
from podsim.simulation.workers_outcome import RunInputs, simulate_all_reduce, simulate_servers, staleness_of
from podsim.simulation.workers_times import Pace, round_seconds, step_seconds

Floats = NDArray[np.float64]
SIZE = 1e8
TOLD = RunInputs(name="test", exchange="ssp", members=1, every=1, samples=2.0, gradients=SIZE, weights=SIZE)


def drawn(rounds: int, workers: int, jitter: float = 0.3, seed: int = 1) -> Floats:
    return step_seconds(Pace(compute=0.2, jitter=jitter), rounds, workers, np.random.default_rng(seed))


def over_servers(
    workers: int, bound: int | None, *, server: float = 1e15, servers: int = 1, unfold: bool = False,
    beside: bool = False, bandwidth: float = 1e10, latency: float = 0.0,
) -> Exchange:  # fmt: skip
    return Exchange(
        gradients=SIZE, weights=SIZE / 2, bandwidth=np.full(workers, bandwidth), latency=latency, servers=servers,
        server_bandwidth=server, bound=bound, beside=beside, unfold=unfold,
    )  # fmt: skip


def round_ends(compute: Floats, exchange: Exchange, overlap: float = 0.0) -> Floats:
    rounds = lower_servers(compute, exchange, overlap * compute)
    return rounds.worker_columns(play(rounds.ops).end)[:, :, -1]


def recursion(compute: Floats, bound: int | None, push: float, pull: float, overlap: float) -> Floats:
    """When each round is over, without the event kernel, if transfers do not hold each other up."""
    rounds, workers = compute.shape
    written, done = np.zeros((rounds, workers)), np.zeros(workers)
    ends = []
    for r in range(rounds):
        written[r] = done + np.maximum(compute[r] * (1 - overlap) + push, compute[r])
        waits = 0.0 if bound is None or r < bound else written[r - bound].max()
        done = np.maximum(written[r], waits) + pull
        ends.append(done)
    return np.array(ends)


@pytest.mark.parametrize("overlap", [0.0, 0.03, 0.6])
@pytest.mark.parametrize("bound", [0, 1, 3, None])
def test_the_kernel_plays_the_recursion(bound: int | None, overlap: float) -> None:
    compute = drawn(30, 5)
    told = recursion(compute, bound, SIZE / 1e10 + 1e-3, SIZE / 2e10 + 1e-3, overlap)
    exchange = over_servers(5, bound, latency=1e-3)
    assert round_ends(compute, exchange, overlap) == pytest.approx(told, rel=1e-12)


def test_an_all_reduce_hides_behind_the_tail() -> None:
    """Workers of 1, 2 and 3 s, the last half beside the exchange, which begins after 1.5 s and ends after them all."""
    compute = np.array([[1.0, 2.0, 3.0]] * 2)
    told = RunInputs(
        name="", exchange="bsp", members=1, every=1, samples=None, gradients=1, weights=1, overlap=0.5
    )
    for seconds, step, moving in ((1.0, 3.0, 0.0), (2.0, 3.5, 0.5)):
        run = simulate_all_reduce(compute, seconds, told)
        assert run.seconds == pytest.approx(2 * step, rel=1e-12)
        assert run.moving == pytest.approx(moving / step, abs=1e-12)
        assert run.waiting == pytest.approx(1.0 / step, rel=1e-12)


def test_a_barrier_takes_the_slowest_worker_and_the_exchange() -> None:
    compute = drawn(50, 7)
    rounds = lower_all_reduce(compute, 0.03)
    ends = rounds.shared_columns(play(rounds.ops).end)[1]
    assert np.diff(ends, prepend=0.0) == pytest.approx(compute.max(axis=1) + 0.03, rel=1e-9)
    same = round_ends(compute, over_servers(7, 0))
    assert same == pytest.approx(
        np.broadcast_to((ends + np.arange(1, 51) * (1.5 * SIZE / 1e10 - 0.03))[:, None], same.shape), rel=1e-9
    )


def test_no_bound_and_a_bound_beyond_the_end_are_one_play() -> None:
    compute = drawn(20, 6)
    loose, none = (
        round_ends(compute, over_servers(6, bound, server=2e10, servers=2)) for bound in (20, None)
    )
    assert np.array_equal(loose, none)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12), st.floats(0.0, 1.0))
def test_a_looser_bound_never_ends_later(seed: int, workers: int, rounds: int, jitter: float) -> None:
    """Where transfers do not hold each other up: fewer ops to wait for, so no op starts later, and none is idler."""
    compute = drawn(rounds, workers, jitter, seed)
    ends = [round_ends(compute, over_servers(workers, bound)) for bound in (0, 1, 2, 4, None)]
    for tight, loose in pairwise(ends):
        assert np.all(loose <= tight * (1 + 1e-9))
        assert np.all(1 - compute.sum(axis=0) / loose[-1] <= 1 - compute.sum(axis=0) / tight[-1] + 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 5), st.floats(1e9, 1e11))
def test_bounds_hold_and_shares_add_up(seed: int, workers: int, bound: int, server: float) -> None:
    run = simulate_servers(drawn(15, workers, 0.8, seed), over_servers(workers, bound, server=server), TOLD)
    assert run.ahead <= bound
    assert (1 - run.idle) + run.moving + run.waiting == pytest.approx(1.0, abs=1e-9)
    assert sum(run.histogram) == pytest.approx(15 * workers, abs=bound * workers + workers)
    for use in run.links:
        assert use.bytes <= use.capacity * use.busy * (1 + 1e-9)
        assert use.busy <= run.seconds * (1 + 1e-9)
        assert np.all(use.rate <= use.capacity)


def test_a_slow_worker_is_what_the_bound_is_about() -> None:
    pace = Pace(compute=0.2, slow={2: 3.0})
    compute = step_seconds(pace, 60, 4, np.random.default_rng(0))
    runs = {b: simulate_servers(compute, over_servers(4, b), TOLD) for b in (0, 1, 4, None)}
    assert [runs[b].ahead for b in (0, 1, 4)] == [0, 1, 4]
    assert 1 / 0.615 <= runs[4].steps_per_second <= 1 / 0.615 * 60 / 56
    fast, slow = 1 / 0.215, 1 / 0.615
    assert runs[None].updates_per_second == pytest.approx(3 * fast + slow, rel=1e-9)


def test_asynchronous_workers_add_up() -> None:
    """Nobody waits, and the server has room: each worker has the speed that it has alone."""
    seconds = np.array([0.1, 0.13, 0.2, 0.37])
    run = simulate_servers(np.tile(seconds, (50, 1)), over_servers(4, None), TOLD)
    assert run.updates_per_second == pytest.approx((1 / (seconds + 0.015)).sum(), rel=1e-9)
    assert run.samples_per_second == pytest.approx(2 * run.updates_per_second, rel=1e-12)


def test_a_server_can_be_the_limit() -> None:
    """Each update brings the servers its gradients: their bandwidth over that is the most updates, and nearly reached."""
    exchange = Exchange(
        gradients=SIZE, weights=SIZE, bandwidth=np.full(24, 1e10), latency=0.0, servers=2, server_bandwidth=1e9,
        bound=None,
    )  # fmt: skip
    run = simulate_servers(drawn(40, 24, 0.5), exchange, TOLD)
    assert 0.85 * 20 < run.updates_per_second < 1.02 * 20
    assert run.links[0].busy > 0.9 * run.seconds


def test_the_example_of_256_workers() -> None:
    """A push of all workers takes what examples/parameter_server.py says: bytes x workers over the server's bandwidth."""
    gradients, workers = 4 * 25_557_032, 256
    into = summary(parameter_server_all_reduce(workers + 1, server=workers), gradients).peak
    exchange = Exchange(
        gradients=gradients, weights=gradients, bandwidth=np.full(workers, 1e12), latency=0.0, servers=1,
        server_bandwidth=3 * into, bound=0,
    )  # fmt: skip
    done = round_ends(np.full((2, workers), 1e-3), exchange)
    assert np.diff(done[:, 0]) == pytest.approx([1e-3 + 2 / 3], rel=1e-9)


def test_servers_beside_all_workers_cost_what_a_ring_does() -> None:
    workers, bandwidth = 6, 1e10
    exchange = over_servers(workers, 0, servers=workers, beside=True, bandwidth=bandwidth)
    done = round_ends(np.full((3, workers), 0.2), exchange)
    per_way = (workers - 1) / workers * SIZE / bandwidth
    assert np.diff(done[:, 0]) == pytest.approx([0.2 + 1.5 * per_way] * 2, rel=1e-9)


@pytest.mark.parametrize("bound", [0, 2, None])
def test_one_server_stands_for_all(bound: int | None) -> None:
    compute = drawn(20, 5)
    folded, each = (
        round_ends(compute, over_servers(5, bound, server=6e9, servers=3, unfold=unfold, latency=1e-4))
        for unfold in (False, True)
    )
    assert folded == pytest.approx(each, rel=1e-9)


@pytest.mark.parametrize(("workers", "jitter"), [(2, 0.1), (8, 0.3), (32, 0.5)])
def test_the_mean_barrier_is_the_expected_maximum(workers: int, jitter: float) -> None:
    """E[max of n lognormal] = integral of 1 - F^n, against the mean step of barriers."""
    law = lognorm(jitter, scale=0.2 * np.exp(-(jitter**2) / 2))
    assert law.mean() == pytest.approx(0.2)
    expected = quad(lambda x: 1 - law.cdf(x) ** workers, 0, law.ppf(1 - 1e-12), limit=200)[0]
    run = simulate_all_reduce(drawn(4000, workers, jitter), 0.01, TOLD)
    assert 1 / run.steps_per_second == pytest.approx(expected + 0.01, rel=0.01)


def test_staleness_by_hand() -> None:
    """Worker 0 writes every second, worker 1 at 3.5 and 7: three writes lie before its first, three before its second."""
    inf = np.inf
    written = np.array([[1, 3.5], [2, 7], [3, inf], [4, inf], [5, inf], [6, inf], [7.5, inf]])
    stale = staleness_of(written, written)
    assert stale[:2, 1].tolist() == [3, 3]
    assert stale[:, 0].tolist() == [0, 0, 0, 1, 0, 0, 1]


def test_workers_in_step_without_a_barrier_are_as_stale_as_others_are_many() -> None:
    run = simulate_servers(np.full((10, 4), 0.2), over_servers(4, None), TOLD)
    assert run.histogram == (1, 1, 1, 37)


def test_staleness_is_the_number_of_others_whatever_the_noise() -> None:
    """Each update lies between one read and one write of every other worker, if nobody waits between write and read."""
    run = simulate_servers(drawn(400, 9, 0.6), over_servers(9, None, server=3e9), TOLD)
    assert run.staleness == pytest.approx(8, rel=0.01)
    assert run.staleness_p99 > 12
    tight = [simulate_servers(drawn(400, 9, 0.6), over_servers(9, b), TOLD).staleness for b in (0, 1, 2, 4)]
    assert tight == sorted(tight)
    assert tight[0] == 0.0


def test_idle_time_falls_and_staleness_rises() -> None:
    runs = [simulate_servers(drawn(200, 8), over_servers(8, b), TOLD) for b in (0, 1, 2, 4, 8, None)]
    assert [run.idle for run in runs] == sorted((run.idle for run in runs), reverse=True)
    assert [run.staleness for run in runs] == sorted(run.staleness for run in runs)
    assert runs[-1].waiting == 0.0


def test_links_carry_what_was_pushed() -> None:
    run: ExchangeRun = simulate_servers(drawn(30, 4), over_servers(4, 0, server=2e10, servers=2), TOLD)
    assert run.links[0].bytes == pytest.approx(30 * 4 * SIZE / 2, rel=1e-9)
    assert run.links[1].bytes == pytest.approx(30 * 4 * SIZE / 4, rel=1e-9)
    assert run.timeline.seconds == pytest.approx(run.seconds)
    beside = simulate_servers(drawn(30, 4), over_servers(4, 0, servers=2, beside=True), TOLD)
    assert beside.links[0].bytes == pytest.approx(30 * 3 * SIZE / 2, rel=1e-9)


def test_paces() -> None:
    rng = np.random.default_rng(3)
    assert step_seconds(Pace(compute=0.2, jitter=0.4), 5000, 4, rng).mean() == pytest.approx(0.2, rel=0.02)
    hot = step_seconds(Pace(compute=0.2, throttle={1: (1.5, 10.0)}), 400, 2, rng)
    assert np.all(hot[:, 0] == 0.2)
    assert hot[0, 1] == 0.2
    assert hot[-1, 1] == pytest.approx(0.3, rel=1e-3)
    after = int(np.searchsorted(np.cumsum(hot[:, 1]), 10.0)) + 1
    assert hot[after, 1] == pytest.approx(0.2 * (1 + 0.5 * (1 - np.exp(-1))), rel=0.01)


def test_local_steps_and_members() -> None:
    seconds = np.arange(1.0, 25.0).reshape(4, 6)
    assert round_seconds(seconds, 2, 1, 9.0).tolist() == [
        [8, 10, 12, 14, 16, 18],
        [32, 34, 36, 38, 40, 42],
    ]
    assert round_seconds(seconds, 1, 3, 0.5)[0].tolist() == [3.5, 6.5]
    often, seldom = (
        simulate_all_reduce(round_seconds(drawn(64, 8), every, 1, 0.0), 0.05,
                        RunInputs(name="", exchange="bsp", members=1, every=every, samples=None, gradients=1, weights=1))
        for every in (1, 8)
    )  # fmt: skip
    assert seldom.steps_per_second > often.steps_per_second
    assert seldom.steps == often.steps == 64


def test_too_much_to_play_is_refused() -> None:
    with pytest.raises(SimulationError, match="fewer steps, workers"):
        lower_all_reduce(np.broadcast_to(1.0, (100_000, 64)), 0.1)
    with pytest.raises(SimulationError, match="transfers of 4,096 workers that share links"):
        lower_servers(np.broadcast_to(1.0, (200, 4096)), over_servers(4096, 0))
