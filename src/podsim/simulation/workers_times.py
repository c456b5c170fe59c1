"""How long each worker computes in each step: noise, slow workers, workers that grow hot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from podsim.axes import Floats, Shaped


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What a step of a replica takes."""

    compute: float
    """s. The mean time of a replica that nothing slows."""
    jitter: float = 0.0
    """factor. The standard deviation of the logarithm of each step's duration (lognormal, with the same mean)."""
    slow: Mapping[int, float] = field(default_factory=dict)
    """The slowdown of each slow replica."""
    throttle: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """The replicas that grow hot: (final slowdown, s of computing until 63 % of it)."""


def step_seconds(pace: Pace, steps: int, replicas: int, rng: np.random.Generator) -> Floats:
    """Seconds of each step of each replica, shape [step, replica].

    A throttled replica that has computed for b seconds takes 1 + (f - 1) (1 - exp(-b / tau)) times as long. Waiting does
    not cool it: a replica that waits much heats less than this in truth.
    """
    noise = rng.standard_normal((steps, replicas)) * pace.jitter - pace.jitter**2 / 2  # [step, replica]
    seconds = pace.compute * np.exp(noise)  # [step, replica]
    for replica, factor in pace.slow.items():
        seconds[:, replica] *= factor
    for replica, (factor, tau) in pace.throttle.items():
        busy = 0.0
        for step in range(steps):
            seconds[step, replica] *= 1.0 + (factor - 1.0) * -np.expm1(-busy / tau)
            busy += float(seconds[step, replica])
    return seconds


def round_seconds(seconds: Shaped[Floats, "step replica"], every: int, members: int, inside: float) -> Floats:
    """Seconds of each round of each worker, shape [round, worker].

    A worker is `members` replicas in a row. With more than one it takes in each round as long as its slowest, and
    `inside` seconds to add up their gradients; `every` steps make a round.
    """
    steps, replicas = seconds.shape
    assert steps % every == 0, (steps, every)
    assert replicas % members == 0, (replicas, members)
    rounds = seconds.reshape(steps // every, every, replicas).sum(axis=1)  # [round, replica]
    grouped = rounds.reshape(steps // every, replicas // members, members)
    return np.asarray(grouped.max(axis=2) + (inside if members > 1 else 0.0))
