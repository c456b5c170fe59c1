"""The links between the GPUs of one server, and the number of rings over NVLink that they allow.

A ring visits each GPU once, with one link in and one link out. NCCL builds as many rings as the links allow, so a
group reaches the bandwidth of its rings. Links outside the rings add nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise, permutations, product

from podsim.hardware.catalog import load_pcie
from podsim.hardware.parts import Link, System

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
"""The NVLinks of a hybrid cube mesh: two squares with diagonals and links across, six links per GPU."""
_CLOSE_FIRST = (0, 3, 2, 1, 4, 7, 6, 5)
"""The order in which a part of a DGX-1 takes GPUs."""
_SLOT = 0.5
"""share. The bandwidth of PCI Express 3 over that of a link, where the links form no ring: 12 of 25 GB/s in NCCL."""
Lanes = tuple[tuple[int, ...], ...]
Pair = tuple[int, int]


def inside_link(system: System) -> Link:
    """The link of a GPU to the others of its node: its NVLinks if they reach all of them, else its PCI Express slot."""
    gpu = system.gpu
    if system.topology == "wafer":
        return Link(name="wafer fabric", bandwidth=gpu.nvlink)
    joined = system.topology not in ("pcie", "pcie-root", "nvlink-pair") and not gpu.bridge
    if gpu.nvlink and (joined or (system.topology == "nvlink-pair" and system.gpus == 2)):
        return Link(
            name="ICI" if system.torus else "NVLink", bandwidth=gpu.nvlink, latency=gpu.nvlink_latency
        )
    return slot_link(system)


def changed_link(link: Link, before: System, system: System) -> Link:
    """The link of a GPU inside a node, after the system changed."""
    if system.gpu == before.gpu and system.gpus == before.gpus:
        return link
    new = inside_link(system)
    share = reach_share(before, system.gpus) if system.gpus < before.gpus else 1.0
    return replace(new, bandwidth=new.bandwidth * share)


def slot_link(system: System, *, copied: bool = False) -> Link:
    """The PCI Express slot of a GPU, in one direction; copied: at the rate that copies reach."""
    slot, gpu = system.pcie, system.gpu
    if slot is None or slot.generation > gpu.pcie_generation:
        slot = load_pcie(f"pcie{gpu.pcie_generation or 4}")
    return Link(
        name=f"PCIe {slot.generation}.0 x{gpu.pcie_lanes}",
        bandwidth=(slot.copies if copied else slot.bandwidth) * gpu.pcie_lanes / 16,
        latency=slot.latency,
    )


def reach_share(system: System, gpus: int) -> float:
    """The share of a GPU's links that lead to the other GPUs of a part of its node.

    Over NVSwitch or PCI Express all of them do; in a mesh only those to neighbours in the part. In the DGX-1 a GPU
    has 4 of its 6 links within its group of four, and 2 to its closest neighbour (topology listing of a DGX-1V).
    """
    if system.topology == "nvlink-mesh":
        return max(gpus - 1, 1) / (system.gpus - 1)
    if system.topology == "cube-mesh" and system.gpus == 8:
        return cube_mesh_links(min(gpus, 7)) / 6
    return 1.0


def cube_mesh_links(gpus: int) -> int:
    """The number of NVLinks behind a GPU's bandwidth in a cube mesh, or in a part of one."""
    return 6 if gpus == 8 else 4 if gpus >= 4 else 2


def cube_mesh_lanes(gpus: int) -> tuple[tuple[int, ...], ...]:
    """The NVLinks between each pair of GPUs of a hybrid cube mesh, or of its closest GPUs."""
    order = range(8) if gpus == 8 else _CLOSE_FIRST[:gpus]
    return tuple(tuple(CUBE_MESH[a][b] for b in order) for a in order)


def mesh_lanes(system: System) -> int:
    """The NVLinks between each pair of GPUs of a fully connected server."""
    return max(system.gpu.nvlinks // max(system.gpus - 1, 1), 1)


def ring_shares(system: System) -> tuple[tuple[float, ...], ...]:
    """The share of a GPU's NVLinks that rings over a group use, by stride from 1 and group size from 2.

    () where rings use all NVLinks. If such groups fill the server, the slowest of them counts; else the first one.
    """
    if system.topology == "cube-mesh":
        return _group_shares(cube_mesh_lanes(system.gpus), cube_mesh_links(system.gpus))
    if system.topology == "nvlink-mesh" and system.gpus > 2:
        pair_lanes, count = mesh_lanes(system), range(system.gpus)
        lanes = tuple(tuple(pair_lanes * (a != b) for b in count) for a in count)
        return _group_shares(lanes, pair_lanes * (system.gpus - 1))
    return ()


@cache
def _group_shares(lanes: Lanes, links: int) -> tuple[tuple[float, ...], ...]:
    gpus = len(lanes)
    return tuple(
        tuple(
            max(_fewest_rings(lanes, stride, members), _SLOT) / links
            for members in range(2, gpus // stride + 1)
        )
        for stride in range(1, gpus // 2 + 1)
    )


def _fewest_rings(lanes: Lanes, stride: int, members: int) -> int:
    """The fewest rings of any group with a stride, if such groups fill a server; else the rings of the first group."""
    span, gpus = stride * members, len(lanes)
    starts = (
        [at + offset for at in range(0, gpus, span) for offset in range(stride)] if gpus % span == 0 else [0]
    )
    groups = (range(start, start + span, stride) for start in starts)
    return min(rings(tuple(tuple(lanes[a][b] for b in group) for a in group)) for group in groups)


def rings(lanes: Lanes) -> int:
    """The largest number of one-way rings over all GPUs of a group, given the links between each pair.

    Two GPUs have a ring for each link. With more GPUs, a cycle of links carries two rings, one each way. Without a cycle
    of direct links, a GPU between two others may relay their traffic.
    """
    count = len(lanes)
    if count == 2:
        return lanes[0][1]
    free = Counter({(a, b): lanes[a][b] for a, b in combinations(range(count), 2) if lanes[a][b]})
    orders = [(0, *rest, 0) for rest in permutations(range(1, count)) if rest[0] < rest[-1]]
    direct = [links for order in orders if (links := Counter(map(_pair, pairwise(order)))) <= free]
    relayed = direct or [links for order in orders for links in _relayed_cycles(order, free) if links <= free]
    return 2 * _count_cycles(relayed, free)


def _pair(ends: tuple[int, int]) -> Pair:
    return min(ends), max(ends)


def _relayed_cycles(order: tuple[int, ...], free: Counter[Pair]) -> Iterator[Counter[Pair]]:
    """The links of a cycle in which GPUs without a direct link use a third one as relay, for each choice of relays."""
    steps = [_pair(ends) for ends in pairwise(order)]
    ways = [
        [(step,)]
        if free[step]
        else [(_pair((step[0], c)), _pair((c, step[1]))) for c in set(order) - {*step}]
        for step in steps
    ]
    for chosen in product(*ways):
        yield Counter(link for way in chosen for link in way)


def _count_cycles(cycles: list[Counter[Pair]], free: Counter[Pair]) -> int:
    """The largest number of cycles, with repetition, that fit into the free links together."""
    best = 0
    for at, cycle in enumerate(cycles):
        if cycle <= free:
            left = free - cycle
            if best < sum(left.values()) // cycle.total() + 1:
                best = max(best, 1 + _count_cycles(cycles[at:], left))
    return best
