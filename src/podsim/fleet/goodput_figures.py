"""The figures of a run with failures: efficiency by interval, quantiles, histogram and losses."""

from __future__ import annotations

import math

import numpy as np

from podsim.answers.runs import LOSSES, IntervalPoint
from podsim.fleet.reliability import (
    LongRun,
    best_interval_seconds,
    failure_free_seconds,
    overhead,
    steady_restart_seconds,
)
from podsim.fleet.reliability_runs import RunSamples

_BINS = 40


_CURVE = 81


def run_efficiency(run: LongRun, interval: float, blocked: float) -> float:
    """Share of the time of a run that is training, at an interval between checkpoints."""
    pays = overhead(
        interval,
        stall=run.stall,
        mtbf=run.mtbf,
        restart=steady_restart_seconds(run, run.mtbf),
        persist=run.persist,
    )
    return (1.0 - blocked) / float(pays)


def efficiency_curve(run: LongRun, blocked: float) -> tuple[IntervalPoint, ...]:
    """Efficiency from a twentieth of the best interval to twenty times it, equal steps of the logarithm."""
    middle = float(best_interval_seconds(run.stall, run.mtbf))
    low, high = min(middle, run.interval) / 20.0, max(middle, run.interval) * 20.0
    low = max(low, run.persist)
    wanted = np.geomspace(low, high, _CURVE).tolist()
    return tuple(IntervalPoint(interval=t, efficiency=run_efficiency(run, t, blocked)) for t in wanted)


def make_histogram(samples: RunSamples) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Edges and counts of the runs that end, but for the longest hundredth; one bin where all take the same time."""
    ended = samples.seconds[np.isfinite(samples.seconds)]
    if not ended.size:
        return (), ()
    kept = np.sort(ended)[: math.ceil(0.99 * ended.size)]
    low, high = float(kept[0]), float(kept[-1])
    if high <= low * (1.0 + 1e-9):
        return (low, low), (int(ended.size),)
    counts, edges = np.histogram(ended, bins=_BINS, range=(low, high))
    return tuple(edges.tolist()), tuple(counts.tolist())


def mean_losses(run: LongRun, samples: RunSamples) -> dict[str, float]:
    """The mean run's time by cause; repeated work is the remainder."""
    ended = np.isfinite(samples.seconds)
    if not ended.any():
        return {}
    mean = float(samples.seconds[ended].mean())
    losses = {
        "training": run.work,
        "checkpoints": failure_free_seconds(run) - run.work,
        "restarting": float(samples.restarting[ended].mean()),
        "waiting": float(samples.waiting[ended].mean()),
        "slow": float(samples.slowed[ended].mean()),
    }
    losses["repeated"] = max(mean - sum(losses.values()), 0.0)
    return {name: losses[name] for name in LOSSES}
