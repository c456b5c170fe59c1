"""The gradient noise scale: from which batch on more samples no longer make a better step.

    |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)          the squared length of the true gradient
    S     = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)          the trace of a sample's covariance
    B_noise = S / |G|^2                                the critical batch, in samples

g_b is the gradient of a micro-batch of b samples and g_B that of the whole batch of B. Both sums are unbiased; their
ratio is not, so each is averaged over steps before they are divided.

Source: McCandlish, Kaplan, Amodei and OpenAI 2018, appendix A.1. Known error: the paper's own noise scales lie within a
factor of two or three of the critical batch that whole runs show. Limits: it grows during training, so a figure is one of
its steps; it says nothing of a schedule of the learning rate, or of generalisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.answers.trained import MeasuredTraining
from podsim.axes import Floats
from podsim.errors import PodsimError

_BLOCKS = 8
_SKIP = 0.1
"""share. The first steps of a run, whose gradients are those of a network that knows nothing."""
LEAST_STEPS = 2


@dataclass(frozen=True, kw_only=True)
class NoiseScale:
    """A measured gradient noise scale."""

    critical: float
    """count. The noise scale in samples, which is the critical batch."""
    low: float
    """count. The lower end of its band of 80 %."""
    high: float
    """count. The upper end of its band of 80 %."""
    gradient: float
    """factor. The squared length of the true gradient, as a mean over steps."""
    covariance: float
    """factor. The trace of the covariance of a sample's gradient, as a mean over steps."""
    steps: int
    """The number of steps that were averaged."""


def gradient_noise(
    small: float, large: float, small_norms: Floats, large_norms: Floats, *, skip: int = 0
) -> NoiseScale:
    """The noise scale from squared lengths of gradients of `small` and of `large` samples, a pair for each step.

    The first `skip` steps are left out. The band is that of means over blocks of consecutive steps, left out one at a
    time. Raises PodsimError where steps are too few, or noise hides the gradient.
    """
    if not small < large:
        raise PodsimError(
            f"a micro-batch of {small:g} in a batch of {large:g}: noise needs two sizes; take more micro-batches or dp"
        )
    first, second = (np.asarray(norms, float)[skip:] for norms in (small_norms, large_norms))
    if len(first) < LEAST_STEPS:
        raise PodsimError(
            f"{len(first)} steps with gradient norms; the noise scale needs {LEAST_STEPS} or more"
        )
    gradient = (large * second - small * first) / (large - small)
    covariance = (first - second) / (1 / small - 1 / large)
    if gradient.mean() <= 0 or covariance.mean() <= 0:
        raise PodsimError(
            f"noise hides the gradient in {len(first)} steps at batch {large:g}: take more steps, or a larger batch"
        )
    low, high = _band(gradient, covariance)
    return NoiseScale(
        critical=float(covariance.mean() / gradient.mean()), low=low, high=high, gradient=float(gradient.mean()),
        covariance=float(covariance.mean()), steps=len(first),
    )  # fmt: skip


def noise_of_run(run: MeasuredTraining) -> NoiseScale | None:
    """The noise scale of a run of `train --noise-scale`, without its first tenth; None if no gradients were measured.

    Raises PodsimError as `gradient_noise` does.
    """
    rows = [row for row in run.rows if row.batch_norm > 0]
    if not rows:
        return None
    small, large = float(run.plan["micro_batch"]), float(run.plan["global_batch"])
    small_norms, large_norms = (
        np.array([getattr(row, name) for row in rows]) for name in ("micro_norm", "batch_norm")
    )
    return gradient_noise(small, large, small_norms, large_norms, skip=int(_SKIP * len(rows)))


def noise_text(run: MeasuredTraining) -> str:
    """The gradient noise scale of a run, or why there is none."""
    try:
        noise = noise_of_run(run)
    except PodsimError as problem:
        return f"no gradient noise scale: {problem}"
    if noise is None:
        return ""
    scale = f"gradient noise scale {noise.critical:,.3g} samples ({noise.low:,.3g} to {noise.high:,.3g})"
    return f"{scale}; podsim scale batch says what larger batches cost"


def _band(gradient: Floats, covariance: Floats) -> tuple[float, float]:
    """The band of 80 % of a ratio of means: a jackknife over blocks, in the logarithm of the ratio."""
    blocks = [block for block in np.array_split(np.arange(len(gradient)), _BLOCKS) if len(block)]
    total = np.log(covariance.mean() / gradient.mean())
    logs = []
    for block in blocks:
        kept = np.delete(np.arange(len(gradient)), block)
        top, bottom = covariance[kept].mean(), gradient[kept].mean()
        logs.append(np.log(top / bottom) if top > 0 and bottom > 0 else np.inf)
    scatter = np.asarray(logs)
    if not np.isfinite(scatter).all():
        return 0.0, float("inf")
    error = np.sqrt((len(blocks) - 1) * scatter.var())
    return float(np.exp(total - 1.282 * error)), float(np.exp(total + 1.282 * error))
