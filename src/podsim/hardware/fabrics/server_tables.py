"""Tables of servers, intact or with faults: the ways between their parts, and the ports of each part.

Equal servers share one table, so tables grow with a server, not with the cluster. Servers with faults have a separate
table for each pattern of faults.

A part uses the port nearest to it. Parts of a kind that are equally near to the same ports divide them in order. A
port with a cable broken in one direction is down.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.hardware.fabrics.fabric_links import NONE
from podsim.hardware.fabrics.node import Node, Ways, ways
from podsim.hardware.fabrics.wiring import Network, ServerWiring
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class Ports:
    """The use of a server's ports on one network by its parts."""

    works: Shaped[Bools, "table port"]
    own: Shaped[Ints, "table source choice"]
    """The ports that a part uses."""
    owns: Shaped[Ints, "table source"]
    """The number of ports that a part uses."""
    is_own: Shaped[Bools, "table source port"]
    carrier: Shaped[Ints, "table port"]
    """A GPU that uses the port, for PXN; -1 if there is none."""
    rail: Shaped[Ints, "port"]
    on_rail: Shaped[Ints, "table rail"]
    """A working port on each rail; -1 if there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The tables of all servers."""

    table: Shaped[Ints, "server"]
    """The table of each server."""
    links: Shaped[Ints, "way hop"]
    """The ways, in order of table, choice, source and destination."""
    length: Shaped[Ints, "way"]
    """The number of hops of each way."""
    most_choices: int
    choices: Shaped[Ints, "table source destination"]
    nvlink: Shaped[Bools, "table source destination"]
    gpu: Shaped[Bools, "source"]
    ports: tuple[Ports, ...]
    """The ports on each network."""


def make_tables(wiring: ServerWiring, capacity: Floats) -> Tables:
    """The tables of all servers; links of capacity 0 are broken."""
    node, nodes = wiring.node, wiring.nodes
    inside = capacity[: nodes * node.links].reshape(nodes, node.links) > 0  # [server, link]
    ports = [_working_ports(wiring, number, capacity) for number in range(len(wiring.networks))]
    state = np.concatenate([inside, *ports], axis=1)
    if state.all():
        kept, table = np.zeros(1, np.int64), np.zeros(nodes, np.int64)
    else:
        _, kept, table = np.unique(state, axis=0, return_index=True, return_inverse=True)
    node_ways = [ways(node, inside[number]) for number in kept]
    choices, hops = (max(way.links.shape[axis] for way in node_ways) for axis in (0, 3))
    size = len(node.parts)
    links = np.full((len(node_ways), choices, size, size, hops), NONE, np.int64)
    for t, way in enumerate(node_ways):
        c, _, _, h = way.links.shape
        links[t, :c, :, :, :h] = np.where(way.links < 0, NONE, way.links)
    return Tables(
        table=table.reshape(-1).astype(np.int64),
        links=links.reshape(-1, hops),
        most_choices=choices,
        length=(links >= 0).sum(axis=-1).reshape(-1),
        choices=np.stack([way.choices for way in node_ways]),
        nvlink=np.stack([way.nvlink for way in node_ways]),
        gpu=np.array([part.kind == "gpu" for part in node.parts]),
        ports=tuple(
            _ports(node, network, node_ways, works[kept])
            for network, works in zip(wiring.networks, ports, strict=True)
        ),
    )


def _working_ports(wiring: ServerWiring, number: int, capacity: Floats) -> Bools:
    """Whether each port of each server works in both directions, [server, port]."""
    network, first = wiring.networks[number], wiring.first_link[number]
    count = wiring.nodes * len(network.ports)
    up, down = (first + network.tree.first[kind] for kind in ("port_up", "port_down"))
    works = (capacity[up : up + count] > 0) & (capacity[down : down + count] > 0)
    return works.reshape(wiring.nodes, len(network.ports))


def _ports(node: Node, network: Network, node_ways: list[Ways], works: Shaped[Bools, "table port"]) -> Ports:
    lists = [
        _own_ports(node, network.ports, way, table_works)
        for way, table_works in zip(node_ways, works, strict=True)
    ]
    most = max((len(own) for part_ports in lists for own in part_ports), default=0)
    shape = len(node_ways), len(node.parts)
    own_ports, owns = np.zeros((*shape, max(most, 1)), np.int64), np.zeros(shape, np.int64)
    is_own = np.zeros((*shape, len(network.ports)), np.bool_)  # [table, source, port]
    carrier = np.full(works.shape, -1, np.int64)  # [table, port]
    for t, part_ports in enumerate(lists):
        for s, own in enumerate(part_ports):
            own_ports[t, s, : len(own)], owns[t, s] = own, len(own)
            is_own[t, s, own] = True
        for gpu in reversed(node.places("gpu")):
            carrier[t, part_ports[gpu]] = gpu
    rail = network.tree.rail[: len(network.ports)]
    on_rail = np.full((len(node_ways), int(network.tree.rail.max(initial=0)) + 1), -1, np.int64)
    for port in reversed(range(len(rail))):
        on_rail[works[:, port], rail[port]] = port
    return Ports(
        works=works,
        own=own_ports,
        owns=owns,
        is_own=is_own,
        carrier=carrier,
        rail=rail,
        on_rail=on_rail,
    )


def _own_ports(
    node: Node, port_parts: Shaped[Ints, "port"], way: Ways, works: Shaped[Bools, "port"]
) -> list[list[int]]:
    """The ports that each part uses."""
    both = (way.cost + way.cost.T)[:, port_parts]  # [source, port]
    both = np.where(works, both, np.inf)
    nearest: list[tuple[float, Ints]] = []
    for cost in both:
        low = round(float(cost.min(initial=np.inf)), 6)
        nearest.append(
            (low, np.flatnonzero(cost < low + 1e-5) if np.isfinite(low) else np.empty(0, np.int64))
        )
    keys = [(part.kind, low, ports.tobytes()) for part, (low, ports) in zip(node.parts, nearest, strict=True)]
    own: list[list[int]] = []
    for s, (_, ports) in enumerate(nearest):
        alike = [d for d, key in enumerate(keys) if key == keys[s]]
        position, many, sharing = alike.index(s), len(ports), len(alike)
        first = position * many // sharing
        own.append(ports[first : max((position + 1) * many // sharing, first + 1)].tolist())
    return own
