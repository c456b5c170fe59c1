"""The rounding error of a matrix product in a number format.

    error = RMS of (sum of k products of rounded operands, in order, - the exact sum) / RMS of the exact sum

Operands are normal numbers, emulated bit by bit (`podsim.learning.rounding`). Sums are fp32; of fp64 fp64, of integers
exact. Scales are those of engines: one for each row of fp8 and integers, for each 128 numbers of fp8_block, for
each block of mxfp8 and nvfp4. The result is not rounded again. Limits: tensor cores sum some products at once, losing
less; outliers of real activations cost narrow formats more.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from podsim.axes import Floats
from podsim.learning.number_format_blocks import BlockFormat, any_format, round_blocks
from podsim.learning.rounding import round_to

_NAMES = {"fp8": "e4m3", "fp8_block": "e4m3", "int8_wo": "int8", "int4_wo": "int4"}
"""precision -> its number format, if that has another name"""
_SIDE, _DEEPEST = 16, 2**14
"""rows of each operand, and the most products of a sum; deeper sums lose as much as these"""
_BLOCK = 128


@lru_cache(maxsize=64)
def product_error(precision: str, depth: int) -> float:
    """Share of a product's result, `depth` products each, that rounding costs; PodsimError for an unknown precision."""
    random = np.random.default_rng(0)
    values, weights = random.standard_normal((2, _SIDE, min(depth, _DEEPEST)))
    wide = np.longdouble if precision == "fp64" else np.float64
    exact = values.astype(wide) @ weights.astype(wide).T
    left = _rounded(values, "fp16" if precision.endswith("_wo") else precision)
    right = _rounded(weights, precision)
    carrier = np.float64 if precision in ("fp64", "int8", "int4") else np.float32
    products = left.astype(carrier)[:, None] * right.astype(carrier)
    errors = np.cumsum(products, axis=-1)[..., -1] - exact
    return float(np.sqrt((errors**2).mean() / (exact**2).mean()))


def _rounded(values: Floats, precision: str) -> Floats:
    """Rows of an operand in a precision, with its scales."""
    number = any_format(_NAMES.get(precision, precision))
    if isinstance(number, BlockFormat):
        return round_blocks(values, number).astype(float)
    if number.bits > 8:
        return np.asarray(round_to(values, number), float)
    width = values.shape[-1]
    parts = values
    if precision == "fp8_block":
        parts = np.pad(values, ((0, 0), (0, -width % _BLOCK))).reshape(len(values), -1, _BLOCK)
    scale = np.abs(parts).max(-1, keepdims=True) / number.largest
    scaled = round_to(parts / scale, number, overflow="saturate") * scale
    return np.asarray(scaled.reshape(len(values), -1)[:, :width], float)
