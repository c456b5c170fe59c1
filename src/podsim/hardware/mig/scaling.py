"""How much slower a job runs on an instance, and what a job's neighbours cost.

    relative speed = 1 / (f + (1 - f) / share),  share = the larger of its shares of compute and of memory slices

relative to the instance that is the whole GPU (7g).  f is the part of an iteration that no slice slows down: host
time, launches, too little parallel work.  It is a job's own (0 for one that saturates the GPU, 0.9 for a small
convolutional network at a small batch), and is known in one of four ways:

    fit_fixed          speeds on several instances are known
    fixed_by_probe     the speed on one instance is known, best the smallest that holds the job
    fixed_by_work      it is known at other batches, and times on the whole GPU at all of them
    fixed_by_batches   only times on the whole GPU at several batches are known: what is left at batch 0 is fixed

Known error, on 28 measured training jobs (7 models, MISO): `slice_scores` computes it, by leaving out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from podsim.hardware.mig.profiles import Profile, Slicing

Floats = npt.NDArray[np.float64]

SHAPE = 1.04
"""exponent from the share of seconds left at batch 0 to f; 1.00 to 1.14 whichever model is left out of its fit"""


def share_of(slicing: Slicing, profile: Profile) -> float:
    """Share of the GPU that bounds a saturated job: of compute slices or of memory slices, the larger."""
    return max(profile.compute / slicing.compute_slices, profile.size / slicing.memory_slices)


def relative_speed(fixed: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """Speed on an instance over that on the whole GPU in MIG mode; both arguments are from 0 to 1, and broadcast."""
    f = np.asarray(fixed, float)
    return np.asarray(1 / (f + (1 - f) / np.asarray(share, float)))


def fit_fixed(shares: npt.ArrayLike, relative: npt.ArrayLike) -> float:
    """f of a job whose relative speeds on several instances are known: least squares of the logarithms, within 0 to 1."""
    share, measured = np.asarray(shares, float), np.log(np.asarray(relative, float))
    low, high = 0.0, 1.0
    for _ in range(4):
        grid = np.linspace(low, high, 101)
        loss = ((np.log(relative_speed(grid[:, None], share)) - measured) ** 2).sum(axis=1)
        best = int(loss.argmin())
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 100)])
    return float(grid[best])


def fixed_by_probe(share: float, relative: float) -> float:
    """f of a job whose relative speed on one instance is known, within 0 to 1."""
    assert 0 < share < 1, share
    return float(np.clip((1 / relative - 1 / share) / (1 - 1 / share), 0.0, 1.0))


def fixed_by_work(
    batches: Sequence[float], seconds: Sequence[float], fixed: Sequence[float], batch: float, whole: float
) -> float:
    """f at a batch whose iteration takes `whole` seconds on the whole GPU, from f and seconds at other batches.

    The part of an iteration that slices slow down, (1 - f) x seconds, is work of kernels, and grows by a line with the
    batch (least squares of errors relative to an iteration); what remains at `batch` is fixed.
    """
    b, t = np.asarray(batches, float), np.asarray(seconds, float)
    work = (1 - np.asarray(fixed, float)) * t
    (start, slope), *_ = np.linalg.lstsq(np.stack([1 / t, b / t], axis=1), work / t)
    return float(np.clip(1 - (start + slope * batch) / whole, 0.0, 1.0))


def fixed_by_batches(batches: Sequence[float], seconds: Sequence[float], shape: float = SHAPE) -> Floats:
    """f at each batch, from times of an iteration on the whole GPU alone: (batches,).

    A line through the times (least squares of relative errors) leaves some seconds at batch 0; their share of an
    iteration, to the power `shape`, is f.
    """
    b, t = np.asarray(batches, float), np.asarray(seconds, float)
    weighted = np.stack([1 / t, b / t], axis=1)
    (intercept, _), *_ = np.linalg.lstsq(weighted, np.ones_like(t))
    return np.asarray(np.clip(intercept / t, 0.0, 1.0) ** shape)
