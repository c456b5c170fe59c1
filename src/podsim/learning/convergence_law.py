"""Samples to a target against the batch: a law with a prior, reference points, and a band.

    samples(B) = S0 (1 + B / Bcrit) x deviation(B)

Below the critical batch Bcrit a larger batch needs as many samples, far above it as many steps (McCandlish et al. 2018,
arxiv.org/abs/1812.06162). The logarithm of the deviation is a Gaussian process over log B: recipes of neighbouring
batches share their luck. Points of another round of a benchmark share one offset.

A few points cannot say Bcrit, so its values keep weights: prior times likelihood. All benchmarks share the prior, which
was chosen on their rows marked calibrate. Known error: 4 % of a batch that was left out (docs/time-to-train.md).
Limits: a recipe that changes with the batch (LoRA at 128, CosmoFlow) follows no smooth law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats
from podsim.errors import PodsimError

_BAND = 1.2816
"""standard deviations. Half the width of a band that holds 80 %."""
_MOST_EVALUATIONS = 4000
_LEAST_SCATTER = 0.03
"""share. The scatter of runs behind equal evaluations."""
_normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0)), otypes=[np.float64])


@dataclass(frozen=True, kw_only=True)
class ReferencePoint:
    """Samples that training with a batch needed to the target: the mean of some seeds."""

    batch: float
    samples: float
    scatter: float | None = None
    """share. The standard deviation of one run over the mean; 0 if every seed needed the same, None if unknown."""
    seeds: int = 1
    """count. The number of runs."""
    round: str = ""
    """The round of the benchmark in which the point was published."""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class ConvergencePrior:
    """What is known of every benchmark before its points."""

    critical: float = 0.9
    """factor. The logarithm of the critical batch over the largest batch that was published."""
    critical_sigma: float = 0.6
    """factor. The standard deviation of that logarithm."""
    deviation: float = 0.04
    """factor. The standard deviation of the logarithm of a point from the law."""
    length: float = 2.0
    """factor. The distance of logarithms of batches over which deviations agree."""
    noise: float = 0.01
    """factor. The standard deviation of the logarithm of a point from its neighbours."""
    offset: float = 0.12
    """factor. The standard deviation of the logarithm of a round from another."""
    run: float = 0.066
    """share. The standard deviation of one run over the mean, where no seeds were published."""


PRIOR = ConvergencePrior()


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """Samples to a target with some batches."""

    batches: Floats
    """count. The samples of a step."""
    samples: Floats
    """count. The samples until the target is reached, in expectation."""
    low: Floats
    """count. The samples of a lucky run: one run in ten needs fewer."""
    high: Floats
    """count. The samples of an unlucky run: one run in ten needs more."""


@dataclass(frozen=True, kw_only=True)
class ConvergenceLaw:
    """Samples to a target against the batch; `quantum` samples lie between two evaluations, 0 if that is unknown."""

    points: tuple[ReferencePoint, ...]
    quantum: float = 0.0
    round: str = ""
    """The round whose recipe is asked for; points of others share an offset."""
    prior: ConvergencePrior = field(default=PRIOR)

    def __post_init__(self) -> None:
        """Hold the rules; raises PodsimError."""
        bad = [point for point in self.points if not (point.batch > 0 and point.samples > self.quantum / 2)]
        if not self.points or bad:
            raise PodsimError(
                "a law of convergence needs points with a batch and samples above 0"
                + (f", not batch={bad[0].batch:g} samples={bad[0].samples:g}" if bad else "")
            )

    @property
    def smallest(self) -> float:
        """count. The smallest batch that was published."""
        return min(point.batch for point in self.points)

    @property
    def largest(self) -> float:
        """count. The largest batch that was published."""
        return max(point.batch for point in self.points)

    @property
    def critical_batch(self) -> float:
        """count. The batch that needs twice the samples of a small one."""
        return float(math.exp(self._solved[4] @ self._log_critical))

    def __call__(self, batches: Iterable[float] | Floats) -> Convergence:
        """The samples to the target with each batch; raises PodsimError for a batch that is not above 0."""
        batch = np.atleast_1d(np.asarray(batches, dtype=np.float64))
        if not (np.isfinite(batch).all() and (batch > 0).all()):
            raise PodsimError("a batch is a number of samples above 0")
        log_mean, log_sigma = self._posterior(np.log(batch))
        run = self.scatter
        latent = np.exp(log_mean)
        samples = self._evaluated(latent, run)
        spread = np.exp(_BAND * np.sqrt(log_sigma**2 + run**2))
        low, high = samples / spread, samples * spread
        return Convergence(batches=batch, samples=samples, low=low, high=high)

    @property
    def scatter(self) -> float:
        """share. The standard deviation of one run over the mean."""
        known = [point.scatter for point in self.points if point.scatter is not None]
        return float(np.median(known)) if known else self.prior.run

    def _evaluated(self, latent: Floats, run: float) -> Floats:
        """Samples at the first evaluation that can see the target, in expectation over runs that scatter."""
        if not self.quantum or latent.max() / self.quantum > _MOST_EVALUATIONS:
            return latent + self.quantum / 2
        at = np.arange(math.ceil(latent.max() / self.quantum * (1 + 6 * run)) + 2) * self.quantum
        sigma = np.maximum(run, 0.02) * latent
        seen: Floats = _normal((latent[:, None] - at) / sigma[:, None])
        return np.asarray(self.quantum * seen.sum(axis=1))

    @cached_property
    def _log_critical(self) -> Floats:
        """Logarithms of the critical batches that keep a weight."""
        prior = self.prior
        return math.log(self.largest) + prior.critical + prior.critical_sigma * np.linspace(-5, 5, 121)

    def _growth(self, log_batch: Floats) -> Floats:
        """log(1 + B / Bcrit) for each critical batch, [cells, batches]."""
        return np.logaddexp(0.0, log_batch[None] - self._log_critical[:, None])

    def _kernel(self, left: Floats, right: Floats, same_round: NDArray[np.bool_]) -> Floats:
        """Covariance of the logarithms of two sets of points."""
        prior = self.prior
        near = prior.deviation**2 * np.exp(-np.abs(left[:, None] - right[None]) / prior.length)
        return np.asarray(near + prior.offset**2 * same_round)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """(log batches, inverse of the covariance, log S0, residuals and weights of each cell)."""
        prior, points = self.prior, self.points
        x = np.log([point.batch for point in points])
        latent = np.array([point.samples for point in points]) - self.quantum / 2
        rounds = np.array([point.round for point in points])
        noise = prior.noise**2 + np.array([self._variance(point) for point in points])
        same = (rounds[:, None] == rounds[None]) & (rounds != self.round)[:, None]
        inverse = np.linalg.inv(self._kernel(x, x, same) + np.diag(noise))
        raw = np.log(latent)[None] - self._growth(x)
        level = (raw @ inverse).sum(axis=1) / inverse.sum()
        residuals = raw - level[:, None]
        beyond = (self._log_critical - math.log(self.largest) - prior.critical) / prior.critical_sigma
        log_weight = -0.5 * (np.einsum("ci,ij,cj->c", residuals, inverse, residuals) + beyond**2)
        weights: Floats = np.exp(log_weight - log_weight.max())
        return np.asarray(x), np.asarray(inverse), level, residuals, weights / weights.sum()

    def _variance(self, point: ReferencePoint) -> float:
        """Variance of the logarithm of a point: its seeds, and what an evaluation hides between two."""
        scatter = self.prior.run if point.scatter is None else (point.scatter or _LEAST_SCATTER)
        step = self.quantum / point.samples
        hidden = max(0.0, 1 - 2 * (point.scatter or 0.0) / step) if step else 0.0
        return scatter**2 / point.seeds + hidden * step**2 / 12

    def _posterior(self, log_batch: Floats) -> tuple[Floats, Floats]:
        """(mean, standard deviation) of the logarithm of the samples before an evaluation sees the target."""
        x, inverse, level, residuals, weights = self._solved
        cross = self._kernel(log_batch, x, np.zeros((len(log_batch), len(x)), dtype=bool)) @ inverse
        cells = level[:, None] + self._growth(log_batch) + residuals @ cross.T
        mean = weights @ cells
        own = self.prior.deviation**2 + self.prior.noise**2
        near = own - np.einsum("bi,ij,bj->b", cross, np.linalg.inv(inverse), cross)
        level_variance = (1 - cross.sum(axis=1)) ** 2 / inverse.sum()
        between = weights @ (cells - mean[None]) ** 2
        return mean, np.sqrt(np.maximum(near, 0.0) + level_variance + between)
