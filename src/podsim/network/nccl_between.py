"""What collectives between nodes cost: the measured side of the law, with the constants of the network's class.

    gpu  = latency + transfer + k * latency * sqrt(transfer / (latency + transfer))
    latency = base + steps inside nodes * step + steps between nodes * (network step + latency of the class)

Base and steps inside nodes are those of the fabric (podsim.network.nccl_constants.Fabric); k is the ramp of an algorithm
and protocol. NCCL's choice is not the least of the costs: each candidate holds from the size at which the previous one
ends. The constants are fitted to sweeps between nodes by podsim.network.fit_networks.
"""

from __future__ import annotations

import math

from podsim.network.bus import bus_factor
from podsim.network.nccl_constants import Between, Fabric, Network
from podsim.network.nccl_group import (
    LINE_SHARE,
    TREE_SHARE,
    WINDOW,
    Candidate,
    Group,
    Wires,
    adapters,
    hop_ratio,
    node_rate,
    pairs_rate,
    ring_rate,
)
from podsim.network.nccl_tuner import EARLY, PROTOCOLS, Belief, channel_rate, collnet_seconds, steps

_FITTED = Group(16, 8, 1.0)
"""The group whose sweep gives the start of a reduction in the network."""


def spanning_candidates(
    wires: Wires,
    collective: str,
    group: Group,
    picked: list[tuple[Belief, float]],
    release: str,
    fabric: Fabric,
    network: Network,
) -> list[Candidate]:
    """Candidates of a group over several nodes; `picked` is what NCCL picks, each with its largest size in B.

    A reduction in the network, once picked, stays open for larger sizes: NCCL takes the faster.
    """
    if collective in ("all_to_all", "send_recv"):
        return [_pairs(wires, collective, group, fabric, network)]
    last, options = 0.0, []
    for belief, until in sorted(picked, key=lambda pick: pick[1]):
        since = math.nextafter(last, math.inf) if last else 0.0
        last = until
        if belief.algorithm == "collnet":
            options += _network_reductions(wires, group, release, since, fabric, network)
            continue
        cost = _switches if belief.algorithm == "nvlstree" else _chain
        option = cost(wires, collective, group, belief, fabric, network)
        options.append(option._replace(until=until, since=since))
    return options


def out_rate(wires: Wires, group: Group, network: Network) -> float:
    """B/s that a group can push out of a node."""
    return node_rate(wires, group, network.share * wires.network, wires.slot)


def _step_seconds(wires: Wires, network: Network, step: float) -> float:
    """Seconds of a step between nodes that takes `step` over InfiniBand; an adapter slower than its class adds more."""
    return max(step + network.latency + wires.network_latency - network.adapter, 0.0)


def _protocol_steps(between: Between) -> tuple[float, float, float]:
    return between.step_ll, between.step_ll128, between.step_simple


def _chain(
    wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric, network: Network
) -> Candidate:
    """A ring or a tree. Simple's steps take LL128's time for messages that do not fill its first slice."""
    p, between, ring = PROTOCOLS.index(belief.protocol), network.between, belief.algorithm == "ring"
    latency = _chain_seconds(wires, collective, group, p, ring, fabric, network)
    ramps = (
        (between.ring_ramp_ll, between.ring_ramp_ll128, between.ring_ramp_simple)
        if ring
        else (between.tree_ramp_ll, between.tree_ramp_ll128, between.tree_ramp_simple)
    )
    per_byte = _byte_seconds(wires, collective, group, belief, fabric, network)
    option = _candidate(belief.algorithm, belief.protocol, latency, per_byte, ramps[p] * network.ramp)
    short = min(latency, _chain_seconds(wires, collective, group, min(p, 1), ring, fabric, network))
    return option._replace(latency=short, line=latency - short) if p == 2 else option


def _chain_seconds(
    wires: Wires, collective: str, group: Group, p: int, ring: bool, fabric: Fabric, network: Network
) -> float:
    """Seconds of a ring's or a tree's steps by a protocol."""
    between = network.between
    step = (fabric.step_ll, fabric.step_ll128, fabric.step_simple)[p] * hop_ratio(wires)
    across = _protocol_steps(between)[p]
    base = (fabric.base, fabric.base, fabric.base_simple)[p]
    if ring:
        inner, outer = steps(collective, group)
        return base + inner * step * between.ring_step + outer * _step_seconds(wires, network, across)
    depth = math.floor(math.log2(group.nodes))
    far = 2 * depth * _step_seconds(wires, network, across * between.tree_net)
    return base + 2 * (group.members - 1) * step * between.tree_step + far


def _byte_seconds(
    wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric, network: Network
) -> float:
    """Seconds for each byte of the collective's size."""
    p = PROTOCOLS.index(belief.protocol)
    inside = ring_rate(wires, collective, group, p, fabric) if group.members > 1 else math.inf
    outside = out_rate(wires, group, network) * (network.between.share_ll, LINE_SHARE, 1.0)[p]
    most = channel_rate(wires, group, belief.algorithm, belief.protocol)
    if belief.algorithm == "tree":
        return 2.0 / min(TREE_SHARE * inside, 2 * outside if group.nodes == 2 else outside, most)
    return float(bus_factor(collective, group.ranks)) / min(inside, outside, most)


def _switches(
    wires: Wires, collective: str, group: Group, belief: Belief, fabric: Fabric, network: Network
) -> Candidate:
    """NVSwitches that reduce in each node, and a tree over the nodes; the leaves of a tree of two send half as much."""
    between, depth = network.between, math.floor(math.log2(group.nodes))
    step = _step_seconds(wires, network, between.step_simple * between.tree_net)
    latency = between.nvls_base * hop_ratio(wires) + 2 * depth * step
    inside = between.nvls_share * fabric.nvls_share * wires.nvlink
    outside = out_rate(wires, group, network) / (1 if group.nodes == 2 else 2)
    return _candidate(
        "nvlstree", "Simple", latency, 1.0 / min(inside, outside), between.nvls_ramp * network.ramp
    )


def reduced_rate(wires: Wires, group: Group, fabric: Fabric, network: Network) -> float:
    """B/s at which GPUs of a node sum a buffer for its adapters and get the sum back."""
    if group.members == 1:
        return math.inf
    if wires.topology == "nvswitch" and wires.architecture in ("hopper", "blackwell"):
        return network.between.nvls_share * fabric.nvls_share * wires.nvlink
    chain = TREE_SHARE * ring_rate(wires, "all_reduce", group, PROTOCOLS.index("Simple"), fabric)
    return chain / float(bus_factor("all_reduce", group.members))


def _network_reductions(
    wires: Wires, group: Group, release: str, since: float, fabric: Fabric, network: Network
) -> list[Candidate]:
    """Reductions in the switches between nodes: by short trees of low latency, and by streams once these are faster.

    Every byte leaves a node once and comes back once, whatever the number of nodes.

        latency = start + 2 (levels - 1) hop

    Each level of switches above the leaves is passed once up and once down; `start`, fitted to trees of one level under
    NCCL 2.8, has the leaf, the adapters and NCCL's own work, and follows NCCL's own count for other releases. NVSwitches
    that reduce carry what they do in a tree of nodes. Source of the hop: the switch's latency from port to port.
    """
    between, early = network.between, release in EARLY
    share = between.sharp_share if early else between.sharp_share_late
    rate = share * node_rate(wires, group, wires.network, wires.slot)
    stream = 1.0 / min(rate, reduced_rate(wires, group, fabric, network))
    above = 2 * wires.hop * sum(group.nodes > most for most in wires.tiers)
    counted = collnet_seconds(group, release) / collnet_seconds(_FITTED, "2.8")
    start, stream_start = between.sharp_base * counted + above, between.sharp_stream + above
    short = max(1.0 / between.sharp_rate, stream)
    # the size at which both take as long, without their ramps
    until = (stream_start - start) / (short - stream) if short > stream else 0.0
    later = max(since, math.nextafter(until, math.inf) if until else 0.0)
    options = [_candidate("collnet", "Simple", stream_start, stream, 0.0)._replace(since=later)]
    if until > since:
        first = _candidate("collnet", "Simple", start, short, 1.0)
        options.insert(0, first._replace(until=until, since=since))
    return options


def _pairs(wires: Wires, collective: str, group: Group, fabric: Fabric, network: Network) -> Candidate:
    """Point-to-point kernels: every rank sends to every other at once, or to the next."""
    between, inside = network.between, pairs_rate(wires, group, fabric)
    line = network.share if collective == "send_recv" else network.pairs_share
    if collective == "send_recv":
        near, far, peers = (1.0 if group.members > 1 else 0.0), 1.0, 1
        outside = min(line * wires.network, wires.slot) * min(1.0, adapters(wires, group))
    else:
        near = (group.members - 1) / group.ranks
        far = group.members * (group.ranks - group.members) / group.ranks
        peers = group.ranks - group.members
        outside = node_rate(wires, group, line * wires.network, wires.slot)
    latency = fabric.pairs_base + hop_ratio(wires) * fabric.pairs_step * math.log2(group.members)
    latency += _step_seconds(wires, network, between.step_simple) + (peers - 1) * between.pairs_peer
    per_byte = max(near / inside, far / outside)
    return _candidate("pairs", "Simple", latency, per_byte, between.pairs_ramp * network.ramp)


def _candidate(algorithm: str, protocol: str, latency: float, per_byte: float, ramp: float) -> Candidate:
    """A candidate whose ramp is `ramp` times the root of its latency and its transfer, until a transfer as long as the
    latency fills the pipeline; channels are not counted.
    """
    window = WINDOW.get(protocol, WINDOW["LL128"])
    return Candidate(
        algorithm, protocol, math.inf, latency, 0.0, window, per_byte, ramp * ramp * latency, 1.0, 0.0, 0.0,
        fill=1.0 / latency if protocol == "LL128" else 0.0,
    )  # fmt: skip
