"""The relative speed of a job on an instance.

    relative speed = 1 / (f + (1 - f) / share),  share = the larger of its shares of compute and of memory slices

relative to the instance of the entire GPU (7g).  f is the share of an iteration that does not depend on the slice: host
time, launches, too little parallel work.  It depends on the job (0 for one that saturates the GPU, 0.9 for a small
convolutional network at a small batch), and follows from one of four kinds of measurements:

    fit_fixed          speeds on several instances
    fixed_by_probe     the speed on one instance, preferably the smallest that holds the job
    fixed_by_work      f at other batches, and times on the GPU at all of them
    fixed_by_batches   times on the GPU alone, at several batches: the time at batch 0 is fixed

Known error: `slice_scores` computes it on 28 measured training jobs (7 models, MISO), by cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.hardware.mig.profiles import Profile, Slicing

SHAPE = 1.04
"""The exponent from the share of time at batch 0 to f; 1.00 to 1.14 whichever model its fit leaves out."""


def share_of(slicing: Slicing, profile: Profile) -> float:
    """The share of the GPU that bounds a saturated job: the larger of those of compute slices and memory slices."""
    return max(profile.compute / slicing.compute_slices, profile.size / slicing.memory_slices)


def relative_speed(fixed: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """The speed on an instance over that on the GPU in MIG mode; both arguments are shares, and broadcast."""
    f = np.asarray(fixed, float)
    return np.asarray(1 / (f + (1 - f) / np.asarray(share, float)))


def fit_fixed(shares: npt.ArrayLike, relative: npt.ArrayLike) -> float:
    """The f of a job from relative speeds on several instances: least squares of the logarithms, within 0 to 1."""
    share, measured = np.asarray(shares, float), np.log(np.asarray(relative, float))
    low, high = 0.0, 1.0
    for _ in range(4):
        grid = np.linspace(low, high, 101)
        loss = ((np.log(relative_speed(grid[:, None], share)) - measured) ** 2).sum(axis=1)
        best = int(loss.argmin())
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 100)])
    return float(grid[best])


def fixed_by_probe(share: float, relative: float) -> float:
    """The f of a job from its relative speed on one instance, within 0 to 1."""
    assert 0 < share < 1, share
    return float(np.clip((1 / relative - 1 / share) / (1 - 1 / share), 0.0, 1.0))


def fixed_by_work(
    batches: Sequence[float], seconds: Sequence[float], fixed: Sequence[float], batch: float, time: float
) -> float:
    """The f at a batch with an iteration of `time` seconds on the GPU, from f and seconds at other batches.

    The part of an iteration that depends on the slice, (1 - f) x seconds, is work of kernels. It grows linearly with
    the batch (least squares of errors relative to an iteration); the rest of the time at `batch` is fixed.
    """
    b, t = np.asarray(batches, float), np.asarray(seconds, float)
    work = (1 - np.asarray(fixed, float)) * t
    (start, slope), *_ = np.linalg.lstsq(np.stack([1 / t, b / t], axis=1), work / t, rcond=None)
    return float(np.clip(1 - (start + slope * batch) / time, 0.0, 1.0))


def fixed_by_batches(batches: Sequence[float], seconds: Sequence[float], shape: float = SHAPE) -> Floats:
    """The f at each batch, from times of an iteration on the GPU alone.

    A line through the times (least squares of relative errors) gives a time at batch 0. Its share of an iteration, to
    the power `shape`, is f.
    """
    b, t = np.asarray(batches, float), np.asarray(seconds, float)
    weighted = np.stack([1 / t, b / t], axis=1)
    (intercept, _), *_ = np.linalg.lstsq(weighted, np.ones_like(t), rcond=None)
    return np.asarray(np.clip(intercept / t, 0.0, 1.0) ** shape)
