"""The answer of a simulated server: figures of a run, what holds it back, energy and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from podsim.answers.quantiles import PERCENTILES, percentiles, quantile
from podsim.answers.served_load import LatencyRow, LoadPoint
from podsim.axes import Floats
from podsim.fleet.power import load_power
from podsim.fleet.price_offers import price_offer
from podsim.hardware.cluster import Cluster
from podsim.serving.load.load_run import LoadRun
from podsim.serving.load.load_statistics import (
    Measures,
    estimate,
    gap_percentile,
    measure_run,
)
from podsim.serving.load.server_state import gap_edges

_REASONS = {
    "sequences": "full_sequences", "memory": "full_blocks", "compute": "full_tokens", "adapters": "full_adapters",
}  # fmt: skip
_PARTS = {
    "steps": "part_step", "products": "part_tokens", "attention of answers": "part_decode",
    "attention of prompts": "part_prompt", "moves": "part_moved",
}  # fmt: skip


def latency_rows(measures: Measures, *, is_streamed: bool = True) -> tuple[LatencyRow, ...]:
    """A row for each kind of time; a client that takes its answer as a whole sees the first token at the end."""
    first = measures.first_token if is_streamed else measures.end_to_end
    rows = [_row("first token", first), _row("each token", measures.each_token)]
    gaps = measures.gap_counts
    if gaps.sum():
        figures = {f"p{percent}": gap_percentile(gaps, percent) for percent in PERCENTILES}
        figures["mean"] = float(np.dot(gaps, _gap_centres()) / gaps.sum())
        rows.append(LatencyRow(name="between tokens", **figures, mean_half=0.0, p99_half=0.0))
    return (*rows, _row("end to end", measures.end_to_end), _row("in the queue", measures.queued))


def _gap_centres() -> Floats:
    edges = gap_edges()
    return np.asarray((edges[1:] + edges[:-1]) / 2)


def _row(name: str, values: Floats) -> LatencyRow:
    """The row of a kind of time; nothing but zeros without any."""
    if not len(values):
        return LatencyRow(
            name=name, mean=0.0, mean_half=0.0, p50=0.0, p90=0.0, p95=0.0, p99=0.0, p99_half=0.0
        )
    estimates = (estimate(values), estimate(values, partial(quantile, share=0.99)))
    mean, tail = (figure.half if np.isfinite(figure.half) else 0.0 for figure in estimates)
    return LatencyRow(name=name, **percentiles(values), mean_half=mean, p99_half=tail)


def load_point(run: LoadRun, rate: float) -> LoadPoint:
    """One point of a curve of latency against rate."""
    measures = measure_run(run)
    first, end = measures.first_token, measures.end_to_end
    each = measures.each_token if len(measures.each_token) else np.zeros(1)
    return LoadPoint(
        rate=rate, answered=measures.answered_rate, first_token=float(np.median(first)),
        first_token_p99=quantile(first, 0.99), each_token=float(np.median(each)),
        end_to_end=float(np.median(end)), end_to_end_p99=quantile(end, 0.99),
    )  # fmt: skip


def good_share(
    run: LoadRun, measures: Measures, slo: Mapping[str, float], *, is_streamed: bool = True
) -> float | None:
    """The share of the steady part's requests that were answered within the limits ttft, tpot, e2e (s)."""
    if not slo:
        return None
    kept = measures.kept
    arrival, first, done, made = (column[kept] for column in (run.arrival, run.first, run.done, run.made))
    times = {
        "ttft": (first if is_streamed else done) - arrival, "e2e": done - arrival,
        "tpot": (done - first) / np.maximum(made - 1, 1),
    }  # fmt: skip
    good = run.answered[kept].copy()
    for name, limit in slo.items():
        good &= times[name] <= limit
    return float(good.mean())


@dataclass(frozen=True, kw_only=True)
class Use:
    """What the replicas did, over all of a run."""

    seconds: float
    """s. The time from the first arrival to the last end."""
    on: float
    """count. The mean number of replicas that were on."""
    gpus_on: float
    """count. The mean number of their GPUs."""
    busy: float
    """share. The part of the time on in which a replica computed."""
    batch: float
    blocks: float
    most_blocks: float
    parts: Mapping[str, float]
    held_back: Mapping[str, float]


def measure_use(run: LoadRun) -> Use:
    """What the replicas did: shares of their busy time, their batches and blocks."""
    replicas, kinds = run.replicas, run.pool.kinds
    of_kind = replicas["kind"]
    gpus = np.array([kind.gpus for kind in kinds])[of_kind]
    blocks = np.array([kind.room.blocks for kind in kinds])[of_kind]
    seconds = max(float(run.done.max() - run.arrival.min()), 1e-12)
    busy, on = replicas["busy"], np.minimum(run.on_seconds, seconds)
    total, steps = max(float(busy.sum()), 1e-12), max(int(replicas["steps"].sum()), 1)
    return Use(
        seconds=seconds, on=float(on.sum() / seconds), gpus_on=float((on * gpus).sum() / seconds),
        busy=min(total / max(float(on.sum()), 1e-12), 1.0), batch=float(replicas["sequences"].sum() / steps),
        blocks=float((replicas["block_seconds"] / blocks).sum() / total),
        most_blocks=float((replicas["most_blocks"] / blocks).max()),
        parts={name: float(replicas[field].sum()) / total for name, field in _PARTS.items()},
        held_back={name: float(replicas[field].sum()) / total for name, field in _REASONS.items()},
    )  # fmt: skip


def bottleneck(run: LoadRun, use: Use, rate: float, saturation: float) -> str:
    """What holds a server back, in words: nothing, its queue, memory, sequences or compute."""
    waiting = max(use.held_back, key=lambda name: use.held_back[name])
    share, part = use.held_back[waiting], max(use.parts, key=lambda name: use.parts[name])
    most = f"most of the busy time goes to {part} ({use.parts[part]:.0%})"
    if share < 0.02:
        return f"nothing: requests start at once, and {most}"
    reasons = {
        "sequences": "the limit of sequences: requests wait until others end",
        "memory": "memory: requests wait for blocks of the cache",
        "compute": "compute: prompts wait for their turn in the token budget of steps",
        "adapters": "the slots of adapters: requests wait until other adapters are free",
    }
    ahead = "" if rate <= saturation else "; more requests arrive than it answers, so the queue only grows"
    return f"{reasons[waiting]} ({share:.0%} of the busy time); {most}{ahead}"


@dataclass(frozen=True, kw_only=True)
class Expenses:
    """Power and prices."""

    watts: float
    token_energy: float
    """J. The energy of a token of an answer."""
    price: str
    low: float
    """USD. The lowest price of a million tokens of answers."""
    high: float


def expenses(cluster: Cluster, use: Use, output_rate: float, price: str = "") -> Expenses:
    """The power of the GPUs that serve, with their part of servers and switches, and the price of their time."""
    share = use.gpus_on / cluster.gpus
    watts = load_power(cluster, "serving", pue=1.0, busy=use.busy).total * share
    rate = max(output_rate, 1e-12)
    offer = price_offer(price, cluster)
    words, low, high = (offer.words, offer.low, offer.high) if offer else ("", 0.0, 0.0)
    tokens = 1e6 * use.gpus_on / rate
    return Expenses(watts=watts, token_energy=watts / rate, price=words, low=low * tokens, high=high * tokens)


def cached_share(run: LoadRun) -> float:
    """The part of the prompts' tokens that came from the prefix cache."""
    seen: Any = run.admitted >= 0
    total = float(run.table.input_tokens[seen].sum())
    return float(run.cached[seen].sum()) / total if total else 0.0
