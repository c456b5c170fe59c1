"""Constants of a measured machine: what made the rows is found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.kernels.fit_host import (
    Products,
    Streams,
    fit_line,
    fit_products,
    fit_streams,
    products_seconds,
)

SHAPES = np.array(
    [
        (64, 256, 256), (512, 64, 64), (256, 1024, 256), (512, 512, 512), (512, 512, 2048), (1024, 768, 3072),
        (128, 768, 768),
    ],
    float,
)  # fmt: skip
PEAK, BANDWIDTH = 40e9, 20e9


def _rows(**changes: float) -> Products:
    blank = Products(*SHAPES.T, np.ones(len(SHAPES)), "fp32")
    start, _ = fit_products(blank._replace(seconds=np.full(len(SHAPES), 1e-3)), PEAK, BANDWIDTH, 1e-6)
    shares = dict.fromkeys(
        ("share_256x128", "share_128x128", "share_128x64", "share_64x64", "share_32x64"), 0.8
    )
    made = replace(start, **{**shares, "ceiling": 0.8, "fill": 30.0, "latency": 50e-6, "bandwidth_share": 0.5,
                             "startup": 1e4, **changes})  # fmt: skip
    return blank._replace(seconds=products_seconds(made, blank, PEAK, BANDWIDTH))


@pytest.mark.parametrize("changes", [{}, {"latency": 5e-6}, {"fill": 300.0}, {"bandwidth_share": 0.2}])
def test_rows_of_the_law_are_met(changes: dict[str, float]) -> None:
    rows = _rows(**changes)
    found, error = fit_products(rows, PEAK, BANDWIDTH, 1e-6)
    assert error < 0.06
    told = products_seconds(found, rows, PEAK, BANDWIDTH)
    assert np.abs(told / rows.seconds - 1).mean() == pytest.approx(error)


def test_one_slow_row_does_not_bend_the_rest() -> None:
    """Absolute errors: a row that another program disturbed counts as one row."""
    rows = _rows()
    rows.seconds[3] *= 4
    found, _ = fit_products(rows, PEAK, BANDWIDTH, 1e-6)
    others = np.arange(len(SHAPES)) != 3
    told = products_seconds(found, rows, PEAK, BANDWIDTH)
    assert np.abs(told / rows.seconds - 1)[others].max() < 0.15


def test_lines() -> None:
    sizes = np.array([1e3, 1e5, 1e7])
    assert fit_line(sizes, 2e-3 + 1e-9 * sizes) == pytest.approx((2e-3, 1e-9))
    assert fit_line(sizes, 1e-9 * sizes)[1] == pytest.approx(1e-9)
    falling = fit_line([1e3, 1e6], [2.0, 1.0])
    assert falling[0] > 0
    assert falling[1] > 0


def test_streams_in_a_cache_are_not_fitted() -> None:
    moved = np.array([1e4, 1e6, 1e7, 5e7])
    seconds = np.array([1e4 / 50e9, 1e6 / 50e9, 1e7 / 5e9, 5e7 / 5e9])
    constants, best = fit_streams(Streams(moved, seconds))
    assert best == pytest.approx(50e9)
    assert constants.share * best == pytest.approx(5e9)
    assert constants.latency <= seconds.min()


def test_the_largest_stream_in_a_cache_moves_two_megabytes() -> None:
    """Beyond it 4 us and 5 GB/s; up to it at once: the two longer streams alone make the line."""
    moved = np.array([1e6, 2e6, 2e6 + 1, 4e6])
    constants, best = fit_streams(
        Streams(moved, np.array([2e-5, 4e-5, 4e-6 + (2e6 + 1) / 5e9, 4e-6 + 4e6 / 5e9]))
    )
    assert best == pytest.approx(50e9)
    assert constants.share * best == pytest.approx(5e9)
    assert constants.latency == pytest.approx(4e-6)
