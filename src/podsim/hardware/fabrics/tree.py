"""Trees of switches: leaves, spines and cores, with cables that follow from coordinates.

                 core c                  c = J mod cores, J the number of a cable among all from spines up
                 /    \\
        spine (g, s)  spine (g', s')     spine s of group g reaches every leaf of its group
            /              \\
      leaf l, its cable a   leaf l'      cable a of a leaf leads to spine a mod S of the leaf's group
          |                  |
       port q             port q'        an adapter, or a port of a storage server

Without cores there is one group; with cores, one group for each rail and pod. The cables of a group lead to
consecutive cores in turn, so the numbers of cables from a group to two cores differ by one at most.
The counts of switches are those of podsim.hardware.fattree. If the last pods lack leaves, so that a group would have
fewer cables than there are cores, it has one to each, and cores are a multiple of a group's spines. Where cores
have too few ports for the groups of all rails, each rail has cores of its own: a plane. A leaf with taper t has 1/t as
many cables up as down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import ClusterError
from podsim.hardware.fabrics.fabric_links import Block
from podsim.hardware.fattree import fat_tree
from podsim.records import dataclass

PortNames: TypeAlias = Callable[[int], str]
"""A function that gives the name of the part behind a port."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """A network of up to three layers. Build it with rail_tree, clos_tree or planes."""

    prefix: str
    """The prefix of its switches' names: "storage-" in "storage-leaf3"; empty for the compute fabric."""
    leaf: Shaped[Ints, "port"]
    """The leaf of each port."""
    rail: Shaped[Ints, "port"]
    """The rail of each port."""
    port_rate: Shaped[Floats, "port"]
    """B/s. The bandwidth of each port's cable."""
    port_latency: Shaped[Floats, "port"]
    """s. The latency of each port's cable; a way over one leaf has two."""
    trunk: float
    """B/s. The bandwidth of a cable between switches."""
    hop: float
    """s. The latency of a further switch."""
    leaves: int
    uplinks: int
    """The number of cables up from a leaf."""
    spines: int
    """The number of spines in each group; 0 for leaves alone."""
    cores: int
    """The number of cores of each plane."""
    group: Shaped[Ints, "leaf"]
    """The group of each leaf."""
    down: int
    """The number of ports down of a full leaf."""
    switch_ports: int
    """The number of ports of a switch; 0 for no limit."""
    switch: str = ""
    """The name of the switch in the catalog."""
    planes: int = 1
    """The number of parts that share no core; their groups have consecutive numbers."""

    def __post_init__(self) -> None:
        """Raise ClusterError for cores with too few ports."""
        cores = self.planes * self.cores
        if cores and ceil(self.core_cables / cores) > self.switch_ports:
            raise ClusterError(
                f"{self.core_cables} cables to {cores} cores are too many for switches of {self.switch_ports} ports;"
                " use switches with more ports, or fewer ends"
            )

    @property
    def ports(self) -> int:
        """The number of ends that the tree joins."""
        return len(self.leaf)

    @property
    def groups(self) -> int:
        """The number of groups of spines."""
        return int(self.group.max(initial=0)) + 1 if self.spines else 0

    @cached_property
    def group_cables(self) -> Shaped[Ints, "group"]:
        """The number of cables from each group to the cores: that of its leaves, but at least one to each core."""
        return _cables_up(self.group, self.uplinks, self.cores)

    @cached_property
    def first_cables(self) -> Shaped[Ints, "group"]:
        """The number of the first cable of each group among those to the cores."""
        return np.cumsum(self.group_cables) - self.group_cables

    def plane(self, group: ArrayLike) -> Ints:
        """The plane of each group."""
        return np.asarray(group, np.int64) * self.planes // max(self.groups, 1)

    @property
    def multiple(self) -> int:
        """The number of cables between a leaf and each spine of its group."""
        return self.uplinks // self.spines if self.spines else 0

    @property
    def core_cables(self) -> int:
        """The number of cables between spines and cores."""
        return int(self.group_cables.sum()) if self.cores else 0

    @property
    def leaf_cables(self) -> int:
        """The number of cables between leaves and spines."""
        return self.leaves * self.uplinks if self.spines else 0

    @property
    def switches(self) -> int:
        """The number of switches of all layers."""
        return self.leaves + self.spines * self.groups + self.planes * self.cores

    @property
    def taper(self) -> float:
        """factor. The bandwidth of the ports of a full leaf over that of its cables up; 0 for leaves alone."""
        down = self.down * float(self.port_rate.max())
        return down / (self.uplinks * self.trunk) if self.spines else 0.0

    @cached_property
    def first(self) -> dict[str, int]:
        """The number of the first link of each kind: port_up, port_down, leaf_up, leaf_down, core_up, core_down."""
        kinds = ("port_up", "port_down", "leaf_up", "leaf_down", "core_up", "core_down")
        sizes = np.repeat([self.ports, self.leaf_cables, self.core_cables], 2)
        starts = np.cumsum(sizes) - sizes
        return dict(zip(kinds, starts.tolist(), strict=True))

    @property
    def links(self) -> int:
        """The number of one-way links."""
        return 2 * (self.ports + self.leaf_cables + self.core_cables)

    def capacity(self) -> Floats:
        """B/s. The capacity of each link."""
        trunks = np.full(2 * (self.leaf_cables + self.core_cables), self.trunk)
        return np.concatenate([self.port_rate, self.port_rate, trunks])

    def latency(self) -> Floats:
        """s. The latency of each link."""
        trunks = np.full(2 * (self.leaf_cables + self.core_cables), self.hop)
        return np.concatenate([self.port_latency, self.port_latency, trunks])

    def blocks(self, first: int, port_names: PortNames) -> tuple[Block, ...]:
        """The links by kind, with numbers from `first`."""

        def port(number: int) -> tuple[str, str]:
            return port_names(number), self.leaf_name(int(self.leaf[number]))

        def leaf(number: int) -> tuple[str, str]:
            leaf_number, cable = divmod(number, self.uplinks)
            group = int(self.group[leaf_number])
            return self.leaf_name(leaf_number), self.spine_name(group * self.spines + cable % self.spines)

        def core(number: int) -> tuple[str, str]:
            group = int(np.searchsorted(self.first_cables, number, side="right")) - 1
            cables = int(self.group_cables[group]) // self.spines
            spine = group * self.spines + (number - int(self.first_cables[group])) // cables
            core = self.plane(group) * self.cores + number % self.cores
            return self.spine_name(spine), f"{self.prefix}core{core}"

        blocks = []
        for kind, name, count in (
            ("adapter", port, self.ports),
            ("leaf", leaf, self.leaf_cables),
            ("spine", core, self.core_cables),
        ):
            if count:
                start = (
                    first + self.first[{"adapter": "port_up", "leaf": "leaf_up", "spine": "core_up"}[kind]]
                )
                blocks.append(Block(kinds=(kind,), first=start, count=count, ends=name))
                blocks.append(
                    Block(kinds=(kind,), first=start + count, count=count, ends=_reverse_ends(name))
                )
        return tuple(blocks)

    def leaf_name(self, leaf: int) -> str:
        """The name of a leaf."""
        return f"{self.prefix}leaf{leaf}"

    def spine_name(self, spine: int) -> str:
        """The name of a spine, with a number that runs through the groups."""
        return f"{self.prefix}spine{spine}"


def _reverse_ends(ends: Callable[[int], tuple[str, str]]) -> Callable[[int], tuple[str, str]]:
    return lambda number: ends(number)[::-1]


@dataclass(frozen=True, kw_only=True)
class Switches:
    """The kind of switch of a tree."""

    ports: int
    trunk: float
    """B/s. The bandwidth of a cable between switches."""
    hop: float = 0.0
    """s. The latency of a further switch."""
    taper: float = 1.0
    """factor. The cables down over the cables up of a full leaf, 1 or more."""
    name: str = ""


def rail_tree(
    *,
    nodes: int,
    rails: int,
    unit: int,
    switches: Switches,
    rate: ArrayLike,
    latency: ArrayLike = 0.0,
    prefix: str = "",
) -> Tree:
    """A rail-optimised fat tree: adapter r of the nodes of a unit connects to leaf r of that unit.

    unit: nodes on a leaf. rate, latency: B/s and s of a port's cable, one number or [nodes * rails].
    Raises ClusterError for a leaf with too few ports, and for more ends than three layers can join.
    """
    taper, switch_ports = switches.taper, switches.ports
    if min(nodes, rails, unit) < 1 or not taper >= 1.0:
        raise ClusterError(f"tree: {nodes=}, {rails=}, {unit=}, {taper=}; each must be at least 1")
    units, uplinks = ceil(nodes / unit), max(round(unit / taper), 1)
    if unit + uplinks > switch_ports:
        raise ClusterError(
            f"{unit} nodes per unit and {uplinks} cables up do not fit a switch of {switch_ports} ports;"
            f" up to {int(switch_ports / (1 + 1 / taper))} nodes would"
        )
    port = np.arange(nodes * rails)
    leaf = port // rails // unit * rails + port % rails
    rail_of_leaf, unit_of_leaf = np.arange(units * rails) % rails, np.arange(units * rails) // rails
    spines, cores, pods = _layers(units, rails, uplinks, switch_ports)
    group, planes = 0 * unit_of_leaf, 1
    if cores:
        group = unit_of_leaf * pods // units * rails + rail_of_leaf
        if _cables_up(group, uplinks, cores).sum() > cores * switch_ports:
            spines, cores, pods = _layers(units, 1, uplinks, switch_ports)
            group, planes = unit_of_leaf * pods // units + rail_of_leaf * pods, rails
    return Tree(
        prefix=prefix,
        leaf=leaf,
        rail=port % rails,
        port_rate=np.broadcast_to(np.asarray(rate, np.float64), port.shape),
        port_latency=np.broadcast_to(np.asarray(latency, np.float64), port.shape),
        trunk=switches.trunk,
        hop=switches.hop,
        leaves=units * rails,
        uplinks=uplinks if spines else 0,
        spines=spines,
        cores=cores,
        group=group,
        down=unit,
        switch_ports=switch_ports,
        switch=switches.name,
        planes=planes,
    )


def _cables_up(group: Shaped[Ints, "leaf"], uplinks: int, cores: int) -> Shaped[Ints, "group"]:
    """The number of cables from each group to the cores: that of its leaves, but at least one to each core."""
    return np.maximum(np.bincount(group).astype(np.int64) * uplinks, cores)


def _layers(units: int, rails: int, uplinks: int, ports: int) -> tuple[int, int, int]:
    """(spines in a group, cores, pods) for units with a leaf on each rail.

    Above its leaves, a tapered tree equals the full tree of units with as many nodes as a leaf has cables up.
    """
    if units * rails == 1:
        return 0, 0, 1
    full = fat_tree(nodes=units * uplinks, rails=rails, unit=uplinks, ports=ports)
    if not full.cores:
        return full.spines, 0, 1
    pods = ceil(units / (ports // 2))
    while full.spines % (pods * rails) or uplinks % (full.spines // (pods * rails)):
        pods += 1
    spines, cores = full.spines // (pods * rails), full.cores
    if units // pods * uplinks < cores:
        cores = ceil(cores / spines) * spines
    return spines, cores, pods


def clos_tree(
    *, ends: int, switches: Switches, rate: ArrayLike, latency: ArrayLike = 0.0, prefix: str = ""
) -> Tree:
    """A folded Clos network: ends in order on leaves with ports / (1 + 1 / taper) ports down, the rest up.

    One switch joins the ends if it has enough ports; else there are spines, and cores if necessary, for up to
    ports^3 / 4 ends. Arguments and errors are those of rail_tree.
    """
    if switches.ports < 2:
        raise ClusterError(f"a switch of {switches.ports} ports joins nothing; expected at least 2")
    down = max(int(switches.ports / (1.0 + 1.0 / max(switches.taper, 1.0))), 1)
    if ends <= switches.ports:
        return planes(leaf=np.zeros(ends, np.int64), rate=rate, latency=latency, prefix=prefix, switch=switches.name,
                      switch_ports=switches.ports)  # fmt: skip
    return rail_tree(
        nodes=ends, rails=1, unit=down, switches=switches, rate=rate, latency=latency, prefix=prefix
    )


def planes(
    *,
    leaf: ArrayLike,
    rate: ArrayLike,
    latency: ArrayLike = 0.0,
    prefix: str = "",
    switch: str = "",
    switch_ports: int = 0,
) -> Tree:
    """Separate switches, one plane each: leaf[q] is the switch of port q.

    switch_ports: ports of a switch, 0 for no limit. Raises ClusterError for more ends than ports on a switch.
    """
    leaves = np.asarray(leaf, np.int64)
    most = int(np.bincount(leaves).max(initial=0))
    if switch_ports and most > switch_ports:
        raise ClusterError(
            f"{most} ends on a switch of {switch_ports} ports; {ceil(most / switch_ports)} switches would do"
        )
    return Tree(
        prefix=prefix,
        leaf=leaves,
        rail=leaves,
        port_rate=np.broadcast_to(np.asarray(rate, np.float64), leaves.shape),
        port_latency=np.broadcast_to(np.asarray(latency, np.float64), leaves.shape),
        trunk=0.0,
        hop=0.0,
        leaves=int(leaves.max(initial=0)) + 1,
        uplinks=0,
        spines=0,
        cores=0,
        group=np.zeros(int(leaves.max(initial=0)) + 1, np.int64),
        down=most,
        switch_ports=switch_ports,
        switch=switch,
    )
