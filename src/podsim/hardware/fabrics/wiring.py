"""Servers of one kind on the trees of switches that join them: numbers and names of their ends and links.

Links inside node n come first, node by node, then those of each network. How routes go is in server_routes.

Axes: R ports of a server on a network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from podsim.hardware.fabrics.fabric import Block, Ends, Floats, Ints, Router
from podsim.hardware.fabrics.node import KINDS, Node
from podsim.hardware.fabrics.tree import PortNames, Tree


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """A tree, and which parts of the servers its ports are; further ports are ends by themselves."""

    tree: Tree
    ports_R: Ints
    """The parts of a server that are ports, in order: port r of node n is port n * R + r of the tree."""
    pxn: bool = False
    """Whether rails matter: traffic may go to the GPU on another rail first."""
    outside: tuple[str, ...] = ()
    """The names of the ends behind the ports after those of the servers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerWiring:
    """A number of servers and the networks between them. The first network is the one that GPUs use."""

    node: Node
    nodes: int
    networks: tuple[Network, ...]
    routes: Callable[[ServerWiring, Floats], Router]
    """The function that makes the router over the working links."""

    @cached_property
    def first_link(self) -> tuple[int, ...]:
        """Number of the first link of each network."""
        sizes = [self.nodes * self.node.links, *(network.tree.links for network in self.networks)]
        return tuple(np.cumsum(sizes)[:-1].tolist())

    def router(self, capacity: Floats) -> Router:
        """The router over the links that work."""
        return self.routes(self, capacity)

    def ends(self) -> tuple[Ends, ...]:
        """The parts of all servers by kind, then what is attached to the networks directly."""
        found, first = [], 0
        for kind in KINDS:
            names = [part.name for part in self.node.parts if part.kind == kind]
            if names:
                found.append(
                    Ends(kind=kind, first=first, count=self.nodes * len(names), name=_part_name(names))
                )
                first += self.nodes * len(names)
        for network in self.networks:
            if network.outside:
                outside = network.outside
                found.append(Ends(kind="server", first=first, count=len(outside), name=outside.__getitem__))
                first += len(outside)
        return tuple(found)

    def blocks(self) -> tuple[Block, ...]:
        """The links inside the servers, then those of the networks."""
        node = self.node
        kinds = tuple(cable.kind for cable in node.cables for _ in range(2))

        def inside(place: int) -> tuple[str, str]:
            number, link = divmod(place, node.links)
            tail, head = node.link_ends[link]
            return f"node{number}/{node.parts[tail].name}", f"node{number}/{node.parts[head].name}"

        found = (
            [Block(kinds=kinds, first=0, count=self.nodes * node.links, ends=inside)] if node.links else []
        )
        for first, network in zip(self.first_link, self.networks, strict=True):
            found += network.tree.blocks(first, self._port_name(network))
        return tuple(found)

    def _port_name(self, network: Network) -> PortNames:
        ports, own = len(network.ports_R), self.nodes * len(network.ports_R)

        def name(port: int) -> str:
            if port >= own:
                return network.outside[port - own]
            number, place = divmod(port, ports)
            return f"node{number}/{self.node.parts[int(network.ports_R[place])].name}"

        return name


def _part_name(names: list[str]) -> Callable[[int], str]:
    return lambda place: f"node{place // len(names)}/{names[place % len(names)]}"
