"""Streams that send a request each period: chunks of speech, frames of video. How many GPUs of some kind carry.

Streams start at random times, and each sends a request every period. Requests wait in one queue for batches, as in
`batch_queue`. The most streams are those whose latency at a percentile is within the limit, and that no other unit (the
decoders of video) limits first.

Source: counting and simulation. Known error: none published here. Limits: no lost packets, no silence between words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from podsim.answers.scenario_run import LoadPoint
from podsim.axes import Floats
from podsim.errors import NoFitError
from podsim.serving.batch_queue import BatchServer, QueueRun, simulate_queue
from podsim.serving.bisection import largest_number
from podsim.serving.scenarios import load_point
from podsim.units import format_quantity

_SEED = 7
_REQUESTS = 40_000
"""The number of requests of a run, about."""
_PERIODS = (12, 400)
"""the least and the most periods of a run"""
_LOADS = (0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What each stream sends, and what limits it."""

    period: float
    """s. The time between two requests of a stream."""
    limit: float
    """s. The limit of the latency at the percentile."""
    percentile: float = 0.99
    """share. The share of requests that the limit covers."""
    others: Mapping[str, float] | None = None
    """count. The streams that each other unit carries, such as the decoders."""


def stream_arrivals(streams: int, period: float) -> Floats:
    """Ascending times of requests of streams that start at random within a period, shape (requests,)."""
    periods = int(np.clip(_REQUESTS // streams, *_PERIODS))
    starts = np.sort(np.random.default_rng(_SEED).random(streams)) * period
    return (starts + period * np.arange(periods)[:, np.newaxis]).ravel()


def run_streams(server: BatchServer, streams: int, period: float) -> QueueRun:
    """The run of some streams."""
    return replace(simulate_queue(server, stream_arrivals(streams, period)), rate=streams / period)


def carried_streams(server: BatchServer, asked: Streams) -> dict[str, float]:
    """Streams that each unit carries: `inference` by simulation within the limit, and the other units.

    Raises NoFitError where not even one stream is within the limit.
    """

    def is_in_time(streams: int) -> bool:
        run = run_streams(server, streams, asked.period)
        return run.percentile(asked.percentile) <= asked.limit and _is_steady(run, asked.period)

    most = largest_number(is_in_time, 0, max(int(server.capacity * asked.period), 1))
    if most == 0:
        lone = format_quantity(float(server.seconds[0]) + server.fixed, "s")
        raise NoFitError([
            f"one stream sends a request each {format_quantity(asked.period, 's')}, and an answer takes {lone} at least; "
            f"the limit is {format_quantity(asked.limit, 's')}. Give a longer --latency or a faster GPU"
        ])  # fmt: skip
    return {"inference": float(most), **(asked.others or {})}


def _is_steady(run: QueueRun, period: float) -> bool:
    """Whether latencies do not grow from the first half of a run to the second."""
    half = len(run.latency) // 2
    return bool(run.latency[half:].mean() <= 1.5 * run.latency[:half].mean() + 0.01 * period)


def stream_points(server: BatchServer, asked: Streams, most: int) -> tuple[LoadPoint, ...]:
    """What requests see with shares of the most streams."""
    counts = sorted({max(1, round(most * share)) for share in _LOADS})
    return tuple(load_point(run_streams(server, count, asked.period), count / most) for count in counts)
