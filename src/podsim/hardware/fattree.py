"""The number of switches and cables of a rail-optimised fat tree, by arithmetic on its ports.

Adapter i of every node of a scalable unit connects to leaf switch i of that unit (one leaf per rail). Half of a
leaf's ports lead down, half up. With few units one layer of spines joins all leaves; with more there is a
group of spines for each rail, and cores above. Every leaf has the same number of links to each spine that it
reaches, so the spines of a group divide a leaf's uplinks evenly.

Checked against the published table of the B200 SuperPOD (docs.nvidia.com/dgx-superpod, reference architecture
for B200: 2 to 64 units) and the 140 nodes of the A100 SuperPOD (56 leaves, 80 spines, 28 cores; common
knowledge). Limits: the counts exclude storage, management and in-band networks, and switches for subnet
managers.
"""

from __future__ import annotations

from math import ceil

from podsim.errors import ClusterError
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class FatTree:
    """The switches and cables of one fabric, by layer."""

    units: int
    """The number of scalable units; the last one may be incomplete."""
    rails: int
    leaves: int
    spines: int
    groups: int
    """The number of groups of spines: one, or with cores one for each rail and pod of units."""
    cores: int
    node_cables: int
    """The number of cables from nodes to leaves."""
    leaf_cables: int
    """The number of cables from leaves to spines."""
    spine_cables: int
    """The number of cables from spines to cores."""

    @property
    def tiers(self) -> tuple[int, ...]:
        """The nodes of a rail below a leaf, and below a group of spines, as far as switches stand above them."""
        unit = self.leaf_cables // self.leaves
        pods = self.groups // self.rails if self.cores else 1
        return (unit, ceil(self.units / pods) * unit)[: (self.units > 1) + (pods > 1)]

    @property
    def switches(self) -> int:
        """The number of switches of all layers."""
        return self.leaves + self.spines + self.cores

    @property
    def cables(self) -> int:
        """The number of cables of all layers."""
        return self.node_cables + self.leaf_cables + self.spine_cables


def fat_tree(*, nodes: int, rails: int, unit: int, ports: int) -> FatTree:
    """The fabric of `nodes` with an adapter per rail and `unit` nodes on a leaf; each switch has `ports`.

    A leaf has an uplink for every node of a full unit, so nothing is oversubscribed; of a single unit that is not full,
    for every node that it has. Raises ClusterError for a unit with more nodes than half of a leaf's ports.
    """
    down = ports // 2
    if not 1 <= unit <= down:
        raise ClusterError(
            f"{unit} nodes per unit do not fit a switch of {ports} ports;"
            f" 1 to {down} leave room for as many uplinks"
        )
    units, unit = ceil(nodes / unit), min(unit, nodes)
    leaves = units * rails
    uplinks = leaves * unit
    spines, groups, tall = _spines(units, rails, unit, ports)
    return FatTree(
        units=units,
        rails=rails,
        leaves=leaves,
        spines=spines,
        groups=groups,
        cores=ceil(uplinks / ports) if tall else 0,
        node_cables=nodes * rails,
        leaf_cables=uplinks,
        spine_cables=uplinks if tall else 0,
    )


def _spines(units: int, rails: int, unit: int, ports: int) -> tuple[int, int, bool]:
    """(spines, groups of spines, whether there are cores) for leaves with `unit` uplinks each."""
    joined = _even_spines(ceil(units * rails * unit / ports), unit)
    if joined:
        return joined, 1, False
    pods = ceil(units / (ports // 2))  # a spine of a rail reaches one leaf of at most ports/2 units
    while not (group := _even_spines(ceil(ceil(units / pods) * unit / (ports // 2)), unit)):
        pods += 1
    return pods * rails * group, pods * rails, True


def _even_spines(least: int, uplinks: int) -> int:
    """The fewest spines, `least` or more, that divide a leaf's uplinks evenly; 0 if there are none."""
    return next((spines for spines in range(max(least, 1), uplinks + 1) if uplinks % spines == 0), 0)
