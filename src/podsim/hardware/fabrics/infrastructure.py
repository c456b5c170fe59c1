"""What surrounds the nodes of a cluster: all networks with their switches and cables, racks, and lengths of cable.

The compute fabric is the fat tree of the scalable units. Networks for storage and management are folded Clos networks of
the ends that the catalog states (catalog/infrastructure.toml). Racks and lengths follow from the catalog's floor:

    length = 2 rise + row_pitch x rows between both ends + rack_width x racks between them

with the leaves of a row of nodes in a rack in its middle, and everything else in the middle row.
Known error: docs/fabrics.md holds counts and lengths against published ones. Limits: no slack, and no lengths in stock.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from podsim.hardware.catalog import load_infrastructure, load_switch
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.tree import Switches, clos_tree
from podsim.hardware.fattree import fat_tree
from podsim.records import dataclass, replace

if TYPE_CHECKING:
    from podsim.hardware.catalog.schema import InfrastructureEntry, ServiceEntry


@dataclass(frozen=True, kw_only=True)
class Network:
    """One network of a machine, by counts."""

    name: str
    """The purpose: compute, storage, in-band, out-of-band."""
    switch: str
    """The name of the switch in the catalog."""
    kind: str
    """The kind of network: infiniband or ethernet."""
    ends: dict[str, int]
    """count. The ports that it joins, by what they belong to."""
    leaves: int
    spines: int
    cores: int
    cables: tuple[int, int, int]
    """count. The cables from ends to leaves, from leaves to spines, and from spines to cores."""
    length: float
    """m. The length of all cables."""
    note: str = ""
    """The rule of the catalog for this network."""

    @property
    def switches(self) -> int:
        """The number of switches of all layers."""
        return self.leaves + self.spines + self.cores


@dataclass(frozen=True, kw_only=True)
class Infrastructure:
    """The networks and racks of a machine."""

    units: int
    """The number of scalable units; the last one may be incomplete."""
    nodes: int
    networks: tuple[Network, ...]
    racks: dict[str, int]
    """count. The racks by content: nodes, switches, storage servers."""
    rack_power: float
    """W. The maximum power of the nodes of a full rack."""

    @property
    def switches(self) -> int:
        """The number of switches of all networks."""
        return sum(network.switches for network in self.networks)

    @property
    def infiniband_switches(self) -> int:
        """The number of switches of all InfiniBand networks."""
        return sum(network.switches for network in self.networks if network.kind == "infiniband")

    @property
    def cables(self) -> int:
        """The number of cables of all networks."""
        return sum(sum(network.cables) for network in self.networks)

    @property
    def length(self) -> float:
        """m. The length of all cables."""
        return sum(network.length for network in self.networks)


def infrastructure_of(cluster: Cluster) -> Infrastructure | None:
    """The networks and racks of a cluster; None if the catalog names no switch, no unit, or none of them."""
    system = cluster.system
    if system.switch is None or not system.unit or not system.infrastructure or not cluster.nics:
        return None
    entry = load_infrastructure(system.infrastructure)
    units = ceil(cluster.nodes / system.unit)
    last = cluster.nodes - (units - 1) * system.unit
    node_racks = (units - 1) * ceil(system.unit / entry.rack_nodes) + ceil(last / entry.rack_nodes)
    networks = list(_networks(cluster, entry, units, node_racks))
    switches, servers = sum(network.switches for network in networks), _servers(entry, units)
    racks = {
        "nodes": node_racks, "switches": ceil(switches / entry.rack_switches),
        "storage servers": ceil(servers / entry.rack_servers),
    }  # fmt: skip
    return Infrastructure(
        units=units, nodes=cluster.nodes, networks=tuple(networks), racks=racks,
        rack_power=min(entry.rack_nodes, cluster.nodes) * system.power,
    )  # fmt: skip


def infrastructures(cluster: Cluster) -> tuple[Infrastructure, ...]:
    """The networks and racks of one scalable unit, two, and so on, up to the cluster."""
    unit = cluster.system.unit
    counts = [*range(unit, cluster.nodes, unit), cluster.nodes] if unit else []
    sizes = (infrastructure_of(replace(cluster, nodes=nodes)) for nodes in counts)
    return tuple(size for size in sizes if size is not None)


def _servers(entry: InfrastructureEntry, units: int) -> int:
    """The number of storage servers."""
    return sum(ceil(network.servers * units / network.server_units) for network in entry.networks.values())


def _networks(cluster: Cluster, entry: InfrastructureEntry, units: int, racks: int) -> Iterator[Network]:
    """The compute fabric, then the others; the last may have a port for each switch of those before it."""
    switch = cluster.system.switch
    assert switch is not None
    in_row, across = _distances(entry, racks)
    middle = 2 * entry.rise + entry.rack_width
    cables = (cluster.nodes * cluster.nics, 0, 0)
    leaves = spines = cores = 0
    if cluster.nodes > 1:
        tree = fat_tree(
            nodes=cluster.hosts, rails=cluster.rails, unit=cluster.hosts_per_leaf, ports=switch.ports
        )
        cables = (tree.node_cables, tree.leaf_cables, tree.spine_cables)
        leaves, spines, cores = tree.leaves, tree.spines, tree.cores
    yield Network(
        name="compute", switch=switch.name, kind=switch.kind, ends={"nodes": cables[0]}, leaves=leaves, spines=spines,
        cores=cores, cables=cables, length=float(np.dot(cables, (in_row, across, middle))),
        note="an adapter of each node to each leaf of its unit; a leaf has a cable up for each node of a full unit",
    )  # fmt: skip
    total = leaves + spines + cores
    for name, service in entry.networks.items():
        ends = _ends(cluster, service, units, racks, total)
        network = _service_network(name, service, ends, (across, middle))
        total += network.switches
        yield replace(network, note=entry.notes.get(f"networks.{name}", ""))


def _ends(cluster: Cluster, service: ServiceEntry, units: int, racks: int, switches: int) -> dict[str, int]:
    """The ports that a network joins, by what they belong to."""
    usable = cluster.system.storage_cables
    nodes = cluster.nodes * usable if service.host_ports == "storage" else cluster.hosts * service.host_ports
    ends = {
        "nodes": nodes,
        "racks": racks * service.rack_ports,
        "storage servers": ceil(service.servers * units / service.server_units) * service.server_ports,
        **service.others,
        "switches": switches if service.is_for_switches else 0,
    }
    return {name: count for name, count in ends.items() if count}


def _service_network(
    name: str, service: ServiceEntry, ends: dict[str, int], lengths: tuple[float, float]
) -> Network:
    """A folded Clos network of these ends; lengths: m of a cable to the middle row, and within it."""
    switch, count = load_switch(service.switch), sum(ends.values())
    tree = clos_tree(
        ends=count, rate=switch.bandwidth,
        switches=Switches(ports=switch.ports, trunk=switch.bandwidth, taper=service.taper),
    )  # fmt: skip
    cables = (count, tree.leaf_cables, tree.core_cables)
    return Network(
        name=name, switch=switch.name, kind=switch.kind, ends=ends, leaves=tree.leaves,
        spines=tree.spines * tree.groups if tree.spines else 0, cores=tree.cores * tree.planes, cables=cables,
        length=float(np.dot(cables, (lengths[0], lengths[1], lengths[1]))),
    )  # fmt: skip


def _distances(entry: InfrastructureEntry, racks: int) -> tuple[float, float]:
    """m of a cable in a row from its nodes to its leaves, and from a row's middle to the middle row; means."""
    steps = np.arange(1, min(racks, entry.row_racks) + 1)
    in_row = float(np.mean((steps + 1) // 2)) * entry.rack_width  # racks stand on both sides of the leaves
    rows = np.arange(ceil(racks / entry.row_racks))
    across = float(np.abs(rows - (len(rows) - 1) // 2).mean()) * entry.row_pitch
    return 2 * entry.rise + in_row, 2 * entry.rise + across
