"""What a network does in MLPerf's scenarios, from the seconds of its batches.

    offline        samples of a batch / its seconds, at the best batch
    server         the largest Poisson rate whose latency at the 99th percentile is within the bound; batches form of what
                   waits, and a dynamic batcher keeps a GPU busy for a share of the time (scenarios.toml)
    single-stream  one sample after another: the latency at the 90th percentile
    multi-stream   queries of eight samples after one another: the latency at the 99th percentile

Sequences of several lengths take time in proportion to their tokens, without padding; the logarithms of lengths are
normal. Source: the rules of MLPerf Inference, and `batch_queue`. Known error: tests/serving/test_scenarios.py. Limits: a
system that a load generator's own host limits is slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from podsim.answers.scenario_run import LoadPoint, ScenarioRun
from podsim.answers.served import Served, ServedBatch
from podsim.axes import Floats
from podsim.errors import NoFitError
from podsim.packaged import packaged_toml
from podsim.serving.batch_queue import BatchServer, QueueRun, largest_rate, poisson_run
from podsim.units import format_quantity, parse_quantity

_LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
_REQUESTS = (20_000, 250_000)
"""the least and the most requests of a simulated run"""
_HORIZON = 100.0
"""factor. The length of a run, in limits of the latency"""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What MLPerf Inference asks of a network."""

    name: str
    networks: tuple[str, ...]
    latency: float | None
    """s. The bound of the server scenario; None where there is no such scenario."""
    precisions: tuple[str, ...]
    source: str
    tokens: int | None = None
    """The mean number of tokens of a sequence."""
    spread: float = 0.0
    """factor. The standard deviation of the logarithm of a sample's work."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How requests arrive, and what limits them."""

    scenario: str
    limit: float | None = None
    """s. The limit of the latency at the percentile."""
    percentile: float | None = None
    """share. The share of requests that the limit covers; None: that of the scenario."""
    delay: float = 0.0
    """s. The longest wait for a fuller batch."""
    spread: float = 0.0
    """factor. The standard deviation of the logarithm of a sample's work."""
    rate: float | None = None
    """1/s. The rate of requests of the server scenario; None: the largest within the limit."""


def _tables() -> Mapping[str, Any]:
    return packaged_toml("serving/scenarios.toml")


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """The benchmarks whose networks the catalog has."""
    return tuple(
        Benchmark(**{
            **part, "networks": tuple(part["networks"]), "precisions": tuple(part["precisions"]),
            "latency": parse_quantity(part["latency"], "s") if part["latency"] else None,
        })
        for part in _tables()["benchmark"]
    )  # fmt: skip


def benchmark_of(model: str) -> Benchmark | None:
    """The benchmark of a network, by its name in the catalog."""
    return next((each for each in benchmarks() if model.lower() in each.networks), None)


def queue_server(served: Served, ask: Ask) -> BatchServer:
    """The batches of a served network behind a dynamic batcher, for all its instances."""
    rows = [row for row in served.rows if row.fits]
    share = _tables()["batcher"]["share"] * (1.0 - served.neighbours)
    return BatchServer(
        batches=np.array([float(row.batch) for row in rows]),
        seconds=np.array([row.latency for row in rows]) / share, servers=served.instances, delay=ask.delay,
    )  # fmt: skip


def scenario_run(served: Served, ask: Ask) -> ScenarioRun:
    """What a network does in a scenario. Raises NoFitError where no rate is within the limit."""
    return _SCENARIOS[ask.scenario](served, ask)


def _offline(served: Served, ask: Ask) -> ScenarioRun:
    best = _best(served)
    return replace(_made(served, ask), latency=best.latency, rate=_rate(served, best), batch=best.batch)


def _single(served: Served, ask: Ask) -> ScenarioRun:
    """One sample after another; the first row is of one sample."""
    settings = _tables()["settings"]
    percentile = ask.percentile or settings["single_percentile"]
    first = served.rows[0].latency
    latency = first * math.exp(ask.spread * NormalDist().inv_cdf(percentile) - ask.spread**2 / 2)
    _check(served, ask.limit, latency, percentile)
    return replace(
        _made(served, ask), latency=latency, rate=1.0 / first, batch=1.0, percentile=percentile, instances=1
    )


def _multi(served: Served, ask: Ask) -> ScenarioRun:
    settings = _tables()["settings"]
    samples, percentile = settings["stream_samples"], ask.percentile or settings["percentile"]
    server = queue_server(served, ask)
    share = _tables()["batcher"]["share"]
    first = float(server.batch_seconds(np.array(float(samples)))) * share
    spread = ask.spread / math.sqrt(samples)
    latency = first * math.exp(spread * NormalDist().inv_cdf(percentile) - spread**2 / 2)
    _check(served, ask.limit, latency, percentile)
    return replace(
        _made(served, ask), latency=latency, rate=samples / first, batch=samples, percentile=percentile,
        instances=1,
    )  # fmt: skip


def _server(served: Served, ask: Ask) -> ScenarioRun:
    percentile = ask.percentile or _tables()["settings"]["percentile"]
    server = queue_server(served, ask)
    run = poisson_runs(server, ask.limit or 0.0, ask.spread)
    if ask.rate is not None:
        return _at_rate(served, replace(ask, percentile=percentile), server, run)
    limit = ask.limit
    assert limit is not None
    best = largest_rate(run, server.capacity, percentile=percentile, limit=limit)
    if best is None:
        _check(served, limit, float(server.seconds[0]), percentile)
        raise NoFitError([f"{served.model}: no rate keeps {percentile:.0%} of the answers within the limit"])
    points = tuple(load_point(run(best.rate * share), share) for share in _LOADS)
    return replace(
        _made(served, ask), latency=best.percentile(percentile), rate=best.rate, batch=best.batch,
        percentile=percentile, points=points, largest=server.largest,
    )  # fmt: skip


def _at_rate(served: Served, ask: Ask, server: BatchServer, run: Callable[[float], QueueRun]) -> ScenarioRun:
    """What requests see at the rate of the user, and at others. Raises NoFitError for a rate above the capacity."""
    rate, percentile = ask.rate or 0.0, ask.percentile or 0.0
    if rate > server.capacity:
        enough = math.ceil(rate / server.capacity * served.instances)
        raise NoFitError([
            f"{served.model}: {rate:,.4g} requests/s are more than the {server.capacity:,.4g}/s of {served.instances} x "
            f"{served.gpu}, so they would wait ever longer; {enough:,} would do"
        ])  # fmt: skip
    own, others = run(rate), (run(rate * share) for share in _LOADS[:-1])
    points = (*map(load_point, others, _LOADS), load_point(own, 1.0))
    return replace(
        _made(served, ask), latency=own.percentile(percentile), rate=rate, batch=own.batch, points=points,
        largest=server.largest, is_given=True,
    )  # fmt: skip


def poisson_runs(server: BatchServer, limit: float, spread: float = 0.0) -> Callable[[float], QueueRun]:
    """A function from a rate to the run of Poisson arrivals, long enough for a limit of the latency."""
    least, most = _REQUESTS

    def run(rate: float) -> QueueRun:
        requests = int(np.clip(rate * limit * _HORIZON, least, most))
        return poisson_run(server, rate, requests=requests, work=_work(requests, spread))

    return run


def _work(requests: int, spread: float) -> Floats | None:
    """The work of each request, mean 1."""
    if not spread:
        return None
    drawn = np.random.default_rng(1).standard_normal(requests)
    return np.asarray(np.exp(spread * drawn - spread**2 / 2))


def load_point(run: QueueRun, share: float) -> LoadPoint:
    """What requests see in a run."""
    p50, p90, p99 = (run.percentile(percentile) for percentile in (0.5, 0.9, 0.99))
    return LoadPoint(rate=run.rate, share=share, p50=p50, p90=p90, p99=p99, batch=run.batch, busy=run.busy)


def _made(served: Served, ask: Ask) -> ScenarioRun:
    """The answer without figures of the scenario."""
    best = _best(served)
    return ScenarioRun(
        model=served.model, scenario=ask.scenario, sample=SAMPLES[served.kind], gpu=served.gpu,
        instances=served.instances, precision=served.precision, engine=served.engine,
        percentile=ask.percentile or 1.0, limit=ask.limit, latency=0.0, rate=0.0, offline=_rate(served, best), batch=0.0,
        largest=max(row.batch for row in served.rows if row.fits), rows=served.rows,
        assumptions=served.assumptions, warnings=served.warnings,
    )  # fmt: skip


SAMPLES = {"encoder": "sequences", "generator": "requests", "images": "images", "samples": "samples"}
"""kind of model -> what its samples are"""


def _best(served: Served) -> ServedBatch:
    return max((row for row in served.rows if row.fits), key=lambda row: row.throughput)


def _rate(served: Served, row: ServedBatch) -> float:
    return row.throughput * served.instances * (1.0 - served.neighbours)


def _check(served: Served, limit: float | None, latency: float, percentile: float) -> None:
    """Raise NoFitError where a limit is below the latency of a lone request."""
    if limit is not None and latency > limit:
        raise NoFitError([
            f"{served.model} takes {format_quantity(latency, 's')} on an idle {served.gpu}, so no load keeps "
            f"{percentile:.0%} of the answers within {format_quantity(limit, 's')}; give at least that, or a faster GPU"
        ])  # fmt: skip


_SCENARIOS: Mapping[str, Callable[[Served, Ask], ScenarioRun]] = {
    "offline": _offline, "server": _server, "single-stream": _single, "multi-stream": _multi,
}  # fmt: skip
