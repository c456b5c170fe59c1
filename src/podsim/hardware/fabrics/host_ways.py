"""The ways of network traffic through a server: through the host's memory, or by an adapter of the other socket.

Usually a GPU's own adapter reads and writes its memory (GPUDirect), mostly behind one PCIe switch. Instead:

    no-gpudirect  bytes are copied to the memory of the GPU's socket, and from there to the adapter
    wrong-numa    the GPU uses an adapter of the other socket: switch, root port, the sockets' link, root port, switch

All GPUs send and receive at once, each as fast as the others: the fullest link gives the rate. PCI Express carries what
copies were measured to reach (catalog, pcie); links between sockets have their raw rate, as no rate of their DMA was
found. Memory passes four times for each byte that is sent and one that is received.

Known error: the law is a bound. An adapter whose switch sent peer traffic to the root port reached 0.81 of it. A pass
mark of V100 servers without GPUDirect, 78 of 100 Gb/s, is 1.02 of it. One RDMA flow to the wrong socket kept 85 of
100 Gb/s.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from podsim.errors import ClusterError, check_name
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.builders import copied_capacity, host_cluster, node_of
from podsim.hardware.fabrics.node import Node, ways
from podsim.records import dataclass

WAYS = ("no-gpudirect", "wrong-numa")
_PASSES = 4


@dataclass(frozen=True, kw_only=True)
class HostWay:
    """What all adapters of a server reach each way, while its GPUs send and receive at once."""

    rate: float
    """B/s. The rate of one adapter each way."""
    limit: str
    """The fullest link, as "pcie0>cpu0"; "memory" for the host's."""
    out: tuple[tuple[int, ...], ...]
    """The links of the server, by number, that each GPU's bytes take to its adapter."""
    back: tuple[tuple[int, ...], ...]
    """The links from the adapter to the GPU."""


@lru_cache(maxsize=64)
def host_way(cluster: Cluster, way: str) -> HostWay:
    """The way of a cluster's servers, one of WAYS; ClusterError where a server cannot have it."""
    check_name("way through a server", way, WAYS, ClusterError)
    host = host_cluster(cluster)
    node, nics, gpus = node_of(host), host.nics, host.gpus_per_node
    if not nics:
        raise ClusterError(f"{cluster.name}: no adapters, so no traffic passes its hosts")
    numas = [node.parts[node.place[f"nic{nic}"]].numa for nic in range(nics)]
    outs, backs = [], []
    for gpu in range(gpus):
        nic = gpu * nics // gpus
        own = node.parts[node.place[f"gpu{gpu}"]].numa
        if way == "wrong-numa":
            nic = next((n for k in range(nics) if numas[n := (nic + nics // 2 + k) % nics] != own), -1)
        if nic < 0:
            raise ClusterError(f"{cluster.name}: no adapter stands at another socket than gpu{gpu}")
        stops = [f"gpu{gpu}", *([f"cpu{own}"] if way == "no-gpudirect" else []), f"nic{nic}"]
        outs.append(_links(node, stops))
        backs.append(_links(node, stops[::-1]))
    load = (
        np.bincount([link for links in (*outs, *backs) for link in links], minlength=node.links) * nics / gpus
    )
    rates = np.divide(
        copied_capacity(node, host), load, out=np.full(node.links, np.inf), where=load > 0
    )  # of one adapter
    fullest = int(np.argmin(rates))
    rate, limit = float(rates[fullest]), ">".join(node.parts[end].name for end in node.link_ends[fullest])
    memory = math.inf
    if way == "no-gpudirect" and host.system.cpu is not None:
        memory = host.system.cpus * host.system.cpu.memory_bandwidth / _PASSES / nics
    return HostWay(
        rate=min(rate, memory),
        limit=limit if rate <= memory else "memory",
        out=tuple(outs),
        back=tuple(backs),
    )


def _links(node: Node, stops: list[str]) -> tuple[int, ...]:
    """The links of the first of the best ways from stop to stop."""
    best = ways(node, np.ones(node.links, np.bool_)).links[0]  # [source, destination, hop]
    places = [node.place[stop] for stop in stops]
    hops = [best[tail, head] for tail, head in pairwise(places)]
    return tuple(int(link) for way in hops for link in way if link >= 0)
