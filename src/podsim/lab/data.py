"""What the ranks put in and what must come out, summed in float64.

The input of a rank is a pattern of random floats, repeated and turned by the rank's number; its length is a prime, so
that no chunk can be mistaken for its neighbour. A sum of n floats may be off by (n - 1) roundings of the sum of
their sizes; anything further off, and every NaN, counts as wrong. What is only moved must be exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from podsim.network.collectives.program import Span
from podsim.network.collectives.table import EVERYWHERE

PERIOD = 65_521
_BLOCK = 1 << 22


def _pattern() -> NDArray[np.float32]:
    return np.random.default_rng(2020).uniform(-1.0, 1.0, PERIOD).astype(np.float32)


def input_of(rank: int, elements: int) -> NDArray[np.float32]:
    """The data that a rank starts with, [elements]."""
    return np.resize(np.roll(_pattern(), 101 * rank), elements)


def expected(home: int, ranks: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One period of what must come out, and how far off it may be; home: whose data, EVERYWHERE for the sum."""
    pattern = _pattern().astype(np.float64)
    if home != EVERYWHERE:
        return np.roll(pattern, 101 * home), np.zeros(PERIOD)
    parts = [np.roll(pattern, 101 * rank) for rank in range(ranks)]
    size = np.sum([np.abs(part) for part in parts], axis=0)
    return np.sum(parts, axis=0), (ranks - 1) * 2.0**-23 * size


def wrong(held: NDArray[np.float32], spans: Sequence[Span], ranks: int) -> int:
    """How many elements of these spans are not what they must be."""
    count = 0
    for span in spans:
        value, slack = expected(span.home, ranks)
        for first in range(span.first, span.last, _BLOCK):
            last = min(first + _BLOCK, span.last)
            phase = np.arange(first, last) % PERIOD
            count += int(np.sum(~(np.abs(held[first:last] - value[phase]) <= slack[phase])))
    return count
