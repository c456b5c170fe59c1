"""The candidate algorithms and protocols of each communicator, and their costs.

    seconds = sqrt(gpu^2 + host^2)
    gpu  = latency + hypot(line * (1 - exp(-(size / window)^2)), transfer) + sqrt(ramp * transfer)
    transfer = size * per_byte
    host = start + channel * (channels in use)       (only where one process drives several GPUs)

The square root is what a pipeline pays: cut into k chunks, a transfer costs (1 + m/k) of its time and k times
the overhead of a chunk, and the best k leaves a sum that grows with the root. Latency counts the steps of a
ring or a tree.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from podsim.errors import ClusterError
from podsim.hardware.measured_host import interpolate
from podsim.network.bus import bus_factor, ring_share
from podsim.network.nccl_constants import PCIE, Fabric, Network, load_fabric, load_network
from podsim.network.nccl_tuner import (
    PROTOCOLS,
    Belief,
    Group,
    Wires,
    adapters,
    beliefs,
    chosen_until,
    network_step,
    node_rate,
    post_overhead,
    socket_share,
    steps,
)

LINK_LATENCY = 0.6e-6
"""of NVLink, to which the constants of an architecture belong, s"""
PCIE_LATENCY = 1e-6
"""of PCI Express, to which those of its fabric belong"""
# NCCL's latency of a step between nodes, us: [LL, LL128, Simple], release 2.18 on
_NET_STEP = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
# NCCL's tree steps inside a node over its ring steps
_TREE_STEP = (1.0, 1.25 / 1.9, 4.0 / 3.4)
_LINE_SHARE = 120 / 128
"""The share of data in LL128's bytes."""
_TREE_SHARE = 0.92
"""The share of a ring's bandwidth that NCCL counts for trees."""
_LINE = 4096.0
"""B. The bytes of one channel per rank before NCCL opens another: 512 threads of 8 B."""
_SHORT = 16384.0
"""B. The size of the message to which pairs_line belongs."""
_LL_MOST = 2 * _SHORT
"""B. The largest message that uses LL: two channels a peer, as sweeps on Hopper and L40S show."""
_WINDOW = {"LL128": 5120.0, "Simple": 32768.0}


class Candidate(NamedTuple):
    """One algorithm and protocol; each field a number. Seconds, bytes, seconds per byte."""

    algorithm: str
    protocol: str
    until: float
    """B. The largest size at which NCCL still picks it."""
    latency: float
    line: float
    window: float
    """B. The bytes for each channel."""
    per_byte: float
    ramp: float
    channels: float
    start: float
    """s. The host time whatever the size."""
    channel: float
    """s. The host time of each channel in use."""
    hidden: float = 0.0
    """s. The time that overlaps with the transfer; the fourth powers of both are added."""
    since: float = 0.0
    """B. The smallest size at which NCCL picks it."""


_NOTHING = Candidate("none", "none", math.inf, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def table(wires: Wires, collective: str, group: Group, launch: str, release: str) -> tuple[Candidate, ...]:
    """The candidates with the constants of the catalog, kept from call to call."""
    return _table(wires, collective, group, launch, release)


@lru_cache(maxsize=65536)
def _table(wires: Wires, collective: str, group: Group, launch: str, release: str) -> tuple[Candidate, ...]:
    if wires.exchanges:
        return (measured_candidate(wires, collective, group),)
    fabric = load_fabric(fabric_name(wires))
    network = load_network(wires.fabric) if group.nodes > 1 else None
    return candidates(wires, collective, group, launch, release, fabric, network)


def fabric_name(wires: Wires) -> str:
    """The fabric whose constants hold inside a node: the GPUs' architecture, or PCI Express."""
    return PCIE if wires.pcie else wires.architecture


def _hop_ratio(wires: Wires) -> float:
    """The latency of the link between GPUs, relative to that of the fabric."""
    return wires.nvlink_latency / (PCIE_LATENCY if wires.pcie else LINK_LATENCY)


def _link_rate(wires: Wires, group: Group, fabric: Fabric) -> float:
    """B/s of the link between GPUs, limited by the switches and sockets between them."""
    if wires.topology == "pcie-root":
        return wires.nvlink * (1.0, fabric.near_share, fabric.far_share)[group.apart]
    return wires.nvlink * socket_share(wires, group, at_once=True)


def measured_candidate(wires: Wires, collective: str, group: Group) -> Candidate:
    """What a collective took on a measured machine, between the numbers of ranks that were measured by their logarithm.

    It is called a ring, or pairs, after what gloo and NCCL run for large messages.
    """
    if group.ranks == 1:
        return _NOTHING
    rows = [row for row in wires.exchanges if row.collective == collective]
    if not rows:
        raise ClusterError(f"{collective} was not measured on this machine: podsim measure host does so")
    latency, per_byte = (float(value) for value in interpolate(rows, group.ranks))
    name = "pairs" if collective in ("all_to_all", "send_recv") else "ring"
    return Candidate(name, "Simple", math.inf, latency, 0.0, 1.0, per_byte, 0.0, 1.0, 0.0, 0.0)


def candidates(
    wires: Wires,
    collective: str,
    group: Group,
    launch: str,
    release: str,
    fabric: Fabric,
    network: Network | None,
) -> tuple[Candidate, ...]:
    """All algorithms and protocols that NCCL picks at some size, each with its cost; never empty."""
    if group.ranks == 1:
        return (_NOTHING,)
    if collective in ("all_to_all", "send_recv"):
        options = _pairs(wires, collective, group, fabric, network)
    else:
        channels = _channels(wires, group, fabric)
        believed = beliefs(wires, group, collective, release, channels)
        until = _last_sizes(wires, group, collective, release, channels)
        options = [
            _cost(wires, collective, group, belief, fabric, network, channels)._replace(until=last)
            for belief, last in zip(believed, until, strict=True)
            if last > 0
        ]
    if wires.pcie:
        options = _split_ranges(options)
    return tuple(_add_launch(option, collective, group, launch, release, fabric) for option in options)


def _split_ranges(options: list[Candidate]) -> list[Candidate]:
    """The candidates, each from the size at which the previous one ends.

    Elsewhere the fastest of those that NCCL still picks is taken, and is the one that NCCL picks; over PCI Express NCCL
    stays with LL for longer than pays.
    """
    last, out = 0.0, []
    for option in sorted(options, key=lambda option: option.until):
        out.append(option._replace(since=math.nextafter(last, math.inf) if last else 0.0))
        last = option.until
    return out


@lru_cache(maxsize=65536)
def _last_sizes(wires: Wires, group: Group, collective: str, release: str, channels: int) -> list[float]:
    believed = beliefs(wires, group, collective, release, channels)
    return chosen_until(believed, wires, group, collective, release, channels)


def _channels(wires: Wires, group: Group, fabric: Fabric) -> int:
    if group.nodes == 1:
        return int(fabric.channels)
    return max(2, min(int(fabric.channels), round(2 * adapters(wires, group))))


def _line_share(network: Network | None) -> float:
    """The share of an adapter's line rate that large messages reach."""
    return 1.0 if network is None else network.share


def _net_step_seconds(wires: Wires, algorithm: str, protocol: int) -> float:
    """Latency of a step between nodes, s."""
    return 1e-6 * network_step(wires, protocol, _NET_STEP[algorithm][protocol])


def _node_rate(wires: Wires, group: Group, network: Network | None) -> float:
    """B/s that a group can push out of a node."""
    return node_rate(wires, group, _line_share(network) * wires.network, wires.slot)


def _cost(
    wires: Wires,
    collective: str,
    group: Group,
    belief: Belief,
    fabric: Fabric,
    network: Network | None,
    channels: int,
) -> Candidate:
    if belief.algorithm == "nvls":
        return _nvls(wires, group, fabric, channels)
    p = PROTOCOLS.index(belief.protocol)
    hop = _hop_ratio(wires)
    step = (fabric.step_ll, fabric.step_ll128, fabric.step_simple)[p] * hop
    outside = _net_step_seconds(wires, belief.algorithm if group.members > 1 else "tree", p)
    if belief.algorithm == "ring":
        inner, outer = steps(collective, group)
        latency = inner * max(step, post_overhead(wires, group)[p]) + outer * outside
    else:
        inner = 2 * (group.members - 1)
        latency = inner * step * _TREE_STEP[p] + 2 * math.floor(math.log2(group.nodes)) * outside
    hops = max(1.0, latency / step) if step > 0 else 1.0
    tau = (0.0, fabric.ramp_ll128, fabric.ramp_simple)[p] * math.sqrt(hops)
    base = (fabric.base, fabric.base, fabric.base_simple)[p]
    line = fabric.line_base + fabric.line_ll / fabric.step_ll * latency if p == 0 else 0.0
    window = (
        _LINE * (group.ranks if belief.algorithm == "ring" else 1) if p == 0 else _WINDOW[belief.protocol]
    )
    return Candidate(
        belief.algorithm, belief.protocol, math.inf, base + latency, line, window,
        _byte_seconds(wires, collective, group, belief, fabric, network), tau, channels, 0.0, 0.0,
    )  # fmt: skip


def _ring_rate(wires: Wires, collective: str, group: Group, p: int, fabric: Fabric) -> float:
    """B/s of a ring inside a node."""
    share = (fabric.share_ll, _LINE_SHARE * fabric.share_simple, fabric.share_simple)[p]
    extra = {
        "all_gather": (fabric.gather_share, fabric.gather_small),
        "reduce_scatter": (fabric.scatter_share, fabric.gather_small),
        "broadcast": (fabric.chain_share, fabric.small_group),
        "reduce": (fabric.chain_share, fabric.small_group),
    }.get(collective, (1.0, fabric.small_group))
    if wires.rings:  # what a small group loses there is links
        return wires.nvlink * wires.ringed(group) * share * extra[0]
    return _link_rate(wires, group, fabric) * share * extra[0] / (1 + extra[1] / group.members**2)


def _byte_seconds(
    wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric, network: Network | None
) -> float:
    """Seconds for each byte of the collective's size."""
    p = PROTOCOLS.index(belief.protocol)
    inside = _ring_rate(wires, collective, group, p, fabric) if group.members > 1 else math.inf
    outside = _node_rate(wires, group, network) * (0.5, _LINE_SHARE, 1.0)[p] if group.nodes > 1 else math.inf
    if belief.algorithm == "tree":
        each = 2.0 / min(_TREE_SHARE * inside, 2 * outside if group.nodes == 2 else outside)
    else:
        each = float(bus_factor(collective, group.ranks)) / min(inside, outside)
    if p == 0 and group.nodes > 1:
        return max(each, 1.0 / belief.bandwidth)  # NCCL's measured ceiling, which depends on the processor
    return each


def wire_rates(
    wires: Wires, collective: str, group: Group, algorithm: str, protocol: str
) -> tuple[float, float]:
    """(B/s of a GPU to others of its node, B/s out of a node) that an algorithm and protocol reach, where links allow.

    NCCL's share for trees belongs to its count of 2 bytes for each of an all-reduce over each GPU's links; a chain
    through g GPUs carries the bus factor of g ranks, and so needs less of the bandwidth.
    """
    if wires.exchanges:
        return wires.nvlink, wires.network
    fabric, p = load_fabric(fabric_name(wires)), PROTOCOLS.index(protocol)
    network = load_network(wires.fabric) if group.nodes > 1 else None
    outside = _node_rate(wires, group, network) * (0.5, _LINE_SHARE, 1.0)[p]
    if algorithm == "nvls":
        return fabric.nvls_share * wires.nvlink, outside
    if algorithm == "pairs":
        return _pairs_rate(wires, group, fabric), outside
    inside = _ring_rate(wires, collective, group, p, fabric)
    chain = _TREE_SHARE * ring_share(group.members)
    return (chain if algorithm == "tree" else 1.0) * inside, outside


def _nvls(wires: Wires, group: Group, fabric: Fabric, channels: int) -> Candidate:
    hop = _hop_ratio(wires)
    per_byte = 1.0 / (fabric.nvls_share * wires.nvlink)
    return Candidate("nvls", "Simple", math.inf, fabric.nvls_base * hop, 0.0, _WINDOW["Simple"], per_byte,
                     fabric.nvls_ramp, channels, 0.0, 0.0)  # fmt: skip


def _pairs_rate(wires: Wires, group: Group, fabric: Fabric) -> float:
    """B/s of point-to-point kernels inside a node."""
    crossing = fabric.pairs_cross_share if wires.topology == "pcie-root" and group.apart else 1.0
    share = crossing * fabric.pairs_share / (1 + fabric.pairs_small / group.members**2)
    return _link_rate(wires, group, fabric) * share


def _pairs(
    wires: Wires, collective: str, group: Group, fabric: Fabric, network: Network | None
) -> list[Candidate]:
    """Point-to-point kernels: every rank sends to every other at once, or to the next; LL for short messages.

    NCCL takes LL up to 16 KiB a channel (NCCL_P2P_LL_THRESHOLD). Between nodes nothing tells LL from Simple.
    """
    inside = _pairs_rate(wires, group, fabric)
    if collective == "send_recv":
        near, far, peers = (1.0 if group.members > 1 else 0.0), 1.0, 1.0
        outside = min(_line_share(network) * wires.network, wires.slot) * min(1.0, adapters(wires, group))
    else:
        near, far, peers = (
            (group.members - 1) / group.ranks,
            group.members * (group.ranks - group.members) / group.ranks,
            float(group.ranks),
        )
        outside = _node_rate(wires, group, network)
    step = _hop_ratio(wires) * fabric.pairs_step * math.log2(group.members)
    simple = Candidate("pairs", "Simple", math.inf, fabric.pairs_base + step, 0.0, _WINDOW["Simple"], near / inside,
                       fabric.pairs_ramp, 1.0, 0.0, 0.0)  # fmt: skip
    if group.nodes > 1:
        beyond = _net_step_seconds(wires, "ring", 2) + (group.nodes - 2) * _net_step_seconds(wires, "ring", 0)
        return [simple._replace(latency=simple.latency + beyond, per_byte=max(near / inside, far / outside))]
    hidden = min(fabric.pairs_hidden, fabric.pairs_simple)
    per_byte = max(fabric.pairs_line / _SHORT / peers, near / (fabric.pairs_ll_share * inside))
    return [
        simple._replace(protocol="LL", until=peers * _LL_MOST, per_byte=per_byte, ramp=0.0),
        simple._replace(latency=fabric.pairs_simple - hidden + step, hidden=hidden),
    ]


def _add_launch(
    option: Candidate, collective: str, group: Group, launch: str, release: str, fabric: Fabric
) -> Candidate:
    """The candidate with the time that the way of launching adds."""
    if launch == "thread":
        return option
    if launch == "process":
        return option._replace(latency=option.latency + fabric.process_wait)
    gpus = group.members
    start = gpus * fabric.host
    if option.algorithm == "pairs":
        peers = group.ranks - 1 if collective == "all_to_all" else 1
        return option._replace(start=start + gpus * peers * fabric.host_pair)
    each = fabric.host_channel if release == "2.20" else fabric.host_channel_old
    ramp = option.ramp + (fabric.single_ramp if release != "2.8" and option.protocol != "LL" else 0.0)
    return option._replace(start=start, channel=gpus * each, ramp=ramp)
