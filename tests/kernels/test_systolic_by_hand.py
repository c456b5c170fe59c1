"""Products on systolic arrays, by hand: whole tiles, rows in eights, bytes, and what is added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.catalog import load_gpu
from podsim.kernels.constants import GemmConstants, kernel_constants
from podsim.kernels.systolic import systolic_law

PLAIN = replace(
    kernel_constants(load_gpu("tpu-v6e")).gemm["bf16"], tile=128.0, ceiling=1.0, bandwidth_share=1.0, startup=0.0,
    store=0.0, latency=0.0, sharpness=2.0,
)  # fmt: skip


def _seconds(
    constants: GemmConstants, sizes: tuple[float, ...], *, peak: float = 1e30, memory: float = 1e30
) -> float:
    shapes = tuple(np.array([size]) for size in sizes)
    return float(systolic_law(constants, peak, memory, shapes, (2.0, 4.0))[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "padded"),
    [
        ((256.0, 128.0, 384.0, 1.0), 256 * 128 * 384),
        (
            (100.0, 130.0, 129.0, 3.0),
            136 * 128 * 256 * 3,
        ),  # 130 rows stream, as 17 eights; 100 are held in one tile
        ((130.0, 129.0, 128.0, 1.0), 136 * 256 * 128),
        ((1.0, 1.0, 1.0, 1.0), 128 * 128 * 128),
    ],
)
def test_arithmetic_fills_tiles(sizes: tuple[float, ...], padded: float) -> None:
    assert _seconds(PLAIN, sizes, peak=1e12) == pytest.approx(2 * padded / 1e12)
    assert _seconds(replace(PLAIN, ceiling=0.5), sizes, peak=1e12) == pytest.approx(4 * padded / 1e12)


def test_operands_are_read_and_the_result_is_written() -> None:
    """5 x (100 + 30) x 7 elements of 2 B are read, 5 x 100 x 30 of 4 B written."""
    sizes, read, written = (100.0, 30.0, 7.0, 5.0), 2 * 5 * 7 * 130, 4 * 5 * 100 * 30
    assert _seconds(PLAIN, sizes, memory=1e9) == pytest.approx(read / 1e9)
    slow = replace(PLAIN, bandwidth_share=0.5, startup=1000.0, store=0.25, latency=1e-3)
    assert _seconds(slow, sizes, memory=1e9) == pytest.approx((read + 1000 + written / 4) / 5e8 + 1e-3)


def test_arithmetic_and_bytes_of_equal_time_take_the_root_of_two() -> None:
    sizes = (128.0, 128.0, 128.0, 1.0)
    found = _seconds(PLAIN, sizes, peak=2 * 128**3 * 1e3, memory=2 * 128 * 256 * 1e3)
    assert found == pytest.approx(2**0.5 * 1e-3)
