"""A fabric: links, the ends that they join, and the route between two ends.

A link has one direction, from its tail to its head, so a cable is two links. Links and ends have numbers; their names
follow from their coordinates on demand ("node3/nic2>leaf5"). GPUs come first among the ends: end r is rank r.
Routes are computed on demand, for all pairs at once, and never stored.

A broken link has capacity 0. No route uses one: an end without working links is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Bools, Floats, Ints
from podsim.errors import ClusterError
from podsim.hardware.overrides import ROUTINGS
from podsim.records import dataclass, field, replace

Hops: TypeAlias = tuple[Ints, Bools]
"""(links of each pair in order, [pair, hop], negative for no hop; whether the pair lacks a route, [pair])."""

NONE = -(2**40)
"""The number that stands for no link. It stays negative whatever is added to it."""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """The choice among several routes."""

    choice: str = "ecmp"
    """The rule. ecmp: a hash of the two ends. destination: the destination alone, as in the tables of InfiniBand's
    switches. static: the port of the source alone. adaptive: the route with the most room left by the other flows of
    the same request."""
    seed: int = 0
    """The seed of the hash."""
    pxn: bool = True
    """Whether traffic to another rail goes over NVLink to the GPU on that rail and leaves by its adapter."""

    def __post_init__(self) -> None:
        """Raise ClusterError for an unknown choice."""
        if self.choice not in ROUTINGS:
            raise ClusterError(f"routing {self.choice!r}; known: {', '.join(ROUTINGS)}")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The ends of one kind, with consecutive numbers."""

    kind: str
    """The kind: gpu, nic, storage, drive, cpu, pcie, nvswitch, server, chip."""
    first: int
    count: int
    name: Callable[[int], str]
    """The name of an end by its number within its kind."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Links with consecutive numbers."""

    kinds: tuple[str, ...]
    """The kinds of the links, repeated: nvlink, pcie, socket, drive, adapter, leaf, spine, torus."""
    first: int
    count: int
    ends: Callable[[int], tuple[str, str]]
    """The names of the tail and head of a link by its number in the block."""


class Router(Protocol):
    """A source of routes over the working links."""

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        """(links of each pair in order, whether the pair lacks a route)."""


class Wiring(Protocol):
    """The connections of a fabric."""

    def router(self, capacity: Floats) -> Router:
        """The router over links with these capacities, [link]; links of capacity 0 are broken."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fabric:
    """Links and the routes over them: the network that podsim.network.play needs."""

    name: str
    ends: tuple[Ends, ...]
    blocks: tuple[Block, ...]
    capacity: Floats
    """B/s. The capacity of each link, [link]; 0 for a broken one."""
    latency: Floats
    """s. The latency of each link, [link]."""
    wiring: Wiring
    routing: Routing = field(default_factory=Routing)

    @property
    def links(self) -> int:
        """The number of one-way links."""
        return len(self.capacity)

    @property
    def gpus(self) -> int:
        """The number of GPUs, or of chips of a torus."""
        return self.ends[0].count

    def count(self, kind: str) -> int:
        """The number of ends of a kind."""
        return sum(ends.count for ends in self.ends if ends.kind == kind)

    def end(self, kind: str, number: int = 0) -> int:
        """The number of an end, by its number within its kind. Raises ClusterError for a missing one."""
        group = next((ends for ends in self.ends if ends.kind == kind), None)
        if group is None or not 0 <= number < group.count:
            known = ", ".join(f"{ends.kind} 0 to {ends.count - 1}" for ends in self.ends)
            raise ClusterError(f"{self.name} has no {kind} {number}; it has {known}")
        return group.first + number

    def end_name(self, end: int) -> str:
        """The name of an end."""
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
        """The kind of a link."""
        block = self._block(link)
        return block.kinds[(int(link) - block.first) % len(block.kinds)]

    def links_of_kind(self, kind: str) -> Ints:
        """The links of a kind, in order."""
        links = [
            block.first + np.flatnonzero(np.resize(np.array(block.kinds) == kind, block.count))
            for block in self.blocks
        ]
        return np.concatenate(links).astype(np.int64)

    def link_ends(self, link: int) -> tuple[str, str]:
        """The names of the tail and head of a link."""
        block = self._block(link)
        return block.ends(int(link) - block.first)

    def link_name(self, link: int) -> str:
        """The name of a link: "tail>head"."""
        return ">".join(self.link_ends(link))

    @cached_property
    def _last_end(self) -> int:
        return self.ends[-1].first + self.ends[-1].count - 1

    @cached_property
    def router(self) -> Router:
        """The router over the working links."""
        return self.wiring.router(self.capacity)

    def routes(self, sources: ArrayLike, destinations: ArrayLike) -> tuple[Ints, Ints]:
        """(indptr [P + 1], links): the route of pair p is links[indptr[p] : indptr[p + 1]], empty from an end to itself.

        With adaptive routing, the flows of one call spread over the links. Raises ClusterError for a missing end, and
        for an island that no route reaches, with its name.
        """
        source, destination = (np.atleast_1d(np.asarray(ends, np.int64)) for ends in (sources, destinations))
        if source.shape != destination.shape or source.ndim != 1:
            raise ClusterError(
                f"{source.shape} sources and {destination.shape} destinations; give equally many of both"
            )
        both = np.concatenate([source, destination])
        for end in both[(both < 0) | (both > self._last_end)][:1]:
            raise ClusterError(f"{self.name} has no end {end}; it has 0 to {self._last_end}")
        hops, lost = self.router.hops(source, destination, self.routing)
        for pair in np.flatnonzero(lost)[:1]:
            raise ClusterError(lost_text(self, int(source[pair]), int(destination[pair])))
        is_used = hops >= 0  # [pair, hop]
        indptr = np.zeros(len(source) + 1, np.int64)
        for used in is_used.T:  # five times faster than a sum over the short axis
            indptr[1:] += used
        np.cumsum(indptr, out=indptr)
        return indptr, hops[is_used]

    def route(self, source: int, destination: int) -> tuple[str, ...]:
        """The names of the links from one end to another."""
        _, links = self.routes([source], [destination])
        return tuple(self.link_name(int(link)) for link in links)

    def find(self, *patterns: str) -> Ints:
        """The links that match patterns. Raises ClusterError for a pattern without matches.

        "a>b" matches links from a to b, "a<>b" those of both directions, and "a" all links of a part. The wildcards
        are those of file names: *, ? and [...].
        """
        tails, heads = link_names(self)
        parts = list(dict.fromkeys((*tails, *heads)))
        matches = [_matching_links(pattern, tails, heads, parts) for pattern in patterns]
        for pattern, links in zip(patterns, matches, strict=True):
            if not len(links):
                close = get_close_matches(pattern.split(">")[0], parts, n=3, cutoff=0.3)
                raise ClusterError(
                    f"{self.name} has no link or part {pattern[:80]!r}; there are {', '.join(close or parts[:3])}, …"
                )
        return np.unique(np.concatenate([np.empty(0, np.int64), *matches]))

    def without(self, *patterns: str) -> Fabric:
        """The fabric with broken links or parts: see `find`."""
        return self.degraded(*patterns, share=0.0)

    def degraded(self, *patterns: str, share: float) -> Fabric:
        """The fabric with some links slowed down to a share of their capacity, 0 to 1: see `find`."""
        if not 0.0 <= share <= 1.0:
            raise ClusterError(f"share {share:g} of a link's capacity; it must be 0 (broken) to 1 (as new)")
        capacity = self.capacity.copy()
        capacity[self.find(*patterns)] *= share
        return replace(self, capacity=capacity)

    def routed(self, routing: Routing) -> Fabric:
        """The fabric with another choice of routes."""
        changed = replace(self, routing=routing)
        if "router" in self.__dict__:  # the router depends on the links only
            changed.__dict__["router"] = self.router
        return changed

    def placed(self, places: ArrayLike) -> Fabric:
        """The fabric from the view of a job with rank r at end places[r].

        Raises ClusterError for a missing end.
        """
        where = np.atleast_1d(np.asarray(places, np.int64))
        names = tuple(self.end_name(int(end)) for end in where)
        job = Ends(kind="gpu", first=0, count=len(where), name=lambda rank: names[rank])
        return replace(self, ends=(job,), wiring=_PlacedWiring(self.wiring, where))


@dataclass(frozen=True)
class _PlacedWiring:
    """A wiring with other numbers for its ends."""

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


def _matching_links(pattern: str, tails: list[str], heads: list[str], parts: Iterable[str]) -> Ints:
    """The links that match one pattern."""
    both_ways = "<>" in pattern
    first_pattern, arrow, second_pattern = pattern.partition("<>" if both_ways else ">")
    first = {part for part in parts if fnmatchcase(part, first_pattern)}
    second = {part for part in parts if fnmatchcase(part, second_pattern)} if arrow else first
    pairs = enumerate(zip(tails, heads, strict=True))
    if not arrow:
        links = [link for link, (tail, head) in pairs if tail in first or head in first]
    else:
        links = [
            link
            for link, (tail, head) in pairs
            if (tail in first and head in second) or (both_ways and tail in second and head in first)
        ]
    return np.array(links, np.int64)


def link_names(fabric: Fabric) -> tuple[list[str], list[str]]:
    """(names of the tails, names of the heads) of all links."""
    both = [block.ends(number) for block in fabric.blocks for number in range(block.count)]
    return [tail for tail, _ in both], [head for _, head in both]


def islands(fabric: Fabric) -> tuple[tuple[str, ...], ...]:
    """The groups of ends that working links join in either direction, by name, the largest first."""
    root: dict[str, str] = {}

    def top(part: str) -> str:
        while root.setdefault(part, part) != part:
            root[part] = root[root[part]]
            part = root[part]
        return part

    for tail, head, rate in zip(*link_names(fabric), fabric.capacity, strict=True):
        if rate > 0:
            root[top(tail)] = top(head)
    members: dict[str, list[str]] = {}
    for ends in fabric.ends:
        for number in range(ends.count):
            members.setdefault(top(ends.name(number)), []).append(ends.name(number))
    return tuple(sorted((tuple(names) for names in members.values()), key=len, reverse=True))


def lost_text(fabric: Fabric, source: int, destination: int) -> str:
    """The reason why two ends have no route between them, with the ends of the smaller island."""
    names = fabric.end_name(source), fabric.end_name(destination)
    groups = islands(fabric)
    source_island, destination_island = (next(group for group in groups if name in group) for name in names)
    text = f"{fabric.name}: no route from {names[0]} to {names[1]}"
    if source_island is destination_island:
        return f"{text}; links join them, but broken links block every allowed route"
    island = min(destination_island, source_island, key=len)
    listed = ", ".join(island[:8]) + (f" and {len(island) - 8} more" if len(island) > 8 else "")
    return f"{text}; {listed} {'is' if len(island) == 1 else 'are'} an island that no route reaches"
