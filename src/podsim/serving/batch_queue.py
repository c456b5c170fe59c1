"""A server that answers requests in batches: the latency of each request, and the largest rate within a bound.

Requests wait in one queue. An idle GPU takes as many as its largest batch holds, as soon as that many wait or the oldest
has waited for the queue delay. A batch takes seconds that depend on its work alone: the sum of its requests' sizes.

Source: the dynamic batcher of Triton and the server scenario of MLPerf Inference (one queue, a batch of what waits).
Known error: that of sampling, against the mean waits of M/D/1 and of M/D/1 with unlimited batches. Limits: no failures,
no priorities; GPUs are equal.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from podsim.answers.quantiles import quantile
from podsim.axes import Floats

_SEED = 20260
_STEPS = 14
"""halvings of the interval of rates; 2^-14 of it is left"""
QUERIES = 24_000
"""The number of requests of one simulated run of a search."""
_GRAIN = 4
"""steps of a request in which the work of a batch is rounded"""
_SPREAD = 2
"""factor. The work of a batch over that of as many mean requests, at most"""
_WARM = 0.1
"""share. The share of the first requests, which find an empty server, that no percentile counts."""


@dataclass(frozen=True, kw_only=True)
class BatchServer:
    """GPUs that answer requests in batches."""

    batches: Floats
    """count. The ascending batch sizes whose times are known, from 1; shape (sizes,)."""
    seconds: Floats
    """s. The time of a batch of each size; shape (sizes,)."""
    servers: int = 1
    """The number of equal GPUs behind the queue."""
    delay: float = 0.0
    """s. The longest wait of the oldest request for a fuller batch."""
    fixed: float = 0.0
    """s. The time of a request outside the queue and the GPU."""

    @property
    def largest(self) -> int:
        """The largest batch."""
        return int(self.batches[-1])

    @property
    def capacity(self) -> float:
        """1/s. The rate that all GPUs reach with the batch of the best throughput."""
        return float((self.batches / self.seconds).max()) * self.servers

    def batch_seconds(self, work: Floats) -> Floats:
        """s. The time of batches of some work, in mean requests; linear between known sizes and beyond them."""
        if len(self.batches) == 1:
            return np.asarray(self.seconds[0] * np.maximum(work, 1.0))
        slopes = np.diff(self.seconds) / np.diff(self.batches)
        below = np.minimum(work - self.batches[0], 0.0) * slopes[0]
        above = np.maximum(work - self.batches[-1], 0.0) * slopes[-1]
        return np.asarray(np.interp(work, self.batches, self.seconds) + below + above)


@dataclass(frozen=True, kw_only=True)
class QueueRun:
    """What one simulated run of requests measured."""

    rate: float
    """1/s. The rate of arrivals."""
    latency: Floats
    """s. The time from a request's arrival to its answer, warm-up left out; shape (requests,)."""
    batch: float
    """The mean number of requests of a batch."""
    busy: float
    """share. The share of time in which a GPU computes."""

    def percentile(self, share: float) -> float:
        """s. The latency that a share of the requests does not exceed."""
        return quantile(self.latency, share)


def poisson_gaps(requests: int) -> Floats:
    """Gaps between requests of a Poisson process of rate 1, the first before the first request."""
    return np.random.default_rng(_SEED).exponential(size=requests)


def simulate_queue(server: BatchServer, arrivals: Floats, work: Floats | None = None) -> QueueRun:
    """The run of requests that arrive at ascending times; `work` is the size of each in mean requests (1 if None)."""
    sizes = None if work is None else [0.0, *np.cumsum(work).tolist()]
    times = arrivals.tolist()
    known = server.batch_seconds(np.arange(0.0, server.largest * _SPREAD * _GRAIN + 1) / _GRAIN).tolist()
    free = [0.0] * server.servers
    ends = np.empty(len(times))
    first, batches, busy, limit = 0, 0, 0.0, server.largest
    while first < len(times):
        start = max(free[0], times[first])
        full = first + limit - 1
        filled = times[full] if full < len(times) else math.inf
        start = max(start, min(times[first] + server.delay, filled))
        last = min(bisect_right(times, start, first, min(first + limit, len(times))), first + limit)
        count = last - first
        held = count if sizes is None else sizes[last] - sizes[first]
        seconds = known[min(int(held * _GRAIN + 0.5), len(known) - 1)]
        heapq.heapreplace(free, start + seconds)
        ends[first:last] = start + seconds
        first, batches, busy = last, batches + 1, busy + seconds
    warm = int(len(times) * _WARM)
    span = max(float(ends.max()) - times[0], 1e-12)
    return QueueRun(
        rate=len(times) / max(times[-1], 1e-12), latency=(ends - arrivals)[warm:] + server.fixed,
        batch=len(times) / batches, busy=min(busy / (server.servers * span), 1.0),
    )  # fmt: skip


def poisson_run(
    server: BatchServer, rate: float, *, requests: int = QUERIES, work: Floats | None = None
) -> QueueRun:
    """The run of Poisson arrivals at `rate` requests per second."""
    return replace(simulate_queue(server, np.cumsum(poisson_gaps(requests)) / rate, work), rate=rate)


def largest_rate(
    run: Callable[[float], QueueRun], most: float, *, percentile: float, limit: float
) -> QueueRun | None:
    """The run at the largest rate up to `most` whose percentile is within the limit, by bisection; None if none is.

    Runs share their random gaps, so the percentile grows with the rate but for batches that fill by chance.
    """
    best = _passed(run, most, percentile, limit)
    if best is not None:
        return best
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        passed = _passed(run, middle, percentile, limit)
        low, high, best = (middle, high, passed) if passed else (low, middle, best)
    return best


def _passed(
    run: Callable[[float], QueueRun], rate: float, percentile: float, limit: float
) -> QueueRun | None:
    result = run(rate)
    return result if result.percentile(percentile) <= limit else None
