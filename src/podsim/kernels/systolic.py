"""Seconds of a matrix product on systolic arrays, as in TPUs.

    arithmetic = 2 x rows x depth x columns / (peak x ceiling)
    seconds    = smooth maximum of (arithmetic, bytes read) + result written + latency

An array of `tile` x `tile` cells holds a block of weights while rows of the input stream through: depth and columns fill
whole tiles, and rows come in eights, at least a tile of them, as the next weights load meanwhile. XLA transposes so that
the longer of the outer sizes streams.

Source: N. Jouppi et al., TPU v4, ISCA 2023 (arXiv 2304.01433); jax-ml/scaling-book, tpus.md @ 0819a7d8c5. Known error:
eight square products on TPU7x, 128 to 32,768 (AI-Hypercomputer/tpu-recipes, microbenchmarks/ironwood): evidence of
tpu-v6e.toml. Products that are long and thin were not measured.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Floats
from podsim.kernels.constants import GemmConstants

_ROWS = 8.0
"""The rows that registers hold at a time."""


def systolic_law(
    constants: GemmConstants,
    peak: float,
    memory: float,
    shapes: tuple[Floats, Floats, Floats, Floats],
    widths: tuple[float | Floats, float | Floats],
) -> Floats:
    """Seconds of products; `shapes` are m, n, k, batch, `widths` B per element of operands and result.

    `peak` is in FLOP/s, `memory` in B/s.
    """
    m, n, k, batch = shapes
    tile, bandwidth = constants.tile, memory * constants.bandwidth_share
    streamed, held = np.maximum(m, n), np.minimum(m, n)
    rows = np.maximum(np.ceil(streamed / _ROWS) * _ROWS, tile)
    padded = rows * np.ceil(held / tile) * tile * np.ceil(k / tile) * tile * batch
    arithmetic = 2 * padded / (peak * constants.ceiling)
    read = (widths[0] * batch * k * (m + n) + constants.startup) / bandwidth
    longer, shorter = np.maximum(arithmetic, read), np.minimum(arithmetic, read)
    smooth = longer * (1 + (shorter / longer) ** constants.sharpness) ** (1 / constants.sharpness)
    return np.asarray(smooth + widths[1] * m * n * batch * constants.store / bandwidth + constants.latency)
