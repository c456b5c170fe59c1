"""Equal servers and the trees of switches that join them: the numbers and names of their ends and links.

Links inside nodes come first, node by node, then those of each network. server_routes has the routes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from podsim.axes import Floats, Ints, Shaped
from podsim.hardware.fabrics.fabric_links import Block, Ends, Router
from podsim.hardware.fabrics.node import KINDS, Node
from podsim.hardware.fabrics.tree import PortNames, Tree
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """A tree of switches, the parts of the servers that are its ports, and the ends outside the servers."""

    tree: Tree
    ports: Shaped[Ints, "port"]
    """The parts of a server that are ports, in order: port r of node n is port n * R + r of the tree."""
    pxn: bool = False
    """Whether rails matter: traffic may first go to the GPU on another rail."""
    outside: tuple[str, ...] = ()
    """The names of the ends outside the servers, whose ports follow those of the servers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerWiring:
    """Equal servers and the networks between them. GPUs use the first network."""

    node: Node
    nodes: int
    networks: tuple[Network, ...]
    routes: Callable[[ServerWiring, Floats], Router]
    """The function that makes the router over the working links."""

    @cached_property
    def first_link(self) -> tuple[int, ...]:
        """The number of the first link of each network."""
        sizes = [self.nodes * self.node.links, *(network.tree.links for network in self.networks)]
        return tuple(np.cumsum(sizes)[:-1].tolist())

    def router(self, capacity: Floats) -> Router:
        """The router over the working links."""
        return self.routes(self, capacity)

    def ends(self) -> tuple[Ends, ...]:
        """The parts of all servers by kind, then the ends outside the servers."""
        groups, first = [], 0
        for kind in KINDS:
            names = [part.name for part in self.node.parts if part.kind == kind]
            if names:
                groups.append(
                    Ends(kind=kind, first=first, count=self.nodes * len(names), name=_part_name(names))
                )
                first += self.nodes * len(names)
        for network in self.networks:
            if network.outside:
                outside = network.outside
                groups.append(Ends(kind="server", first=first, count=len(outside), name=outside.__getitem__))
                first += len(outside)
        return tuple(groups)

    def blocks(self) -> tuple[Block, ...]:
        """The links inside the servers, then those of the networks."""
        node = self.node
        kinds = tuple(cable.kind for cable in node.cables for _ in range(2))

        def inside(position: int) -> tuple[str, str]:
            number, link = divmod(position, node.links)
            tail, head = node.link_ends[link]
            return f"node{number}/{node.parts[tail].name}", f"node{number}/{node.parts[head].name}"

        blocks = (
            [Block(kinds=kinds, first=0, count=self.nodes * node.links, ends=inside)] if node.links else []
        )
        for first, network in zip(self.first_link, self.networks, strict=True):
            blocks += network.tree.blocks(first, self._port_name(network))
        return tuple(blocks)

    def _port_name(self, network: Network) -> PortNames:
        ports, own = len(network.ports), self.nodes * len(network.ports)

        def name(port: int) -> str:
            if port >= own:
                return network.outside[port - own]
            number, position = divmod(port, ports)
            return f"node{number}/{self.node.parts[int(network.ports[position])].name}"

        return name


def _part_name(names: list[str]) -> Callable[[int], str]:
    return lambda number: f"node{number // len(names)}/{names[number % len(names)]}"
