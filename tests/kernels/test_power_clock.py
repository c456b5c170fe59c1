"""The clock that a power limit leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.catalog import load_gpu
from podsim.kernels.power_clock import borrowed_clock, clock_share, power_clock

_LOADS = np.linspace(0.01, 0.9, 40)


def test_a_small_limit_slows_a_busy_gpu_only() -> None:
    shares = clock_share(load_gpu("t4"), _LOADS)
    assert shares[0] == 1.0
    assert (np.diff(shares) <= 1e-12).all()
    assert 0.2 < shares[-1] < power_clock().floor


def test_below_the_lowest_voltage_power_goes_with_the_clock() -> None:
    chip = load_gpu("t4")
    shares = clock_share(chip, np.array([0.5, 0.75]))
    assert shares[0] / shares[1] == pytest.approx(1.5)


def test_a_measured_gpu_keeps_the_clock_of_its_kernels_and_a_slice_has_no_limit() -> None:
    assert (borrowed_clock(load_gpu("a100-sxm4-80gb"), _LOADS) == 1.0).all()
    assert (borrowed_clock(load_gpu("a30/1g.6gb"), _LOADS) == 1.0).all()


def test_more_power_is_a_higher_clock() -> None:
    chip = load_gpu("a30")
    warm, cool = (borrowed_clock(replace(chip, power=watts), _LOADS) for watts in (165.0, 240.0))
    assert (warm <= cool).all()
    assert warm[-1] < cool[-1]
