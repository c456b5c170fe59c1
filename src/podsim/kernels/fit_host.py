"""Constants of the kernel law for a machine measured by `podsim measure host`: few rows, a rank as one multiprocessor.

The law is that of podsim.kernels.gemm with one share for all tiles. Five constants are fitted to the logarithm
of the products' seconds by a search along one constant after another with shrinking steps: no randomness, no scipy, a
tenth of a second. Known error: it comes with each entry; on two shared cores about a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podsim.kernels.constants import GemmConstants, MemoryConstants
from podsim.kernels.gemm import gemm_law, operand_bytes, result_bytes

Floats = npt.NDArray[np.float64]
_SHARES = ("share_256x128", "share_128x128", "share_128x64", "share_64x64", "share_32x64")
_BOUNDS = {"share": (0.05, 1.0), "fill": (0.1, 2000.0), "bandwidth_share": (0.05, 8.0), "startup": (1.0, 1e7),
           "latency": (1e-7, 1e-2)}  # fmt: skip
_ROUNDS = 120
_CACHED = 2e6
"""B read and written by the largest stream that is taken to stay in a cache"""


class Products(NamedTuple):
    """Linear layers of one precision that were measured, forward and backward: three products each."""

    m: Floats
    n: Floats
    k: Floats
    seconds: Floats
    precision: str


class Streams(NamedTuple):
    """Streams that were measured: bytes read and written, and seconds."""

    moved: Floats
    seconds: Floats


def products_seconds(constants: GemmConstants, rows: Products, peak: float, bandwidth: float) -> Floats:
    """Seconds of the layers by the law: the output, the gradient of the input, the gradient of the weights."""
    widths = (operand_bytes(rows.precision), result_bytes(rows.precision))
    total, ones = np.zeros_like(rows.m), np.ones_like(rows.m)
    for m, n, k in ((rows.m, rows.n, rows.k), (rows.m, rows.k, rows.n), (rows.k, rows.n, rows.m)):
        total += gemm_law(constants, (1.0, peak, bandwidth), (m, n, k, ones), widths=widths)
    return total


def fit_products(rows: Products, peak: float, bandwidth: float, launch: float) -> tuple[GemmConstants, float]:
    """(constants, mean absolute error) of the products of one precision on one rank."""
    point = {"share": 0.9, "fill": 10.0, "bandwidth_share": 1.0, "startup": 1e4, "latency": max(launch, 1e-7)}
    best, step = _distance(point, rows, peak, bandwidth), 0.5
    for _ in range(_ROUNDS):
        improved = False
        for name, (low, high) in _BOUNDS.items():
            for factor in (1 + step, 1 / (1 + step)):
                tried = {**point, name: float(np.clip(point[name] * factor, low, high))}
                distance = _distance(tried, rows, peak, bandwidth)
                if distance < best - 1e-12:
                    point, best, improved = tried, distance, True
        if not improved:
            step /= 2
        if step < 1e-3:
            break
    found = _constants(point)
    errors = np.abs(products_seconds(found, rows, peak, bandwidth) / rows.seconds - 1)
    return found, float(errors.mean())


def _distance(point: dict[str, float], rows: Products, peak: float, bandwidth: float) -> float:
    predicted = products_seconds(_constants(point), rows, peak, bandwidth)
    return float(np.abs(np.log(predicted / rows.seconds)).mean())


def _constants(point: dict[str, float]) -> GemmConstants:
    start = GemmConstants(
        **dict.fromkeys(_SHARES, point["share"]), ceiling=1.0, fill=point["fill"],
        bandwidth_share=point["bandwidth_share"], store=0.5, startup=point["startup"], latency=point["latency"],
        sharpness=3.0, reduction=1.0, split_latency=1.0, unaligned=1.0,
    )  # fmt: skip
    assert set(asdict(start)) >= set(_SHARES)
    return replace(start, ceiling=max(point["share"], 1e-6))


def fit_streams(rows: Streams) -> tuple[MemoryConstants, float]:
    """(constants, best B/s): latency + bytes over a share of the best rate, least squares of the relative error.

    Streams that fit a cache are told but not fitted: between two ops of a step everything else passes through it.
    """
    best = float((rows.moved / rows.seconds).max())
    large = rows.moved >= _CACHED
    if large.sum() < 2:
        large = np.ones_like(large)
    latency, per_byte = fit_line(rows.moved[large], rows.seconds[large])
    latency = float(np.clip(latency, 1e-9, rows.seconds.min()))
    return MemoryConstants(share=min(1.0 / (per_byte * best), 1.0), startup=0.0, latency=latency), best


def fit_line(sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> tuple[float, float]:
    """(a, b) of seconds = a + b x size with the least sum of squared relative errors, neither below zero."""
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    columns = np.stack([1 / y, x / y], axis=1)
    found = np.linalg.lstsq(columns, np.ones_like(y), rcond=None)[0]
    if found[0] < 0:  # no start-up is seen: a line through zero
        return 1e-9, float((x / y).sum() / ((x / y) ** 2).sum())
    if found[1] <= 0:  # no size is seen
        return float((1 / y).sum() / ((1 / y) ** 2).sum()), 1e-15
    return float(found[0]), float(found[1])
