"""The power of a cluster by component and load, and the speed under a power cap.

    watts of a server = GPUs x (idle + (limit - idle) x busy) + rest, idle or in use

Source: percentiles of a fleet of A100 servers (see power.toml). Known error: mean of that fleet 2 % low, an 8-GPU
H100 server in training 4 % low; see docs/power.md. Limits: GPUs that only communicate draw more than idle ones, but
count as idle. The rest of other servers is in proportion to the part of their maximum power without GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.expense import LoadPower
from podsim.errors import ClusterError, PodsimError
from podsim.fleet.power_catalog import figures
from podsim.hardware.cluster import Cluster
from podsim.hardware.fattree import fat_tree
from podsim.hardware.mig.mig_host import host_of
from podsim.records import dataclass
from podsim.units import parse_quantity

BUSY_PARTS = ("compute", "memory", "optimizer")
"""The parts of a step in which the GPU draws its limit."""
LOADS = ("idle", "training", "peak")
"""The loads of any cluster."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """The power of one server, or of a job's part of a server."""

    gpus: int
    idle: float
    """W. The power of an idle GPU."""
    limit: float
    """W. The power of a busy GPU."""
    rest: float
    """W. The maximum of the server without its GPUs."""
    maximum: float
    """W. The design maximum."""


def make_node(cluster: Cluster, cap: float | None = None) -> Node:
    """One server of a cluster, with GPUs capped at `cap` W.

    A MIG instance has the same share of its server as of its GPU's memory. If the maximum of a server leaves less than a
    fifth for its other parts, it limits its GPUs to less than their data sheet. Raises PodsimError for an impossible
    cap.
    """
    gpu, system = cluster.gpu, cluster.system
    instance = "/" in gpu.name
    host = host_of(gpu) if instance else system
    limit = host.gpu.power if instance else gpu.power
    gpus = host.gpus
    rest = max(host.power - gpus * limit, 0.2 * host.power)
    built = min(gpu.power, (host.power - rest) / gpus * gpu.power / limit)
    idle = figures().gpu.idle * built
    if cap is not None and not 2 * idle <= cap <= built:
        raise PodsimError(
            f"cap {cap:g} W: {gpu.name} accepts {2 * idle:g} W (twice its idle power) to {built:g} W"
        )
    part = system.gpus / gpus * (gpu.fraction if instance else 1.0)
    maximum = (host.power - rest) * system.gpus / gpus * gpu.power / limit + rest * part
    return Node(gpus=system.gpus, idle=idle, limit=cap or built, rest=rest * part, maximum=maximum)


def read_cap(text: str) -> float | None:
    """The W of a cap that a user gives, "" for none; raises UnitError for what is no power."""
    return parse_quantity(text, "W", what="cap") if text else None


def capped_speed(cluster: Cluster, cap: float | None) -> float:
    """The speed of arithmetic under a cap, relative to none."""
    capped, free = make_node(cluster, cap), make_node(cluster)
    left = (capped.limit - capped.idle) / (free.limit - free.idle)
    return float(left ** figures().cap.exponent)


def count_switches(cluster: Cluster) -> float:
    """The number of switches: the published number for all networks, else that of the compute fabric; 0 if unknown.

    A part of a machine has its share of the machine's.
    """
    if cluster.whole is not None:
        return count_switches(cluster.whole) * cluster.gpus / cluster.whole.gpus
    if "switches" in cluster.published:
        return cluster.published["switches"]
    system = cluster.system
    if cluster.nodes < 2 or system.switch is None or not system.unit:
        return 0.0
    try:
        return fat_tree(
            nodes=cluster.hosts, rails=cluster.rails, unit=cluster.hosts_per_leaf, ports=system.switch.ports
        ).switches
    except ClusterError:
        return 0.0


def cluster_power(cluster: Cluster, busy: float, *, cap: float | None = None) -> float:
    """W of a cluster whose GPUs draw their limit for a share `busy` of the time, without the building."""
    return _load_watts(cluster, busy, cap, idle=False, peak=False)[-1]


def _load_watts(
    cluster: Cluster, busy: float, cap: float | None, *, idle: bool, peak: bool
) -> tuple[float, float, float, float]:
    """(W of GPUs, W of the rest of servers, W of switches, W in total)."""
    node, shares = make_node(cluster, cap), figures()
    watts = node.limit * shares.gpu.peak if peak else node.idle + (node.limit - node.idle) * busy
    rest = shares.server.idle if idle else shares.server.peak if peak else shares.server.busy
    gpus, servers = cluster.nodes * node.gpus * watts, cluster.nodes * node.rest * rest
    switches = count_switches(cluster) * shares.switch.watts
    return gpus, servers, switches, gpus + servers + switches


def load_power(
    cluster: Cluster, load: str, *, pue: float, cap: float | None = None, busy: float | None = None
) -> LoadPower:
    """The power of a cluster under a load: idle, training, peak, or any other with the share `busy`."""
    training = (figures().gpu.training - figures().gpu.idle) / (1 - figures().gpu.idle)
    working = {"idle": 0.0, "training": training, "peak": 1.0}.get(load, 0.0) if busy is None else busy
    gpus, servers, switches, total = _load_watts(
        cluster, working, cap, idle=load == "idle", peak=load == "peak"
    )
    return LoadPower(
        load=load, gpu_power=gpus, server_power=servers, switch_power=switches, total=total,
        node=(gpus + servers) / cluster.nodes, site=total * pue,
    )  # fmt: skip


def busy_share(parts: Mapping[str, float]) -> float:
    """The share of a step in which GPUs draw their limit, from its seconds by part."""
    return sum(parts[name] for name in BUSY_PARTS) / sum(parts.values())


def power_sources(cluster: Cluster, cap: float | None = None) -> tuple[str, ...]:
    """The sources, with dates, of the figures that the power of a cluster rests on."""
    known = figures()
    servers = {
        f"{row.source} ({row.date}{'' if row.confirmed == 'yes' else ', unconfirmed'})"
        for row in (known.gpu, known.server)
    }
    others = [known.switch] * (count_switches(cluster) > 0) + [known.cap] * (cap is not None)
    return tuple(sorted(servers | {f"{row.source} ({row.date})" for row in others}))
