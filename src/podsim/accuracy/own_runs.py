"""What a few measured runs of the user say of another plan: three unknowns of the machine, by Bayes' rule.

A step is kernels, exposed communication, and waiting for the host. Each takes a factor of the law's time, 1 before any
run. A run tells of a cause as far as its step consists of it: runs on one node say little of the network, and leave the
law's time for it. The spreads were chosen on calibrate rows whose source had been left out of the fit of constants.

Axes: R runs, 3 causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import expm1, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from podsim.accuracy.measured_rows import read_measured
from podsim.accuracy.own_step import slowed
from podsim.accuracy.price_llm import training_runs
from podsim.answers.prediction import Band, Prediction, RunsCorrection
from podsim.errors import TableError
from podsim.training.batch import step_cost
from podsim.training.step import SPLIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPREAD = {"compute": 0.1, "communication": 0.5, "host": 0.5}
"""log. The spread of each cause's factor over sources."""
_NOISE = 0.045
"""log. What one run differs from the law for causes of its own."""
_CAUSE = {
    "bubble": -1, "launch": 2, "host": 2, **dict.fromkeys(("tp", "cp", "ep", "pp", "dp"), 1),
}  # fmt: skip
"""Part of a step -> position of its cause; -1 for waiting, which is of all causes; other parts are compute."""
_SIDE = 1.2816
"""Standard deviations on each side of an interval of 80 %."""


class Learned(NamedTuple):
    """The unknowns after some runs."""

    mean: NDArray[np.float64]
    """log, [causes]. The logarithm of each cause's factor."""
    covariance: NDArray[np.float64]
    """log^2, [causes, causes]"""


def cause_shares(parts: Mapping[str, float]) -> NDArray[np.float64]:
    """share, [causes]. The part of a step's time, waiting for other stages aside, that each cause takes."""
    shares = np.zeros(len(_SPREAD))
    for name, seconds in parts.items():
        if _CAUSE.get(name, 0) >= 0:
            shares[_CAUSE.get(name, 0)] += seconds
    return np.asarray(shares / shares.sum())


def learn(shares: NDArray[np.float64], ratios: NDArray[np.float64]) -> Learned:
    """The unknowns after R runs: shares [R, causes], and the logarithms of measured over law time [R].

    Runs that differ by more than the noise weigh less (Huber), so that one odd run does not decide.
    """
    prior = np.diag([1.0 / spread**2 for spread in _SPREAD.values()])
    mean, weights = np.zeros(len(_SPREAD)), np.ones(len(ratios))
    for _ in range(8):
        slow = shares * np.exp(mean)
        slope = slow / slow.sum(axis=1, keepdims=True)
        target = ratios - np.log(slow.sum(axis=1)) + slope @ mean
        precision = (slope.T * weights) @ slope / _NOISE**2 + prior
        mean = np.linalg.solve(precision, (slope.T * weights) @ target / _NOISE**2)
        off = np.abs(ratios - np.log((shares * np.exp(mean)).sum(axis=1)))
        weights = 1.0 / np.maximum(1.0, off / _NOISE)
    return Learned(mean, np.linalg.inv(precision))


def with_runs(prediction: Prediction, file: str | Path) -> Prediction:
    """The prediction after the measured runs of a file with the columns of a training table.

    Raises TableError where no row has a measured step that podsim can price, with the reason of the first.
    """
    rows = [row.fields for row in read_measured(file).rows]
    runs, reasons = training_runs(rows)
    shares, ratios = [], []
    for position, run in runs:
        if run.layer_only or not rows[position].get("step_time_s"):
            continue
        cost = step_cost(run.model, run.cluster, run.plan)
        shares.append(cause_shares(dict(zip(SPLIT, cost.parts[:, 0].tolist(), strict=True))))
        ratios.append(log(float(rows[position]["step_time_s"]) / float(cost.seconds[0])))
    if not ratios:
        why = next(iter(reasons.values()), "no row has step_time_s, the seconds of a step")
        raise TableError(f"{Path(file).name}: no run to learn from: {why}")
    return _after(prediction, learn(np.array(shares), np.array(ratios)), len(ratios))


def _after(prediction: Prediction, learned: Learned, runs: int) -> Prediction:
    """The prediction with the time of each part scaled by the factor of its cause, and the spread left as its band."""
    factors, shares = np.exp(learned.mean), cause_shares(prediction.parts)
    factor = float(factors @ shares)
    scale = [*factors.tolist(), factor]  # -1: waiting
    parts = {name: seconds * scale[_CAUSE.get(name, 0)] for name, seconds in prediction.parts.items()}
    slope = factors * shares / factor
    side = _SIDE * sqrt(float(slope @ learned.covariance @ slope) + _NOISE**2)
    moved = max(zip(np.abs(slope * learned.mean).tolist(), _SPREAD, strict=True))[1]
    return replace(
        slowed(prediction, factor), parts=parts,
        band=Band(
            low=expm1(-side), high=expm1(side), rows=runs, basis=f"80 % interval after {runs} measured runs of yours"
        ),
        own_runs=RunsCorrection(
            runs=runs, law_time=prediction.step_time, moved=moved,
            **dict(zip(_SPREAD, factors.tolist(), strict=True)),
        ),
    )  # fmt: skip
