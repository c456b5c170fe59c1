"""Statistics of a simulated server: the warm-up, percentiles, confidence intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from podsim.answers.quantiles import quantile
from podsim.axes import Floats
from podsim.serving.load.load_run import LoadRun
from podsim.serving.load.server_state import GROUPS, gap_edges

_BATCHES = 20
_QUANTILE = 2.093
"""of Student's t with 19 degrees of freedom, 97.5 %"""
_FEW = 20
"""answers while others arrive, below which rates are those of all of a run"""
_MSER = 5
"""values of a batch of MSER-5"""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its 95 % confidence interval."""

    value: float
    half: float
    """The half of the interval's width; infinity for too few values."""


def warm_up(values: Floats) -> int:
    """The number of values at the beginning that a mean should leave out: MSER-5, at most half of them.

    It minimises the standard error of the mean of what is left (White 1997, Simulation 69(6), MSER-5).
    """
    means = values[: len(values) // _MSER * _MSER].reshape(-1, _MSER).mean(axis=1)
    if len(means) < 4:
        return 0
    left = np.arange(len(means), 0, -1)
    total, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    errors = np.maximum(squares - total**2 / left, 0.0) / left.astype(float) ** 2
    return int(np.argmin(errors[: len(means) // 2])) * _MSER


def estimate(
    values: Floats, figure: Callable[[Floats], float] = lambda batch: float(batch.mean())
) -> Estimate:
    """A figure of values in the order of their arrival, with the interval of 20 batches of equal size.

    Batches that still depend on each other widen it: the variance grows by (1 + r) / (1 - r), r the correlation of
    neighbours (an autoregressive process of first order). Schmeiser 1982, Operations Research 30(3), batch means.
    """
    value = figure(values)
    if len(values) < 5 * _BATCHES:
        return Estimate(value=value, half=float("inf"))
    size = len(values) // _BATCHES
    batches = np.array([figure(part) for part in values[: size * _BATCHES].reshape(_BATCHES, size)])
    apart = batches - batches.mean()
    squares = float(apart @ apart)
    related = min(max(float(apart[1:] @ apart[:-1]) / squares, 0.0), 0.9) if squares > 0 else 0.0
    error = np.sqrt(squares / (_BATCHES - 1) / _BATCHES * (1 + related) / (1 - related))
    return Estimate(value=value, half=float(_QUANTILE * error))


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The requests of the steady part of a run, in the order of their arrival."""

    kept: slice
    """The requests after the warm-up and before the end, when no others arrive any more."""
    first_token: Floats
    """s. The time from arrival to first token, of each answered request."""
    each_token: Floats
    """s. The mean time between tokens of those with more than one."""
    end_to_end: Floats
    """s. The time from arrival to the last token."""
    queued: Floats
    """s. The time from arrival to the first step."""
    gap_counts: Floats
    """The number of times between tokens, by bin of `gap_edges`."""
    answered_rate: float
    """1/s. The rate of answers."""
    output_rate: float
    """1/s. The rate of the tokens of answers."""


def measure_run(run: LoadRun) -> Measures:
    """The steady part of a run: MSER-5 of the times to the end cuts the beginning, their 99th percentile the end."""
    count = len(run.table)
    latency = run.done - run.arrival
    answered = np.flatnonzero(run.answered)
    if not len(answered):
        return _measures(run, slice(0, count))
    # the 99th percentile of a stable queue is short; of an overloaded one there is no steady part to keep
    last = run.arrival[-1] - quantile(latency[answered], 0.99)
    end = max(int(np.searchsorted(run.arrival, last)), count - count // 10)
    cut = warm_up(latency[answered[answered < end]])
    start = int(answered[cut]) if cut < len(answered) else 0
    return _measures(run, slice(min(start, end - 1), end))


def _measures(run: LoadRun, kept: slice) -> Measures:
    """The measures of a range of requests."""
    is_answered = run.answered[kept]
    arrival, first, done = (column[kept][is_answered] for column in (run.arrival, run.first, run.done))
    made = run.made[kept][is_answered]
    several = made > 1
    groups = slice(kept.start * GROUPS // len(run.table), -(-kept.stop * GROUPS // len(run.table)))
    begin, end = float(np.min(done, initial=np.inf)), float(run.arrival[-1])
    if (run.answered & (run.done > begin) & (run.done <= end)).sum() < _FEW:
        begin, end = float(run.arrival[0]), float(run.done.max())
    inside = run.answered & (run.done > begin) & (run.done <= end)
    span = max(end - begin, 1e-12)
    return Measures(
        kept=kept, first_token=first - arrival, end_to_end=done - arrival,
        each_token=(done - first)[several] / (made[several] - 1), queued=run.admitted[kept][is_answered] - arrival,
        gap_counts=run.gaps[groups].sum(axis=0).astype(float), answered_rate=float(inside.sum()) / span,
        output_rate=float(run.made[inside].sum()) / span,
    )  # fmt: skip


def gap_percentile(counts: Floats, share: float) -> float:
    """s. A percentile of the times between tokens, linear within its bin (3 % wide); 0 without any."""
    total, edges = counts.sum(), gap_edges()
    if not total:
        return 0.0
    reached = np.cumsum(counts)
    at = int(np.searchsorted(reached, share / 100 * total))
    part = (share / 100 * total - (reached[at] - counts[at])) / counts[at]
    return float(edges[at] + part * (edges[at + 1] - edges[at]))


def saturated_rate(run: LoadRun) -> float:
    """1/s. Answers per second between a tenth and nine tenths of them, of a run whose requests came all at once."""
    done = np.sort(run.done[run.answered])
    first, last = int(len(done) * 0.1), int(len(done) * 0.9)
    return float((last - first) / max(done[last] - done[first], 1e-12)) if last > first else 0.0


def overloaded_rate(run: LoadRun) -> float:
    """1/s. Answers per second while the second half of the requests arrives, more than are answered."""
    begin, end = float(run.arrival[len(run.arrival) // 2]), float(run.arrival[-1])
    inside = run.answered & (run.done > begin) & (run.done <= end)
    return float(inside.sum()) / (end - begin) if end > begin else 0.0
