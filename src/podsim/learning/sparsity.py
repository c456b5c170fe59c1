"""2:4 sparsity: of every four weights in a row, two are kept. Masks, and the layout that sparse Tensor Cores read.

    mask      the two largest magnitudes of each four: the best of the six patterns, as each four is chosen alone
    values    the kept weights, row by row: half of the columns
    indices   the positions of both within their four, 2 bits each, the first in the lower bits: a byte holds two fours

Rows are outputs, columns are inputs: the sum of a product runs over the columns. Source: Mishra et al. 2021 (arXiv
2104.08378), sections 2 and 3; NVIDIA's A100 white paper, section 3.3; the PTX ISA on mma.sp, "sparse matrix storage".
Limits: on TF32 operands the hardware keeps one of two instead, and on 4-bit ones two pairs of four pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools
from podsim.errors import PodsimError

Array: TypeAlias = NDArray[Any]
GROUP, KEPT = 4, 2
PATTERNS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""the positions that a four may keep"""


def _fours(weights: Array) -> Array:
    """The last axis in groups of four."""
    if weights.ndim < 1 or weights.shape[-1] % GROUP or not weights.size:
        raise PodsimError(f"a row of {weights.shape[-1:]} weights; 2:4 sparsity needs a multiple of {GROUP}")
    return weights.reshape(*weights.shape[:-1], -1, GROUP)


def best_mask(magnitudes: Array) -> Bools:
    """Which weights stay: the two largest magnitudes of each four along the last axis; of equal ones the first.

    Magnitudes are of any ordered type: absolute values, or the bits of a floating-point number without its sign.
    """
    fours = _fours(magnitudes)
    order = np.argsort(
        -fours.astype(np.float64) if fours.dtype.kind == "f" else ~fours, axis=-1, kind="stable"
    )
    mask = np.zeros(fours.shape, bool)
    np.put_along_axis(mask, order[..., :KEPT], True, axis=-1)
    return mask.reshape(magnitudes.shape)


def kept_magnitude(magnitudes: Array) -> float:
    """The sum of magnitudes that the best mask keeps."""
    fours = np.sort(_fours(magnitudes), axis=-1)
    return float(fours[..., KEPT:].sum(dtype=np.float64))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sparsity24:
    """A matrix with at most two weights in each four, compressed."""

    values: Array
    """factor. The kept weights, [rows, columns / 2]."""
    indices: NDArray[np.uint8]
    """factor. The positions of the kept weights, two fours a byte, [rows, columns / 8]."""

    @property
    def bytes(self) -> int:
        """B of values and indices."""
        return self.values.nbytes + self.indices.nbytes

    def dense(self) -> Array:
        """The matrix, with zeros where nothing was kept."""
        rows, half = self.values.shape
        nibbles = np.stack([self.indices & 15, self.indices >> 4], axis=-1).reshape(rows, -1)[
            :, : half // KEPT
        ]
        positions = np.stack([nibbles & 3, nibbles >> 2], axis=-1)
        if (positions[..., 0] >= positions[..., 1]).any():
            raise PodsimError("the two positions of a four must rise; these indices are of another layout")
        fours = np.zeros((rows, half // KEPT, GROUP), self.values.dtype)
        np.put_along_axis(fours, positions.astype(np.int64), self.values.reshape(rows, -1, KEPT), axis=-1)
        return fours.reshape(rows, -1)


def compress(matrix: Array) -> Sparsity24:
    """A matrix of numbers, or of their bits as unsigned integers, in the compressed layout; the inverse of `dense`.

    Raises PodsimError for a four with more than two weights, and for columns that are no multiple of 4.
    """
    fours = _fours(matrix)
    present = fours != 0
    if (present.sum(axis=-1) > KEPT).any():
        raise PodsimError("a four has more than two weights; apply the mask first")
    order = np.argsort(~present, axis=-1, kind="stable")[..., :KEPT]
    positions = np.sort(order, axis=-1)
    values = np.take_along_axis(fours, positions, axis=-1).reshape(len(matrix), -1)
    nibbles = (positions[..., 0] | positions[..., 1] << 2).astype(np.uint8)
    if nibbles.shape[1] % 2:
        nibbles = np.pad(nibbles, ((0, 0), (0, 1)))
    return Sparsity24(values=values, indices=(nibbles[:, 0::2] | nibbles[:, 1::2] << 4).astype(np.uint8))


def compressed_bytes(rows: int, columns: int, width: int) -> int:
    """B of a matrix of weights of `width` bytes in the compressed layout."""
    return rows * (columns // KEPT * width + -(-columns // (2 * GROUP)))
