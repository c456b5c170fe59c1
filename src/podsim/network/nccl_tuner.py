"""What NCCL believes: the latency and bandwidth it reckons with when it picks an algorithm and a protocol.

For each algorithm and protocol NCCL takes a latency L and an algorithm bandwidth B once per communicator,
then runs the pair with the least L + size / B. The numbers here are NCCL's own (src/graph/tuning.cc and
src/enqueue.cc of tags 2.8.4, 2.18.5 and 2.30.7), written down again and not fitted: they decide *what* runs.
How long that takes is another matter (podsim.network.nccl): below 64 KiB NCCL's own forecast is half of the
truth.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import PodsimError
from podsim.hardware.measured_host import Exchange
from podsim.network.bus import ring_share

PROTOCOLS = ("LL", "LL128", "Simple")
GENERATIONS = ("2.8", "2.18", "2.20")
"""releases that pick alike: up to 2.17, 2.18 and 2.19, from 2.20 on; each under its first one's name"""

# base latency, s, by algorithm: [LL, LL128, Simple]
_BASE = {
    "2.8": {"tree": (4.4, 4.4, 0.0), "ring": (3.6, 10.0, 8.4)},
    "2.18": {"tree": (6.8, 14.0, 0.0), "ring": (6.6, 14.0, 8.4)},
    "2.20": {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)},
}
# latency of a step, us
_STEP = {
    ("nvlink", "tree"): {"2.8": (0.52, 1.25, 28.0), "2.18": (0.6, 1.25, 4.0), "2.20": (0.6, 1.25, 4.0)},
    ("nvlink", "ring"): {"2.8": (0.47, 1.9, 3.4), "2.18": (0.6, 1.9, 3.4), "2.20": (0.6, 1.9, 3.4)},
    ("pcie", "tree"): {"2.8": (1.0, 1.9, 28.0), "2.18": (1.0, 1.9, 6.0), "2.20": (1.0, 1.9, 4.0)},
    ("pcie", "ring"): {"2.8": (1.0, 2.5, 5.7), "2.18": (1.0, 2.5, 5.7), "2.20": (1.0, 2.5, 5.7)},
    ("net", "tree"): {"2.8": (5.0, 8.5, 28.0), "2.18": (5.0, 8.5, 14.0), "2.20": (5.0, 8.5, 14.0)},
    ("net", "ring"): {"2.8": (2.7, 4.0, 9.6), "2.18": (2.7, 4.0, 14.0), "2.20": (2.7, 4.0, 14.0)},
}
# caps in GB/s for one node, two, more
_LL_MAX = {
    "volta": (39.0, 39.0, 20.4), "ampere": (87.7, 22.5, 19.0), "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}  # fmt: skip
_LL128_CHANNEL = {
    "volta": (20.0,) * 3,
    "ampere": (20.0,) * 3,
    "hopper": (36.7,) * 3,
    "blackwell": (40.0,) * 3,
}
_TREE_LL128_CHANNEL = {
    "volta": (20.0,) * 3, "ampere": (20.0,) * 3, "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}  # fmt: skip
_TREE_CHANNEL = {
    "volta": (26.5, 18.5, 10.0), "ampere": (24.0, 23.6, 17.8), "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}  # fmt: skip
# what NCCL takes off a tree's bandwidth, by size from 64 B on, doubling
_TREE_CORRECTION = np.array((
    (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9),
))  # fmt: skip
_NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
_SHARE_COUNTED = 0.8
"""of a GPU's NVLink bandwidth, the share that NCCL counts on: 20 of 25 GB/s per link on Ampere"""
_NET_LATENCY = 2.7
"""us, of the InfiniBand adapters that NCCL's steps between nodes hold for"""
_NIC_COUNTED = 0.96
"""of an adapter's rate, the share left by PCIe: 24 of 25 GB/s"""
_PCIE_COUNTED = (24 / 31.5, 20 / 31.5, 13.4 / 31.5)
"""of a slot's rate, what NCCL counts on, by Group.apart: 24 of 31.5 GB/s; through root complexes 5/6 of that; and
between sockets what sweeps on 8 L40S tell, whose LL gives way to Simple where 13.2 to 13.6 GB/s are counted on"""
NEAR, SOCKET = 2, 4
"""GPUs that stand side by side, and GPUs of a socket, in servers of cards"""
_TOGETHER = np.zeros((), dtype=np.intp)
_AMPERE_CLAMP = 235e9
"""up to release 2.14, B/s"""
_GRID = 2.0 ** np.arange(5.0, 37.01, 0.5)
"""sizes, B, at which the choice is looked at"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wires:
    """The links of a cluster that a collective uses. B/s of one direction, s."""

    architecture: str
    topology: str
    fabric: str
    vendor: str
    gpus: int
    nvlink: float
    nvlink_latency: float
    nics: int
    network: float
    network_latency: float
    rings: tuple[tuple[float, ...], ...] = ()
    """share. The share of `nvlink` that rings over 2, 3, … GPUs of a node reach, by their stride; () if all of it."""
    exchanges: tuple[Exchange, ...] = ()
    """The times of collectives on a measured machine; NCCL's law is then not used."""
    socket: float = math.inf
    """B/s. The bandwidth between two sockets that NCCL assumes, if switches lead from GPU to GPU and a node has two
    sockets."""
    slot: float = math.inf
    """B/s. The bandwidth of the PCI Express slot of a GPU, and of an adapter; traffic to another node passes both."""

    def ringed(self, group: Group) -> float:
        """Share of `nvlink` that rings over a group's GPUs of a node reach."""
        if not self.rings or group.members == 1:
            return 1.0
        shares = self.rings[min(group.stride, len(self.rings)) - 1]
        return shares[min(group.members - 2, len(shares) - 1)]

    @property
    def pcie(self) -> bool:
        """Whether GPUs of a node reach one another over PCI Express."""
        return self.topology in ("pcie", "pcie-root")


class Group(NamedTuple):
    """A communicator: ranks, of them on one node, and how many of its kind share a node's adapters."""

    ranks: int
    members: int
    sharing: float
    apart: int = 0
    """The distance of its GPUs in a node: 0 neighbours, or joined by switches in a socket; 1 in one socket, 2 in two.
    """
    stride: int = 1
    """The GPUs from one member to the next, where that matters: as many groups pass a point at once."""

    @property
    def nodes(self) -> int:
        """Nodes that the group spans."""
        return -(-self.ranks // self.members)


class Belief(NamedTuple):
    """NCCL's forecast for one algorithm and protocol: latency (s), algorithm bandwidth (B/s)."""

    algorithm: str
    protocol: str
    latency: float
    bandwidth: float


@lru_cache(maxsize=256)
def generation(version: str) -> str:
    """The entry of GENERATIONS that a release ("2.19.3", "2.27") picks like; PodsimError on other text."""
    if version == "2.2x":  # as logs of 2024 say
        return "2.20"
    match = re.fullmatch(r"v?2\.(\d+)(?:\.\w+)*", version) if isinstance(version, str) else None
    if match is None or int(match[1]) < 4:
        raise PodsimError(
            f"version={str(version)[:40]!r} is no NCCL release; 2.4 to 2.30 may be given, such as '2.18'"
        )
    minor = int(match[1])
    return "2.8" if minor < 18 else "2.18" if minor < 20 else "2.20"


def steps(collective: str, group: Group) -> tuple[int, int]:
    """Steps of a ring inside nodes, and between them."""
    ranks, nodes = group.ranks, group.nodes
    twice = 2 if collective == "all_reduce" else 1
    return twice * (ranks - nodes), twice * (nodes - 1)


def post_overhead(wires: Wires, group: Group) -> tuple[float, float, float]:
    """Least time of a step of a ring that crosses nodes, s, by protocol: the host posts every message."""
    each = 0.0 if group.nodes == 1 else 2e-6 if wires.vendor == "amd" else 1e-6
    return each, each, 3 * each


def layout_numbers(
    wires: Wires, members: ArrayLike, stride: ArrayLike, extent: ArrayLike | None
) -> NDArray[np.intp]:
    """Where groups lie in their nodes, as numbers for `group_layout`, 0 where that does not matter.

    `extent` is how many GPUs there are from the first member to the last (default: as members and stride say).
    """
    if wires.socket == math.inf and wires.topology != "pcie-root" and not wires.rings:
        return _TOGETHER
    steps = np.maximum(np.asarray(stride, dtype=np.intp), 1)
    if wires.rings:
        return np.asarray(4 * (np.minimum(steps, len(wires.rings)) - 1))
    gpus = np.maximum(
        np.asarray(members), (np.asarray(members) - 1) * steps + 1 if extent is None else extent
    )
    far = (gpus > SOCKET).astype(np.intp)
    if wires.topology == "pcie-root":
        return np.asarray((gpus > NEAR) + far)
    return np.asarray(far * (2 + 4 * (np.minimum(steps, SOCKET) - 1)))


def group_layout(layout: int) -> tuple[int, int]:
    """(Group.apart, Group.stride) of a number of `layout_numbers`."""
    return layout % 4, layout // 4 + 1


def socket_share(wires: Wires, group: Group, *, at_once: bool) -> float:
    """Bandwidth that NCCL counts on between two sockets over that of two GPUs behind switches, at most 1.

    `at_once`: the groups that lie between each other's members share what is between the sockets; NCCL sees one alone.
    """
    if not group.apart:
        return 1.0
    crossing = group.stride if at_once else 1
    return min(1.0, wires.socket / crossing / (_PCIE_COUNTED[0] * wires.nvlink))


def adapters(wires: Wires, group: Group) -> float:
    """Adapters of a node that carry what a group sends: its share of all, and no more than stand next to its GPUs.

    Two GPUs of a DGX H100 use two adapters, even alone: NCCL gets to an adapter by the PCI Express of a GPU of the group,
    which one adapter fills.
    """
    return min(wires.nics / group.sharing, max(1.0, wires.nics * group.members / wires.gpus))


def node_rate(wires: Wires, group: Group, adapter: float, slot: float) -> float:
    """B/s that a group sends out of a node: its adapters at most, and the slots of adapters and of its GPUs."""
    return min(min(adapter, slot) * adapters(wires, group), slot * group.members)


def network_step(wires: Wires, protocol: int, step: float) -> float:
    """A step between nodes of `step` us by NCCL's constants, us, on these adapters: what their latency is above
    InfiniBand's is added, as NCCL adds an adapter's own; Simple pays it twice, as it flushes."""
    more = 1e6 * wires.network_latency - _NET_LATENCY
    return max(step + more * (2 if PROTOCOLS[protocol] == "Simple" else 1), 0.0)


def _counted_rate(wires: Wires, group: Group) -> float:
    """B/s inside a node that NCCL counts on."""
    if not wires.pcie:
        return _SHARE_COUNTED * wires.nvlink
    if wires.topology == "pcie-root":
        return _PCIE_COUNTED[group.apart] * wires.nvlink
    return _PCIE_COUNTED[0] * wires.nvlink * socket_share(wires, group, at_once=False)


def _row(nodes: int) -> int:
    return min(nodes, 3) - 1


def _bus_rates(wires: Wires, group: Group, release: str) -> tuple[float, float]:
    """NCCL's bus bandwidth of rings and of trees, B/s."""
    inside = _counted_rate(wires, group) * wires.ringed(group)
    if release == "2.8" and wires.architecture == "ampere":
        inside = min(inside, _AMPERE_CLAMP)  # lets rings win over trees on two DGX A100
    if group.nodes == 1:
        return inside, inside
    outside = node_rate(wires, group, _NIC_COUNTED * wires.network, _PCIE_COUNTED[0] * wires.slot)
    if group.members == 1:
        return outside, (2 * outside if group.nodes == 2 else outside)
    return min(inside, outside), min(inside, 2 * outside if group.nodes == 2 else outside)


def _ring(wires: Wires, group: Group, collective: str, release: str, channels: int) -> list[Belief]:
    bus, _ = _bus_rates(wires, group, release)
    row, nodes = _row(group.nodes), group.nodes
    link = "pcie" if wires.pcie else "nvlink"
    inner, outer = steps(collective, group)
    ll_row = wires.architecture if nodes == 1 or wires.architecture in _NVLS_EFFICIENCY else (
        "volta" if wires.vendor == "intel" else "ampere")  # fmt: skip
    cap = _LL_MAX[ll_row][row] * 1e9
    if release == "2.20":
        ll = min(cap, bus / 2)
    else:
        ll = min(cap, bus / (4 if nodes > 1 or collective in ("all_reduce", "reduce") else 3))
    few = 0.7 if group.members < 2 and release != "2.20" else 1.0
    ll128 = min(0.92 * few * bus, channels * _LL128_CHANNEL[wires.architecture][row] * 1e9)
    overhead = post_overhead(wires, group)
    beliefs = []
    for p, (protocol, rate) in enumerate(zip(PROTOCOLS, (ll, ll128, bus), strict=True)):
        inside = max(_STEP[link, "ring"][release][p], 1e6 * overhead[p])
        outside = network_step(wires, p, _STEP["net", "tree" if group.members == 1 else "ring"][release][p])
        latency = _BASE[release]["ring"][p] + (1 if collective in ("broadcast", "reduce") else inner) * inside
        latency += outer * outside
        share = group.ranks / (inner + outer) if collective not in ("broadcast", "reduce") else 1.0
        beliefs.append(Belief("ring", protocol, latency * 1e-6, rate * share))
    return beliefs


def _tree(wires: Wires, group: Group, release: str, channels: int) -> list[Belief]:
    _, bus = _bus_rates(wires, group, release)
    row, nodes, arch = _row(group.nodes), group.nodes, wires.architecture
    ll_row = (
        arch if nodes == 1 or arch in _NVLS_EFFICIENCY else "volta" if wires.vendor == "intel" else "ampere"
    )
    top = min(0.92 * bus, channels * _TREE_CHANNEL[arch][row] * 1e9)
    rates = (
        min(top / 3.8, _LL_MAX[ll_row][row] * 1e9),
        min(top * (7 / 9 if nodes == 1 else 120 / 128), channels * _TREE_LL128_CHANNEL[arch][row] * 1e9),
        top,
    )
    link = "pcie" if wires.pcie else "nvlink"
    beliefs = []
    for p, (protocol, rate) in enumerate(zip(PROTOCOLS, rates, strict=True)):
        latency = (group.members - 1) * _STEP[link, "tree"][release][p]
        latency += math.floor(math.log2(nodes)) * network_step(wires, p, _STEP["net", "tree"][release][p])
        beliefs.append(Belief("tree", protocol, (_BASE[release]["tree"][p] + 2 * latency) * 1e-6, rate / 2))
    return beliefs


def _nvls(wires: Wires, group: Group, release: str) -> list[Belief]:
    """In-switch reduction inside one node, counted as its ring speeds on 16 channels allow.

    The factor, the share of a ring of the members, is read off measured H100 sweeps, in which four GPUs run rings and
    eight do not.
    """
    share = _NVLS_EFFICIENCY.get(wires.architecture, 0.0)
    if not share or release == "2.8" or wires.topology != "nvswitch" or group.nodes > 1 or group.members < 3:
        return []
    rate = _SHARE_COUNTED * wires.nvlink * share * 15 / 16 * ring_share(group.members)
    return [Belief("nvls", "Simple", (25.0 if release == "2.20" else 23.0) * 1e-6, rate)]


def beliefs(wires: Wires, group: Group, collective: str, release: str, channels: int) -> list[Belief]:
    """All that NCCL weighs against each other for this collective, by the constants of that release."""
    options = _ring(wires, group, collective, release, channels)
    if collective == "all_reduce":
        options += _tree(wires, group, release, channels) + _nvls(wires, group, release)
    return (
        [option for option in options if option.protocol != "LL128"] if wires.pcie else options
    )  # NVLink's only


def _forecast(
    belief: Belief, wires: Wires, group: Group, collective: str, release: str, channels: int
) -> NDArray[np.float64]:
    """Seconds that NCCL expects at each size of the grid."""
    latency = np.full(_GRID.shape, belief.latency)
    rate = np.full(_GRID.shape, belief.bandwidth)
    if belief.algorithm == "tree":
        k = np.clip(np.floor(np.log2(_GRID / 64)), 0, 23).astype(int)
        rate = rate * _TREE_CORRECTION[PROTOCOLS.index(belief.protocol)][k]
    elif (
        belief.algorithm == "ring"
        and belief.protocol == "Simple"
        and group.nodes > 1
        and collective == "all_reduce"
    ):
        start = 64.0 * channels * group.ranks if release == "2.20" else group.ranks * 4096.0
        slower = 1.4 if release == "2.20" and wires.architecture not in ("volta", "turing") else 1.9
        latency = np.where(start <= _GRID, slower * latency, latency)
    return np.asarray(latency + _GRID / rate)


def chosen_until(
    options: list[Belief], wires: Wires, group: Group, collective: str, release: str, channels: int
) -> list[float]:
    """For each belief the largest size, B, at which NCCL picks it: 0 never, infinity for the last."""
    forecasts_BS = np.stack([_forecast(b, wires, group, collective, release, channels) for b in options])
    picks_S = np.argmin(forecasts_BS, axis=0)
    until = []
    for index in range(len(options)):
        (where,) = np.nonzero(picks_S == index)
        last = int(where[-1]) if where.size else -1
        until.append(
            0.0 if last < 0 else math.inf if last == _GRID.size - 1 else float(_GRID[last] * 2.0**0.25)
        )
    return until
