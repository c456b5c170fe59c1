"""The inside of a server as a graph: parts, cables, and the best ways between parts.

Traffic between GPUs takes NVLink if NVLink joins them, through switches or at most one other GPU. All other traffic
takes PCI Express, through switches and processors, never through another device. The best kind of way wins (NCCL's
order: NVLink, NVLink over another GPU, one PCIe switch, several, a processor, two processors), then the widest. A
hash chooses among equal ways.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.errors import ClusterError
from podsim.records import dataclass

KINDS = ("gpu", "nic", "storage", "drive", "cpu", "pcie", "nvswitch")
"""The kinds of parts, in the order of the numbers of ends."""
_WIDTH = 25e9
_COST = {"nvlink": 1.0, "pcie": 1.0, "drive": 1.0, "socket": 100.0}
_THROUGH_CPU = 10.0
MOST_CHOICES = 8


@dataclass(frozen=True, kw_only=True)
class Part:
    """A device in a server."""

    name: str
    kind: str
    """The kind, one of KINDS."""
    numa: int = 0
    """The closest NUMA domain."""
    note: str = ""
    """The name elsewhere: a bus address, a model."""
    rate: float = 0.0
    """B/s. The rate of an adapter's network port, one way; 0 if its file does not state it."""


@dataclass(frozen=True, kw_only=True)
class Cable:
    """A connection of two parts: a link in each direction."""

    one: str
    other: str
    kind: str
    """The kind: nvlink, pcie, socket, drive."""
    bandwidth: float
    """B/s. The bandwidth from `one` to `other`."""
    back: float
    """B/s. The bandwidth in the other direction."""
    latency: float = 0.0
    """s. The latency in either direction."""
    lanes: int = 1
    """The number of NVLinks or PCIe lanes."""


def even_cable(
    one: str, other: str, kind: str, rate: float, *, latency: float = 0.0, lanes: int = 1
) -> Cable:
    """A cable with the same bandwidth in both directions."""
    return Cable(one=one, other=other, kind=kind, bandwidth=rate, back=rate, latency=latency, lanes=lanes)


@dataclass(frozen=True, kw_only=True)
class Node:
    """The parts and cables of one server. Cable c is link 2c from `one` to `other`, and link 2c + 1 back."""

    name: str
    parts: tuple[Part, ...]
    """The parts, in the order of KINDS."""
    cables: tuple[Cable, ...]
    source: str = ""

    def __post_init__(self) -> None:
        """Raise ClusterError with all inconsistent parts and cables."""
        problems = [
            f"part {p.name} is a {p.kind}; known: {', '.join(KINDS)}"
            for p in self.parts
            if p.kind not in KINDS
        ]
        if len({p.name for p in self.parts}) < len(self.parts):
            problems.append("two parts have the same name")
        names = {p.name for p in self.parts}
        for cable in self.cables:
            problems += [
                f"a cable ends at {end}, which is not a part"
                for end in (cable.one, cable.other)
                if end not in names
            ]
            if not (cable.bandwidth > 0 and cable.back > 0 and cable.latency >= 0):
                problems.append(f"cable {cable.one} to {cable.other} needs a positive bandwidth each way")
        order = [KINDS.index(p.kind) for p in self.parts if p.kind in KINDS]
        if order != sorted(order):
            problems.append(f"parts must come in the order {', '.join(KINDS)}")
        if not self.count("gpu"):
            problems.append("there is no GPU")
        if problems:
            raise ClusterError(f"{self.name}: {'; '.join(problems)}")

    @property
    def links(self) -> int:
        """The number of one-way links."""
        return 2 * len(self.cables)

    def count(self, kind: str) -> int:
        """The number of parts of a kind."""
        return sum(part.kind == kind for part in self.parts)

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each part, by name."""
        return {part.name: number for number, part in enumerate(self.parts)}

    def places(self, kind: str) -> Ints:
        """The numbers of the parts of a kind."""
        return np.array([n for n, part in enumerate(self.parts) if part.kind == kind], np.int64)

    @cached_property
    def link_ends(self) -> tuple[tuple[int, int], ...]:
        """The numbers of the tail and head of each link."""
        pairs = ((self.place[cable.one], self.place[cable.other]) for cable in self.cables)
        return tuple(ends for first, second in pairs for ends in ((first, second), (second, first)))

    @cached_property
    def capacity(self) -> Floats:
        """B/s. The capacity of each link."""
        return np.array([rate for cable in self.cables for rate in (cable.bandwidth, cable.back)], np.float64)

    @cached_property
    def latency(self) -> Floats:
        """s. The latency of each link."""
        return np.repeat(np.array([cable.latency for cable in self.cables], np.float64), 2)


Way = tuple[int, ...]
Reach = dict[int, tuple[float, list[Way]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ways:
    """The best ways between all parts of a node, as numbers of links."""

    links: Shaped[Ints, "choice source destination hop"]
    """The links of each way; -1 for no hop."""
    choices: Shaped[Ints, "source destination"]
    """The number of equal ways; 1 (without hops) from a part to itself."""
    cost: Shaped[Floats, "source destination"]
    """The cost of the way; infinite if there is none."""
    nvlink: Shaped[Bools, "source destination"]
    """Whether all links of the way are NVLinks."""


def ways(node: Node, alive: Bools) -> Ways:
    """The best ways over the links that are alive, [links of the node]."""
    return working_ways(node) if alive.all() else _find_ways(node, alive)


@lru_cache(maxsize=32)
def working_ways(node: Node) -> Ways:
    """The best ways over all links."""
    return _find_ways(node, np.ones(node.links, np.bool_))


def _find_ways(node: Node, alive: Bools) -> Ways:
    size = len(node.parts)
    best: list[Reach] = [{} for _ in range(size)]
    fast = _graph(node, alive, nvlink=True)
    slow = _graph(node, alive, nvlink=False)
    switches = {n for n, part in enumerate(node.parts) if part.kind == "nvswitch"}
    through = {n for n, part in enumerate(node.parts) if part.kind in ("pcie", "cpu")}
    direct = [_best_ways(fast, source, switches, {}) for source in range(size)]
    over = {n: _THROUGH_CPU for n, part in enumerate(node.parts) if part.kind == "cpu"}
    gpus = [int(n) for n in node.places("gpu")]
    for source in range(size):
        best[source] = {**_best_ways(slow, source, through, over), **direct[source]}
        if node.parts[source].kind == "gpu":
            best[source] |= _relayed_ways(
                direct, source, [gpu for gpu in gpus if gpu not in direct[source]], gpus
            )
    return _make_ways(node, best)


def _graph(node: Node, alive: Bools, *, nvlink: bool) -> list[list[tuple[int, int, float]]]:
    """(head, link, cost) of the working links out of each part: NVLinks, or all others."""
    out: list[list[tuple[int, int, float]]] = [[] for _ in node.parts]
    for link, (tail, head) in enumerate(node.link_ends):
        kind = node.cables[link // 2].kind
        if alive[link] and (kind == "nvlink") == nvlink:
            cost = _COST[kind]
            if node.parts[tail].kind == node.parts[head].kind == "gpu":
                cost += 0.1 * _WIDTH / node.capacity[link]  # wide links first
            out[tail].append((head, link, cost))
    return out


def _best_ways(
    graph: list[list[tuple[int, int, float]]], source: int, through: set[int], over: dict[int, float]
) -> Reach:
    """(cost, cheapest ways) from one part to each other (E. Dijkstra, 1959), through the parts `through` only.

    over: the cost of passing through a part.
    """
    cost = {source: 0.0}
    into: dict[int, list[tuple[int, int]]] = {source: []}
    heap = [(0.0, source)]
    done: list[int] = []
    while heap:
        now, part = heapq.heappop(heap)
        if part in done:
            continue
        done.append(part)
        if part != source and part not in through:
            continue
        now += over.get(part, 0.0) if part != source else 0.0
        for head, link, price in graph[part]:
            there = now + price
            if there < cost.get(head, np.inf) - 1e-9:
                cost[head], into[head] = there, [(part, link)]
                heapq.heappush(heap, (there, head))
            elif there < cost[head] + 1e-9 and head not in done:
                into[head].append((part, link))
    reach: Reach = {source: (0.0, [()])}
    for part in done[1:]:
        reach[part] = (
            cost[part],
            _first_ways(((*way, link) for tail, link in into[part] for way in reach[tail][1])),
        )
    return reach


def _first_ways(all_ways: Iterable[Way]) -> list[Way]:
    return sorted(all_ways)[:MOST_CHOICES]


def _relayed_ways(direct: list[Reach], source: int, targets: list[int], gpus: list[int]) -> Reach:
    """The ways over NVLink through another GPU, to GPUs without NVLinks to the source."""
    reach: Reach = {}
    for target in targets:
        middles = [m for m in gpus if m in direct[source] and target in direct[m] and m != source]
        prices = [direct[source][m][0] + direct[m][target][0] for m in middles]
        low = min(prices, default=np.inf)
        both = (
            (*first, *second)
            for m, price in zip(middles, prices, strict=True)
            if price < low + 1e-9
            for first in direct[source][m][1]
            for second in direct[m][target][1]
        )
        if middles:
            reach[target] = (low, _first_ways(both))
    return reach


def _make_ways(node: Node, best: list[Reach]) -> Ways:
    size = len(node.parts)
    every = [(s, d, cost, options) for s in range(size) for d, (cost, options) in best[s].items()]
    choices = max(len(options) for *_, options in every)
    longest = max(len(way) for *_, options in every for way in options)
    links = np.full((choices, size, size, max(longest, 1)), -1, np.int64)
    option_counts = np.zeros((size, size), np.int64)  # [source, destination]
    least_cost = np.full((size, size), np.inf)  # [source, destination]
    nvlink = np.zeros((size, size), np.bool_)  # [source, destination]
    for s, d, cost, options in every:
        option_counts[s, d], least_cost[s, d] = len(options), cost
        nvlink[s, d] = all(node.cables[link // 2].kind == "nvlink" for link in options[0])
        for c, way in enumerate(options):
            links[c, s, d, : len(way)] = way
    return Ways(links=links, choices=option_counts, cost=least_cost, nvlink=nvlink)
