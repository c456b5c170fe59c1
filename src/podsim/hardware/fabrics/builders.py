"""The fabric of a cluster, and fabrics by name.

fabric_of(load_cluster("selene"))    the servers of a cluster, on their switches
BUILDERS["weka-a100"]()              a fabric by name; tests run over every entry
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import repeat

import numpy as np

from podsim.axes import Floats
from podsim.errors import ClusterError
from podsim.hardware.catalog import load_nic, load_switch
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics.fabric_links import Fabric, Routing
from podsim.hardware.fabrics.node import Node, Part
from podsim.hardware.fabrics.server_routes import assemble
from podsim.hardware.fabrics.servers import server_node
from podsim.hardware.fabrics.torus import torus, torus_fabric
from podsim.hardware.fabrics.tree import Switches, Tree, clos_tree, planes, rail_tree
from podsim.hardware.fabrics.wiring import Network
from podsim.hardware.nvlink import slot_link
from podsim.records import dataclass, replace

_NODE = re.compile(r"node(\d{1,9})\b")


@dataclass(frozen=True, kw_only=True)
class StorageServers:
    """The servers of a storage fabric, as ends. The storage laws know their drives."""

    servers: int
    ports: int
    """The number of ports of each server."""
    bandwidth: float
    """B/s. The bandwidth of a port, one way."""
    name: str = "storage-server"


def node_of(cluster: Cluster, *, per_switch: bool = False) -> Node:
    """The inside of a node of a cluster, with the links of the cluster."""
    return server_node(
        cluster.system,
        nvlink=cluster.nvlink,
        network=cluster.network,
        nics=cluster.nics,
        per_switch=per_switch,
    )


def host_cluster(cluster: Cluster) -> Cluster:
    """The cluster with the hosts of its slices as nodes, for what leaves a torus by PCI Express; others as they are."""
    system, trays = cluster.system, cluster.system.trays
    if system.torus is None:
        return cluster
    nics = -(-cluster.nics // trays)
    host = replace(
        system, gpus=-(-system.gpus // trays), nics=nics, trays=1, cpus=max(system.cpus // trays, 1), topology="pcie",
        torus=None, memory=system.memory / trays, power=system.power / trays, datasheet={},
    )  # fmt: skip
    return replace(cluster, system=host, nodes=cluster.nodes * trays, nics=nics, nvlink=slot_link(system))


def node_fabric(node: Node) -> Fabric:
    """The fabric of a single server, such as one from a file."""
    return assemble(node.name, node, 1)


def fabric_of(
    cluster: Cluster,
    *,
    taper: float = 1.0,
    storage: StorageServers | None = None,
    per_switch: bool = False,
    routing: Routing | None = None,
) -> Fabric:
    """The fabric of a cluster, with its faults.

    If the system names a switch and a unit, the compute fabric is a rail-optimised fat tree of them. Otherwise one
    switch joins all adapters without limiting any. taper: cables down over cables up of a full leaf. storage: a
    separate fabric joins the storage adapters of all nodes to these servers. routing: default that of the cluster.
    Raises ClusterError for an impossible tree, and for a fault without matches.
    """
    if cluster.system.torus is not None:
        if storage is not None:
            raise ClusterError(f"{cluster.name} has no storage adapters; dgx-a100-80gb and dgx-h100 have")
        return _apply_faults(torus_fabric(cluster, routing), cluster)
    node = node_of(cluster, per_switch=per_switch)
    networks = []
    if cluster.nics and cluster.nodes > 1:
        tree = _compute_tree(cluster, node, taper)
        networks.append(Network(tree=tree, ports=node.places("nic"), pxn=int(tree.rail.max()) > 0))
    if storage is not None:
        networks.append(_storage_network(cluster, node, storage))
    usual = Routing(choice=cluster.route_choice, seed=cluster.seed)
    fabric = assemble(cluster.name, node, cluster.nodes, tuple(networks), routing or usual)
    return _apply_faults(fabric, cluster)


def _apply_faults(fabric: Fabric, cluster: Cluster) -> Fabric:
    """The fabric with the faults of its nodes; a part of a cluster may lack the node of a fault."""
    for pattern, share in cluster.faults:
        numbers = [int(number) for number in _NODE.findall(pattern)]
        if all(number < cluster.nodes for number in numbers):
            fabric = fabric.degraded(pattern, share=share)
    return fabric


def _cable_latency(node: Node, kind: str, latency: float) -> Floats:
    """s of each port's cable: half the latency to another server, without that inside this server."""
    way = node.working_ways
    ports, gpus = node.places(kind), node.places("gpu")
    left = []
    for port in ports:
        gpu = gpus[way.cost[gpus, port].argmin()]
        links = way.links[0, gpu, port]
        left.append(max(latency / 2 - float(node.latency[links[links >= 0]].sum()), 0.0))
    return np.array(left)


def _compute_tree(cluster: Cluster, node: Node, taper: float) -> Tree:
    system, rate = cluster.system, cluster.network.bandwidth
    latency = np.tile(_cable_latency(node, "nic", cluster.network.latency), cluster.nodes)
    switch = system.switch
    if switch is None or not system.unit:
        return planes(leaf=np.zeros(cluster.nodes * cluster.nics, np.int64), rate=rate, latency=latency)
    return rail_tree(
        nodes=cluster.hosts,
        rails=cluster.rails,
        unit=min(cluster.hosts_per_leaf, int(switch.ports / (1 + 1 / max(taper, 1.0)))),
        switches=Switches(
            ports=switch.ports,
            trunk=max(switch.bandwidth, rate),  # a network faster than the switch has faster switches
            hop=switch.latency,
            taper=taper,
            name=switch.name,
        ),
        rate=rate,
        latency=latency,
    )


def _storage_network(cluster: Cluster, node: Node, storage: StorageServers) -> Network:
    """A folded Clos network of the compute fabric's switches, or one switch if the catalog names none."""
    ports, system = node.places("storage"), cluster.system
    if not len(ports) or system.storage_nic is None:
        raise ClusterError(f"{system.name} has no storage adapters; dgx-a100-80gb and dgx-h100 have")
    names, rates = _storage_ports(storage)
    own = np.tile(_cable_latency(node, "storage", system.storage_nic.latency), cluster.nodes)
    rate = np.concatenate([np.full(len(own), system.storage_nic.bandwidth), rates])
    latency = np.concatenate([own, np.full(len(rates), system.storage_nic.latency / 2)])
    if system.switch is None:
        tree = planes(leaf=np.zeros(len(rate), np.int64), rate=rate, latency=latency, prefix="storage-")
    else:
        switches = Switches(
            ports=system.switch.ports, trunk=max(system.switch.bandwidth, float(rate.max())),
            hop=system.switch.latency, name=system.switch.name,
        )  # fmt: skip
        tree = clos_tree(ends=len(rate), switches=switches, rate=rate, latency=latency, prefix="storage-")
    return Network(tree=tree, ports=ports, outside=names)


def _storage_ports(storage: StorageServers) -> tuple[tuple[str, ...], Floats]:
    if min(storage.servers, storage.ports) < 1 or not storage.bandwidth > 0:
        raise ClusterError(f"{storage}: servers, ports and bandwidth must be positive")
    pairs = [(server, port) for server in range(storage.servers) for port in range(storage.ports)]
    names = tuple(f"{storage.name}{server}/port{port}" for server, port in pairs)
    return names, np.full(len(names), storage.bandwidth)


def weka_a100(*, routing: Routing | None = None) -> Fabric:
    """Four DGX A100 and eight storage servers, as in the WekaIO reference architecture for DGX A100.

    Compute: 32 adapters of 200 Gb/s on one QM8700. Storage: two ports of 100 Gb/s of each DGX and two of 200 Gb/s of
    each server, on two separate SN3700. The number of compute switches is unknown; one has enough ports for all 32.
    """
    cluster = load_cluster("dgx-a100-80gb:4")
    node = node_of(cluster)
    compute, storage = load_switch("qm8700"), load_switch("sn3700")
    tree = planes(
        leaf=np.zeros(4 * cluster.nics, np.int64), rate=cluster.network.bandwidth, switch=compute.name,
        latency=np.tile(_cable_latency(node, "nic", cluster.network.latency), 4), switch_ports=compute.ports,
    )  # fmt: skip
    names, rates = _storage_ports(StorageServers(servers=8, ports=2, bandwidth=25e9, name="weka"))
    ports = node.places("storage")  # one port of each of two adapters
    nic = load_nic("connectx-6-hdr200")
    own = np.tile(_cable_latency(node, "storage", nic.latency), 4)
    plane = planes(
        leaf=np.arange(4 * len(ports) + len(names)) % 2, prefix="storage-", switch=storage.name,
        rate=np.concatenate([np.full(len(own), 12.5e9), rates]), switch_ports=storage.ports,
        latency=np.concatenate([own, np.full(len(names), nic.latency / 2)]),
    )  # fmt: skip
    networks = (
        Network(tree=tree, ports=node.places("nic")),
        Network(tree=plane, ports=ports, outside=names),
    )
    return assemble("weka-a100", node, 4, networks, routing)


def _host() -> Node:
    """A bare end of a network."""
    return Node(name="host", parts=(Part(name="gpu", kind="gpu"),), cables=())


def single_switch(
    ends: int, *, bandwidth: float, latency: float = 0.0, routing: Routing | None = None
) -> Fabric:
    """The fabric of ends on one switch; bandwidth: B/s of each port; latency: s from end to end."""
    tree = planes(leaf=np.zeros(ends, np.int64), rate=bandwidth, latency=latency / 2)
    return assemble(
        f"switch of {ends}", _host(), ends, (Network(tree=tree, ports=np.zeros(1, np.int64)),), routing
    )


def folded_clos(
    ends: int,
    *,
    switch_ports: int,
    bandwidth: float,
    latency: float = 0.0,
    hop: float = 0.0,
    taper: float = 1.0,
    routing: Routing | None = None,
) -> Fabric:
    """The fabric of ends on a folded Clos network of up to three layers: see clos_tree.

    bandwidth: B/s of every port; latency: s from end to end under one leaf; hop: s of each further switch.
    """
    switches = Switches(ports=switch_ports, trunk=bandwidth, hop=hop, taper=taper)
    tree = clos_tree(ends=ends, switches=switches, rate=bandwidth, latency=latency / 2)
    return assemble(
        f"folded Clos of {ends}", _host(), ends, (Network(tree=tree, ports=np.zeros(1, np.int64)),), routing
    )


def _catalog_fabric(name: str) -> Fabric:
    return fabric_of(load_cluster(name))


def _paired_cards() -> Fabric:
    """The fabric of a server of cards in pairs with a bridge, a product outside the catalog."""
    cluster = load_cluster("a100-pcie-server")
    system = replace(cluster.system, name="a100-pcie-pairs", topology="nvlink-pair")
    return fabric_of(replace(cluster, name=system.name, system=system))


CATALOG = (
    "dgx-a100-80gb", "dgx-a100-80gb:4", "dgx-1-v100-32gb", "dgx-1-v100-32gb:4", "dgx-2", "dgx-2:3",
    "dgx-station-a100-80gb", "a100-pcie-server", "a100-pcie-server:3", "dgx-h100:2", "dgx-b200",
    "oci-bm-gpu4-8:4", "aws-p4d:4", "superpod-a100:1su", "superpod-a100:2su", "superpod-a100:7su", "selene",
)  # fmt: skip
"""The clusters of the catalog in every test of fabrics."""
_TORI = ("v4-4x4x8-twisted", "v4-4x8x8-twisted", "3x v5e-32", "v4-32", "tpu-v4")
BUILDERS: dict[str, Callable[[], Fabric]] = {
    **dict(zip(CATALOG, map(partial, repeat(_catalog_fabric), CATALOG), strict=True)),
    "a100-pcie-pairs": _paired_cards,
    "dgx-a100, switch by switch": lambda: fabric_of(load_cluster("dgx-a100-80gb:2"), per_switch=True),
    "superpod-a100:2su, 2:1": lambda: fabric_of(load_cluster("superpod-a100:2su"), taper=2.0),
    "superpod-a100:1su, storage": lambda: fabric_of(
        load_cluster("superpod-a100:1su"), storage=StorageServers(servers=10, ports=2, bandwidth=25e9)
    ),
    "weka-a100": weka_a100,
    "switch of 64": lambda: single_switch(64, bandwidth=25e9, latency=1e-6),
    "fat tree of 16": lambda: folded_clos(16, switch_ports=4, bandwidth=1e9),
    "fat tree of 1000": lambda: folded_clos(1000, switch_ports=16, bandwidth=1e9),
    "fat tree of 300, 3:1": lambda: folded_clos(300, switch_ports=40, bandwidth=25e9, taper=3.0),
    "torus 5x4": lambda: torus((5, 4), bandwidth=1e9, latency=1e-6),
    "torus 4x2x3": lambda: torus((4, 2, 3), bandwidth=1e9),
    **dict(zip(_TORI, map(partial, repeat(_catalog_fabric), _TORI), strict=True)),
}  # fmt: skip
"""The builders of fabrics, by name."""
