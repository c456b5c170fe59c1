"""Tables of servers, intact or with faults: the ways between their parts, and the ports of each part.

Equal servers share one table, so tables grow with a server, not with the cluster. Servers with faults have a separate
table for each pattern of faults.

A part uses the port nearest to it. Parts of a kind that are equally near to the same ports divide them in order. A
port with a cable broken in one direction is down.

Axes: T tables, C choices, S parts as sources, D parts as destinations, H hops, W ways of all tables, R ports of a
server, Q rails, K places in a list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.hardware.fabrics.fabric_links import NONE, Bools, Floats, Ints
from podsim.hardware.fabrics.node import Node, Ways, ways
from podsim.hardware.fabrics.wiring import Network, ServerWiring


@dataclass(frozen=True, kw_only=True, eq=False)
class Ports:
    """The use of a server's ports on one network by its parts."""

    works_TR: Bools
    own_TSK: Ints
    """The ports that a part uses."""
    owns_TS: Ints
    """The number of ports that a part uses."""
    is_own_TSR: Bools
    carrier_TR: Ints
    """A GPU that uses the port, for PXN; -1 if there is none."""
    rail_R: Ints
    on_rail_TQ: Ints
    """A working port on each rail; -1 if there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The tables of all servers."""

    table_N: Ints
    """The table of each server."""
    links_WH: Ints
    """The ways, in order of table, choice, source and destination."""
    length_W: Ints
    """The number of hops of each way."""
    most_choices: int
    choices_TSD: Ints
    nvlink_TSD: Bools
    gpu_S: Bools
    ports: tuple[Ports, ...]
    """The ports on each network."""


def make_tables(wiring: ServerWiring, capacity: Floats) -> Tables:
    """The tables of all servers; links of capacity 0 are broken."""
    node, nodes = wiring.node, wiring.nodes
    inside_NL = capacity[: nodes * node.links].reshape(nodes, node.links) > 0
    ports_NR = [_working_ports(wiring, number, capacity) for number in range(len(wiring.networks))]
    state_N = np.concatenate([inside_NL, *ports_NR], axis=1)
    if state_N.all():
        kept, table_N = np.zeros(1, np.int64), np.zeros(nodes, np.int64)
    else:
        _, kept, table_N = np.unique(state_N, axis=0, return_index=True, return_inverse=True)
    node_ways = [ways(node, inside_NL[number]) for number in kept]
    choices, hops = (max(way.links_CSDH.shape[axis] for way in node_ways) for axis in (0, 3))
    size = len(node.parts)
    links_TCSDH = np.full((len(node_ways), choices, size, size, hops), NONE, np.int64)
    for t, way in enumerate(node_ways):
        c, _, _, h = way.links_CSDH.shape
        links_TCSDH[t, :c, :, :, :h] = np.where(way.links_CSDH < 0, NONE, way.links_CSDH)
    return Tables(
        table_N=table_N.reshape(-1).astype(np.int64),
        links_WH=links_TCSDH.reshape(-1, hops),
        most_choices=choices,
        length_W=(links_TCSDH >= 0).sum(axis=-1).reshape(-1),
        choices_TSD=np.stack([way.choices_SD for way in node_ways]),
        nvlink_TSD=np.stack([way.nvlink_SD for way in node_ways]),
        gpu_S=np.array([part.kind == "gpu" for part in node.parts]),
        ports=tuple(
            _ports(node, network, node_ways, works_NR[kept])
            for network, works_NR in zip(wiring.networks, ports_NR, strict=True)
        ),
    )


def _working_ports(wiring: ServerWiring, number: int, capacity: Floats) -> Bools:
    """Whether each port of each server works in both directions, [N, R]."""
    network, first = wiring.networks[number], wiring.first_link[number]
    count = wiring.nodes * len(network.ports_R)
    up, down = (first + network.tree.first[kind] for kind in ("port_up", "port_down"))
    works = (capacity[up : up + count] > 0) & (capacity[down : down + count] > 0)
    return works.reshape(wiring.nodes, len(network.ports_R))


def _ports(node: Node, network: Network, node_ways: list[Ways], works_TR: Bools) -> Ports:
    lists = [
        _own_ports(node, network.ports_R, way, works_R)
        for way, works_R in zip(node_ways, works_TR, strict=True)
    ]
    most = max((len(own) for own_S in lists for own in own_S), default=0)
    shape = len(node_ways), len(node.parts)
    own_TSK, owns_TS = np.zeros((*shape, max(most, 1)), np.int64), np.zeros(shape, np.int64)
    is_own_TSR = np.zeros((*shape, len(network.ports_R)), np.bool_)
    carrier_TR = np.full(works_TR.shape, -1, np.int64)
    for t, own_S in enumerate(lists):
        for s, own in enumerate(own_S):
            own_TSK[t, s, : len(own)], owns_TS[t, s] = own, len(own)
            is_own_TSR[t, s, own] = True
        for gpu in reversed(node.places("gpu")):
            carrier_TR[t, own_S[gpu]] = gpu
    rail_R = network.tree.rail_Q[: len(network.ports_R)]
    on_rail_TQ = np.full((len(node_ways), int(network.tree.rail_Q.max(initial=0)) + 1), -1, np.int64)
    for port in reversed(range(len(rail_R))):
        on_rail_TQ[works_TR[:, port], rail_R[port]] = port
    return Ports(
        works_TR=works_TR,
        own_TSK=own_TSK,
        owns_TS=owns_TS,
        is_own_TSR=is_own_TSR,
        carrier_TR=carrier_TR,
        rail_R=rail_R,
        on_rail_TQ=on_rail_TQ,
    )


def _own_ports(node: Node, ports_R: Ints, way: Ways, works_R: Bools) -> list[list[int]]:
    """The ports that each part uses."""
    both_SR = (way.cost_SD + way.cost_SD.T)[:, ports_R]
    both_SR = np.where(works_R, both_SR, np.inf)
    nearest: list[tuple[float, Ints]] = []
    for cost_R in both_SR:
        low = round(float(cost_R.min(initial=np.inf)), 6)
        nearest.append(
            (low, np.flatnonzero(cost_R < low + 1e-5) if np.isfinite(low) else np.empty(0, np.int64))
        )
    keys = [(part.kind, low, ports.tobytes()) for part, (low, ports) in zip(node.parts, nearest, strict=True)]
    own: list[list[int]] = []
    for s, (_, ports) in enumerate(nearest):
        alike = [d for d, key in enumerate(keys) if key == keys[s]]
        position, many, sharing = alike.index(s), len(ports), len(alike)
        first = position * many // sharing
        own.append(ports[first : max((position + 1) * many // sharing, first + 1)].tolist())
    return own
