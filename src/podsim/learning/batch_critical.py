"""Steps to a target against the batch: S = S_min (1 + B_crit / B), so samples are S_min (B + B_crit).

Far below the critical batch, twice the batch halves the steps; far above it, only the samples grow. At the critical batch
a run takes twice the fewest steps, and twice the fewest samples.

Source: McCandlish et al. 2018, section 2.3; Zhang et al. 2024 measured steps by batch. Known error: fitted to batches
up to 4,096 of Zhang's three language models, it is 3 to 22 % off at 8,192 and 16,384, where steps fall less than it says.
Limits: the rate and the schedule must be tuned for each batch, as they were there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.packaged import packaged_csv

LEAST_BATCHES = 3
_ROUNDS = 60


@dataclass(frozen=True, kw_only=True)
class BatchLaw:
    """Steps to a target against the batch."""

    critical: float
    """count. The critical batch in samples."""
    fewest_steps: float
    """The number of steps that no batch goes below."""
    error: float
    """share. The mean distance of the fitted steps from the measured ones."""

    def steps(self, batch: float) -> float:
        """Steps at a batch."""
        return self.fewest_steps * (1 + self.critical / batch)


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One published run."""

    name: str
    role: str
    """The role of the row: calibrate, or test where nothing is fitted to it."""
    study: str
    model: str
    data: str
    optimizer: str
    batch: int
    steps: int | None
    """The number of steps to the target; None where the study gives an accuracy instead."""
    metric: str
    value: float | None
    """factor. The accuracy or error in the metric's unit."""
    notes: str
    source: str


def fit_batch_law(batches: Sequence[float], steps: Sequence[float]) -> BatchLaw:
    """The law of some runs to one target: least squares of the logarithm of steps.

    Raises PodsimError for too few batches, or where steps do not fall with the batch.
    """
    batch, step = np.asarray(batches, float), np.asarray(steps, float)
    if len(np.unique(batch)) < LEAST_BATCHES:
        raise PodsimError(
            f"{len(np.unique(batch))} batches; the law has two constants and needs {LEAST_BATCHES} or more"
        )
    for counts in (batch, step):  # in epochs, a step may be far below 1
        if not (np.isfinite(counts).all() and counts.min() > 1e-9 and counts.max() < 1e30):
            raise PodsimError("batches and steps are positive numbers, below 1e30")
    low, high = np.log(batch.min() / 100), np.log(batch.max() * 100)
    for _ in range(_ROUNDS):  # golden sections
        left, right = high - (high - low) * 0.618034, low + (high - low) * 0.618034
        low, high = (
            (low, right) if _squares(left, batch, step) < _squares(right, batch, step) else (left, high)
        )
    critical = float(np.exp((low + high) / 2))
    if critical < batch.min() / 50:
        raise PodsimError(
            f"steps hardly fall from batch {batch.min():g} to {batch.max():g}: all are above the critical batch; add "
            "smaller ones"
        )
    fewest = float(np.exp((np.log(step) - np.log1p(critical / batch)).mean()))
    law = BatchLaw(critical=critical, fewest_steps=fewest, error=0.0)
    error = float(
        np.mean([abs(law.steps(size) / count - 1) for size, count in zip(batch, step, strict=True)])
    )
    return BatchLaw(critical=critical, fewest_steps=fewest, error=error)


def _squares(log_critical: float, batch: Floats, step: Floats) -> float:
    """The squared distance in the logarithm of steps, with the best fewest steps."""
    return float((np.log(step) - np.log1p(np.exp(log_critical) / batch)).var())


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Runs by batch: published steps to a target or accuracy, and what `podsim scale sharpness` trained."""
    files = ("batch_published", "batch_trained")
    return tuple(
        PublishedRow(
            **{name: value for name, value in row.items() if name not in ("id", "batch", "steps", "value")},
            batch=int(row["batch"]), steps=int(row["steps"]) if row["steps"] else None,
            value=float(row["value"]) if row["value"] else None,
        )
        for file in files
        for row in packaged_csv(f"learning/{file}.csv")
    )  # fmt: skip
