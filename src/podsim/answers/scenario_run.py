"""The results of serving a network under a scenario or in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.served import ServedBatch
from podsim.units import short_seconds


def rate_text(rate: float) -> str:
    """A rate with three digits, and separators from a hundred."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _percentile(share: float) -> str:
    return f"{100 * share:.4g} %"


def _lateness(latency: float, limit: float | None) -> str:
    """What is said of a latency that is beyond its limit."""
    return f"later than the limit of {short_seconds(limit)}" if limit is not None and latency > limit else ""


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """What requests see at one load."""

    rate: float = shown("rate/s", ":,.4g")
    """1/s. The rate of requests, over all GPUs."""
    share: float = shown("of largest", ":.0%")
    """share. The rate over the largest one within the limit."""
    p50: float = shown(format=short_seconds)
    """s. The median latency."""
    p90: float = shown(format=short_seconds)
    """s. The latency that nine of ten requests do not exceed."""
    p99: float = shown(format=short_seconds)
    """s. The latency that 99 of 100 requests do not exceed."""
    batch: float = shown(format=":.1f")
    """count. The mean number of samples of a batch."""
    busy: float = shown(format=":.0%")
    """share. The share of time in which a GPU computes."""


@dataclass(frozen=True, kw_only=True)
class StreamLoad(LoadPoint):
    """What requests of some streams see."""

    streams: int


@dataclass(frozen=True, kw_only=True)
class ScenarioRun(
    Answer,
    view=View(
        rows=lambda run: run.points or run.rows,
        figure="report.plot_serving:scenario_figure",
    ),
):
    """A network that answers requests as a scenario of MLPerf Inference sends them."""

    model: str = shown(remark="")
    scenario: str = shown(remark="")
    sample: str = shown(is_hidden=True)
    """The word for samples."""
    gpu: str = shown("GPU", remark="")
    """The name of the GPU or instance."""
    instances: int = shown("GPUs or instances", hide_if=1, remark="")
    """The number of GPUs or instances."""
    precision: str = shown(remark="")
    engine: str = shown(remark="")
    percentile: float = shown(format=_percentile, remark="of the requests within the latency")
    """share. The share of requests that the latency covers."""
    limit: float | None = shown(format=short_seconds, remark="of the latency")
    """s. The limit of the latency at the percentile; None without one."""
    latency: float = shown(remark="at the percentile")
    """s. The latency at the percentile."""
    rate: float = shown(of_row=lambda run: f"{rate_text(run.rate)} {run.sample}/s")
    """1/s. The rate of samples over all GPUs: the largest within the limit, or that of one request after another."""
    offline: float = shown(
        "offline rate",
        of_row=lambda run: f"{rate_text(run.offline)}/s ({run.rate / run.offline:.0%} reached)",
    )
    """1/s. The rate of samples over all GPUs without any limit."""
    batch: float = shown(format=":,.0f", remark="samples in the mean")
    """count. The mean number of samples of a batch."""
    largest: int
    """The largest batch that is formed."""
    is_given: bool = shown(
        "verdict", hide_if=False, of_row=lambda run: _lateness(run.latency, run.limit), default=False
    )
    """Whether the user gave the rate."""
    points: tuple[LoadPoint, ...] = ()
    """The loads of the server scenario, and what requests see there."""
    rows: tuple[ServedBatch, ...] = shown(is_hidden=True, default=())
    """The row of each batch, on one GPU or instance."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""


@dataclass(frozen=True, kw_only=True)
class StreamRun(
    Answer,
    view=View(
        rows="points",
        figure="report.plot_serving:streams_figure",
    ),
):
    """A network that answers streams: of speech in chunks, of video in frames."""

    model: str = shown(remark="")
    kind: str = shown(is_hidden=True)
    """The kind of streams: speech or video."""
    gpu: str = shown("GPU", remark="")
    """The name of the GPU or instance."""
    instances: int = shown("GPUs or instances", hide_if=1, remark="")
    """The number of GPUs or instances."""
    precision: str = shown(remark="")
    engine: str = shown(remark="")
    period: float
    """s. The time between two requests of a stream."""
    limit: float = shown(format=short_seconds, remark="of the latency")
    """s. The limit of the latency at the percentile."""
    percentile: float = shown(format=_percentile, remark="of the requests within the latency")
    """share. The share of requests that the limit covers."""
    streams: int = shown(format=":,d")
    """The number of streams: those asked for, or the most that are carried."""
    most: int = shown(format=":,d")
    """The most streams that all units carry within the limit."""
    units: Mapping[str, float] = shown(
        title="Streams that each unit carries", format=lambda streams: f"{int(streams):,}"
    )
    """count. The streams that each unit carries: inference, decoding, tracking."""
    bottleneck: str
    """The unit that carries the fewest streams."""
    rate: float = shown("requests", of_row=lambda run: f"{rate_text(run.rate)}/s", remark="")
    """1/s. The rate of requests of these streams."""
    speed: float = shown("real time", format=lambda speed: f"{speed:,.0f} x")
    """factor. The seconds of streams that are answered in a second: the real-time factor of all streams."""
    p50: float = shown(format=short_seconds)
    """s. The median latency of a request with these streams."""
    p99: float = shown("latency", format=short_seconds, remark="at the percentile")
    """s. The latency at the percentile with these streams."""
    batch: float = shown(format=":,.0f", remark="requests in the mean")
    """count. The mean number of requests of a batch."""
    is_carried: bool = shown("carried within the limit", remark="")
    """Whether these streams are within the limit."""
    title: str = shown("content", remark="")
    """The streams in words."""
    points: tuple[LoadPoint, ...] = shown(of_row=lambda run: run.loads, default=())
    """The shares of the most streams, and what requests see there."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""

    @property
    def loads(self) -> tuple[StreamLoad, ...]:
        """The points, each with its streams."""
        return tuple(
            StreamLoad(**vars(point), streams=round(point.share * self.most)) for point in self.points
        )


@dataclass(frozen=True, kw_only=True)
class EnsembleStep:
    """One step of an ensemble at its rate."""

    name: str = shown("step")
    runs: str
    """The model, or the cores that work."""
    capacity: float = shown("carries/s", rate_text)
    """1/s. The rate of requests that the step carries alone, on all GPUs or cores."""
    share: float = shown("use", ":.0%")
    """share. The share of the GPUs' time, or of its cores' time, that the step takes."""
    spent: float = shown("in step", short_seconds)
    """s. The mean time of a request in the step, with its wait."""
    batch: float = shown(format=":.1f")
    """count. The mean number of requests of a batch."""


@dataclass(frozen=True, kw_only=True)
class EnsembleRun(
    Answer,
    view=View(
        rows="steps",
        figure="report.plot_serving:ensemble_figure",
    ),
):
    """An ensemble of models and of work on processor cores that answers requests."""

    model: str = shown(remark="")
    gpu: str = shown("GPU", remark="")
    """The name of the GPU or instance."""
    instances: int = shown("GPUs or instances", hide_if=1, remark="")
    """The number of GPUs or instances."""
    percentile: float = shown(format=_percentile, remark="of the requests within the latency")
    """share. The share of requests that the limit covers."""
    limit: float | None = shown(format=short_seconds, remark="of the latency")
    """s. The limit of the latency at the percentile; None without one."""
    rate: float = shown(of_row=lambda run: f"{rate_text(run.rate)} requests/s")
    """1/s. The rate of requests: the user's, the largest within the limit, or nine tenths of the capacity."""
    capacity: float = shown(of_row=lambda run: f"{rate_text(run.capacity)} requests/s")
    """1/s. The rate that all steps together carry."""
    bottleneck: str
    """The step that takes most of a resource that is full first."""
    lone: float = shown("a lone request", short_seconds, remark="")
    """s. The latency of a request that meets no other."""
    p50: float = shown(format=short_seconds)
    """s. The median latency at the rate."""
    latency: float = shown(format=short_seconds, remark="at the percentile")
    """s. The latency at the percentile and the rate."""
    steps: tuple[EnsembleStep, ...]
    points: tuple[LoadPoint, ...] = shown(title="Loads", default=())
    """The latencies at shares of the rate."""
    is_in_time: bool = shown(
        "verdict", hide_if=True, of_row=lambda run: _lateness(run.latency, run.limit), default=True
    )
    """Whether the latency is within the limit."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""
