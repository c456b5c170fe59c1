"""Routes between servers: out of a port, through a network, into a port.

Each end uses its nearest ports (server_tables). With PXN (NCCL's "PCI x NVLink"), traffic to another rail first goes
over NVLink to the GPU on that rail and leaves by its adapter. So it stays on the rail and, within a unit, under one
leaf. If the network consists of separate planes, traffic leaves by a port on the plane of the destination.
If these ports have no route between them, all other ports are tried.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.hardware.fabrics.fabric_links import NONE, Fabric, Hops, Routing
from podsim.hardware.fabrics.node import Node
from podsim.hardware.fabrics.server_tables import Ports, make_tables
from podsim.hardware.fabrics.tree_routes import mix, tree_hops
from podsim.hardware.fabrics.wiring import Network, ServerWiring
from podsim.records import dataclass

_OUTSIDE = -1
"""The part number of an end outside the servers."""
_INSIDE, _NOWHERE = -1, -2
"""The network number of pairs in one server, and of pairs of an end with itself."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pairs:
    """Pairs of ends on one network, arrays of [pair]."""

    node: Ints
    part: Ints
    port: Ints
    """The port of the tree, for ends outside the servers."""
    to_node: Ints
    to_part: Ints
    to_port: Ints
    hash: Ints

    def select(self, which: Ints) -> _Pairs:
        return _Pairs(**{name: values[which] for name, values in self.__dict__.items()})


class ServerRouter:
    """Routes over the working links of a ServerWiring."""

    def __init__(self, wiring: ServerWiring, capacity: Floats) -> None:
        """Make the tables of the servers, once."""
        self.wiring, self.capacity = wiring, capacity
        self.tables = make_tables(wiring, capacity)
        ends = wiring.ends()
        size = sum(group.count for group in ends)
        self.node, self.network = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.part, self.port = np.full(size, _OUTSIDE), np.full(size, -1)
        outside = iter(number for number, network in enumerate(wiring.networks) if network.outside)
        for group in ends:
            every = slice(group.first, group.first + group.count)
            if group.kind == "server":
                number = next(outside)
                self.network[every] = number
                self.node[every] = -1 - number
                self.port[every] = wiring.nodes * len(wiring.networks[number].ports) + np.arange(group.count)
            else:
                places = wiring.node.places(group.kind)
                self.node[every] = np.arange(group.count) // len(places)
                self.part[every] = np.tile(places, wiring.nodes)
                self.network[every] = self._network_of(group.kind)

    def _network_of(self, kind: str) -> int:
        """The network with ports of this kind, else the first one."""
        kinds = [self.wiring.node.parts[int(network.ports[0])].kind for network in self.wiring.networks]
        return kinds.index(kind) if kind in kinds else 0

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Hops:
        """(links of each pair, whether the pair lacks a route)."""
        pair = mix(source * len(self.node) + destination, routing.seed).astype(np.int64) & (2**62 - 1)
        node, to_node = self.node[source], self.node[destination]
        part, to_part = self.part[source], self.part[destination]
        network = np.maximum(self.network[source], self.network[destination])
        network[(node == to_node) & (part != _OUTSIDE)] = _INSIDE
        network[source == destination] = _NOWHERE
        lost = (network >= 0) & (not self.wiring.networks)
        parts: list[tuple[Ints, Hops]] = []
        for number in range(_INSIDE, len(self.wiring.networks)):
            here = np.flatnonzero(network == number)
            if not len(here):
                continue
            if number == _INSIDE:
                parts.append((here, self._segment(node[here], part[here], to_part[here], pair[here])))
                continue
            pairs = _Pairs(
                node=node[here], part=part[here], port=self.port[source[here]], to_node=to_node[here],
                to_part=to_part[here], to_port=self.port[destination[here]], hash=pair[here],
            )  # fmt: skip
            parts.append((here, self._network_links(number, pairs, routing)))
        links = np.full(
            (len(source), max((part_hops[0].shape[1] for _, part_hops in parts), default=1)), NONE, np.int64
        )
        for here, (way, is_lost) in parts:
            links[here, : way.shape[1]] = way
            lost[here] = is_lost
        return links, lost

    def _segment(self, node: Ints, part: Ints, to_part: Ints, pair: Ints) -> Hops:
        """(links from one part of a server to another, whether there is no way)."""
        tables = self.tables
        size, table = len(tables.gpu), tables.table[node]
        choices = tables.choices[table, part, to_part]
        chosen = 0 if tables.most_choices == 1 else (pair >> 40) % np.maximum(choices, 1)
        way = ((table * tables.most_choices + chosen) * size + part) * size + to_part
        longest = int(tables.length[way].max(initial=0))
        links = tables.links[:, :longest].take(way, axis=0)  # [pair, hop]
        links += (node * self.wiring.node.links)[:, None]
        return links, choices == 0

    def _network_links(self, number: int, pairs: _Pairs, routing: Routing) -> Hops:
        """(links from server to server over a network, whether there is no route)."""
        ports, port_parts = self.tables.ports[number], self.wiring.networks[number].ports
        last, has_last = self._own_port(ports, pairs.to_node, pairs.to_part, pairs.hash)
        first, via, has_first = self._exit(number, pairs, last, routing)
        hops, lost = self._join_segments(number, pairs, (first, via), (last, port_parts[last]), routing)
        lost |= ~has_first & (pairs.part != _OUTSIDE)
        lost |= ~has_last & (pairs.to_part != _OUTSIDE)
        if lost.any():
            left = np.flatnonzero(lost)
            way, lost[left] = self._any_ports(number, pairs.select(left), routing)
            hops = _widen(hops, way.shape[1])  # [pair, hop]
            hops[left] = _widen(way, hops.shape[1])
        return hops, lost

    def _own_port(self, ports: Ports, node: Ints, part: Ints, pair: Ints) -> tuple[Ints, Bools]:
        """(port of the server that a part uses, whether there is one)."""
        table = self.tables.table[np.maximum(node, 0)]
        owns = ports.owns[table, part]
        position = 0 if ports.own.shape[2] == 1 else (pair >> 20) % np.maximum(owns, 1)
        return ports.own[table, part, position], owns > 0

    def _rail(self, number: int, pairs: _Pairs, port: Ints) -> Ints:
        """The rail by which a pair arrives."""
        tree, rail = self.wiring.networks[number].tree, self.tables.ports[number].rail
        outside = tree.rail[np.maximum(pairs.to_port, 0)]
        return np.where(pairs.to_part == _OUTSIDE, outside, rail[port])

    def _exit(self, number: int, pairs: _Pairs, last: Ints, routing: Routing) -> tuple[Ints, Ints, Bools]:
        """(port by which a pair leaves its server, part on the way to that port, whether there is one).

        last: the port by which the pair arrives.
        """
        network, ports, tables = self.wiring.networks[number], self.tables.ports[number], self.tables
        own, has_own = self._own_port(ports, pairs.node, pairs.part, pairs.hash)
        planes = network.tree.planes > 1 or (network.tree.uplinks == 0 and network.tree.leaves > 1)
        pxn = routing.pxn and network.pxn
        if not planes and not pxn:
            return own, network.ports[own], has_own
        rail = self._rail(number, pairs, last)
        table = tables.table[np.maximum(pairs.node, 0)]
        other = ports.on_rail[table, rail]
        fits = other >= 0
        carrier = ports.carrier[table, other]
        mine = ports.is_own[table, pairs.part, other] & fits
        over = fits & ~mine & (carrier >= 0) & pxn
        over &= tables.gpu[pairs.part] & tables.nvlink[table, pairs.part, carrier]
        port = np.where(over | mine | (fits & planes), other, own)
        return port, np.where(over, carrier, network.ports[port]), has_own | fits

    def _join_segments(
        self, number: int, pairs: _Pairs, first: tuple[Ints, Ints], last: tuple[Ints, Ints], routing: Routing
    ) -> Hops:
        """The links out of one port and into another, each by way of a part of its server.

        first, last: (port, part); on a direct way the part is that of the port itself.
        """
        network = self.wiring.networks[number]
        ports, base = network.ports, self.wiring.first_link[number]
        out, entry = pairs.part != _OUTSIDE, pairs.to_part != _OUTSIDE
        source = np.where(out, pairs.node * len(ports) + first[0], pairs.port)
        destination = np.where(entry, pairs.to_node * len(ports) + last[0], pairs.to_port)
        rate = self.capacity[base : base + network.tree.links]
        tree, lost = tree_hops(network.tree, source, destination, pairs.hash, routing, rate)
        tree += base
        exits, entries = ports[first[0]], ports[last[0]]
        segments = [
            self._part_segment(pairs.node, pairs.part, first[1], pairs.hash, out),
            self._part_segment(pairs.node, first[1], exits, pairs.hash, out & (first[1] != exits)),
            (tree, lost),
            self._part_segment(pairs.to_node, entries, last[1], pairs.hash, entry & (last[1] != entries)),
            self._part_segment(pairs.to_node, last[1], pairs.to_part, pairs.hash, entry),
        ]
        for _, also in segments:
            lost = lost | also
        return np.concatenate([hops for hops, _ in segments], axis=1), lost

    def _part_segment(self, node: Ints, part: Ints, to_part: Ints, pair: Ints, which: Bools) -> Hops:
        """The segments of some pairs, and no hops for the rest."""
        if which.all():
            return self._segment(node, part, to_part, pair)
        lost = np.zeros(len(node), np.bool_)
        here = np.flatnonzero(which)
        if not len(here):
            return np.empty((len(node), 0), np.int64), lost
        if len(here) > len(node) // 2:  # all pairs at once are cheaper; the rest go from a part to itself
            elsewhere = np.where(which, to_part, part)
            return self._segment(np.maximum(node, 0), np.maximum(part, 0), np.maximum(elsewhere, 0), pair)
        some, lost[here] = self._segment(node[here], part[here], to_part[here], pair[here])
        links = np.full((len(node), some.shape[1]), NONE, np.int64)  # [pair, hop]
        links[here] = some
        return links, lost

    def _any_ports(self, number: int, pairs: _Pairs, routing: Routing) -> Hops:
        """The first working way over any two ports, directly or over another GPU."""
        ports, port_parts = self.tables.ports[number], self.wiring.networks[number].ports
        works = np.asarray(ports.works.any(axis=1))[self.tables.table]
        up = (works[pairs.node] | (pairs.part == _OUTSIDE)) & (
            works[pairs.to_node] | (pairs.to_part == _OUTSIDE)
        )
        combos = sorted(
            product(range(len(port_parts)), repeat=2),
            key=lambda both: ports.rail[both[0]] != ports.rail[both[1]],
        )
        gpus = np.flatnonzero(self.tables.gpu).tolist()
        ways = [
            (exit_port, entry_port, int(port_parts[exit_port]), int(port_parts[entry_port]))
            for exit_port, entry_port in combos
        ]
        ways += [(exit_port, entry_port, gpu, gpu) for exit_port, entry_port in combos for gpu in gpus]
        left, lost = np.flatnonzero(up), np.ones(len(pairs.node), np.bool_)
        result = np.full((len(pairs.node), 1), NONE, np.int64)  # [pair, hop]
        for exit_port, entry_port, via, back in ways:
            if not len(left):
                break
            fill = np.zeros(len(left), np.int64)
            ends = (fill + exit_port, fill + via), (fill + entry_port, fill + back)
            hops, bad = self._join_segments(number, pairs.select(left), *ends, routing)
            if not bad.all():
                result = _widen(result, hops.shape[1])
                result[left[~bad]] = _widen(hops[~bad], result.shape[1])
            lost[left] = bad
            left = left[bad]
        return result, lost


def _widen(hops: Shaped[Ints, "pair hop"], wide: int) -> Ints:
    """The same hops with at least `wide` columns."""
    return np.pad(hops, ((0, 0), (0, max(wide - hops.shape[1], 0))), constant_values=NONE)


def links_of_alike_servers(fabric: Fabric) -> int:
    """The links inside each server, if all have equal ones and one way from each part to each other; else 0."""
    wiring, router = fabric.wiring, fabric.router
    if not isinstance(wiring, ServerWiring) or not isinstance(router, ServerRouter):
        return 0
    inside = wiring.nodes * wiring.node.links
    of_links = np.stack([fabric.capacity[:inside], fabric.latency[:inside]]).reshape(2, wiring.nodes, -1)
    is_alike = router.tables.most_choices == 1 and np.all(of_links == of_links[:, :1])
    return wiring.node.links if is_alike else 0


def assemble(
    name: str, node: Node, nodes: int, networks: tuple[Network, ...] = (), routing: Routing | None = None
) -> Fabric:
    """The fabric of equal servers and their networks."""
    wiring = ServerWiring(node=node, nodes=nodes, networks=networks, routes=ServerRouter)
    trees = [network.tree for network in networks]
    return Fabric(
        name=name,
        ends=wiring.ends(),
        blocks=wiring.blocks(),
        capacity=np.concatenate([np.tile(node.capacity, nodes), *(tree.capacity() for tree in trees)]),
        latency=np.concatenate([np.tile(node.latency, nodes), *(tree.latency() for tree in trees)]),
        wiring=wiring,
        routing=routing or Routing(),
    )
