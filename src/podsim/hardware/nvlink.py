"""The links between the GPUs of one server, and how many rings over NVLink they allow.

A ring passes each GPU once, by one link in and one link out. NCCL builds as many rings as there are links for them, so a
group reaches the bandwidth of its rings; links that lead elsewhere add nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, permutations, product

from podsim.hardware.catalog import load_pcie
from podsim.hardware.parts import Link, System

# What NCCL reckons with between two sockets, B/s one way (src/graph/topo.h): AMD, and Intel by generation
_SOCKET = {
    "amd": 16e9,
    "xeon-e5": 6e9,
    "xeon-platinum-8480c": 22e9,
    "xeon-platinum-8570": 40e9,
    "intel": 10e9,
}

# nvidia-smi topo -m of a DGX-1V: NVLinks between GPU i (row) and GPU j
CUBE_MESH = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
"""hybrid cube mesh: two squares with diagonals, and a link or two across; six links a GPU"""
_CLOSE_FIRST = (0, 3, 2, 1, 4, 7, 6, 5)
"""which GPUs of a DGX-1 a part of it takes"""
_SLOT = 0.5
"""of a link's bandwidth, what PCI Express 3 gives where the links close no ring: 12 of 25 GB/s by NCCL's count"""
Lanes = tuple[tuple[int, ...], ...]
Pair = tuple[int, int]


def inside_link(system: System) -> Link:
    """The link of one GPU to the others of its node: its NVLinks if they lead to all, else its PCI Express slot."""
    gpu = system.gpu
    joined = system.topology not in ("pcie", "pcie-root", "nvlink-pair") and not gpu.bridge
    if gpu.nvlink and (joined or (system.topology == "nvlink-pair" and system.gpus == 2)):
        return Link(name="NVLink", bandwidth=gpu.nvlink, latency=gpu.nvlink_latency)
    return slot_link(system)


def slot_link(system: System) -> Link:
    """The PCI Express slot of a GPU, one direction."""
    slot, gpu = system.pcie, system.gpu
    if slot is None or slot.generation > gpu.pcie_generation:
        slot = load_pcie(f"pcie{gpu.pcie_generation}")
    return Link(
        name=f"PCIe {slot.generation}.0 x{gpu.pcie_lanes}",
        bandwidth=slot.bandwidth * gpu.pcie_lanes / 16,
        latency=slot.latency,
    )


def reach(system: System, gpus: int) -> float:
    """Share of a GPU's links that lead to the other GPUs of a part of its node.

    All of them through NVSwitch or PCI Express; in a mesh only those to the neighbours in the part. In the
    DGX-1 a GPU has 4 of its 6 links within its group of four, and 2 with its closest neighbour (topology
    listing of a DGX-1V).
    """
    if system.topology == "nvlink-mesh":
        return max(gpus - 1, 1) / (system.gpus - 1)
    if system.topology == "cube-mesh" and system.gpus == 8:
        return cube_mesh_links(min(gpus, 7)) / 6
    return 1.0


def cube_mesh_links(gpus: int) -> int:
    """NVLinks that the bandwidth of a GPU stands for in a cube mesh, or in a part of one."""
    return 6 if gpus == 8 else 4 if gpus >= 4 else 2


def socket_rate(system: System) -> float:
    """B/s between two sockets, one way, as NCCL reckons."""
    cpu = system.cpu
    if cpu is None:
        return _SOCKET["intel"]
    return next((rate for name, rate in _SOCKET.items() if cpu.name.startswith(name)), _SOCKET[cpu.vendor])


def cube_mesh_lanes(gpus: int) -> tuple[tuple[int, ...], ...]:
    """NVLinks between each two GPUs of a hybrid cube mesh, or of the closest GPUs of one."""
    order = range(8) if gpus == 8 else _CLOSE_FIRST[:gpus]
    return tuple(tuple(CUBE_MESH[a][b] for b in order) for a in order)


def mesh_lanes(system: System) -> int:
    """NVLinks between each two GPUs of a server that joins each to each other."""
    return max(system.gpu.nvlinks // max(system.gpus - 1, 1), 1)


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
    """The fewest rings of any group with that stride, if such groups fill a server; else those of the first."""
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
