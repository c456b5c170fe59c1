"""Routes between servers: out by a port, through a network, in by a port.

Both ends use ports of their own (server_tables). With PXN (NCCL's "PCI x NVLink") traffic to another rail goes over
NVLink to the GPU on that rail first, and out by its adapter, so that it stays on the rail and, near by, under one
leaf. Where the network is in planes that nothing joins, it leaves by a port on the plane of the destination.
When nothing leads from those ports to each other, all others are tried.

Axes: P pairs, H hops; and those of server_tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from podsim.hardware.fabrics.fabric import LOST, Bools, Floats, Ints, Routing
from podsim.hardware.fabrics.server_tables import Ports, make_tables
from podsim.hardware.fabrics.tree_routes import mix, tree_hops
from podsim.hardware.fabrics.wiring import ServerWiring

__all__ = ["ServerRouter"]

_OUTSIDE = -1
"""part of an end that is no part of a server"""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pairs:
    """Pairs of ends on one network, [P] each."""

    node: Ints
    part: Ints
    port: Ints
    """port of the tree, where the end is outside the servers"""
    to_node: Ints
    to_part: Ints
    to_port: Ints
    hash: Ints

    def some(self, which: Ints) -> _Pairs:
        return _Pairs(**{name: values[which] for name, values in self.__dict__.items()})


class ServerRouter:
    """Routes over the links of a ServerWiring that work."""

    def __init__(self, wiring: ServerWiring, capacity: Floats) -> None:
        """Work out the tables of servers once."""
        self.wiring, self.capacity = wiring, capacity
        self.tables = make_tables(wiring, capacity)
        ends = wiring.ends()
        size = sum(one.count for one in ends)
        self.node_E, self.network_E = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.part_E, self.port_E = np.full(size, _OUTSIDE), np.full(size, -1)
        outside = iter(number for number, network in enumerate(wiring.networks) if network.outside)
        for one in ends:
            every = slice(one.first, one.first + one.count)
            if one.kind == "server":
                number = next(outside)
                self.network_E[every] = number
                self.node_E[every] = -1 - number
                self.port_E[every] = wiring.nodes * len(wiring.networks[number].ports_R) + np.arange(one.count)
            else:
                places = wiring.node.places(one.kind)
                self.node_E[every] = np.arange(one.count) // len(places)
                self.part_E[every] = np.tile(places, wiring.nodes)
                self.network_E[every] = self._network_of(one.kind)

    def _network_of(self, kind: str) -> int:
        """The network that has ports of this kind, else the first."""
        kinds = [self.wiring.node.parts[int(network.ports_R[0])].kind for network in self.wiring.networks]
        return kinds.index(kind) if kind in kinds else 0

    def hops(self, source: Ints, destination: Ints, routing: Routing) -> Ints:
        """Links of each pair, [P, H]."""
        pair = mix(source * len(self.node_E) + destination, routing.seed).astype(np.int64) & (2**62 - 1)
        node, to_node = self.node_E[source], self.node_E[destination]
        part, to_part = self.part_E[source], self.part_E[destination]
        network = np.maximum(self.network_E[source], self.network_E[destination])
        inside = (node == to_node) & (part != _OUTSIDE)
        parts: list[tuple[Ints, Ints]] = []
        if inside.any():
            here = np.flatnonzero(inside)
            parts.append((here, self._segment(node[here], part[here], to_part[here], pair[here])))
        for number in range(len(self.wiring.networks)):
            here = np.flatnonzero(~inside & (network == number) & (source != destination))
            if len(here):
                pairs = _Pairs(
                    node=node[here], part=part[here], port=self.port_E[source[here]], to_node=to_node[here],
                    to_part=to_part[here], to_port=self.port_E[destination[here]], hash=pair[here],
                )  # fmt: skip
                parts.append((here, self._across(number, pairs, routing)))
        if len(parts) == 1 and len(parts[0][0]) == len(source):
            return parts[0][1]
        hops_PH = np.full((len(source), max((found.shape[1] for _, found in parts), default=1)), -1, np.int64)
        for here, found_PH in parts:
            hops_PH[here, : found_PH.shape[1]] = found_PH
        if not self.wiring.networks:
            hops_PH[node != to_node, 0] = LOST
        return hops_PH

    def _segment(self, node: Ints, part: Ints, to_part: Ints, pair: Ints) -> Ints:
        """Links from a part of a server to another, [P, H]; LOST first where no way is left."""
        tables = self.tables
        table = tables.table_N[node]
        choices = tables.choices_TSD[table, part, to_part]
        if tables.links_TCSDH.shape[1] == 1:
            links_PH = tables.links_TCSDH[table, 0, part, to_part]
        else:
            chosen = (pair >> 40) % np.maximum(choices, 1)
            links_PH = tables.links_TCSDH[table, chosen, part, to_part]
        longest = int((links_PH >= 0).any(axis=0).sum())
        links_PH = links_PH[:, : max(longest, 1)]
        links_PH = np.where(links_PH >= 0, links_PH + (node * self.wiring.node.links)[:, None], -1)
        links_PH[choices == 0, 0] = LOST
        return links_PH

    def _across(self, number: int, pairs: _Pairs, routing: Routing) -> Ints:
        """Links from server to server over a network."""
        ports = self.tables.ports[number]
        out, entry = pairs.part != _OUTSIDE, pairs.to_part != _OUTSIDE
        last, found_last = self._own_port(ports, pairs.to_node, pairs.to_part, pairs.hash)
        last_rail = self._rail(number, np.where(entry, last, 0), pairs.to_port, entry)
        first, via, found_first = self._exit(number, pairs, last_rail, routing)
        hops_PH = self._joined(number, pairs, (first, via), (last, last), routing)
        lost = (hops_PH[:, 0] == LOST) | (out & ~found_first) | (entry & ~found_last)
        if lost.any():
            left = np.flatnonzero(lost)
            found_PH = self._any_ports(number, pairs.some(left), routing)
            wide = max(hops_PH.shape[1], found_PH.shape[1])
            hops_PH = np.pad(hops_PH, ((0, 0), (0, wide - hops_PH.shape[1])), constant_values=-1)
            hops_PH[left] = np.pad(
                found_PH, ((0, 0), (0, wide - found_PH.shape[1])), constant_values=-1
            )
        return hops_PH

    def _own_port(self, ports: Ports, node: Ints, part: Ints, pair: Ints) -> tuple[Ints, Bools]:
        """(port of the server that a part uses, whether it has one)."""
        table = self.tables.table_N[np.maximum(node, 0)]
        owns = ports.owns_TS[table, part]
        place = 0 if ports.own_TSK.shape[2] == 1 else (pair >> 20) % np.maximum(owns, 1)
        return ports.own_TSK[table, part, place], owns > 0

    def _rail(self, number: int, port: Ints, outside: Ints, inside: Bools) -> Ints:
        """Rail of a port of a server, or of an end outside."""
        tree = self.wiring.networks[number].tree
        return np.where(inside, self.tables.ports[number].rail_R[port], tree.rail_Q[np.maximum(outside, 0)])

    def _exit(self, number: int, pairs: _Pairs, rail: Ints, routing: Routing) -> tuple[Ints, Ints, Bools]:
        """(port, part by way of which it is reached, whether there is one) to leave a server by, for a rail."""
        network, ports, tables = self.wiring.networks[number], self.tables.ports[number], self.tables
        own, found = self._own_port(ports, pairs.node, pairs.part, pairs.hash)
        planes = network.tree.uplinks == 0 and network.tree.leaves > 1
        if not planes and not (routing.pxn and network.pxn):
            return own, network.ports_R[own], found
        table = tables.table_N[np.maximum(pairs.node, 0)]
        fits_PR = (ports.rail_R == rail[:, None]) & ports.works_TR[table]
        other, fits = fits_PR.argmax(axis=1), fits_PR.any(axis=1)
        carrier = ports.carrier_TR[table, other]
        mine = ports.is_own_TSR[table, pairs.part, other] & fits
        joined = (carrier >= 0) & tables.gpu_S[pairs.part] & tables.nvlink_TSD[table, pairs.part, carrier]
        over = fits & ~mine & joined & (network.pxn and routing.pxn)
        port = np.where(over | mine | (fits & planes), other, own)
        return port, np.where(over, carrier, network.ports_R[port]), found | fits

    def _joined(
        self, number: int, pairs: _Pairs, first: tuple[Ints, Ints], last: tuple[Ints, Ints], routing: Routing
    ) -> Ints:
        """Links out by a port, reached by way of a part, and in by a port, left by way of a part; LOST if cut.

        first: (port, part). last: (port, part), the part being ignored where it equals the port.
        """
        network = self.wiring.networks[number]
        ports_R, base = network.ports_R, self.wiring.first_link[number]
        out, entry = pairs.part != _OUTSIDE, pairs.to_part != _OUTSIDE
        count = len(ports_R)
        source = np.where(out, pairs.node * count + first[0], pairs.port)
        destination = np.where(entry, pairs.to_node * count + last[0], pairs.to_port)
        rate = self.capacity[base : base + network.tree.links]
        tree_PH = tree_hops(network.tree, source, destination, pairs.hash, routing, rate)
        exits, entries = ports_R[first[0]], ports_R[last[0]]
        by = np.where(last[1] == last[0], entries, last[1])
        segments = [
            self._part_segment(pairs.node, pairs.part, first[1], pairs.hash, out),
            self._part_segment(pairs.node, first[1], exits, pairs.hash, out & (first[1] != exits)),
            np.where(tree_PH >= 0, tree_PH + base, tree_PH),
            self._part_segment(pairs.to_node, entries, by, pairs.hash, entry & (by != entries)),
            self._part_segment(pairs.to_node, by, pairs.to_part, pairs.hash, entry),
        ]
        hops_PH = np.concatenate([segment for segment in segments if segment.shape[1]], axis=1)
        lost = np.zeros(len(pairs.node), np.bool_)
        for segment in segments:
            if segment.shape[1]:
                lost |= segment[:, 0] == LOST
        hops_PH[hops_PH == LOST] = -1
        hops_PH[lost, 0] = LOST
        return hops_PH

    def _part_segment(self, node: Ints, part: Ints, to_part: Ints, pair: Ints, which: Bools) -> Ints:
        """Segments of some of the pairs, no hops for the rest."""
        if which.all():
            return self._segment(node, part, to_part, pair)
        here = np.flatnonzero(which)
        if not len(here):
            return np.empty((len(node), 0), np.int64)
        some_PH = self._segment(node[here], part[here], to_part[here], pair[here])
        links_PH = np.full((len(node), some_PH.shape[1]), -1, np.int64)
        links_PH[here] = some_PH
        return links_PH

    def _any_ports(self, number: int, pairs: _Pairs, routing: Routing) -> Ints:
        """The first way by any ports, reached directly or over another GPU; LOST where there is none."""
        ports_R = self.wiring.networks[number].ports_R
        carriers = [int(gpu) for gpu in np.flatnonzero(self.tables.gpu_S)]
        rail_R = self.tables.ports[number].rail_R
        combos = sorted(product(range(len(ports_R)), repeat=2), key=lambda both: rail_R[both[0]] != rail_R[both[1]])
        left, found = np.arange(len(pairs.node)), []
        for over in (False, True):
            for one, other in combos:
                if not len(left):
                    break
                for by in ([-1] if not over else carriers):
                    some = pairs.some(left)
                    fill = np.full(len(left), 0)
                    via = ports_R[one] if by < 0 else by
                    back = other if by < 0 else by
                    hops_PH = self._joined(number, some, (fill + one, fill + via), (fill + other, fill + back), routing)
                    good = hops_PH[:, 0] != LOST
                    found.append((left[good], hops_PH[good]))
                    left = left[~good]
        wide = max((hops.shape[1] for _, hops in found), default=1)
        result_PH = np.full((len(pairs.node), wide), -1, np.int64)
        for here, hops_PH in found:
            result_PH[here, : hops_PH.shape[1]] = hops_PH
        result_PH[left, 0] = LOST
        return result_PH
