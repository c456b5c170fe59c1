"""What a ring moves: the bus factor of a collective, and the seconds of an all-reduce round a ring.

A ring of n ranks cuts the data in n parts, and each rank passes on all of them but one. An all-reduce does so twice:
once to add, once to hand out the sums (Patarasuk and Yuan, 2009). nccl-tests calls the same share the bus factor.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import PodsimError, unknown_name

Number = TypeVar("Number", float, NDArray[np.float64])

_TIMES = {
    "all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "gather": 1.0, "scatter": 1.0,
}  # fmt: skip
"""collective -> how often each part goes round the ring"""
_WHOLE = ("broadcast", "reduce", "send_recv")
"""collectives whose whole data pass every link"""


def ring_share(ranks: Number) -> Number:
    """The share (n - 1) / n of the data that each of n ranks in a ring passes on; `ranks` is a number or an array."""
    return (ranks - 1.0) / ranks


def bus_factor(collective: str, ranks: ArrayLike) -> NDArray[np.float64]:
    """Bus bandwidth over algorithm bandwidth, by nccl-tests' conventions; shape of `ranks`.

    Twice the ring's share for an all-reduce, the ring's share for collectives of one part a rank, 1 for the others;
    0 for one rank. Names have hyphens or underscores; PodsimError for an unknown one. Source: nccl-tests,
    doc/PERFORMANCE.md.
    """
    name, ranks_ = collective.replace("-", "_"), np.asarray(ranks, dtype=float)
    if name in _WHOLE:
        return np.where(ranks_ > 1, 1.0, 0.0)
    if name not in _TIMES:
        raise PodsimError(unknown_name("collective", collective, (*_TIMES, *_WHOLE)))
    return np.asarray(_TIMES[name] * ring_share(ranks_))


def ring_all_reduce_seconds(size: float, ranks: int, bandwidth: float, latency: float) -> float:
    """Seconds of an all-reduce of `size` bytes round a ring: its bytes over a rank's link, and 2 (n - 1) latencies."""
    return float(bus_factor("all_reduce", ranks)) * size / bandwidth + 2 * (ranks - 1) * latency
