"""How much slower a network learns when replicas do not exchange every gradient at once: laws of podsim's own small runs.

    server   rounds grow by (1 + staleness)^a W^b: gradients that are late, and W small updates instead of a large one
    local    rounds grow by W^(c + d ln H): W replicas take the mean of their weights after H steps
    diloco   rounds grow by e^(c + d ln H): an outer optimizer moves the weights after H steps

Rounds are steps of the whole batch, and the growth is against an exchange of all gradients after every step. Staleness
is the mean number of others' updates between a worker's read and its write, as `podsim workers` plays it. The growth is
never below 1, although DiLoCo's outer momentum was a gain in some of the runs.

Source: `staleness_runs.csv`, made by scripts/staleness_runs.py: gpt-tiny with 2 layers and sequences of 32 tokens, AdamW
at 3e-3, 32 sequences a round, 2, 4 and 8 workers, bounds of 1, 2, 4 and none, with and without a worker three times
slower; weights exchanged after 4 and 16 steps; two seeds. Known error: the mean over these runs, as `error` says. Limits:
one small network, optimizer and batch; more than 8 workers are an extrapolation. Published runs of large networks differ
in size and sign: DiLoCo's authors report no loss at 500 steps on a pre-trained network, and this one starts from nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from podsim.errors import PodsimError
from podsim.packaged import packaged_csv

BATCH = 32
MOST_WORKERS = 8
"""workers of the runs that the laws are fitted to"""
_EARLIEST = 2400
"""samples before which a run says more of its start than of its exchange"""


class StalenessRun(NamedTuple):
    """One of podsim's own runs."""

    exchange: str
    workers: int
    bound: str
    slow: float
    local_steps: int
    seed: int
    staleness: float


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    """The losses of a run whose gradients are exchanged after every step."""

    name: str
    steps: tuple[float, ...]
    losses: tuple[float, ...]
    """factor. The smallest loss until each step."""

    def steps_to(self, loss: float) -> float:
        """Steps to a loss. Raises PodsimError for a loss that the run does not reach."""
        if not loss >= self.losses[-1]:
            raise PodsimError(
                f"to_loss={loss:g}: {self.name} ends at {self.losses[-1]:.4g} after {self.steps[-1]:,.0f} steps; ask for "
                "a larger loss, or give a longer run with --curve"
            )
        if loss >= self.losses[0]:
            return self.steps[0]
        return float(np.exp(np.interp(-loss, -np.array(self.losses), np.log(self.steps))))


@dataclass(frozen=True, kw_only=True)
class StalenessLaw:
    """The constants of the module's laws."""

    stale: float
    """factor. The power of 1 + staleness."""
    workers: float
    """factor. The power of the number of workers over a server."""
    weights: Mapping[str, tuple[float, float]]
    """factor. The constants c and d of local SGD and of DiLoCo."""
    error: Mapping[str, float]
    """share. The mean error of the growth by exchange."""

    def growth(self, workers: int, staleness: float) -> float:
        """Rounds over a server against those in step; 1 for a single worker."""
        return float((1 + staleness) ** self.stale * workers**self.workers)

    def weights_growth(self, exchange: str, workers: int, local_steps: int) -> float:
        """Rounds of replicas that exchange weights against those that exchange every gradient."""
        log = np.dot(self.weights[exchange], _weights_features(exchange, workers, local_steps))
        return float(np.exp(max(0.0, log)))


def curve_of(name: str, steps: Sequence[float], losses: Sequence[float]) -> LossCurve:
    """A curve from measured losses, which may be noisy: means over a twentieth of them, and the smallest so far."""
    width = max(1, len(losses) // 20)
    kernel = np.ones(width) / width
    smooth = np.minimum.accumulate(np.convolve(losses, kernel, "valid"))
    middle = np.convolve(steps, kernel, "valid")
    return LossCurve(name=name, steps=tuple(middle.tolist()), losses=tuple(smooth.tolist()))


@cache
def staleness_runs() -> Mapping[StalenessRun, tuple[tuple[int, float], ...]]:
    """(samples, held-out loss) of each run."""
    curves: dict[StalenessRun, list[tuple[int, float]]] = defaultdict(list)
    for row in packaged_csv("learning/staleness_runs.csv"):
        run = StalenessRun(
            row["exchange"], int(row["workers"]), row["bound"], float(row["slow"]), int(row["local_steps"]),
            int(row["seed"]), float(row["staleness"]),
        )  # fmt: skip
        curves[run].append((int(row["samples"]), float(row["loss"])))
    return {run: tuple(points) for run, points in curves.items()}


def _curves_in_step() -> dict[int, LossCurve]:
    """The curves of the runs in step, by seed."""
    return {
        run.seed: LossCurve(
            name="podsim's own run", steps=tuple(samples / BATCH for samples, _ in points),
            losses=tuple(np.minimum.accumulate([loss for _, loss in points]).tolist()),
        )
        for run, points in staleness_runs().items()
        if run.workers == 1
    }  # fmt: skip


def own_curve() -> LossCurve:
    """The mean curve of podsim's own runs in step."""
    curves = list(_curves_in_step().values())
    losses = np.mean([curve.losses for curve in curves], axis=0)
    return LossCurve(
        name="podsim's own run of gpt-tiny", steps=curves[0].steps, losses=tuple(losses.tolist())
    )


def measured_growth() -> dict[StalenessRun, float]:
    """The rounds of each run to the losses that it reached, over those in step with the same seed: a geometric mean."""
    in_step = _curves_in_step()
    growth = {}
    for run, points in staleness_runs().items():
        curve = in_step[run.seed]
        logs = [
            math.log(
                samples / BATCH / curve.steps_to(max(loss, curve.losses[-1]))
            )  # below its end: an upper bound
            for samples, loss in points
            if samples >= _EARLIEST and loss <= curve.losses[0]
        ]
        if logs and run.workers > 1:
            growth[run] = math.exp(sum(logs) / len(logs))
    return growth


@cache
def staleness_law() -> StalenessLaw:
    """The laws fitted to podsim's own runs: least squares of the logarithm of the growth."""
    growth = measured_growth()
    served = [run for run in growth if run.exchange == "server"]
    constants, error = _fit(
        [[math.log1p(run.staleness), math.log(run.workers)] for run in served],
        [growth[run] for run in served],
    )
    weights, errors = {}, {"server": error}
    for exchange in sorted({run.exchange for run in growth} - {"server"}):
        runs = [run for run in growth if run.exchange == exchange]
        features = [_weights_features(exchange, run.workers, run.local_steps) for run in runs]
        both, errors[exchange] = _fit(features, [growth[run] for run in runs])
        weights[exchange] = (both[0], both[1])
    return StalenessLaw(stale=constants[0], workers=constants[1], weights=weights, error=errors)


def _weights_features(exchange: str, workers: int, local_steps: int) -> list[float]:
    """The factors of an exchange's two constants in the logarithm of its growth."""
    base = 1.0 if exchange == "diloco" else math.log(workers)
    return [base, base * math.log(local_steps)]


def _fit(features: Sequence[Sequence[float]], growth: Sequence[float]) -> tuple[list[float], float]:
    """(constants, mean error)."""
    matrix, logs = np.array(features), np.log(growth)
    constants = np.linalg.lstsq(matrix, logs, rcond=None)[0]
    return constants.tolist(), float(np.abs(np.exp(matrix @ constants - logs) - 1).mean())
