"""A fabric as plain data for a drawing: the parts of one server and the layers of its networks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from podsim.answers.answer import Answer, View
from podsim.hardware.fabrics.fabric_links import Fabric
from podsim.hardware.fabrics.infrastructure import Infrastructure
from podsim.hardware.fabrics.torus import Torus
from podsim.hardware.fabrics.tree import Tree
from podsim.hardware.fabrics.wiring import Network, ServerWiring


@dataclass(frozen=True, kw_only=True)
class Box:
    """A part of a server."""

    name: str
    kind: str
    """The kind: gpu, nic, storage, drive, cpu, pcie, nvswitch."""
    note: str
    slow: bool = False
    """Whether one of its cables is broken or slow in the first server."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A cable in a server."""

    one: str
    other: str
    kind: str
    """The kind: nvlink, pcie, socket, drive."""
    bandwidth: float
    """B/s. The bandwidth one way, without faults."""
    lanes: int


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a network, seen from below."""

    kind: str
    """The kind: node, server, leaf, spine, core."""
    groups: tuple[int, ...]
    """The number of members of each group with equal wiring."""
    group: str
    """The word for a group: "unit", "group"; empty for a single one."""
    switch: str
    """The name of the switch in the catalog; empty if unknown."""
    cables: int
    """The number of cables to the layer above."""
    bandwidth: float
    """B/s. The bandwidth of such a cable, one way."""
    first: tuple[int, ...]
    """The numbers, in the layer above, of the neighbours of this layer's first member."""

    @property
    def count(self) -> int:
        """The number of members."""
        return sum(self.groups)


@dataclass(frozen=True, kw_only=True)
class Net:
    """A network."""

    title: str
    layers: tuple[Layer, ...]
    """The layers, from the nodes up."""
    taper: float
    """factor. The bandwidth down over the bandwidth up of a full leaf; 0 for leaves alone."""
    bisection: float
    """B/s. The bandwidth between two halves of the ends, one way, over the cables above the leaves."""


@dataclass(frozen=True, kw_only=True)
class Drawing(
    Answer, view=View(report="report.fabric_text:drawing_report", charts="report.fabric_svg:drawing_figures")
):
    """The content of a drawing."""

    title: str
    server: str
    servers: int
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    nets: tuple[Net, ...]
    faults: tuple[str, ...]
    """The first broken or slow links, by name."""
    faulty: int
    """The number of broken or slow links."""
    torus: tuple[int, ...] = ()
    """The number of chips in each dimension of a torus."""
    torus_bandwidth: float = 0.0
    """B/s. The bandwidth of a link of a torus, one way."""
    sizes: tuple[Infrastructure, ...] = ()
    """The networks and racks of one scalable unit, two, and so on, up to this machine; empty if unknown."""


MOST_FAULTS = 12


def describe(fabric: Fabric) -> Drawing:
    """The drawing of a fabric."""
    if isinstance(fabric.wiring, Torus):
        ends = fabric.gpus
        return Drawing(
            title=f"{fabric.name}: {ends:,} chips", server="", servers=0, boxes=(), wires=(), nets=(), faults=(),
            faulty=0, torus=fabric.wiring.shape, torus_bandwidth=float(fabric.capacity.max()),
        )  # fmt: skip
    wiring = fabric.wiring
    assert isinstance(wiring, ServerWiring), "a placed fabric is drawn before it is placed"
    new = np.concatenate(
        [
            np.tile(wiring.node.capacity, wiring.nodes),
            *(network.tree.capacity() for network in wiring.networks),
        ]
    )
    changed = np.flatnonzero(fabric.capacity < new)
    share = fabric.capacity[changed[:MOST_FAULTS]] / new[changed[:MOST_FAULTS]]
    faults = tuple(
        f"{fabric.link_name(link)}: {'broken' if left == 0 else f'{left:.0%} of its bandwidth'}"
        for link, left in zip(changed.tolist(), share.tolist(), strict=False)
    )
    touched = {
        end for link in changed[changed < wiring.node.links].tolist() for end in wiring.node.link_ends[link]
    }
    kinds = Counter(part.kind for part in wiring.node.parts)
    servers = (
        f"{wiring.nodes:,} x {kinds['gpu']} = {fabric.gpus:,} GPUs"
        if wiring.nodes > 1
        else f"{fabric.gpus} GPUs"
    )
    parts = wiring.node.parts if wiring.node.cables else ()  # servers without cables are mere ends
    return Drawing(
        title=f"{fabric.name}: {servers}" if parts else fabric.name,
        server=wiring.node.name,
        servers=wiring.nodes,
        boxes=tuple(
            Box(name=part.name, kind=part.kind, note=part.note, slow=number in touched)
            for number, part in enumerate(parts)
        ),
        wires=tuple(
            Wire(one=c.one, other=c.other, kind=c.kind, bandwidth=c.bandwidth, lanes=c.lanes)
            for c in wiring.node.cables
        ),
        nets=tuple(_net(wiring, network, number) for number, network in enumerate(wiring.networks)),
        faults=faults,
        faulty=len(changed),
    )


def _net(wiring: ServerWiring, network: Network, number: int) -> Net:
    tree = network.tree
    ports = len(network.ports)
    kind = wiring.node.parts[int(network.ports[0])].kind
    name = (
        "Storage fabric" if kind == "storage" else "Compute fabric" if number == 0 else f"Fabric {number + 1}"
    )
    return Net(
        title=name,
        layers=(*_ends(wiring, network, ports), *_switches(tree)),
        taper=tree.taper,
        bisection=_bisection(tree),
    )


def _ends(wiring: ServerWiring, network: Network, ports: int) -> tuple[Layer, ...]:
    tree, own = network.tree, wiring.nodes * ports
    leaf = tree.leaf[:own:ports]
    sizes = tuple(np.unique(leaf, return_counts=True)[1].tolist()) if network.pxn else (wiring.nodes,)
    many = len(sizes) > 1
    nodes = Layer(
        kind="node", groups=sizes, group="unit" if many else "", switch="", cables=own,
        bandwidth=float(tree.port_rate[0]), first=tuple(sorted(set(tree.leaf[:ports].tolist()))),
    )  # fmt: skip
    if not network.outside:
        return (nodes,)
    names = {name.split("/")[0] for name in network.outside}
    ports_each = len(network.outside) // len(names)
    servers = Layer(
        kind="server", groups=(len(names),), group="", switch="", cables=len(network.outside),
        bandwidth=float(tree.port_rate[own]), first=tuple(sorted(set(tree.leaf[own : own + ports_each].tolist()))),
    )  # fmt: skip
    return nodes, servers


def _switches(tree: Tree) -> tuple[Layer, ...]:
    rails = int(tree.rail.max(initial=0)) + 1
    units = tree.leaves // rails if tree.spines and rails > 1 else 1
    leaves = Layer(
        kind="leaf", groups=(tree.leaves // units,) * units, group="unit" if units > 1 else "", switch=tree.switch,
        cables=tree.leaf_cables, bandwidth=tree.trunk, first=tuple(range(tree.spines)),
    )  # fmt: skip
    if not tree.spines:
        return (leaves,)
    cables = int(tree.group_cables[0]) // tree.spines if tree.cores else 0
    spines = Layer(
        kind="spine", groups=(tree.spines,) * tree.groups, group="group" if tree.groups > 1 else "",
        switch=tree.switch, cables=tree.core_cables, bandwidth=tree.trunk,
        first=tuple(sorted({cable % tree.cores for cable in range(cables)})) if tree.cores else (),
    )  # fmt: skip
    if not tree.cores:
        return leaves, spines
    cores = Layer(
        kind="core",
        groups=(tree.cores,) * tree.planes,
        group="rail" if tree.planes > 1 else "",
        switch=tree.switch,
        cables=0,
        bandwidth=tree.trunk,
        first=(),
    )
    return leaves, spines, cores


def _bisection(tree: Tree) -> float:
    """B/s. The half of the bandwidth of the ends, or of the cables between leaves if that is less."""
    ends = float(tree.port_rate.sum()) / 2
    above = [cables * tree.trunk / 2 for cables in (tree.leaf_cables, tree.core_cables) if cables]
    return min([ends, *above]) if tree.leaves == 1 or tree.spines else 0.0
