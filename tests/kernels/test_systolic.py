"""Products on systolic arrays by hand: an array of 100 x 100 cells, 1e9 FLOP/s of which half is reached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.catalog import load_gpu
from podsim.kernels.constants import kernel_constants
from podsim.kernels.systolic import systolic_law

PLAIN = replace(
    kernel_constants(load_gpu("tpu-v6e")).gemm["bf16"],
    tile=100.0, ceiling=0.5, bandwidth_share=0.5, store=0.0, startup=0.0, latency=0.0, sharpness=1e3,
)  # fmt: skip


def seconds(
    m: float, n: float, k: float, batch: float = 1.0, memory: float = 1e30, **changes: float
) -> float:
    shapes = tuple(np.array([size]) for size in (m, n, k, batch))
    law = systolic_law(replace(PLAIN, **changes), 1e9, memory, shapes, (2.0, 4.0))  # type: ignore[arg-type]
    return float(law[0])


@pytest.mark.parametrize(
    ("m", "n", "k", "padded"),
    [
        (800, 100, 100, 800 * 100 * 100),
        (801, 100, 100, 808 * 100 * 100),  # rows come in eights
        (800, 101, 201, 800 * 200 * 300),  # whole tiles
        (101, 800, 201, 800 * 200 * 300),  # the longer side streams
        (8, 8, 100, 100 * 100 * 100),  # the next weights load meanwhile
        (104, 100, 100, 104 * 100 * 100),
    ],
)
def test_rows_in_eights_and_whole_tiles(m: float, n: float, k: float, padded: float) -> None:
    assert seconds(m, n, k) == pytest.approx(2 * padded / 5e8)
    assert seconds(m, n, k, batch=3.0) == pytest.approx(3 * 2 * padded / 5e8)


def test_bytes() -> None:
    """Operands of 2 B are read, results of 4 B written, at half of 1 kB/s; `store` of the writes is not hidden."""
    read = 2 * 3 * 100 * (800 + 200) / 500
    assert seconds(800, 200, 100, batch=3.0, memory=1e3) == pytest.approx(read)
    assert seconds(800, 200, 100, batch=3.0, memory=1e3, startup=1e3) == pytest.approx(read + 2.0)
    written = 4 * 3 * 800 * 200 * 0.25 / 500
    assert seconds(800, 200, 100, batch=3.0, memory=1e3, store=0.25, latency=7.0) == pytest.approx(
        read + written + 7
    )


def test_the_smooth_maximum() -> None:
    """3 s of arithmetic and 4 s of reading are 5 s with sharpness 2."""
    even = {"ceiling": 2 * 800 * 100 * 100 / 3e9, "sharpness": 2.0}
    assert seconds(800, 100, 100, memory=2 * 100 * 900 / 2.0, **even) == pytest.approx(5.0)
