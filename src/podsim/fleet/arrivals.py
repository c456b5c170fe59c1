"""A model of arrivals: random jobs with a daily rhythm, long-tailed lengths and sizes in powers of two."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError, unknown_name
from podsim.fleet.jobs import JobColumns, Jobs, make_jobs
from podsim.units import parse_quantity

_DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """The distribution of jobs and arrivals.

    Lengths are log-normal.  The default median and sizes are those of the four complete Philly VCs in the package
    (10,879 jobs: median 7,696 s; 43, 4, 18, 28, 4 and 2 % of 1 to 32 GPUs).  The deviation is smaller than theirs (with
    3.2, a few jobs of months would be the entire load). Rhythm, users, load and overrun are assumptions.
    Gaps between arrivals are exponential, with a rate that varies by `rhythm` over the day.
    """

    jobs: int
    load: float = 0.8
    """factor. The requested GPU-seconds over those of the machine while jobs arrive."""
    median: float = 7700.0
    """s. The median length."""
    spread: float = 2.0
    """factor. The standard deviation of the logarithm of the length."""
    longest: float = 30 * 86400.0
    """s. The largest length."""
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    weights: tuple[float, ...] = (0.43, 0.04, 0.18, 0.28, 0.05, 0.02)
    """The weight of each size."""
    rhythm: float = 0.5
    """share. The swing of the rate over a day: 0 for a constant rate, 1 for none at the quietest time."""
    users: int = 50
    overrun: float = 2.0
    """factor. The largest limit over length (uniform from 1); 1: limits are lengths."""

    def __post_init__(self) -> None:
        """Raise PodsimError with all impossible values."""
        counts = {"jobs": (self.jobs, 1, 20_000_000), "users": (self.users, 1, 1_000_000)}
        real = {
            "load": (self.load, 1e-6, 1e6), "median": (self.median, 1e-3, 1e9), "spread": (self.spread, 0.0, 10.0),
            "longest": (self.longest, 1e-3, 1e10), "rhythm": (self.rhythm, 0.0, 1.0), "overrun": (self.overrun, 1.0, 1e6),
        }  # fmt: skip
        problems = [
            f"{name}={value}; it must be {low:g} to {high:g}"
            for name, (value, low, high) in {**counts, **real}.items()
            if not low <= value <= high
        ]
        if len(self.sizes) != len(self.weights) or not self.sizes or min(self.sizes) < 1:
            problems.append("sizes must be at least 1, with a weight each")
        elif min(self.weights) < 0 or sum(self.weights) <= 0:
            problems.append("weights must not be negative, nor all 0")
        if problems:
            raise PodsimError("arrivals: " + "; ".join(problems))


def draw_jobs(arrivals: Arrivals, gpus: int, rng: np.random.Generator, *, warm: bool = False) -> Jobs:
    """Random jobs for a machine of `gpus` GPUs, of sizes that fit it; `warm`: with jobs in progress at the start."""
    n = arrivals.jobs
    fits = np.array(
        [
            weight if size <= gpus else 0.0
            for size, weight in zip(arrivals.sizes, arrivals.weights, strict=True)
        ]
    )
    if fits.sum() <= 0:
        raise PodsimError(f"arrivals: no size of {arrivals.sizes} fits {gpus} GPUs")
    size = rng.choice(np.array(arrivals.sizes), n, p=fits / fits.sum())
    length = np.minimum(arrivals.median * np.exp(arrivals.spread * rng.standard_normal(n)), arrivals.longest)
    limit = length * rng.uniform(1.0, arrivals.overrun, n)
    span = float((length * size).sum()) / (gpus * arrivals.load)
    user = np.minimum(rng.zipf(1.5, n), arrivals.users)
    submit = _arrival_times(arrivals, span, rng)
    begun, left = _jobs_in_progress(size, length, min(arrivals.load, 1.0) * gpus if warm else 0.0, rng)
    columns = (
        (np.zeros(len(begun)), submit),
        (size[begun], size),
        (left, length),
        (left, limit),
        (user[begun], user),
    )
    submit, size, length, limit, user = (np.concatenate(parts) for parts in columns)
    made = JobColumns(
        ids=range(len(submit)), submit=submit, gpus=size, seconds=length, limit=limit,
        user=[f"user {u}" for u in range(1, arrivals.users + 1)], user_of=user - 1, warm=len(begun),
    )  # fmt: skip
    return make_jobs(made, source=f"model of arrivals: {n:,} jobs, load {arrivals.load:g} of {gpus:,} GPUs")


def _jobs_in_progress(
    size: Ints, length: Floats, gpus: float, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """(jobs that hold `gpus` GPUs together, s that each has left), as an observer of a long stream sees them.

    An observer meets a job with a chance in proportion to its length, at any time of its run (renewal theory).
    """
    chosen = rng.choice(len(length), int(gpus / size.min()) + 1, p=length / length.sum())
    chosen = chosen[np.cumsum(size[chosen]) <= gpus]
    return chosen, length[chosen] * rng.uniform(size=len(chosen))


def _arrival_times(arrivals: Arrivals, span: float, rng: np.random.Generator) -> Floats:
    """The arrivals of a Poisson process with rate 1 + rhythm sin(time of day), in order, from 0 to `span`."""
    flat = np.cumsum(rng.exponential(1.0, arrivals.jobs))
    flat -= flat[0]
    depth = arrivals.rhythm * _DAY / (2 * np.pi)
    # expected arrivals up to each time, in seconds of mean rate: the last so many that its time is `span`
    goal = flat / (flat[-1] or 1.0) * (span + depth * (1 - np.cos(2 * np.pi * span / _DAY)))
    time = goal.copy()
    for _ in range(60):  # time + depth (1 - cos) = goal has one solution, as its slope is at least 1 - rhythm
        slope = 1 + arrivals.rhythm * np.sin(2 * np.pi * time / _DAY)
        step = (time + depth * (1 - np.cos(2 * np.pi * time / _DAY)) - goal) / np.maximum(slope, 0.5)
        time -= step
        if np.abs(step).max() < 1e-6:
            break
    return np.maximum.accumulate(np.maximum(time, 0.0))


def read_arrivals(text: str) -> Arrivals:
    """Arrivals of a text such as 10000, or jobs=10000,load=0.9,median=2h."""
    units = {"median": "s", "longest": "s"}
    known = [field.name for field in fields(Arrivals) if field.name not in ("sizes", "weights")]
    values: dict[str, Any] = {}
    for index, part in enumerate(text.split(",")):
        key, equals, value = part.partition("=")
        if not equals and index == 0:
            key, value = "jobs", part
        if key.strip() not in known:
            raise PodsimError(
                f"arrivals: {unknown_name('figure', key.strip(), known)}; such as arrivals:jobs=10000,load=0.9"
            )
        number = parse_quantity(value.strip(), units.get(key.strip(), ""), what=f"arrivals: {key.strip()}")
        values[key.strip()] = int(number) if key.strip() in ("jobs", "users") else number
    if "jobs" not in values:
        raise PodsimError("arrivals: how many jobs? Such as arrivals:10000 or arrivals:jobs=10000,load=0.9")
    return Arrivals(**values)
