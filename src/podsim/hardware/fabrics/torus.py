"""Tori of chips: rings of equal links in one to three dimensions, as in TPU pods, and slices of them over a network.

Routes follow the dimensions in order, the shorter way round each ring. Halfway round, chips with an even sum of
coordinates go up and the others down. Around a broken link, other orders and directions are tried, then any shortest
route. In a twisted torus the links that close a short ring lead half of a long ring further; the closest of the images
of the destination is taken. Source: Camarero, Martinez, Beivide, Lattice graphs for high-scale interconnection
topologies, IEEE TPDS 26 (2015).
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from itertools import permutations, product
from math import prod

import numpy as np

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import ClusterError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.fabric_links import NONE, Block, Ends, Fabric, Hops, Routing
from podsim.hardware.fabrics.tree_routes import mix
from podsim.hardware.nvlink import slot_link
from podsim.hardware.torus_slices import MOST_CHIPS, twist_shifts, twisted_images
from podsim.records import dataclass


def torus(
    shape: tuple[int, ...],
    *,
    bandwidth: float,
    latency: float = 0.0,
    name: str = "torus",
    routing: Routing | None = None,
) -> Fabric:
    """A torus with these numbers of chips; bandwidth: B/s of a link one way; latency: s of a link.

    A dimension of two chips has one cable between them. Raises ClusterError for an impossible shape.
    """
    if not shape or min(shape) < 1 or prod(shape) > MOST_CHIPS or len(shape) > 3:
        raise ClusterError(
            f"a torus of {shape} chips; give one to three dimensions of at least 1, {MOST_CHIPS} in all"
        )
    wiring = Torus(tuple(shape), tuple(side > 2 for side in shape))
    return _fabric(wiring, bandwidth, latency, name, routing)


def torus_fabric(cluster: Cluster, routing: Routing | None = None) -> Fabric:
    """The links of slices of a torus, and those of their hosts to each other over a network without limits inside."""
    links = cluster.system.torus
    assert links is not None
    wiring = Torus(links.shape, links.wraps, links.twisted, cluster.nodes, cluster.system.trays)
    bandwidth = cluster.nvlink.bandwidth / (2 * len(links.shape))
    fabric = _fabric(wiring, bandwidth, cluster.nvlink.latency, cluster.name, routing)
    host, slot = wiring.host_link, slot_link(cluster.system)
    fabric.capacity[host : wiring.slot_link] = cluster.node_bandwidth / cluster.system.trays
    fabric.latency[host : wiring.slot_link] = cluster.network.latency / 2
    fabric.capacity[wiring.slot_link :], fabric.latency[wiring.slot_link :] = slot.bandwidth, 0.0
    return fabric


def _fabric(wiring: Torus, bandwidth: float, latency: float, name: str, routing: Routing | None) -> Fabric:
    chips = wiring.chips * wiring.slices
    exists = np.tile(wiring.next_chips >= 0, wiring.slices).ravel()
    capacity = np.concatenate([np.where(exists, float(bandwidth), 0.0), np.zeros(wiring.links - len(exists))])
    return Fabric(
        name=name,
        ends=(Ends(kind="chip", first=0, count=chips, name=wiring.chip_name),),
        blocks=wiring.blocks(),
        capacity=capacity,
        latency=np.full(wiring.links, float(latency)),
        wiring=wiring,
        routing=routing or Routing(),
    )


@dataclass(frozen=True)
class Torus:
    """The wiring of equal slices of a torus. Chip numbers count the last dimension first, and slices last.

    Link (2d + way) * chips of all slices + c leaves chip c in dimension d; then come the links of hosts, up and down, and
    those of chips to their hosts.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    """Whether the links of each dimension close to a ring."""
    twisted: bool = False
    slices: int = 1
    hosts: int = 1
    """The number of hosts of a slice."""

    @property
    def chips(self) -> int:
        """The number of chips of a slice."""
        return prod(self.shape)

    @property
    def host_link(self) -> int:
        """The number of the first link of a host."""
        return 2 * len(self.shape) * self.chips * self.slices

    @property
    def slot_link(self) -> int:
        """The number of the first link of a chip to its host."""
        return self.host_link + (2 * self.hosts * self.slices if self.slices > 1 else 0)

    @property
    def links(self) -> int:
        """The number of one-way links."""
        return self.slot_link + (2 * self.chips * self.slices if self.slices > 1 else 0)

    @cached_property
    def next_chips(self) -> Shaped[Ints, "dimension direction chip"]:
        """The next chip of each chip in a dimension, up and down; -1 where there is no link."""
        sides = np.array(self.shape)[:, None]
        at = np.array(np.unravel_index(np.arange(self.chips), self.shape), np.int64)  # [dimension, chip]
        twist = twist_shifts(self.shape) * self.twisted  # [dimension, dimension]
        table = np.full((len(self.shape), 2, self.chips), -1, np.int64)
        for d, way in product(range(len(self.shape)), range(2)):
            to = at.copy()  # [dimension, chip]
            to[d] += 1 - 2 * way
            rounds = to[d] // self.shape[d]
            to = (to + twist[d][:, None] * rounds) % sides
            exists = self.wraps[d] | (rounds == 0)
            table[d, way] = np.where(exists, np.ravel_multi_index(tuple(to), self.shape), -1)
        return table

    def chip_name(self, chip: int) -> str:
        """The name of a chip: its coordinates, in its slice if there are several."""
        at, local = divmod(int(chip), self.chips)
        name = "chip" + "-".join(str(step) for step in np.unravel_index(local, self.shape))
        return f"node{at}/{name}" if self.slices > 1 else name

    def neighbour(self, chip: int, dimension: int, way: int) -> int:
        """The next chip in a dimension, up (0) or down (1); the chip itself where there is no link."""
        at, local = divmod(chip, self.chips)
        to = int(self.next_chips[dimension, way, local])
        return at * self.chips + (to if to >= 0 else local)

    def blocks(self) -> tuple[Block, ...]:
        """All links."""
        chips, hosts = self.chips * self.slices, self.hosts * self.slices

        def ends(number: int) -> tuple[str, str]:
            direction, chip = divmod(number, chips)
            other = self.neighbour(chip, direction // 2, direction % 2)
            return self.chip_name(chip), self.chip_name(other)

        def host_ends(number: int) -> tuple[str, str]:
            at, host = divmod(number % hosts, self.hosts)
            name = f"node{at}/host{host}"
            return (name, "network") if number < hosts else ("network", name)

        def slot_ends(number: int) -> tuple[str, str]:
            chip = number % chips
            at, local = divmod(chip, self.chips)
            names = self.chip_name(chip), f"node{at}/host{local // (self.chips // self.hosts)}"
            return names if number < chips else names[::-1]

        inside = Block(kinds=("torus",), first=0, count=self.host_link, ends=ends)
        if self.slices == 1:
            return (inside,)
        return (
            inside,
            Block(kinds=("adapter",), first=self.host_link, count=2 * hosts, ends=host_ends),
            Block(kinds=("pcie",), first=self.slot_link, count=2 * chips, ends=slot_ends),
        )

    def router(self, capacity: Floats) -> _TorusRouter:
        """The router over the working links."""
        return _TorusRouter(self, capacity)


@dataclass(frozen=True)
class _TorusRouter:
    torus: Torus
    capacity: Floats

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        """(links of each pair, whether the pair lacks a route)."""
        chips = self.torus.chips
        across = source // chips != destination // chips
        if not across.any():
            return self._inside(source, destination)
        hosts, per = self.torus.hosts * self.torus.slices, chips // self.torus.hosts
        up, down = self.torus.host_link + source // per, self.torus.host_link + hosts + destination // per
        links, lost = self._inside(source, np.where(across, source, destination))
        slot = self.torus.slot_link + np.stack([source, chips * self.torus.slices + destination])
        far = np.stack([slot[0], up, down, slot[1]], axis=1)[across]  # [pair, hop]
        lost[across] = (self.capacity[far] == 0).any(axis=1)
        return _replace_rows(links, np.flatnonzero(across), far), lost

    def _inside(self, source: Ints, destination: Ints) -> Hops:
        """The hops of pairs in one slice each."""
        dimensions = range(len(self.torus.shape))
        short = tuple(False for _ in dimensions)
        hops = self._way(source, destination, tuple(dimensions), short)  # [pair, hop]
        left = self._cut_pairs(hops)
        turns = [ways for ways in product((False, True), repeat=len(dimensions)) if self._can_turn(ways)]
        for order, turned in product(permutations(dimensions), turns):
            if not len(left):
                break
            way = self._way(source[left], destination[left], order, turned)  # [pair, hop]
            hops = _replace_rows(hops, left, way)
            left = left[self._cut_pairs(way)]
        lost = np.zeros(len(source), np.bool_)
        for pair in left:
            links = self._search(int(source[pair]), int(destination[pair]))
            lost[pair] = not links
            hops = _replace_rows(hops, np.array([pair]), np.array([links or [NONE]], np.int64))
        return hops, lost

    def _can_turn(self, turned: tuple[bool, ...]) -> bool:
        """Whether routes may go the longer way round these dimensions."""
        torus = self.torus
        return not any(turned) or (not torus.twisted and all(np.array(torus.wraps)[np.array(turned)]))

    def _cut_pairs(self, hops: Shaped[Ints, "pair hop"]) -> Ints:
        if self.capacity.all():
            return np.empty(0, np.int64)
        broken = (self.capacity[np.maximum(hops, 0)] == 0) & (hops >= 0)  # [pair, hop]
        return np.flatnonzero(broken.any(axis=1))

    def _way(self, source: Ints, destination: Ints, order: tuple[int, ...], turned: tuple[bool, ...]) -> Ints:
        """The hops along the dimensions in an order, the longer way round where `turned`."""
        torus, chips = self.torus, self.torus.chips * self.torus.slices
        first, at = source // torus.chips * torus.chips, source % torus.chips
        all_steps = self._steps(at, destination % torus.chips)  # [dimension, pair]
        columns: list[Ints] = []
        for d in order:
            steps = all_steps[d]
            if turned[d]:
                steps = steps - np.where(steps >= 0, 1, -1) * torus.shape[d] * (steps != 0)
            way = (steps < 0).astype(np.int64)
            link = (2 * d + way) * chips + first
            for step in range(int(np.abs(steps).max(initial=0))):
                going = step < np.abs(steps)
                columns.append(np.where(going, link + at, NONE))
                at = np.where(going, np.maximum(torus.next_chips[d, way, at], 0), at)
        return np.stack(columns, axis=1) if columns else np.full((len(source), 1), NONE, np.int64)

    def _steps(self, source: Ints, destination: Ints) -> Ints:
        """The signed steps along each dimension from chip to chip, over the closest image, [dimension, pair]."""
        torus = self.torus
        sides, wraps = np.array(torus.shape)[:, None], np.array(torus.wraps)[:, None]
        start = np.array(np.unravel_index(source, torus.shape), np.int64)  # [dimension, pair]
        away = np.array(np.unravel_index(destination, torus.shape), np.int64) - start  # [dimension, pair]
        parity = start.sum(axis=0)
        if not torus.twisted:
            ahead = away % sides  # [dimension, pair]
            up = (2 * ahead < sides) | ((2 * ahead == sides) & (parity % 2 == 0))  # [dimension, pair]
            return np.where(wraps, np.where(up, ahead, ahead - sides), away)
        images, closest = twisted_images(torus.shape, away)
        offset = np.ravel_multi_index(tuple(away % sides), torus.shape)
        turn = (parity + mix(offset).astype(np.int64) % 1024) % closest.sum(axis=0)
        chosen = (closest & (np.cumsum(closest, axis=0) - 1 == turn)).argmax(axis=0)
        return np.asarray(np.take_along_axis(images, chosen[None, None], axis=0)[0])

    def _search(self, source: int, destination: int) -> list[int]:
        """The links of a shortest route, by breadth-first search; empty if there is none."""
        torus, chips = self.torus, self.torus.chips * self.torus.slices
        came: dict[int, int] = {source: -1}
        queue = deque([source])
        while queue and destination not in came:
            chip = queue.popleft()
            for d, way in product(range(len(torus.shape)), range(2)):
                link = (2 * d + way) * chips + chip
                other = torus.neighbour(chip, d, way)
                if self.capacity[link] > 0 and other not in came:
                    came[other] = link
                    queue.append(other)
        if destination not in came:
            return []
        links: list[int] = []
        chip = destination
        while came[chip] >= 0:
            links.append(came[chip])
            chip = came[chip] % chips
        return links[::-1]


def _replace_rows(hops: Shaped[Ints, "pair hop"], rows: Ints, way: Shaped[Ints, "pair hop"]) -> Ints:
    """The hops with some rows replaced, wider if necessary."""
    wide = max(hops.shape[1], way.shape[1])
    result = np.pad(hops, ((0, 0), (0, wide - hops.shape[1])), constant_values=NONE)  # [pair, hop]
    result[rows] = NONE
    result[rows, : way.shape[1]] = way
    return result
