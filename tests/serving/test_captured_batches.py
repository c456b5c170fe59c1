"""Captured networks in batches: memory by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

import podsim
from podsim.answers.served import Served


def test_a_sample_takes_its_two_largest_activations() -> None:
    """EfficientNet-B0 expands 16 channels to 96 on 112 x 112 pixels, of 2 B, and reads that again."""
    served = podsim.serve("efficientnet-b0", on="a100-40gb")
    assert isinstance(served, Served)
    for row, more in pairwise(served.rows):
        assert more.memory - row.memory == pytest.approx((more.batch - row.batch) * 2 * 96 * 112 * 112 * 2)
