"""The candidates of a search, simulated: what their requests waited, and what held the replicas back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from podsim.answers.quantiles import PERCENTILES, percentiles
from podsim.axes import Floats
from podsim.hardware.cluster import Cluster
from podsim.serving.best_layouts import Layout
from podsim.serving.best_search import Candidates, Objective, Way
from podsim.serving.language_engines import load_language_engine
from podsim.serving.load.load_run import LoadRun, run_load
from podsim.serving.load.load_statistics import measure_run
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.serving_plan import ServingPlan

_MOST_REPLICAS = 8
"""replicas of a pool that are simulated of more"""
_UNEVEN = 0.02
"""share by which such a part may miss the ratio of two pools"""
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
        return ReplicaPool(kinds=(_kind(way.plan, decoding, "both", cluster),), routing="least-loaded")
    link = link_of(cluster, way)
    kinds = (
        _kind(way.prefill, reading, "prefill", cluster),
        replace(_kind(way.plan, decoding, "decode", cluster), link_rate=link[0], link_latency=link[1]),
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


def sampled(way: Way, requests: RequestTable) -> tuple[Way, RequestTable]:
    """A part of many equal replicas, with its part of the requests: the same load on each, over a longer time."""
    share = min(1.0, _MOST_REPLICAS / way.plan.replicas)
    replicas = [pool.replicas * share for pool in (way.plan, way.prefill) if pool is not None]
    if share == 1.0 or any(abs(count - round(count)) > _UNEVEN * count for count in replicas):
        return way, requests
    plan = replace(way.plan, replicas=round(replicas[0]))
    prefill = replace(way.prefill, replicas=round(replicas[1])) if way.prefill else None
    return replace(way, plan=plan, prefill=prefill), replace(requests, arrival=requests.arrival / share)


def _kind(plan: ServingPlan, layout: Layout, role: str, cluster: Cluster) -> ReplicaKind:
    engine = load_language_engine(plan.engine, cluster.gpu)
    return ReplicaKind(
        cost=layout.cost, room=layout.room, scheduler=layout.scheduler, replicas=plan.replicas, gpus=plan.gpus,
        role=role, sequences=plan.max_batch, batch_tokens=plan.max_batched_tokens, acceptance=plan.draft_acceptances,
        front=engine.front, ahead=engine.plans_ahead,
    )  # fmt: skip


def simulate_way(pool: ReplicaPool, requests: RequestTable, objective: Objective) -> Outcome:
    """The latencies of the requests after the warm-up, and the replicas' limits."""
    run = run_load(requests, pool, seed=0)
    steady = measure_run(run)
    part = run.answered[steady.kept]
    steps = np.maximum(run.made[steady.kept] - 1, 1)
    each = (run.done[steady.kept] - run.first[steady.kept]) / steps
    waited = run.first[steady.kept] - run.arrival[steady.kept]
    kept = part & (waited <= objective.first) & (each <= objective.each)
    return Outcome(
        first=_statistics(steady.first_token), each=_statistics(steady.each_token),
        end=_statistics(steady.end_to_end), limits=_limits(run), met=float(kept.mean()), rate=steady.answered_rate,
    )  # fmt: skip


def _statistics(seconds: Floats) -> dict[str, float]:
    if not len(seconds):
        return dict.fromkeys(("mean", *(f"p{share}" for share in PERCENTILES)), float("inf"))
    return percentiles(seconds)


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
