"""What NCCL believes: the latency and bandwidth that it assumes when it picks an algorithm and a protocol.

For each algorithm and protocol NCCL takes a latency L and an algorithm bandwidth B once per communicator,
then runs the pair with the least L + size / B. The numbers here are NCCL's own (src/graph/tuning.cc and
src/enqueue.cc of tags 2.8.4, 2.18.5 and 2.30.7), written down again and not fitted: they decide *what* runs.
How long that takes is another matter (podsim.network.nccl): below 64 KiB NCCL's own forecast is half of the
truth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.hardware.parts import Cpu
from podsim.network.bus import ring_share
from podsim.network.nccl_group import PCIE_COUNTED, Group, Wires, adapters, node_rate, socket_share

_Value = TypeVar("_Value")
PROTOCOLS = ("LL", "LL128", "Simple")
GENERATIONS = ("2.7", "2.8", "2.18", "2.20")
"""releases that pick alike: up to 2.7, 2.8 to 2.17, 2.18 and 2.19, from 2.20 on; each under one of their names"""
EARLY = ("2.7", "2.8")
"""generations before the tuner of 2.18"""

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
    ("net", "tree"): {
        "2.7": (5.0, 8.5, 50.0),
        "2.8": (5.0, 8.5, 28.0),
        "2.18": (5.0, 8.5, 14.0),
        "2.20": (5.0, 8.5, 14.0),
    },
    ("net", "ring"): {"2.8": (2.7, 4.0, 9.6), "2.18": (2.7, 4.0, 14.0), "2.20": (2.7, 4.0, 14.0)},
}
_COLLNET = {"2.8": (4.0, 0.4, 10.7), "2.18": (8.0, 0.5, 10.7), "2.20": (3.7, 0.4, 31.0)}
"""us, of reductions in the network (CollNet direct): a step in a node, each further GPU of it, a step between nodes."""
_LL_ACROSS = 1.8
"""factor. Up to 2.17, NCCL counts so much more for LL's steps on NVLink where a group spans nodes."""
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
_SOCKET_COUNTED = {
    "amd": 16e9, "xeon-e5": 6e9, "xeon-platinum-8480c": 22e9, "xeon-platinum-8570": 40e9, "intel": 10e9, "nvidia": 150e9,
}  # fmt: skip
"""B/s that NCCL counts on between sockets, by processor or vendor (src/graph/topo.h): a weight, not the links' rate"""
CHANNELS = 32
"""The most channels of NCCL's graph, half of MAXCHANNELS."""
_SPLIT = 25e9
"""B/s. The rate from which on NCCL splits a channel of its graph into two."""
_AMPERE_CLAMP = 235e9
"""up to release 2.14, B/s"""
_GRID = 2.0 ** np.arange(5.0, 37.01, 0.5)
"""sizes, B, at which the choice is looked at"""


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
    return "2.7" if minor < 8 else "2.8" if minor < 18 else "2.18" if minor < 20 else "2.20"


def counted_socket_rate(cpu: Cpu | None) -> float:
    """B/s between two sockets, one way, that NCCL counts on for what GPUs send each other."""
    if cpu is None:
        return _SOCKET_COUNTED["intel"]
    own = [rate for name, rate in _SOCKET_COUNTED.items() if cpu.name.startswith(name)]
    return own[0] if own else _SOCKET_COUNTED[cpu.vendor]


def steps(collective: str, group: Group) -> tuple[int, int]:
    """Steps of a ring inside nodes, and between them."""
    ranks, nodes = group.ranks, group.nodes
    twice = 2 if collective == "all_reduce" else 1
    return twice * (ranks - nodes), twice * (nodes - 1)


def post_overhead(wires: Wires, group: Group) -> tuple[float, float, float]:
    """Least time of a step of a ring that crosses nodes, s, by protocol: the host posts every message."""
    overhead = 0.0 if group.nodes == 1 else 2e-6 if wires.vendor == "amd" else 1e-6
    return overhead, overhead, 3 * overhead


def _of_release(table: Mapping[str, _Value], release: str) -> _Value:
    """The entry of a generation, or of 2.8 where an earlier one has none."""
    return table.get(release, table["2.8"])


def network_step(wires: Wires, protocol: int, step: float, release: str) -> float:
    """A step between nodes of `step` us by NCCL's constants, us, on these adapters: what their latency is above
    InfiniBand's is added from 2.18 on, as plugins then report it; Simple pays it twice, as it flushes."""
    more = 0.0 if release in EARLY else 1e6 * wires.network_latency - _NET_LATENCY
    return max(step + more * (2 if PROTOCOLS[protocol] == "Simple" else 1), 0.0)


def _counted_rate(wires: Wires, group: Group) -> float:
    """B/s inside a node that NCCL counts on."""
    if not wires.pcie:
        return _SHARE_COUNTED * wires.nvlink
    if wires.topology == "pcie-root":
        return PCIE_COUNTED[group.apart] * wires.nvlink
    return PCIE_COUNTED[0] * wires.nvlink * socket_share(wires, group, at_once=False)


def graph_channels(wires: Wires, group: Group) -> int:
    """Channels of NCCL's graph over several nodes, on which its caps count: one for each adapter, at most CHANNELS.

    A channel of 25 GB/s or more is split into two of half the rate, but not from Hopper on where there are more than
    four. It then runs twice as many (src/graph/{search,connect}.cc).
    """
    count = max(1, min(round(adapters(wires, group)), CHANNELS))
    rate = min(_NIC_COUNTED * wires.network, PCIE_COUNTED[0] * wires.slot)
    is_split = rate >= _SPLIT and (count <= 4 or wires.architecture not in _NVLS_EFFICIENCY)
    return 2 * count if is_split and 2 * count <= CHANNELS else count


def channel_rate(wires: Wires, group: Group, algorithm: str, protocol: str) -> float:
    """B/s that the channels of a ring or tree over several nodes carry, by what NCCL's authors measured of one.

    From Hopper on, NCCL runs more channels than its graph has, and adapters are the limit.
    """
    is_open = protocol == "LL" or (algorithm == "ring" and protocol == "Simple")
    if is_open or wires.architecture in _NVLS_EFFICIENCY:
        return math.inf
    caps = (
        _LL128_CHANNEL
        if algorithm == "ring"
        else _TREE_LL128_CHANNEL
        if protocol == "LL128"
        else _TREE_CHANNEL
    )
    return graph_channels(wires, group) * caps[wires.architecture][_row(group.nodes)] * 1e9


def _row(nodes: int) -> int:
    return min(nodes, 3) - 1


def _bus_rates(wires: Wires, group: Group, release: str) -> tuple[float, float]:
    """NCCL's bus bandwidth of rings and of trees, B/s."""
    inside = _counted_rate(wires, group) * wires.ring_share(group)
    if release in EARLY and wires.architecture == "ampere":
        inside = min(inside, _AMPERE_CLAMP)  # lets rings win over trees on two DGX A100
    if group.nodes == 1:
        return inside, inside
    outside = node_rate(wires, group, _NIC_COUNTED * wires.network, PCIE_COUNTED[0] * wires.slot)
    if group.members == 1:
        return outside, (2 * outside if group.nodes == 2 else outside)
    return min(inside, outside), min(inside, 2 * outside if group.nodes == 2 else outside)


def _depth(group: Group) -> int:
    """Levels of a tree over the nodes."""
    return math.floor(math.log2(group.nodes))


def _hop(link: str, algorithm: str, protocol: int, group: Group, release: str) -> float:
    """NCCL's latency of a step inside a node, us."""
    step = _of_release(_STEP[link, algorithm], release)[protocol]
    return step * (_LL_ACROSS if protocol == 0 and release in EARLY and group.nodes > 1 else 1.0)


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
    overhead = (0.0, 0.0, 0.0) if release in EARLY else post_overhead(wires, group)
    hops = 1 if collective in ("broadcast", "reduce") else inner
    beliefs = []
    for p, (protocol, rate) in enumerate(zip(PROTOCOLS, (ll, ll128, bus), strict=True)):
        inside = max(_hop(link, "ring", p, group, release), 1e6 * overhead[p])
        across = _of_release(_STEP["net", "tree" if group.members == 1 else "ring"], release)[p]
        latency = _of_release(_BASE, release)["ring"][p] + hops * inside
        latency += outer * network_step(wires, p, across, release)
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
        across = network_step(wires, p, _of_release(_STEP["net", "tree"], release)[p], release)
        latency = (group.members - 1) * _hop(link, "tree", p, group, release) + _depth(group) * across
        start = _of_release(_BASE, release)["tree"][p]
        beliefs.append(Belief("tree", protocol, (start + 2 * latency) * 1e-6, rate / 2))
    return beliefs


def _nvls(wires: Wires, group: Group, release: str) -> list[Belief]:
    """In-switch reduction inside nodes, counted as its ring speeds on 16 channels allow; between nodes a tree joins them.

    The factor of one node, the share of a ring of the members, is read off measured H100 sweeps, in which four GPUs run
    rings and eight do not.
    """
    share = _NVLS_EFFICIENCY.get(wires.architecture, 0.0)
    if not share or release in EARLY or wires.topology != "nvswitch" or group.members < 3:
        return []
    rate = _SHARE_COUNTED * wires.nvlink * share * 15 / 16
    if group.nodes == 1:
        rate *= ring_share(group.members)
        return [Belief("nvls", "Simple", (25.0 if release == "2.20" else 23.0) * 1e-6, rate)]
    out = node_rate(wires, group, _NIC_COUNTED * wires.network, PCIE_COUNTED[0] * wires.slot)
    if release == "2.20":
        latency = 25.0 + 2 * _depth(group) * network_step(wires, 0, 20.9, release)
        return [Belief("nvlstree", "Simple", latency * 1e-6, min(rate, out if group.nodes == 2 else out / 2))]
    latency = 23.0 + 2 * (group.nodes - 1) * network_step(wires, 0, 19.0, release)
    shared = 0.7 * group.nodes / (2 * (group.nodes - 1))
    return [Belief("nvlstree", "Simple", latency * 1e-6, shared * min(rate, out))]


def beliefs(wires: Wires, group: Group, collective: str, release: str, channels: int) -> list[Belief]:
    """All that NCCL weighs against each other for this collective, by the constants of that release.

    Algorithms and protocols that a run forbids are left out, unless none would remain: NCCL then ignores the order.
    """
    options = _ring(wires, group, collective, release, channels)
    if collective == "all_reduce":
        options += _tree(wires, group, release, channels) + _nvls(wires, group, release)
    if collective == "all_reduce" and is_reduced_in_network(wires, group):
        rate = 0.5 * min(_bus_rates(wires, group, release))
        options.append(Belief("collnet", "Simple", collnet_seconds(group, release), rate))
    if wires.pcie:
        options = [option for option in options if option.protocol != "LL128"]  # NVLink's only
    for wanted, of in ((wires.algorithms, "algorithm"), (wires.protocols, "protocol")):
        allowed = [option for option in options if not wanted or getattr(option, of).lower() in wanted]
        options = allowed or options
    return options


def is_reduced_in_network(wires: Wires, group: Group) -> bool:
    """Whether NCCL may hand an all-reduce to the switches between nodes: allowed, InfiniBand, and two nodes or more."""
    forced = not wires.algorithms or "collnet" in wires.algorithms
    return wires.sharp and forced and wires.fabric == "infiniband" and group.nodes > 1


def collnet_seconds(group: Group, release: str) -> float:
    """NCCL's latency of a reduction in the network, s."""
    step, per_gpu, net = _of_release(_COLLNET, release)
    others = group.members - 1
    return 1e-6 * (2 * (min(1, others) * step + per_gpu * others) + net)


def _forecast_seconds(
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
        start = 128.0 * channels * group.ranks if release == "2.20" else group.ranks * 4096.0
        slower = 1.4 if release == "2.20" and wires.architecture not in ("volta", "turing") else 1.9
        latency = np.where(start <= _GRID, slower * latency, latency)
    return np.asarray(latency + _GRID / rate)


def chosen_until(
    options: list[Belief], wires: Wires, group: Group, collective: str, release: str, channels: int
) -> list[float]:
    """For each belief the largest size, B, at which NCCL picks it: 0 never, infinity for the last."""
    forecasts = np.stack([_forecast_seconds(b, wires, group, collective, release, channels) for b in options])
    picks = np.argmin(forecasts, axis=0)
    until = []
    for index in range(len(options)):
        (where,) = np.nonzero(picks == index)
        last = int(where[-1]) if where.size else -1
        until.append(
            0.0 if last < 0 else math.inf if last == _GRID.size - 1 else float(_GRID[last] * 2.0**0.25)
        )
    return until
