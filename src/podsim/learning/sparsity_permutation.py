"""An order of the input channels whose 2:4 mask keeps more.

Channels that stand in one four compete with each other. The search takes fours in random pairs, tries all 35 ways to
divide their eight channels again, and keeps the best; each round pairs them otherwise. What is kept never falls.

Source: Pool and Yu 2021, "Channel permutations for N:M sparsity", section 4 (optimising groups of two stripes). Limits: a
local optimum; rows beyond MOST_ROWS are sampled for the choice, and the kept magnitude is counted over all.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints
from podsim.learning.sparsity import GROUP, kept_magnitude

MOST_ROWS = 256
_ROUNDS, _PATIENCE = 200, 8
_EIGHT = 2 * GROUP
_WAYS = np.array(
    [
        (0, *rest, *(k for k in range(1, _EIGHT) if k not in rest))
        for rest in combinations(range(1, _EIGHT), 3)
    ]
)
"""the 35 ways to divide eight channels into two fours, the first channel in the first"""


def best_order(magnitudes: NDArray[Any]) -> Ints:
    """The order of columns that keeps most, of a matrix of magnitudes; the columns' own order if none keeps more."""
    columns = magnitudes.shape[1]
    draws = np.random.default_rng(0)
    order, fours = np.arange(columns), columns // GROUP
    if fours < 2:
        return order
    rows = draws.permutation(len(magnitudes))[:MOST_ROWS]
    sample = np.ascontiguousarray(magnitudes[rows].T, np.float32)
    idle = 0
    for _ in range(_ROUNDS):
        pairs = draws.permutation(fours)[: fours // 2 * 2].reshape(-1, 2)
        idle = 0 if _improve(sample, order, pairs) else idle + 1
        if idle == _PATIENCE:
            break
    full = np.asarray(magnitudes, np.float64)
    return order if kept_magnitude(full[:, order]) > kept_magnitude(full) else np.arange(columns)


def _improve(sample: NDArray[np.float32], order: Ints, pairs: Ints) -> bool:
    """Divide the channels of each pair of fours in the best way, in place; whether anything was gained."""
    slots = (pairs[:, :, None] * GROUP + np.arange(GROUP)).reshape(len(pairs), _EIGHT)
    eight = sample[order[slots]]  # pairs, channels, rows
    kept = np.stack([_kept(eight[:, way[:GROUP]]) + _kept(eight[:, way[GROUP:]]) for way in _WAYS])
    best = kept.argmax(axis=0)
    gained = kept.max(axis=0) > kept[0] * (1 + 1e-6)
    moved = np.flatnonzero(gained)
    order[slots[moved]] = np.take_along_axis(order[slots[moved]], _WAYS[best[moved]], axis=1)
    return len(moved) > 0


def _kept(four: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sum over rows of the two largest of four channels, one for each pair of fours."""
    first, second, third, fourth = (four[:, channel] for channel in range(GROUP))
    largest = np.maximum(first, second) + np.maximum(third, fourth)
    return np.asarray(np.maximum(np.maximum(first + second, third + fourth), largest).sum(axis=-1))
