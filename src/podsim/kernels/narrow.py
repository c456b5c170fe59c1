"""Seconds of products that are too narrow for the tiles of the product law, as graphs of recommendation have them.

    seconds = min(product law, max(bytes, arithmetic at the peak of the plain fp32 units))

for products of a matrix by a vector (one size is 1), and for batches of products of which two sizes are at most 32, as
dot products of a sample's embeddings with each other. A tile of 32 x 64 would mostly compute nothing, and a library
(or a hand-written kernel, as DLRM's) has direct kernels for both; the faster of the two counts, as for convolutions.
Known error: no such kernel was measured alone. Other sizes are the product law's, which was measured down to few rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds, operand_bytes, peak_of, positive, result_bytes

_TILE = 32
"""the smaller side of the smallest tile"""


def product_seconds(
    gpu: Gpu, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, *, batch: npt.ArrayLike, precision: str
) -> npt.NDArray[np.float64]:
    """Seconds of `batch` products m x k by k x n on the GPU, narrow or not; they broadcast. PlanError as gemm_seconds."""
    law = gemm_seconds(gpu, m, n, k, batch=batch, precision=precision)
    rows, columns, deep, many = np.broadcast_arrays(*positive(m=m, n=n, k=k, batch=batch))
    sizes = np.sort([rows, columns, deep], axis=0)
    narrow = (sizes[0] == 1) | ((sizes[1] <= _TILE) & (many > 1))
    read = operand_bytes(precision) * deep * (rows + columns)
    moved = many * (read + result_bytes(precision) * rows * columns)
    peak = peak_of(gpu, precision)
    arithmetic = 2 * many * rows * columns * deep / gpu.peaks.get("fp32", peak)
    direct = np.maximum(memory_seconds(gpu, moved), arithmetic)
    return np.asarray(np.where(narrow, np.minimum(law, direct), law))
