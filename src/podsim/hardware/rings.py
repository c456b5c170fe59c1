"""How many rings over NVLink the wiring of a server without NVSwitch allows a group of its GPUs.

A ring passes each GPU once, by one link in and one link out. NCCL lays as many as there are links for, so a group reaches
the bandwidth of its rings, however many links lead elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, permutations, product

from podsim.hardware.fabrics.servers import CLOSE_FIRST, CUBE_MESH
from podsim.hardware.inside import cube_mesh_links
from podsim.hardware.parts import System

__all__ = ["ring_shares", "rings"]

Lanes = tuple[tuple[int, ...], ...]
Pair = tuple[int, int]


def ring_shares(system: System) -> tuple[float, ...]:
    """Share of a GPU's NVLinks that rings over the first 2, 3, … GPUs of a server use; () where all of them do.

    Where the links close no ring, the GPU between passes on what two others exchange.
    """
    if system.topology == "cube-mesh":
        order = range(8) if system.gpus == 8 else CLOSE_FIRST[: system.gpus]
        lanes = tuple(tuple(CUBE_MESH[a][b] for b in order) for a in order)
        return _shares(lanes, cube_mesh_links(system.gpus))
    if system.topology == "nvlink-mesh" and system.gpus > 2:
        each, count = max(system.gpu.nvlinks // (system.gpus - 1), 1), range(system.gpus)
        lanes = tuple(tuple(each * (a != b) for b in count) for a in count)
        return _shares(lanes, each * (system.gpus - 1))
    return ()


@cache
def _shares(lanes: Lanes, links: int) -> tuple[float, ...]:
    return tuple(rings(tuple(row[:n] for row in lanes[:n])) / links for n in range(2, len(lanes) + 1))


def rings(lanes: Lanes) -> int:
    """Most rings over all GPUs of a group, one way each, given the number of links between each two.

    Two GPUs have a ring for each link. With more, a cycle of links carries two rings, one either way. Without a cycle of
    direct links, those are taken in which a GPU between passes on what two others exchange.
    """
    count = len(lanes)
    if count == 2:
        return lanes[0][1]
    free = Counter({(a, b): lanes[a][b] for a, b in combinations(range(count), 2) if lanes[a][b]})
    orders = [(0, *rest, 0) for rest in permutations(range(1, count)) if rest[0] < rest[-1]]
    direct = [links for order in orders if (links := Counter(map(_pair, pairwise(order)))) <= free]
    relayed = direct or [links for order in orders for links in _relayed(order, free) if links <= free]
    return 2 * _packed(relayed, free)


def _pair(ends: tuple[int, int]) -> Pair:
    return min(ends), max(ends)


def _relayed(order: tuple[int, ...], free: Counter[Pair]) -> Iterator[Counter[Pair]]:
    """Links of a cycle in which GPUs without a link reach each other through a third, each way to choose it."""
    steps = [_pair(ends) for ends in pairwise(order)]
    ways = [
        [(step,)]
        if free[step]
        else [(_pair((step[0], c)), _pair((c, step[1]))) for c in set(order) - {*step}]
        for step in steps
    ]
    for chosen in product(*ways):
        yield Counter(link for way in chosen for link in way)


def _packed(cycles: list[Counter[Pair]], free: Counter[Pair]) -> int:
    """Most cycles, each as often as its links allow, that fit into the free links together."""
    best = 0
    for at, cycle in enumerate(cycles):
        if cycle <= free:
            left = free - cycle
            if best < sum(left.values()) // cycle.total() + 1:
                best = max(best, 1 + _packed(cycles[at:], left))
    return best
