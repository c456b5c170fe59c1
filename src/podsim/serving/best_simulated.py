"""The candidates of a search, simulated: what their requests waited, and what held the replicas back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from podsim.fitting import Floats
from podsim.hardware.cluster import Cluster
from podsim.serving.best_layouts import Layout
from podsim.serving.best_search import Candidates, Objective, Way
from podsim.serving.load.load_run import LoadRun, run_load
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.serving_plan import ServingPlan

PERCENTILES = (50, 90, 95, 99)
_WARM_UP = 0.2
"""share of the requests, in which the server fills"""
_PARTS = {
    "part_step": "launches and the host",
    "part_tokens": "products and exchanges",
    "part_decode": "attention of decoding sequences",
    "part_prompt": "attention of prompts",
    "part_moved": "transfers of caches",
}
_FULL = {
    "full_blocks": "the memory for keys and values",
    "full_sequences": "the limit of sequences",
    "full_tokens": "the token budget of a step",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the requests of one candidate saw, after the warm-up."""

    first: Mapping[str, float]
    """s. The time to the first token: mean, p50, p90, p95, p99."""
    each: Mapping[str, float]
    """s. The time per output token."""
    end: Mapping[str, float]
    """s. The time to the last token."""
    met: float
    """share. The requests that keep both limits."""
    rate: float
    """1/s. The requests that were answered."""
    limits: tuple[str, ...]
    """The phrases that say what holds it back."""


def pool_of(way: Way, reading: Layout | None, decoding: Layout, cluster: Cluster) -> ReplicaPool:
    """The pool of replicas of a candidate."""
    if way.prefill is None or reading is None:
        return ReplicaPool(kinds=(_kind(way.plan, decoding, "both"),), routing="least-loaded")
    link = link_of(cluster, way)
    kinds = (
        _kind(way.prefill, reading, "prefill"),
        replace(_kind(way.plan, decoding, "decode"), link_rate=link[0], link_latency=link[1]),
    )
    return ReplicaPool(kinds=kinds, routing="least-loaded")


def link_of(cluster: Cluster, way: Way) -> tuple[float, float]:
    """(B/s, s) of the way from a replica that reads prompts to one that decodes: in a node, or over its adapters."""
    assert way.prefill is not None
    pair = min(way.prefill.gpus, way.plan.gpus)
    if way.gpus <= cluster.gpus_per_node:
        return cluster.nvlink.bandwidth * pair, cluster.nvlink.latency
    adapters = max(1.0, cluster.nics * pair / cluster.gpus_per_node)
    return cluster.network.bandwidth * adapters, cluster.network.latency


def _kind(plan: ServingPlan, layout: Layout, role: str) -> ReplicaKind:
    return ReplicaKind(
        cost=layout.cost, room=layout.room, scheduler=layout.scheduler, replicas=plan.replicas, gpus=plan.gpus,
        role=role, sequences=plan.max_batch, batch_tokens=plan.max_batched_tokens, acceptance=plan.acceptance,
    )  # fmt: skip


def simulate_way(pool: ReplicaPool, requests: RequestTable, objective: Objective, *, seed: int = 0) -> Outcome:
    """The latencies of the requests after the warm-up, and the replicas' limits."""
    run = run_load(requests, pool, seed=seed)
    late = np.arange(len(requests)) >= _WARM_UP * len(requests)
    answered = np.asarray(run.answered, bool) & late
    if not answered.any():
        nothing = dict.fromkeys(("mean", *(f"p{share}" for share in PERCENTILES)), np.inf)
        return Outcome(first=nothing, each=nothing, end=nothing, met=0.0, rate=0.0, limits=_limits(run))
    arrival, first, done = (np.asarray(column)[answered] for column in (run.arrival, run.first, run.done))
    steps = np.maximum(np.asarray(run.made)[answered] - 1, 1)
    waited, each = first - arrival, (done - first) / steps
    kept = (waited <= objective.first) & (each <= objective.each)
    span = float(done.max() - arrival.min())
    return Outcome(
        first=_statistics(waited), each=_statistics(each), end=_statistics(done - arrival), limits=_limits(run),
        met=float(kept.sum() / late.sum()), rate=len(arrival) / span if span > 0 else 0.0,
    )  # fmt: skip


def _statistics(seconds: Floats) -> dict[str, float]:
    values = np.percentile(seconds, PERCENTILES).tolist()
    named = {f"p{share}": value for share, value in zip(PERCENTILES, values, strict=True)}
    return {"mean": float(seconds.mean()), **named}


def _limits(run: LoadRun) -> tuple[str, ...]:
    """The part that most of the steps' time goes to, and what steps waited for longest, if anything."""
    busy = float(run.replicas["busy"].sum()) or 1.0
    parts = {words: float(run.replicas[name].sum()) for name, words in _PARTS.items()}
    part = max(parts, key=lambda words: parts[words])
    phrases = [f"{part} take {parts[part] / (sum(parts.values()) or 1.0):.0%} of the steps"]
    waits = {words: float(run.replicas[name].sum()) / busy for name, words in _FULL.items()}
    wait = max(waits, key=lambda words: waits[words])
    if waits[wait] > 0.01:
        phrases.append(f"requests waited for {wait} in {min(waits[wait], 1.0):.0%} of the time")
    return tuple(phrases)


def estimate_of(candidates: Candidates, row: int) -> dict[str, float]:
    """s. The closed form's latencies of a candidate at the objective's percentile."""
    return {"first": float(candidates.first[row]), "each": float(candidates.each[row])}


def poisson_requests(
    rate: float, count: int, tokens: tuple[float, float], *, seed: int = 0
) -> RequestTable:
    """Requests of fixed lengths (of prompt and answer) that arrive at random."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, count)
    lengths: Sequence[int] = [max(1, round(each)) for each in tokens]
    return RequestTable(
        arrival=np.cumsum(gaps) - gaps[0], input_tokens=np.full(count, lengths[0]),
        output_tokens=np.full(count, lengths[1]), source="Poisson arrivals",
    )  # fmt: skip
