"""Links and the routes over them, for the simulation: what it asks of a fabric, and fabrics given by numbers.

A fabric is whatever has `capacity` (B/s of each link, one direction), `latency` (s of each link) and
`routes(sources, destinations)`, which computes the links between given ends and stores no pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Floats, Ints
from podsim.records import dataclass

Routes: TypeAlias = tuple[Ints, Ints]
"""(indptr, links): the route of pair i is links[indptr[i] : indptr[i + 1]]"""


class Fabric(Protocol):
    """What the simulation asks of a network."""

    @property
    def capacity(self) -> Floats:
        """B/s of each link."""

    @property
    def latency(self) -> Floats:
        """Seconds that each link adds to a transfer."""

    def routes(self, sources: Ints, destinations: Ints) -> Routes:
        """The links from each source to the destination of the same place."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """A fabric given by arrays and a function."""

    capacity: Floats
    latency: Floats
    route: Callable[[Ints, Ints], Ints]
    """The route of each pair, [pairs, hops]; -1 where it is shorter."""

    def routes(self, sources: Ints, destinations: Ints) -> Routes:
        """Routes in compressed rows."""
        hops = self.route(np.asarray(sources, np.int64), np.asarray(destinations, np.int64))
        used = hops >= 0
        indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
        return indptr, hops[used].astype(np.int64)


def make_links(capacity: ArrayLike, latency: ArrayLike, route: Callable[[Ints, Ints], Ints]) -> Links:
    """Links from numbers or arrays; a single latency is that of every link."""
    full = np.asarray(capacity, np.float64)
    return Links(
        capacity=full, latency=np.broadcast_to(np.asarray(latency, np.float64), full.shape), route=route
    )
