"""Tori of chips: rings of equal links in two or three dimensions, as in TPU pods.

Routes follow the dimensions in order, the shorter way round each ring. Halfway round, chips with an even sum of
coordinates go up and the others down. Around a broken link, other orders and directions are tried, then any shortest
route.

Axes: P pairs, H hops, D dimensions, N chips.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import prod

import numpy as np

from podsim.errors import ClusterError, unknown_name
from podsim.hardware.fabrics.fabric_links import NONE, Block, Ends, Fabric, Floats, Hops, Ints, Routing

TPU_PODS: dict[str, tuple[tuple[int, ...], float, str]] = {
    "tpu-v4": (
        (16, 16, 16),
        50e9,
        "github.com/stas00/ml-engineering (600 GB/s both ways over 6 ports, 4,096 chips)",
    ),
    "tpu-v5e": (
        (16, 16),
        50e9,
        "docs.cloud.google.com/tpu/docs/v5e (400 GB/s both ways over 4 ports, 256 chips)",
    ),
    "tpu-v5p": (
        (16, 20, 28),
        100e9,
        "docs.cloud.google.com/tpu/docs/v5p-training (1,200 GB/s both ways over 6 ports, 8,960 chips)",
    ),
}
"""(shape, B/s of a link one way, source) of each pod; the shapes of v4 and v5p are common knowledge."""
MOST_CHIPS = 1_000_000


def tpu_pod(name: str) -> Fabric:
    """The torus of a TPU pod. Raises ClusterError for an unknown name."""
    if name not in TPU_PODS:
        raise ClusterError(unknown_name("TPU pod", name, TPU_PODS))
    shape, bandwidth, _ = TPU_PODS[name]
    return torus(shape, bandwidth=bandwidth, name=name)


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
    wiring = Torus(tuple(shape))
    links = 2 * len(shape) * wiring.chips
    capacity = np.full(links, float(bandwidth))
    for dimension, size in enumerate(shape):
        first = 2 * dimension * wiring.chips
        if size == 1:
            capacity[first : first + 2 * wiring.chips] = 0.0
        elif size == 2:  # the only cable goes up from 0 and down from 1; none wraps around
            at = wiring.coordinates_DN[dimension]
            capacity[first : first + wiring.chips][at == 1] = 0.0
            capacity[first + wiring.chips : first + 2 * wiring.chips][at == 0] = 0.0
    return Fabric(
        name=name,
        ends=(Ends(kind="chip", first=0, count=wiring.chips, name=wiring.chip_name),),
        blocks=wiring.blocks(),
        capacity=capacity,
        latency=np.full(links, float(latency)),
        wiring=wiring,
        routing=routing or Routing(),
    )


@dataclass(frozen=True)
class Torus:
    """The wiring of a torus. Chip numbers count the last dimension first.

    Link (2d + way) * chips + c leaves chip c in dimension d.
    """

    shape: tuple[int, ...]

    @property
    def chips(self) -> int:
        """The number of chips."""
        return prod(self.shape)

    @cached_property
    def coordinates_DN(self) -> Ints:
        """The coordinates of each chip."""
        return np.array(np.unravel_index(np.arange(self.chips), self.shape), np.int64)

    def chip_name(self, chip: int) -> str:
        """The name of a chip: its coordinates."""
        return "chip" + "-".join(str(at) for at in np.unravel_index(chip, self.shape))

    def neighbour(self, chip: int, dimension: int, way: int) -> int:
        """The next chip in a dimension, up (0) or down (1)."""
        at = list(np.unravel_index(chip, self.shape))
        at[dimension] = (at[dimension] + (1 if way == 0 else -1)) % self.shape[dimension]
        return int(np.ravel_multi_index(at, self.shape))

    def blocks(self) -> tuple[Block, ...]:
        """All links."""

        def ends(number: int) -> tuple[str, str]:
            direction, chip = divmod(number, self.chips)
            other = self.neighbour(chip, direction // 2, direction % 2)
            return self.chip_name(chip), self.chip_name(other)

        return (Block(kinds=("torus",), first=0, count=2 * len(self.shape) * self.chips, ends=ends),)

    def router(self, capacity: Floats) -> _TorusRouter:
        """The router over the working links."""
        return _TorusRouter(self, capacity)


@dataclass(frozen=True)
class _TorusRouter:
    torus: Torus
    capacity: Floats

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        """(links of each pair, whether the pair lacks a route)."""
        dimensions = range(len(self.torus.shape))
        short = tuple(False for _ in dimensions)
        hops_PH = self._way(source, destination, tuple(dimensions), short)
        left = self._cut_pairs(hops_PH)
        for order, turned in product(
            permutations(dimensions), product((False, True), repeat=len(dimensions))
        ):
            if not len(left):
                break
            way_PH = self._way(source[left], destination[left], order, turned)
            hops_PH = _replace_rows(hops_PH, left, way_PH)
            left = left[self._cut_pairs(way_PH)]
        lost = np.zeros(len(source), np.bool_)
        for pair in left:
            links = self._search(int(source[pair]), int(destination[pair]))
            lost[pair] = not links
            hops_PH = _replace_rows(hops_PH, np.array([pair]), np.array([links or [NONE]], np.int64))
        return hops_PH, lost

    def _cut_pairs(self, hops_PH: Ints) -> Ints:
        if self.capacity.all():
            return np.empty(0, np.int64)
        broken_PH = (self.capacity[np.maximum(hops_PH, 0)] == 0) & (hops_PH >= 0)
        return np.flatnonzero(broken_PH.any(axis=1))

    def _way(self, source: Ints, destination: Ints, order: tuple[int, ...], turned: tuple[bool, ...]) -> Ints:
        """The hops along the dimensions in an order, the longer way round where `turned`."""
        shape, chips = self.torus.shape, self.torus.chips
        at_DP = np.array(np.unravel_index(source, shape), np.int64)
        to_DP = np.array(np.unravel_index(destination, shape), np.int64)
        even = at_DP.sum(axis=0) % 2 == 0
        columns: list[Ints] = []
        for d in order:
            size, ahead = shape[d], (to_DP[d] - at_DP[d]) % shape[d]
            up = (2 * ahead < size) | ((2 * ahead == size) & even)
            if turned[d]:
                up = ~up
            steps = np.where(up, ahead, (size - ahead) % size)
            first = (2 * d + np.where(up, 0, 1)) * chips
            for step in range(int(steps.max(initial=0))):
                chip = np.ravel_multi_index(tuple(at_DP), shape)
                going = step < steps
                columns.append(np.where(going, first + chip, NONE))
                at_DP[d] = np.where(going, (at_DP[d] + np.where(up, 1, -1)) % size, at_DP[d])
        return np.stack(columns, axis=1) if columns else np.full((len(source), 1), NONE, np.int64)

    def _search(self, source: int, destination: int) -> list[int]:
        """The links of a shortest route, by breadth-first search; empty if there is none."""
        torus = self.torus
        came: dict[int, int] = {source: -1}
        queue = deque([source])
        while queue and destination not in came:
            chip = queue.popleft()
            for d, way in product(range(len(torus.shape)), range(2)):
                link = (2 * d + way) * torus.chips + chip
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
            chip = came[chip] % torus.chips
        return links[::-1]


def _replace_rows(hops_PH: Ints, rows: Ints, way_PH: Ints) -> Ints:
    """The hops with some rows replaced, wider if necessary."""
    wide = max(hops_PH.shape[1], way_PH.shape[1])
    result_PH = np.pad(hops_PH, ((0, 0), (0, wide - hops_PH.shape[1])), constant_values=NONE)
    result_PH[rows] = NONE
    result_PH[rows, : way_PH.shape[1]] = way_PH
    return result_PH
