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

from podsim.answers.answer import call
from podsim.errors import ClusterError
from podsim.network.bus import bus_factor, ring_share
from podsim.network.nccl_between import out_rate, spanning_candidates
from podsim.network.nccl_constants import Fabric, Network, load_fabric, load_network
from podsim.network.nccl_group import (
    LINE_SHARE,
    TREE_SHARE,
    WINDOW,
    Candidate,
    Group,
    Wires,
    fabric_name,
    hop_ratio,
    pairs_rate,
    ring_rate,
)
from podsim.network.nccl_tuner import (
    EARLY,
    PROTOCOLS,
    Belief,
    beliefs,
    channel_rate,
    chosen_until,
    graph_channels,
    steps,
)

# NCCL's tree steps inside a node over its ring steps
_TREE_STEP = (1.0, 1.25 / 1.9, 4.0 / 3.4)
_LINE = 4096.0
"""B. The bytes of one channel per rank before NCCL opens another: 512 threads of 8 B."""
_SHORT = 16384.0
"""B. The size of the message to which pairs_line belongs."""
_LL_MOST = 2 * _SHORT
"""B. The largest message that uses LL: two channels a peer, as sweeps on Hopper and L40S show."""


_NOTHING = Candidate("none", "none", math.inf, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def table(wires: Wires, collective: str, group: Group, launch: str, release: str) -> tuple[Candidate, ...]:
    """The candidates with the constants of the catalog, kept from call to call."""
    return _table(wires, collective, group, launch, release)


@lru_cache(maxsize=65536)
def _table(wires: Wires, collective: str, group: Group, launch: str, release: str) -> tuple[Candidate, ...]:
    if wires.exchanges:
        return (measured_candidate(wires, collective, group),)
    if wires.torus is not None:
        from podsim.network.torus_cost import torus_candidate  # which loads the tables of collectives

        return (_NOTHING if group.ranks == 1 else torus_candidate(wires, collective, group),)
    fabric = load_fabric(fabric_name(wires))
    network = load_network(wires.fabric) if group.nodes > 1 else None
    return candidates(wires, collective, group, launch, release, fabric, network)


def measured_candidate(wires: Wires, collective: str, group: Group) -> Candidate:
    """What a collective took on a measured machine, between the numbers of ranks that were measured by their logarithm.

    It is called a ring, or pairs, after what gloo and NCCL run for large messages.
    """
    if group.ranks == 1:
        return _NOTHING
    rows = [row for row in wires.exchanges if row.collective == collective]
    if not rows:
        raise ClusterError(f"{collective} was not measured on this machine: podsim measure host does so")
    measured = call("hardware.measured_host:interpolate", rows, group.ranks)
    latency, per_byte = (float(value) for value in measured)
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
    options = (
        _single_node(wires, collective, group, release, fabric)
        if network is None or group.nodes == 1
        else _several_nodes(wires, collective, group, release, fabric, network)
    )
    return tuple(_add_launch(option, collective, group, launch, release, fabric) for option in options)


def _several_nodes(
    wires: Wires, collective: str, group: Group, release: str, fabric: Fabric, network: Network
) -> list[Candidate]:
    picked: list[tuple[Belief, float]] = []
    if collective not in ("all_to_all", "send_recv"):
        channels = _channels(wires, group, fabric)
        believed = beliefs(wires, group, collective, release, channels)
        until = _last_sizes(wires, group, collective, release, channels)
        picked = [pick for pick in zip(believed, until, strict=True) if pick[1] > 0]
    return spanning_candidates(wires, collective, group, picked, release, fabric, network)


def _single_node(
    wires: Wires, collective: str, group: Group, release: str, fabric: Fabric
) -> list[Candidate]:
    if collective in ("all_to_all", "send_recv"):
        options = _pairs(wires, collective, group, fabric)
    else:
        channels = _channels(wires, group, fabric)
        believed = beliefs(wires, group, collective, release, channels)
        until = _last_sizes(wires, group, collective, release, channels)
        options = [
            _cost(wires, collective, group, belief, fabric, channels)._replace(until=last)
            for belief, last in zip(believed, until, strict=True)
            if last > 0
        ]
    return _split_ranges(options) if wires.pcie else options


def _split_ranges(options: list[Candidate]) -> list[Candidate]:
    """The candidates, each from the size at which the previous one ends.

    Over NVLink the fastest candidate that NCCL still picks is taken, and NCCL picks it; over PCI Express NCCL stays with
    LL for longer than pays.
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
    return graph_channels(wires, group)


def _cost(
    wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric, channels: int
) -> Candidate:
    """The cost of a choice inside one node."""
    if belief.algorithm == "nvls":
        return _nvls(wires, group, fabric, channels)
    p = PROTOCOLS.index(belief.protocol)
    step = (fabric.step_ll, fabric.step_ll128, fabric.step_simple)[p] * hop_ratio(wires)
    if belief.algorithm == "ring":
        latency = steps(collective, group)[0] * step
    else:
        latency = 2 * (group.members - 1) * step * _TREE_STEP[p]
    hops = max(1.0, latency / step) if step > 0 else 1.0
    tau = (0.0, fabric.ramp_ll128, fabric.ramp_simple)[p] * math.sqrt(hops)
    base = (fabric.base, fabric.base, fabric.base_simple)[p]
    line = fabric.line_base + fabric.line_ll / fabric.step_ll * latency if p == 0 else 0.0
    window = _LINE * (group.ranks if belief.algorithm == "ring" else 1) if p == 0 else WINDOW[belief.protocol]
    per_byte = _byte_seconds(wires, collective, group, belief, fabric)
    return Candidate(
        belief.algorithm,
        belief.protocol,
        math.inf,
        base + latency,
        line,
        window,
        per_byte,
        tau,
        channels,
        0.0,
        0.0,
    )


def _byte_seconds(wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric) -> float:
    """Seconds for each byte of the collective's size."""
    inside = ring_rate(wires, collective, group, PROTOCOLS.index(belief.protocol), fabric)
    if belief.algorithm == "tree":
        return 2.0 / (TREE_SHARE * inside)
    return float(bus_factor(collective, group.ranks)) / inside


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
    outside = math.inf
    if group.nodes > 1:
        network = load_network(wires.fabric)
        outside = out_rate(wires, group, network) * (network.between.share_ll, LINE_SHARE, 1.0)[p]
        if collective == "all_to_all":
            outside *= network.pairs_share / network.share
        if algorithm in ("ring", "tree"):
            most = channel_rate(wires, group, algorithm, protocol)
            outside = min(outside, most / 2 if algorithm == "tree" and group.nodes == 2 else most)
    if algorithm == "nvls":
        return fabric.nvls_share * wires.nvlink, outside
    if algorithm == "pairs":
        return pairs_rate(wires, group, fabric), outside
    inside = ring_rate(wires, collective, group, p, fabric)
    chain = TREE_SHARE * ring_share(group.members)
    return (chain if algorithm == "tree" else 1.0) * inside, outside


def _nvls(wires: Wires, group: Group, fabric: Fabric, channels: int) -> Candidate:
    hop = hop_ratio(wires)
    per_byte = 1.0 / (fabric.nvls_share * wires.nvlink)
    return Candidate("nvls", "Simple", math.inf, fabric.nvls_base * hop, 0.0, WINDOW["Simple"], per_byte,
                     fabric.nvls_ramp, channels, 0.0, 0.0)  # fmt: skip


def _pairs(wires: Wires, collective: str, group: Group, fabric: Fabric) -> list[Candidate]:
    """Point-to-point kernels: every rank sends to every other at once, or to the next; LL for short messages.

    NCCL takes LL up to 16 KiB a channel (NCCL_P2P_LL_THRESHOLD).
    """
    inside = pairs_rate(wires, group, fabric)
    alone = collective == "send_recv"
    near, peers = (1.0, 1.0) if alone else ((group.members - 1) / group.ranks, float(group.ranks))
    step = hop_ratio(wires) * fabric.pairs_step * math.log2(group.members)
    simple = Candidate("pairs", "Simple", math.inf, fabric.pairs_base + step, 0.0, WINDOW["Simple"], near / inside,
                       fabric.pairs_ramp, 1.0, 0.0, 0.0)  # fmt: skip
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
    per_channel = fabric.host_channel if release == "2.20" else fabric.host_channel_old
    ramp = option.ramp + (fabric.single_ramp if release not in EARLY and option.protocol != "LL" else 0.0)
    return option._replace(start=start, channel=gpus * per_channel, ramp=ramp)
