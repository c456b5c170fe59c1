"""The results of serving a network under a scenario or in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.served import ServedBatch


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """What requests see at one load."""

    rate: float
    """1/s. The rate of requests, over all GPUs."""
    share: float
    """share. The rate over the largest one within the limit."""
    p50: float
    """s. The median latency."""
    p90: float
    """s. The latency that nine of ten requests do not exceed."""
    p99: float
    """s. The latency that 99 of 100 requests do not exceed."""
    batch: float
    """count. The mean number of samples of a batch."""
    busy: float
    """share. The share of time in which a GPU computes."""


@dataclass(frozen=True, kw_only=True)
class ScenarioRun(
    Answer,
    view=View(
        report="report.scenario_tables:scenario_report",
        rows="report.scenario_tables:scenario_rows",
        figure="report.plot_serving:scenario_figure",
    ),
):
    """A network that answers requests as a scenario of MLPerf Inference sends them."""

    model: str
    """The name of the model."""
    scenario: str
    """The name of the scenario."""
    sample: str
    """The word for samples."""
    gpu: str
    """The name of the GPU or instance."""
    instances: int
    """The number of GPUs or instances."""
    precision: str
    """The precision."""
    engine: str
    """The name of the engine."""
    percentile: float
    """share. The share of requests that the latency covers."""
    limit: float | None
    """s. The limit of the latency at the percentile; None without one."""
    latency: float
    """s. The latency at the percentile."""
    rate: float
    """1/s. The rate of samples over all GPUs: the largest within the limit, or that of one request after another."""
    offline: float
    """1/s. The rate of samples over all GPUs without any limit."""
    batch: float
    """count. The mean number of samples of a batch."""
    largest: int
    """The largest batch that is formed."""
    is_given: bool = False
    """Whether the user gave the rate."""
    points: tuple[LoadPoint, ...] = ()
    """The loads of the server scenario, and what requests see there."""
    rows: tuple[ServedBatch, ...] = ()
    """The row of each batch, on one GPU or instance."""
    assumptions: tuple[str, ...] = ()
    """The assumptions."""
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""


@dataclass(frozen=True, kw_only=True)
class StreamRun(
    Answer,
    view=View(
        report="report.scenario_tables:streams_report",
        rows="points",
        figure="report.plot_serving:streams_figure",
    ),
):
    """A network that answers streams: of speech in chunks, of video in frames."""

    model: str
    """The name of the model."""
    kind: str
    """The kind of streams: speech or video."""
    gpu: str
    """The name of the GPU or instance."""
    instances: int
    """The number of GPUs or instances."""
    precision: str
    """The precision."""
    engine: str
    """The name of the engine."""
    period: float
    """s. The time between two requests of a stream."""
    limit: float
    """s. The limit of the latency at the percentile."""
    percentile: float
    """share. The share of requests that the limit covers."""
    streams: int
    """The number of streams: those asked for, or the most that are carried."""
    most: int
    """The most streams that all units carry within the limit."""
    units: Mapping[str, float]
    """count. The streams that each unit carries: inference, decoding, tracking."""
    bottleneck: str
    """The unit that carries the fewest streams."""
    rate: float
    """1/s. The rate of requests of these streams."""
    speed: float
    """factor. The seconds of streams that are answered in a second: the real-time factor of all streams."""
    p50: float
    """s. The median latency of a request with these streams."""
    p99: float
    """s. The latency at the percentile with these streams."""
    batch: float
    """count. The mean number of requests of a batch."""
    is_carried: bool
    """Whether these streams are within the limit."""
    title: str
    """The streams in words."""
    points: tuple[LoadPoint, ...] = ()
    """The shares of the most streams, and what requests see there."""
    assumptions: tuple[str, ...] = ()
    """The assumptions."""
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""


@dataclass(frozen=True, kw_only=True)
class EnsembleStep:
    """One step of an ensemble at its rate."""

    name: str
    """The name of the step."""
    runs: str
    """The model, or the cores that work."""
    capacity: float
    """1/s. The rate of requests that the step carries alone, on all GPUs or cores."""
    share: float
    """share. The share of the GPUs' time, or of its cores' time, that the step takes."""
    spent: float
    """s. The mean time of a request in the step, with its wait."""
    batch: float
    """count. The mean number of requests of a batch."""


@dataclass(frozen=True, kw_only=True)
class EnsembleRun(
    Answer,
    view=View(
        report="report.scenario_tables:ensemble_report",
        rows="steps",
        figure="report.plot_serving:ensemble_figure",
    ),
):
    """An ensemble of models and of work on processor cores that answers requests."""

    model: str
    """The name of the ensemble."""
    gpu: str
    """The name of the GPU or instance."""
    instances: int
    """The number of GPUs or instances."""
    percentile: float
    """share. The share of requests that the limit covers."""
    limit: float | None
    """s. The limit of the latency at the percentile; None without one."""
    rate: float
    """1/s. The rate of requests: the user's, the largest within the limit, or nine tenths of the capacity."""
    capacity: float
    """1/s. The rate that all steps together carry."""
    bottleneck: str
    """The step that takes most of a resource that is full first."""
    lone: float
    """s. The latency of a request that meets no other."""
    p50: float
    """s. The median latency at the rate."""
    latency: float
    """s. The latency at the percentile and the rate."""
    steps: tuple[EnsembleStep, ...]
    """The steps."""
    points: tuple[LoadPoint, ...] = ()
    """The latencies at shares of the rate."""
    is_in_time: bool = True
    """Whether the latency is within the limit."""
    assumptions: tuple[str, ...] = ()
    """The assumptions."""
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""
