"""Quantiles by one convention in all of podsim: linear between the two nearest of the ordered values.

The quantile of share q of n values lies at position q (n - 1) of their order, which counts from 0: type 7 of Hyndman and
Fan 1996 (The American Statistician 50(4)), the default of numpy. A median is the quantile of share 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (50, 90, 95, 99)
"""The percentiles that answers name p50, p90, p95 and p99."""
_LARGEST = 1e300
"""SI. What stands for infinity while values are interpolated."""


def quantile(values: Sequence[float] | NDArray[Any], share: float) -> float:
    """The quantile of a share from 0 to 1, in the unit of the values; infinite if it lies beside an infinite value."""
    return _quantiles(values, [share])[0]


def _quantiles(values: Sequence[float] | NDArray[Any], shares: Sequence[float]) -> list[float]:
    between = np.quantile(np.minimum(values, _LARGEST), shares).tolist()
    return [value if value < _LARGEST**0.9 else math.inf for value in between]


def percentiles(values: Sequence[float] | NDArray[Any]) -> dict[str, float]:
    """The mean of values, and their percentiles by the names of `PERCENTILES`."""
    figures = _quantiles(values, [percent / 100 for percent in PERCENTILES])
    names = (f"p{percent}" for percent in PERCENTILES)
    return {"mean": float(np.mean(values)), **dict(zip(names, figures, strict=True))}


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A quantity over the simulated runs."""

    low: float
    """SI. The 5th percentile."""
    median: float
    """SI. The median."""
    mean: float
    """SI. The mean over the runs that finish."""
    high: float
    """SI. The 95th percentile; infinite if too few runs finish."""

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Quantiles:
        """The quantiles of runs; those that never finish have infinite values."""
        finite = values[np.isfinite(values)]
        return cls(
            low=quantile(values, 0.05), median=quantile(values, 0.5), high=quantile(values, 0.95),
            mean=float(finite.mean()) if finite.size else math.inf,
        )  # fmt: skip
