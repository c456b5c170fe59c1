"""What a cluster draws, by component and load; and what a power cap costs in speed.

    watts of a server = GPUs x (idle + (limit - idle) x busy) + the rest, which is either idle or in use

Source: percentiles of a fleet of A100 servers (power.toml names it). Known error: mean of that fleet 2 % low, an 8-GPU
H100 server in training 4 % low; see docs/power.md. Stops being true: GPUs that only communicate draw more than idle
ones, and are counted as idle; other servers' rest is taken in proportion to what their maximum leaves beside the GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.errors import CatalogError, ClusterError, PodsimError
from podsim.fleet.power_catalog import figures
from podsim.hardware.catalog import load_system
from podsim.hardware.cluster import Cluster
from podsim.hardware.fattree import fat_tree
from podsim.hardware.mig.host import host_of
from podsim.results.expense import LoadPower

BUSY_PARTS = ("compute", "memory", "optimizer")
"""parts of a step in which the GPU draws its limit"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What one server, or the part of it that a job has, may draw."""

    gpus: int
    idle: float
    """W of one GPU that does nothing"""
    limit: float
    """W of one GPU at work"""
    rest: float
    """W that the maximum of the server leaves beside its GPUs"""
    maximum: float
    """W that it is built for"""


def make_node(cluster: Cluster, cap: float | None = None) -> Node:
    """One server of a cluster, its GPUs held to `cap` W.

    A MIG instance has its share of the server around its GPU, as it has of the GPU's memory.
    A server whose maximum leaves less than a fifth beside its GPUs holds them to less than their data sheet. Raises
    PodsimError for a cap that no GPU can be held to.
    """
    gpu, system = cluster.gpu, cluster.system
    instance = "/" in gpu.name
    host = host_of(gpu) if instance else system
    limit = host.gpu.power if instance else gpu.power
    try:
        gpus = max(load_system(host.name).gpus, host.gpus)
    except CatalogError:
        gpus = host.gpus
    rest = max(host.power - gpus * limit, 0.2 * host.power)
    built = min(gpu.power, (host.power - rest) / gpus * gpu.power / limit)
    idle = figures().gpu.idle * built
    if cap is not None and not 2 * idle <= cap <= built:
        raise PodsimError(
            f"cap {cap:g} W: {gpu.name} can be held to {2 * idle:g} W (twice its idle draw) up to its own {built:g} W"
        )
    part = system.gpus / gpus * (gpu.fraction if instance else 1.0)
    maximum = (host.power - rest) * system.gpus / gpus * gpu.power / limit + rest * part
    return Node(gpus=system.gpus, idle=idle, limit=cap or built, rest=rest * part, maximum=maximum)


def capped_speed(cluster: Cluster, cap: float | None) -> float:
    """Speed of arithmetic under a cap, relative to none."""
    capped, free = make_node(cluster, cap), make_node(cluster)
    left = (capped.limit - capped.idle) / (free.limit - free.idle)
    return float(left ** figures().cap.exponent)


def count_switches(cluster: Cluster) -> int:
    """Switches of a cluster: as published of all its networks, else of its compute fabric; 0 where none is laid down."""
    if "switches" in cluster.published:
        return int(cluster.published["switches"])
    system = cluster.system
    if cluster.nodes < 2 or system.switch is None or not system.unit:
        return 0
    try:
        return fat_tree(
            nodes=cluster.nodes, rails=cluster.nics, unit=system.unit, ports=system.switch.ports
        ).switches
    except ClusterError:
        return 0


def cluster_power(
    cluster: Cluster, busy: float, *, cap: float | None = None, within: Cluster | None = None
) -> float:
    """W of a cluster in use whose GPUs draw their limit a share `busy` of the time, without the building.

    `within` is a larger one that it is a part of: then it takes its share of that one's switches.
    """
    gpus, servers, switches, _ = _load_watts(cluster, busy, cap, idle=False, peak=False)
    if within is not None:
        switches = count_switches(within) * figures().switch.watts * cluster.gpus / within.gpus
    return gpus + servers + switches


def _load_watts(
    cluster: Cluster, busy: float, cap: float | None, *, idle: bool, peak: bool
) -> tuple[float, float, float, float]:
    """(W of GPUs, of the rest of servers, of switches, of all)."""
    node, shares = make_node(cluster, cap), figures()
    watts = node.limit * shares.gpu.peak if peak else node.idle + (node.limit - node.idle) * busy
    rest = shares.server.idle if idle else shares.server.peak if peak else shares.server.busy
    gpus, servers = cluster.nodes * node.gpus * watts, cluster.nodes * node.rest * rest
    switches = count_switches(cluster) * shares.switch.watts
    return gpus, servers, switches, gpus + servers + switches


def load_power(
    cluster: Cluster, load: str, *, pue: float, cap: float | None = None, busy: float | None = None
) -> LoadPower:
    """A cluster under a load: idle, training, peak, or any with the share `busy` that its GPUs work."""
    training = (figures().gpu.training - figures().gpu.idle) / (1 - figures().gpu.idle)
    working = {"idle": 0.0, "training": training, "peak": 1.0}.get(load, 0.0) if busy is None else busy
    gpus, servers, switches, total = _load_watts(
        cluster, working, cap, idle=load == "idle", peak=load == "peak"
    )
    return LoadPower(
        load=load, gpus=gpus, servers=servers, switches=switches, total=total,
        node=(gpus + servers) / cluster.nodes, site=total * pue,
    )  # fmt: skip


def busy_share(parts: Mapping[str, float]) -> float:
    """Share of a step in which GPUs draw their limit, of its seconds by part."""
    return sum(parts[name] for name in BUSY_PARTS) / sum(parts.values())
