"""The queue of a batching server, against what is known of such queues."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podsim.serving.batch_queue import BatchServer, largest_rate, poisson_run, simulate_queue

_SECONDS = 0.01


def _server(*sizes: float, servers: int = 1, delay: float = 0.0) -> BatchServer:
    """Batches of any size that take as long."""
    return BatchServer(
        batches=np.array(sizes), seconds=np.full(len(sizes), _SECONDS), servers=servers, delay=delay
    )


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_one_request_at_a_time_is_pollaczek_and_khinchine(load: float) -> None:
    run = poisson_run(_server(1.0), load / _SECONDS, requests=200_000)
    assert run.latency.mean() - _SECONDS == pytest.approx(load * _SECONDS / 2 / (1 - load), rel=0.03)
    assert run.busy == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize("rate", [50.0, 500.0])
def test_unlimited_batches_of_one_duration_have_their_closed_form(rate: float) -> None:
    """Arrivals during a batch wait half of it on average; of those that find the server idle there is one a batch."""
    run = poisson_run(_server(1.0, 10_000.0), rate, requests=200_000)
    during = rate * _SECONDS
    assert run.latency.mean() - _SECONDS == pytest.approx(
        during * _SECONDS / 2 / (during + math.exp(-during)), rel=0.02
    )
    assert run.batch == pytest.approx(during + math.exp(-during), rel=0.02)


def test_requests_leave_as_the_rules_of_the_queue_say() -> None:
    arrivals = np.array([0.0, 0.001, 0.002, 0.003, 0.1, 0.2])
    run = simulate_queue(_server(1.0, 2.0), arrivals)
    assert run.latency == pytest.approx([0.01, 0.019, 0.018, 0.027, 0.01, 0.01])
    waiting = simulate_queue(_server(1.0, 2.0, delay=0.0005), arrivals)
    assert waiting.latency[0] == pytest.approx(0.0105)
    two = simulate_queue(_server(1.0, 2.0, servers=2), arrivals)
    assert two.latency[1:4] == pytest.approx([0.01, 0.018, 0.017])


def test_more_work_takes_longer() -> None:
    server = BatchServer(batches=np.array([1.0, 4.0]), seconds=np.array([0.01, 0.04]))
    run = simulate_queue(server, np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert run.latency == pytest.approx([0.01, 0.02])


def test_the_largest_rate_is_within_the_limit_and_a_larger_one_is_not() -> None:
    server = BatchServer(batches=np.array([1.0, 64.0]), seconds=np.array([0.002, 0.008]))
    best = largest_rate(lambda rate: poisson_run(server, rate), server.capacity, percentile=0.99, limit=0.012)
    assert best is not None
    assert best.percentile(0.99) <= 0.012 < poisson_run(server, 1.05 * best.rate).percentile(0.99)
    assert largest_rate(lambda rate: poisson_run(server, rate), 100.0, percentile=0.99, limit=0.001) is None
