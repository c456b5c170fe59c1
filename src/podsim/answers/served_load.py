"""The results of a server under load: times as their users see them, rates, what holds it back, energy and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View
from podsim.answers.best_serving import MeasuredPoint


@dataclass(frozen=True, kw_only=True)
class LatencyRow:
    """One kind of time, over the requests of the steady part."""

    name: str
    """The kind: first token, each token, between tokens, end to end, in the queue."""
    mean: float
    """s. The mean."""
    mean_half: float
    """s. The half of the mean's 95 % confidence interval; 0 where none is computed."""
    p50: float
    """s. The median."""
    p90: float
    """s. The 90th percentile."""
    p95: float
    """s. The 95th percentile."""
    p99: float
    """s. The 99th percentile."""
    p99_half: float
    """s. The half of the 99th percentile's 95 % confidence interval; 0 where none is computed."""


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """One rate of arrivals of a curve of latency against rate."""

    rate: float
    """1/s. The rate of arrivals."""
    answered: float
    """1/s. The rate of answers."""
    first_token: float
    """s. The median time to the first token."""
    first_token_p99: float
    """s. The 99th percentile of this time."""
    each_token: float
    """s. The median time per output token."""
    end_to_end: float
    """s. The median time from arrival to end."""
    end_to_end_p99: float
    """s. The 99th percentile of this time."""


@dataclass(frozen=True, kw_only=True)
class ServedLoad(
    Answer,
    view=View(report="report.load_tables:load_report", rows="rows", figure="report.plot_serving:load_figure"),
):
    """A model on GPUs that requests arrive at."""

    model: str
    """The name of the model, or of all models."""
    on: str
    gpus: int
    """The number of GPUs that serve."""
    layout: str
    """The engine, the division of the model and the replicas, in words."""
    scheduler: str
    """The scheduler, and its limits, in words."""
    workload: str
    """The arrivals and lengths, in words."""
    requests: int
    kept: int
    """The number of requests after the warm-up and before the end."""
    answered: int
    """The number of answered requests."""
    given_up: int
    """The number of requests whose clients gave up."""
    refused: int
    """The number of requests that no replica could hold."""
    rate: float
    """1/s. The rate of arrivals; of a closed loop that which came about."""
    saturation: float
    """1/s. The rate at which the server saturates."""
    answered_rate: float
    """1/s. The rate of answers."""
    output_rate: float
    """1/s. The rate of tokens of answers."""
    gpu_output_rate: float
    """1/s. The same for each GPU that was on."""
    user_rate: float
    """1/s. The median rate of tokens that a user sees."""
    rows: tuple[LatencyRow, ...]
    slo: Mapping[str, float]
    """s. The limits of a good answer, by kind: ttft, tpot, e2e."""
    goodput: float | None
    """1/s. The rate of answers within these limits; None without limits."""
    good_share: float | None
    """share. The part of the answers within these limits."""
    busy: float
    """share. The part of the time in which the replicas that were on computed."""
    batch: float
    """count. The mean number of sequences in a step."""
    blocks: float
    """share. The part of the cache's blocks in use, over busy time."""
    most_blocks: float
    """share. The largest part of a replica's blocks in use."""
    preempted: int
    """The number of preemptions."""
    cached: float
    """share. The part of the prompts' tokens that came from the prefix cache."""
    parts: Mapping[str, float]
    """share. The busy time by part: steps, products, attention of answers, attention of prompts, moves."""
    held_back: Mapping[str, float]
    """share. The busy time in which requests waited, by reason: sequences, memory, compute, adapters."""
    bottleneck: str
    """The limit of the server, in words."""
    replicas_on: float
    """count. The mean number of replicas that were on."""
    seconds: float
    """s. The simulated time."""
    steps: int
    """The number of steps of all replicas."""
    watts: float
    """W. The mean power of the servers and switches."""
    token_energy: float
    """J. The energy of each token of an answer."""
    price: str
    """The price per GPU-hour, in words; empty where none is known."""
    price_low: float
    """USD. The price of a million tokens of answers at its lowest; 0 without a price."""
    price_high: float
    """USD. The same at its highest."""
    measured: tuple[MeasuredPoint, ...] = ()
    """The measured server nearest to this one, then the others of this model, GPU and lengths."""
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """factor. The ends of the 80 % bands of medians, over these: first token, each token; empty where none is known."""
    curve: tuple[LoadPoint, ...] = ()
    """The latencies at several rates."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""
