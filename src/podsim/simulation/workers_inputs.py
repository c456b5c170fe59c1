"""Who the workers are: of a predicted plan, or of given numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.network.bus import ring_all_reduce_seconds
from podsim.network.nccl import Members, collective_seconds
from podsim.training.groups import group_table
from podsim.training.plan import Setting
from podsim.training.predict import predict_plan
from podsim.training.shapes import element_bytes, group_seconds
from podsim.training.software import load_software
from podsim.units import format_quantity, parse_quantity

MOST_WORKERS = 4096


class Workforce(NamedTuple):
    """Replicas of a model, and what connects them."""

    name: str
    replicas: int
    members: int
    """The number of replicas that are one worker."""
    compute: float
    """s. The time of a step of a replica."""
    inside: float
    """s. The time in which the members of a worker add up their gradients."""
    all_reduce: float
    """s. The time in which all replicas add up their gradients."""
    reduce_weights: float
    """s. The time in which all replicas add up their weights."""
    gradients: float
    """B. The gradients of a replica, and of a worker."""
    weights: float
    bandwidth: float
    """B/s. The bandwidth of a worker's adapters, in one direction."""
    latency: float
    server_bandwidth: float
    samples: float | None
    """count. The samples of a replica's step."""
    tokens: float | None = None
    """count. The tokens of a step of all replicas; None without a model."""


class Given(NamedTuple):
    """Quantities as the user wrote them, "" if not."""

    compute: str | float
    gradients: str | float
    weights: str | float
    bandwidth: str | float
    latency: str | float
    server_bandwidth: str | float

    def read(self, name: str, unit: str, default: float | None = None, *, zero: bool = False) -> float:
        """One of them in SI, which must be positive; PodsimError if it is missing and has no default."""
        text = getattr(self, name)
        if text == "":
            if default is None:
                example = {"s": "0.2", "B": "100MB", "B/s": "25GB/s"}[unit]
                raise PodsimError(
                    f"{name} is not given; give it, as {name}={example}, or a model and a cluster"
                )
            return default
        value = parse_quantity(text, unit, what=name)
        if value < 0 or (value == 0 and not zero):
            least = "not be negative" if zero else "be positive"
            raise PodsimError(f"{name}={text}: it must {least}")
        return value


def read_workers(
    given: Given, workers: int | None, samples: float | None, on: str, overrides: Mapping[str, str] | None
) -> Workforce:
    """Workers as given by numbers; with a cluster each is one of its GPUs, and exchanges as NCCL would.

    Without one, an all-reduce goes round a ring of the workers' adapters.
    """
    cluster = None
    if on:
        cluster = load_cluster(on, overrides)
    elif overrides:
        raise PodsimError("overrides change a model or a cluster; none is given")
    if workers is None and cluster is None:
        raise PodsimError("workers is not given; give it, as workers=16, or a model and a cluster")
    count = _count(workers if workers is not None else cluster.gpus if cluster else 0)
    own = cluster.node_bandwidth / cluster.gpus_per_node if cluster and cluster.nics else None
    node_bandwidth = cluster.node_bandwidth if cluster and cluster.nics else None
    compute, gradients = given.read("compute", "s"), given.read("gradients", "B")
    bandwidth = given.read("bandwidth", "B/s", own)
    latency = given.read("latency", "s", cluster.network.latency if cluster else 0.0, zero=True)
    weights = given.read("weights", "B", gradients)

    def seconds(size: float) -> float:
        if cluster:
            return _nccl(cluster.subset(count), size)
        return float(ring_all_reduce_seconds(size, count, bandwidth, latency))

    return Workforce(
        name=f"{count:,} worker{'s' if count > 1 else ''}" + (f" on GPUs of {cluster.name}" if cluster else ""),
        replicas=count, members=1,
        compute=compute, inside=0.0, all_reduce=seconds(gradients), reduce_weights=seconds(weights),
        gradients=gradients, weights=weights, bandwidth=bandwidth, latency=latency,
        server_bandwidth=given.read("server_bandwidth", "B/s", node_bandwidth or bandwidth), samples=samples,
    )  # fmt: skip


def _count(workers: int) -> int:
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= MOST_WORKERS:
        raise PodsimError(f"workers={workers!r}; there may be 1 to {MOST_WORKERS:,}")
    return workers


def _nccl(cluster: Cluster, gradients: float) -> float:
    local = min(cluster.gpus, cluster.gpus_per_node)
    members = Members(ranks=cluster.gpus, ranks_per_node=local)
    return float(collective_seconds("all_reduce", gradients, cluster, members))


def plan_workers(setting: Setting, given: Given, hierarchical: bool) -> Workforce:
    """The data-parallel replicas of a plan: what a step takes them, without its exposed exchange of gradients.

    A replica's adapters are its GPUs' share of the node's. `hierarchical` makes the replicas of a node one worker.
    """
    model, cluster, plan, *_ = setting
    prediction = predict_plan(model, cluster, plan)
    if not prediction.fits:
        need, room = (format_quantity(size, "B") for size in (prediction.memory, prediction.memory_limit))
        raise NoFitError([f"the plan needs {need} on its fullest stage, a GPU has {room}"])
    if given.compute != "" or given.gradients != "" or given.weights != "":
        raise PodsimError(
            "compute, gradients and weights follow from the model; give them, or a model, not both"
        )
    gpus, replicas = int(plan.tp) * int(plan.pp), _count(int(plan.dp))
    members = _members(cluster, gpus, replicas) if hierarchical else 1
    software = load_software(plan.software, cluster.gpu, plan.precision)
    held = model.parameters * software.gradient_bytes / gpus
    worker_bandwidth = cluster.node_bandwidth / cluster.gpus_per_node * gpus * members
    bandwidth = given.read("bandwidth", "B/s", worker_bandwidth or None)
    inside = group_seconds(
        "all_reduce", held, cluster, software, ranks=members, members=members  # type: ignore[arg-type]
    )  # fmt: skip
    all_reduce = float(group_table(model, cluster, plan.arrays(), software).reduce[0])
    share = element_bytes(plan.precision) / software.gradient_bytes
    return Workforce(
        name=f"{model.name} on {int(plan.gpus):,} GPUs of {cluster.name}".removesuffix(f" ({int(plan.gpus)} GPUs)"),
        replicas=replicas, members=members, compute=prediction.step_time - prediction.parts["dp"],
        inside=float(inside), all_reduce=all_reduce, reduce_weights=all_reduce * share,
        gradients=model.parameters * software.gradient_bytes, weights=model.parameters * element_bytes(plan.precision),
        bandwidth=bandwidth, latency=given.read("latency", "s", cluster.network.latency, zero=True),
        server_bandwidth=given.read("server_bandwidth", "B/s", cluster.node_bandwidth or bandwidth),
        samples=float(plan.global_batch) / replicas, tokens=float(plan.global_batch) * plan.length(model),
    )  # fmt: skip


def _members(cluster: Cluster, gpus: int, replicas: int) -> int:
    """Replicas of a node; PodsimError if a node does not hold several whole ones."""
    local = min(cluster.gpus_per_node // gpus, replicas)
    if local < 2 or cluster.gpus_per_node % gpus or replicas % local:
        raise PodsimError(
            f"hierarchical: {replicas} replicas of {gpus} GPUs do not fill nodes of {cluster.gpus_per_node} with two or"
            " more each; choose tp and pp so that they do"
        )
    return local
