"""The best way to serve a language model under a load, and the other ways that come near."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class ServingWay:
    """One way to serve: engine, layout, limits, replicas; and how it answers the load."""

    rank: int
    """The position in the ranking, from 1."""
    plan: Mapping[str, object]
    """The fields of the serving plan; of split pools that of the pool that decodes."""
    prefill: Mapping[str, object] | None
    """The plan of the pool that reads prompts; None where one pool does both."""
    gpus: int
    """count. The GPUs of all replicas."""
    words: str
    brief: str
    """The way in few words."""
    first: Mapping[str, float]
    """s. The time to the first token: mean, p50, p90, p99."""
    each: Mapping[str, float]
    """s. The time per output token: mean, p50, p90, p99."""
    end: Mapping[str, float]
    """s. The time to the last token: mean, p50, p90, p99."""
    met: float
    """share. The requests that keep both limits."""
    keeps: bool
    """Whether the limits are kept at the asked percentile, and no queue grows."""
    rate: float
    """1/s. The requests answered."""
    capacity: float
    """1/s. The most requests, by the closed form."""
    tokens_per_gpu: float
    """1/s. The output tokens of a GPU at this load."""
    tokens_per_user: float
    """1/s. The output tokens of one user, at the mean time per token."""
    cost: float | None
    """USD. The cost of a million output tokens at this load; None without a price of the GPU."""
    limits: tuple[str, ...]
    """The phrases that say what holds it back."""
    command: str = ""
    """The command that serves the load this way in podsim."""
    estimate: Mapping[str, float] = field(default_factory=dict)
    """s. The closed form's percentiles: first, each."""


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """One point of the trade between a user's speed and a GPU's throughput."""

    user: float
    """1/s. The output tokens of one user."""
    gpu: float
    """1/s. The output tokens of one GPU."""
    words: str
    """The engine and the layout."""
    sequences: float
    """count. The sequences that a replica decodes."""
    gpus: int
    """count. The GPUs of a replica."""


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """A measured server under a load: a user's speed and a GPU's throughput."""

    id: str
    """The name of the row in the packaged table."""
    words: str
    """The model, the GPUs, the engine and the load, in words."""
    user: float
    """1/s. The output tokens of one user."""
    gpu: float
    """1/s. The output tokens of one GPU."""
    first: float | None
    """s. The time to the first token; None where it was not measured."""
    each: float
    """s. The time per output token."""
    measured: str
    """The date of the measurement; empty if unstated."""
    is_alike: bool
    """Whether model, GPU and lengths are those of the prediction."""
    distance: float
    """count. The octaves between it and the prediction."""


@dataclass(frozen=True, kw_only=True)
class BestServing(
    Answer,
    view=View(report="report.best_tables:best_report", rows="ways", figure="report.plot_serving:best_figure"),
):
    """The search of the best way to serve a load within limits of latency."""

    model: str
    cluster: str
    gpus: int
    """count. The GPUs of the cluster."""
    rate: float
    """1/s. The arrivals."""
    input_tokens: float
    """count. The mean tokens of a prompt."""
    output_tokens: float
    """count. The mean tokens of an answer."""
    source: str
    """The requests in words: Poisson arrivals of fixed lengths, or the name of a trace."""
    first_limit: float | None
    """s. The longest time to the first token."""
    each_limit: float | None
    """s. The longest time per output token."""
    percentile: int
    """count. The percentile of requests that keeps the limits."""
    ways: tuple[ServingWay, ...]
    """The simulated ways, the best first."""
    front: tuple[FrontPoint, ...]
    """The Pareto front of tokens/s of a GPU against tokens/s of a user, the fastest user first."""
    fewest: int
    """count. The fewest GPUs of this kind that carry the load within the limits; 0 if none do."""
    candidates: int
    """count. The candidates on the cluster that the closed form priced."""
    simulated: int
    """count. The candidates that were simulated."""
    requests: int
    """count. The requests of each simulation."""
    seconds: float
    """s. The time of the search."""
    least: Mapping[str, float]
    """s. The least possible latencies: first, each by the GPUs' peaks; first_model, each_model by any layout."""
    price: str
    """The price per GPU-hour, in words; empty if none is known."""
    other_format: str = ""
    """The phrase that says what another number format of the weights would give; empty if none was tried."""
    longest: int = 0
    """count. The most tokens of a prompt and its answer."""
    measured: tuple[MeasuredPoint, ...] = ()
    """The measured server nearest to the best way, then the others of this model, GPU and lengths."""
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """factor. The ends of the 80 % bands of medians, over these: first token, each token; empty where none is known."""
    notes: tuple[str, ...] = ()
    """The notes on the requests and on layouts that do not fit."""

    @property
    def best(self) -> ServingWay | None:
        """The best way that keeps the limits; None if none does."""
        return next((way for way in self.ways if way.keeps), None)
