"""A server whose steps make it a queue of the textbooks has that queue's waiting time."""

from __future__ import annotations

from math import exp, factorial

import numpy as np
import pytest

from podsim.serving.load.load_run import run_load
from podsim.serving.load.load_statistics import Estimate, estimate, warm_up
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom, StepCost

_SERVICE = 1e-4
"""s of a token: a prompt of 10,000 tokens takes 1 s"""
_REQUESTS = 200_000


def _kind(replicas: int) -> ReplicaKind:
    """Replicas that serve one request at a time, in proportion to its prompt."""
    ends, none = np.array([0.0, 1e6]), np.zeros((2, 2))
    cost = StepCost(
        step=0.0, request=0.0, tokens=ends, tokens_seconds=ends * _SERVICE, decode_requests=ends, decode_context=ends,
        decode_seconds=none, prompt_new=ends, prompt_past=ends, prompt_seconds=none,
    )  # fmt: skip
    room = CacheRoom(block_tokens=16, blocks=10**7, token_bytes=1.0)
    return ReplicaKind(cost=cost, room=room, sequences=1, batch_tokens=1 << 24, replicas=replicas)


def _wait(service: str, load: float, replicas: int = 1, routing: str = "one-queue") -> Estimate:
    """The mean time in the queue of Poisson arrivals, in service times."""
    rng = np.random.default_rng(7)
    lengths = {
        "exponential": lambda: rng.exponential(1e4, _REQUESTS),
        "deterministic": lambda: np.full(_REQUESTS, 1e4),
        "lognormal": lambda: rng.lognormal(np.log(1e4) - 0.125, 0.5, _REQUESTS),
    }[service]()
    table = RequestTable(
        arrival=np.cumsum(rng.exponential(1 / (load * replicas), _REQUESTS)),
        input_tokens=np.maximum(np.rint(lengths), 1).astype(np.int64), output_tokens=np.ones(_REQUESTS, np.int64),
    )  # fmt: skip
    run = run_load(table, ReplicaPool(kinds=(_kind(replicas),), routing=routing), seed=3)
    waits = run.admitted - run.arrival
    return estimate(waits[warm_up(waits) :])


def _pollaczek_khinchine(load: float, squared_variation: float) -> float:
    return load * (1 + squared_variation) / 2 / (1 - load)


def _erlang_wait(load: float, servers: int) -> float:
    """Erlang C over the rate at which the queue shrinks."""
    busy = load * servers
    some = sum(busy**k / factorial(k) for k in range(servers))
    all_busy = busy**servers / factorial(servers) / (1 - load)
    return all_busy / (some + all_busy) / (servers * (1 - load))


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize(
    ("service", "variation"), [("exponential", 1.0), ("deterministic", 0.0), ("lognormal", exp(0.25) - 1)]
)
def test_one_server_waits_as_pollaczek_and_khinchine_say(service: str, variation: float, load: float) -> None:
    wait, expected = _wait(service, load), _pollaczek_khinchine(load, variation)
    assert abs(wait.value - expected) < wait.half
    assert wait.half < 0.1 * expected


@pytest.mark.parametrize("servers", [2, 8])
def test_several_servers_wait_as_erlang_says(servers: int) -> None:
    wait, expected = _wait("exponential", 0.8, servers), _erlang_wait(0.8, servers)
    assert abs(wait.value - expected) < wait.half
    assert wait.half < 0.1 * expected


def test_replicas_by_chance_are_queues_of_their_own() -> None:
    wait, expected = _wait("exponential", 0.5, 4, "random"), _pollaczek_khinchine(0.5, 1.0)
    assert abs(wait.value - expected) < wait.half


def test_intervals_hold_the_mean_about_as_often_as_they_say() -> None:
    held = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal(2000)
        values = np.empty(2000)
        values[0] = noise[0]
        for k in range(1, 2000):
            values[k] = 0.9 * values[k - 1] + noise[k]
        interval = estimate(values)
        held.append(abs(interval.value) < interval.half)
    assert 0.88 < np.mean(held) < 0.99


def test_a_warm_up_is_cut_where_it_ends() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.linspace(10, 1, 300), np.ones(2700)]) + 0.1 * rng.standard_normal(3000)
    assert 250 <= warm_up(values) <= 320
    assert warm_up(np.ones(1000)) == 0
