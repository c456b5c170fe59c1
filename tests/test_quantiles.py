"""Quantiles have one convention: linear between the two nearest of the ordered values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podsim.answers.quantiles import Quantiles, percentiles, quantile


def test_a_quantile_lies_between_its_two_neighbours() -> None:
    assert quantile([40.0, 10.0, 20.0, 30.0], 0.9) == pytest.approx(37.0)  # position 0.9 x 3 = 2.7


def test_infinite_values_are_never_interpolated() -> None:
    values = [1.0, 2.0, math.inf]
    assert quantile(values, 0.5) == 2.0
    assert quantile(values, 0.51) == math.inf


def test_a_mean_and_four_percentiles_by_name() -> None:
    values = np.arange(101.0)
    assert percentiles(values) == pytest.approx(
        {"mean": 50.0, "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
    )


def test_runs_that_never_finish_count_in_the_quantiles_alone() -> None:
    spread = Quantiles.of(np.array([1.0, 3.0, math.inf]))
    assert (spread.mean, spread.median, spread.high) == (2.0, 3.0, math.inf)
