"""The fabric of a cluster, and fabrics by name.

fabric_of(load_cluster("selene"))    the servers of a cluster, on their switches
NAMED["weka-a100"]()                 a fabric by name
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from podsim.axes import Floats
from podsim.hardware.catalog import load_nic, load_switch
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics.fabric_links import Fabric, Routing
from podsim.hardware.fabrics.node import Node, working_ways
from podsim.hardware.fabrics.server_routes import assemble
from podsim.hardware.fabrics.servers import server_node
from podsim.hardware.fabrics.torus import torus_fabric
from podsim.hardware.fabrics.tree import Switches, Tree, planes, rail_tree
from podsim.hardware.fabrics.wiring import Network
from podsim.hardware.nvlink import slot_link
from podsim.records import replace

_NODE = re.compile(r"node(\d{1,9})\b")


def node_of(cluster: Cluster) -> Node:
    """The inside of a node of a cluster, with the links of the cluster."""
    return server_node(
        cluster.system,
        nvlink=cluster.nvlink,
        network=cluster.network,
        nics=cluster.nics,
    )


def copied_capacity(node: Node, cluster: Cluster) -> Floats:
    """B/s of each link of a server, PCI Express at the rate that copies reach."""
    kinds = {part.name: part.kind for part in node.parts}
    share = slot_link(cluster.system, copied=True).bandwidth / slot_link(cluster.system).bandwidth
    of_bus = [
        cable.kind == "pcie" and {kinds[cable.one], kinds[cable.other]} <= {"gpu", "pcie", "cpu"}
        for cable in node.cables
    ]
    return node.capacity * np.where(np.repeat(of_bus, 2), share, 1.0)


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


def fabric_of(cluster: Cluster, *, taper: float = 1.0, routing: Routing | None = None) -> Fabric:
    """The fabric of a cluster, with its faults.

    If the system names a switch and a unit, the compute fabric is a rail-optimised fat tree of them. Otherwise one
    switch joins all adapters without limiting any. taper: cables down over cables up of a full leaf. routing: default
    that of the cluster. Raises ClusterError for an impossible tree, and for a fault without matches.
    """
    if cluster.system.torus is not None:
        return _apply_faults(torus_fabric(cluster, routing), cluster)
    node = node_of(cluster)
    networks = []
    if cluster.nics and cluster.nodes > 1:
        tree = _compute_tree(cluster, node, taper)
        networks.append(Network(tree=tree, ports=node.places("nic"), pxn=int(tree.rail.max()) > 0))
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
    way = working_ways(node)
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


def weka_a100() -> Fabric:
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
    names = tuple(f"weka{server}/port{port}" for server in range(8) for port in range(2))
    ports = node.places("storage")  # one port of each of two adapters
    nic = load_nic("connectx-6-hdr200")
    own = np.tile(_cable_latency(node, "storage", nic.latency), 4)
    plane = planes(
        leaf=np.arange(4 * len(ports) + len(names)) % 2, prefix="storage-", switch=storage.name,
        rate=np.concatenate([np.full(len(own), 12.5e9), np.full(len(names), 25e9)]), switch_ports=storage.ports,
        latency=np.concatenate([own, np.full(len(names), nic.latency / 2)]),
    )  # fmt: skip
    networks = (
        Network(tree=tree, ports=node.places("nic")),
        Network(tree=plane, ports=ports, outside=names),
    )
    return assemble("weka-a100", node, 4, networks)


NAMED: dict[str, Callable[[], Fabric]] = {"weka-a100": weka_a100}
"""Fabrics that are no clusters of the catalog, by name."""
