"""What 2:4 sparse products gain in a step: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SparseGain:
    """A step whose forward products read weights pruned 2:4, against the dense step."""

    kernel: float
    """factor. The measured gain of a sparse product, as a mean of published runs."""
    kernel_low: float
    """factor. The smallest of these gains."""
    kernel_high: float
    """factor. The largest of these gains."""
    products: float
    """share. The share of the dense step in the forward products of weights."""
    dense_time: float
    """s. The time of the dense step."""
    gain: float
    """factor. The time of the dense step over that of the sparse one."""
    gain_low: float
    """factor. The same with the smallest gain of a product."""
    gain_high: float
    """factor. The same with the largest gain of a product."""
    source: str
    """The published runs."""
