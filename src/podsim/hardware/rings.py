"""How many rings over NVLink the wiring of a server without NVSwitch allows a group of its GPUs.

A ring passes each GPU once, by one link in and one link out. NCCL lays as many as there are links for, so a group reaches
the bandwidth of its rings, however many links lead elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, permutations, product

from podsim.hardware.fabrics.servers import cube_mesh_lanes, mesh_lanes
from podsim.hardware.inside import cube_mesh_links
from podsim.hardware.parts import System

__all__ = ["ring_shares", "rings"]

_SLOT = 0.5
"""of a link's bandwidth, what PCI Express 3 gives where the links close no ring: 12 of 25 GB/s by NCCL's count"""
Lanes = tuple[tuple[int, ...], ...]
Pair = tuple[int, int]


def ring_shares(system: System) -> tuple[tuple[float, ...], ...]:
    """Share of a GPU's NVLinks that rings over groups of a server's GPUs use; () where all of them do.

    By how far one GPU of a group is from the next, from 1 on, then by their number, from 2 on. Of groups that fill the
    server the one with the fewest rings counts, as it holds up the others; else the first.
    """
    if system.topology == "cube-mesh":
        return _shares(cube_mesh_lanes(system.gpus), cube_mesh_links(system.gpus))
    if system.topology == "nvlink-mesh" and system.gpus > 2:
        each, count = mesh_lanes(system), range(system.gpus)
        lanes = tuple(tuple(each * (a != b) for b in count) for a in count)
        return _shares(lanes, each * (system.gpus - 1))
    return ()


@cache
def _shares(lanes: Lanes, links: int) -> tuple[tuple[float, ...], ...]:
    gpus = len(lanes)
    return tuple(
        tuple(max(_fewest(lanes, stride, members), _SLOT) / links for members in range(2, gpus // stride + 1))
        for stride in range(1, gpus // 2 + 1)
    )


def _fewest(lanes: Lanes, stride: int, members: int) -> int:
    """Fewest rings of any group of GPUs so far apart, where such groups fill a server; else those of the first."""
    span, gpus = stride * members, len(lanes)
    starts = (
        [at + offset for at in range(0, gpus, span) for offset in range(stride)] if gpus % span == 0 else [0]
    )
    groups = (range(start, start + span, stride) for start in starts)
    return min(rings(tuple(tuple(lanes[a][b] for b in group) for a in group)) for group in groups)


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
