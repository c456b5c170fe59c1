"""Constants of the kernel law for a machine measured by `podsim measure host`: few rows, a rank as one multiprocessor.

The law is that of podsim.kernels.gemm with one share for all tiles. Five constants are fitted to the logarithm
of the products' seconds by a search along one constant after another with shrinking steps: no randomness, no scipy, a
tenth of a second. Known error: it comes with each entry; on two shared cores about a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats
from podsim.fitting import Parameter, Values, solve_by_search
from podsim.kernels.constants import GemmConstants, MemoryConstants
from podsim.kernels.gemm import gemm_law, operand_bytes, result_bytes

_SHARES = ("share_256x128", "share_128x128", "share_128x64", "share_64x64", "share_32x64")
_PARAMETERS = {
    "share": Parameter(start=0.9, low=0.05, high=1.0),
    "fill": Parameter(start=10.0, low=0.1, high=2000.0),
    "bandwidth_share": Parameter(start=1.0, low=0.05, high=8.0),
    "startup": Parameter(start=1e4, low=1.0, high=1e7),
    "latency": Parameter(start=1e-7, low=1e-7, high=1e-2),
}
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
    latency = replace(_PARAMETERS["latency"], start=max(launch, 1e-7))

    def residuals(values: Values) -> Floats:
        return np.asarray(np.log(products_seconds(_constants(values), rows, peak, bandwidth) / rows.seconds))

    fitted = _constants(solve_by_search(_PARAMETERS | {"latency": latency}, residuals).values)
    errors = np.abs(products_seconds(fitted, rows, peak, bandwidth) / rows.seconds - 1)
    return fitted, float(errors.mean())


def _constants(values: Values) -> GemmConstants:
    """One share for all tiles, which is the ceiling, too."""
    return GemmConstants(
        **dict.fromkeys(_SHARES, values["share"]), ceiling=values["share"], fill=values["fill"],
        bandwidth_share=values["bandwidth_share"], store=0.5, startup=values["startup"], latency=values["latency"],
        sharpness=3.0, reduction=1.0, split_latency=1.0, unaligned=1.0,
    )  # fmt: skip


def fit_streams(rows: Streams) -> tuple[MemoryConstants, float]:
    """(constants, best B/s): latency + bytes over a share of the best rate, least squares of the relative error.

    Streams that fit a cache are reported but not fitted: between two ops of a step everything else passes through it.
    """
    best = float((rows.moved / rows.seconds).max())
    large = rows.moved > _CACHED
    if large.sum() < 2:
        large = np.ones_like(large)
    latency, per_byte = fit_line(rows.moved[large], rows.seconds[large])
    latency = float(np.clip(latency, 1e-9, rows.seconds.min()))
    return MemoryConstants(share=min(1.0 / (per_byte * best), 1.0), startup=0.0, latency=latency), best


def fit_line(sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> tuple[float, float]:
    """(a, b) of seconds = a + b x size with the least sum of squared relative errors, neither below zero."""
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    columns = np.stack([1 / y, x / y], axis=1)
    line = np.linalg.lstsq(columns, np.ones_like(y), rcond=None)[0]
    if line[0] < 0:  # no start-up is seen: a line through zero
        return 1e-9, float((x / y).sum() / ((x / y) ** 2).sum())
    if line[1] <= 0:  # no size is seen
        return float((1 / y).sum() / ((1 / y) ** 2).sum()), 1e-15
    return float(line[0]), float(line[1])
