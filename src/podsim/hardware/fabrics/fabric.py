"""A fabric: links, the ends that they join, and the route between two ends.

A link goes one way: from its tail to its head, so that a cable is two links. Links and ends are numbered; their names
are made on demand from their coordinates ("node3/nic2>leaf5"). GPUs come first among the ends: end r is rank r.
Routes are computed when asked for, all pairs at once, and no pair is stored.

Something broken is a link of capacity 0. No route uses one: an end that nothing else leads to is an error.

Axes: P pairs, H hops, E ends, L links.

What hangs together in a fabric, by the names of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import ClusterError

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Hops: TypeAlias = tuple[Ints, Bools]
"""(links of each pair in order, [P, H], negative for no hop; whether a pair has no route, [P])"""

NONE = -(2**40)
"""instead of a link where a route has no hop; so is any negative number, what has been added to it included"""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How a route is chosen where there are several."""

    choice: Literal["ecmp", "adaptive", "destination"] = "ecmp"
    """The choice of ways. ecmp: by a hash of the two ends; destination: by the destination alone, as in static tables;
    adaptive: each flow where the flows so far leave most room."""
    seed: int = 0
    """The seed of the hash."""
    pxn: bool = True
    """Whether traffic to another rail goes over NVLink to the GPU on that rail, and leaves by its adapter."""

    def __post_init__(self) -> None:
        """Raise ClusterError for another choice."""
        if self.choice not in ("ecmp", "adaptive", "destination"):
            raise ClusterError(f"routing {self.choice!r}; known: ecmp, adaptive, destination")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Ends of one kind, with neighbouring numbers."""

    kind: str
    """The kind: gpu, nic, storage, drive, cpu, pcie, nvswitch, server, chip."""
    first: int
    count: int
    name: Callable[[int], str]
    """The name of each end among its kind."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Links with neighbouring numbers."""

    kinds: tuple[str, ...]
    """The kinds of the links, in turn: nvlink, pcie, socket, drive, adapter, leaf, spine, torus."""
    first: int
    count: int
    ends: Callable[[int], tuple[str, str]]
    """The names of tail and head of each link in the block."""


class Router(Protocol):
    """Routes over the links that work."""

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        """Links of each pair in order, and whether it has no route."""


class Wiring(Protocol):
    """The cables between parts."""

    def router(self, capacity: Floats) -> Router:
        """The router over links with those capacities, [L]; links of capacity 0 are broken."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fabric:
    """Links and the routes over them; what podsim.network.play asks of a network."""

    name: str
    ends: tuple[Ends, ...]
    blocks: tuple[Block, ...]
    capacity: Floats
    """B/s. The capacity of each link, [L]; 0 if it is broken."""
    latency: Floats
    """s. The latency that each link adds, [L]."""
    wiring: Wiring
    routing: Routing = field(default_factory=Routing)

    @property
    def links(self) -> int:
        """Links, one way each."""
        return len(self.capacity)

    @property
    def gpus(self) -> int:
        """GPUs, or the chips of a torus."""
        return self.ends[0].count

    def count(self, kind: str) -> int:
        """Ends of a kind."""
        return sum(ends.count for ends in self.ends if ends.kind == kind)

    def end(self, kind: str, place: int = 0) -> int:
        """Number of the end of that place among its kind. Raises ClusterError for one that is not there."""
        found = next((ends for ends in self.ends if ends.kind == kind), None)
        if found is None or not 0 <= place < found.count:
            known = ", ".join(f"{ends.kind} 0 to {ends.count - 1}" for ends in self.ends)
            raise ClusterError(f"{self.name} has no {kind} {place}; it has {known}")
        return found.first + place

    def end_name(self, end: int) -> str:
        """Name of an end."""
        for ends in self.ends:
            if ends.first <= end < ends.first + ends.count:
                return ends.name(int(end) - ends.first)
        raise ClusterError(f"{self.name} has no end {end}; it has 0 to {self._last_end}")

    def _block(self, link: int) -> Block:
        for block in self.blocks:
            if block.first <= link < block.first + block.count:
                return block
        raise ClusterError(f"{self.name} has no link {link}; it has 0 to {self.links - 1}")

    def kind(self, link: int) -> str:
        """Kind of a link."""
        block = self._block(link)
        return block.kinds[(int(link) - block.first) % len(block.kinds)]

    def of_kind(self, kind: str) -> Ints:
        """Links of a kind, in order."""
        found = [
            block.first + np.flatnonzero(np.resize(np.array(block.kinds) == kind, block.count))
            for block in self.blocks
        ]
        return np.concatenate(found).astype(np.int64)

    def link_ends(self, link: int) -> tuple[str, str]:
        """Names of the tail and the head of a link."""
        block = self._block(link)
        return block.ends(int(link) - block.first)

    def link_name(self, link: int) -> str:
        """Name of a link: "tail>head"."""
        return ">".join(self.link_ends(link))

    @cached_property
    def _last_end(self) -> int:
        return self.ends[-1].first + self.ends[-1].count - 1

    @cached_property
    def _router(self) -> Router:
        return self.wiring.router(self.capacity)

    def routes(self, sources: ArrayLike, destinations: ArrayLike) -> tuple[Ints, Ints]:
        """(indptr [P + 1], links): the route of pair p is links[indptr[p] : indptr[p + 1]], empty from an end to itself.

        With adaptive routing the flows asked for together share the links out among themselves. Raises
        ClusterError for an end that is not there, and for an island that no route reaches, by name.
        """
        source, destination = (np.atleast_1d(np.asarray(ends, np.int64)) for ends in (sources, destinations))
        if source.shape != destination.shape or source.ndim != 1:
            raise ClusterError(
                f"{source.shape} sources and {destination.shape} destinations; give as many of each"
            )
        both = np.concatenate([source, destination])
        for end in both[(both < 0) | (both > self._last_end)][:1]:
            raise ClusterError(f"{self.name} has no end {end}; it has 0 to {self._last_end}")
        hops_PH, lost = self._router.hops(source, destination, self.routing)
        for pair in np.flatnonzero(lost)[:1]:
            raise ClusterError(lost_text(self, int(source[pair]), int(destination[pair])))
        used_PH = hops_PH >= 0
        indptr = np.zeros(len(source) + 1, np.int64)
        for used in used_PH.T:  # a sum over the short axis is five times slower
            indptr[1:] += used
        np.cumsum(indptr, out=indptr)
        return indptr, hops_PH[used_PH]

    def route(self, source: int, destination: int) -> tuple[str, ...]:
        """Names of the links from one end to another."""
        _, links = self.routes([source], [destination])
        return tuple(self.link_name(int(link)) for link in links)

    def find(self, *patterns: str) -> Ints:
        """Links that patterns name. Raises ClusterError for a pattern that names none.

        "a>b" names links from a to b, "a<>b" those of both directions, "a" all links of a part; *, ? and [...]
        stand for characters, as in names of files.
        """

        tails, heads = link_names(self)
        parts = list(dict.fromkeys((*tails, *heads)))
        found = [_matching(pattern, tails, heads, parts) for pattern in patterns]
        for pattern, links in zip(patterns, found, strict=True):
            if not len(links):
                close = get_close_matches(pattern.split(">")[0], parts, n=3, cutoff=0.3)
                raise ClusterError(
                    f"{self.name} has no link or part {pattern[:80]!r}; there are {', '.join(close or parts[:3])}, …"
                )
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def without(self, *patterns: str) -> Fabric:
        """The fabric with links broken, or whole parts gone: see `find`."""
        return self.degraded(*patterns, share=0.0)

    def degraded(self, *patterns: str, share: float) -> Fabric:
        """The fabric with links slowed down to a share of their capacity, 0 to 1: see `find`."""
        if not 0.0 <= share <= 1.0:
            raise ClusterError(f"share {share:g} of a link's capacity; it must be 0 (broken) to 1 (as new)")
        capacity = self.capacity.copy()
        capacity[self.find(*patterns)] *= share
        return replace(self, capacity=capacity)

    def routed(self, routing: Routing) -> Fabric:
        """The fabric with another way to choose routes."""
        changed = replace(self, routing=routing)
        if "_router" in self.__dict__:  # depends on the links only
            changed.__dict__["_router"] = self._router
        return changed

    def placed(self, places: ArrayLike) -> Fabric:
        """The fabric seen by a job whose rank r sits at end places[r].

        Raises ClusterError for an end that is not there.
        """
        where = np.atleast_1d(np.asarray(places, np.int64))
        names = tuple(self.end_name(int(end)) for end in where)
        job = Ends(kind="gpu", first=0, count=len(where), name=lambda rank: names[rank])
        return replace(self, ends=(job,), wiring=_Placed(self.wiring, where))


@dataclass(frozen=True)
class _Placed:
    """A wiring whose ends bear other numbers."""

    wiring: Wiring
    where: Ints

    def router(self, capacity: Floats) -> Router:
        return _PlacedRouter(self.wiring.router(capacity), self.where)


@dataclass(frozen=True)
class _PlacedRouter:
    inner: Router
    where: Ints

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        return self.inner.hops(self.where[source], self.where[destination], routing)


def _matching(pattern: str, tails: list[str], heads: list[str], parts: Iterable[str]) -> Ints:
    """Links that one pattern names."""
    both_ways = "<>" in pattern
    one, arrow, other = pattern.partition("<>" if both_ways else ">")
    first = {part for part in parts if fnmatchcase(part, one)}
    second = {part for part in parts if fnmatchcase(part, other)} if arrow else first
    pairs = enumerate(zip(tails, heads, strict=True))
    if not arrow:
        found = [link for link, (tail, head) in pairs if tail in first or head in first]
    else:
        found = [
            link
            for link, (tail, head) in pairs
            if (tail in first and head in second) or (both_ways and tail in second and head in first)
        ]
    return np.array(found, np.int64)


def link_names(fabric: Fabric) -> tuple[list[str], list[str]]:
    """Names of the tails and of the heads of all links."""
    both = [block.ends(place) for block in fabric.blocks for place in range(block.count)]
    return [tail for tail, _ in both], [head for _, head in both]


def islands(fabric: Fabric) -> tuple[tuple[str, ...], ...]:
    """Ends that working links join in one direction or the other, by name, the largest island first."""
    root: dict[str, str] = {}

    def top(part: str) -> str:
        while root.setdefault(part, part) != part:
            root[part] = root[root[part]]
            part = root[part]
        return part

    for tail, head, rate in zip(*link_names(fabric), fabric.capacity, strict=True):
        if rate > 0:
            root[top(tail)] = top(head)
    found: dict[str, list[str]] = {}
    for ends in fabric.ends:
        for place in range(ends.count):
            found.setdefault(top(ends.name(place)), []).append(ends.name(place))
    return tuple(sorted((tuple(names) for names in found.values()), key=len, reverse=True))


def lost_text(fabric: Fabric, source: int, destination: int) -> str:
    """Why there is no route between two ends: the smaller island is named."""
    names = fabric.end_name(source), fabric.end_name(destination)
    groups = islands(fabric)
    one, other = (next(group for group in groups if name in group) for name in names)
    said = f"{fabric.name}: no route from {names[0]} to {names[1]}"
    if one is other:
        return f"{said}; links join them, but broken ones cut every way that is allowed"
    island = min(other, one, key=len)
    listed = ", ".join(island[:8]) + (f" and {len(island) - 8} more" if len(island) > 8 else "")
    return f"{said}; {listed} {'is' if len(island) == 1 else 'are'} an island that no route reaches"
