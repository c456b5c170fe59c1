"""A step of several replicas of a graph, which reduce gradients in buckets during the backward pass.

Buckets fill in the order in which the backward pass makes gradients. Each full bucket is reduced, one after the other.
The time after the end of the backward pass is exposed. Compute slows by the software's `contention` meanwhile.
Tables with sparse gradients are divided over the GPUs instead, which exchange rows.
Source: bucket sizes and order of PyTorch's DistributedDataParallel (Li et al. 2020, arxiv.org/abs/2006.15704).
Known error: that of the collective law. Limits: no stragglers, no input pipeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from podsim.graphs.graph_cost import OpCosts
from podsim.graphs.networks import networks
from podsim.graphs.op_graph import OpGraph
from podsim.hardware.cluster import Cluster
from podsim.training.plan_values import Array
from podsim.training.shapes import element_bytes, group_seconds
from podsim.training.software import Software
from podsim.workload.image_loaders import load_image_loader

FIRST = 2.0**20
"""B. The size of the first bucket, so that the reduction starts early."""
_IMAGE = re.compile(r"Bx[13]x(\d{1,15})x(\d{1,15})$")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduction:
    """The cost of reducing gradients."""

    buckets: int
    bytes: float
    """B. The size of all gradients."""
    seconds: float
    """s. The busy time of the network."""
    exposed: float
    """s. The growth of the backward pass, including the slowdown of compute."""
    took: Array
    """s. The time of each bucket, [buckets]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicasStep:
    """A step of replicas of a graph."""

    seconds: float
    """s. The time of the step."""
    alone: float
    """s. The time of a step on one GPU."""
    update: float
    """s. The time of the optimizer."""
    reduction: Reduction | None
    """The reduction of the gradients; None on one GPU."""
    tables: float
    """s. The exchange of rows of tables with sparse gradients."""


def replicas_step(
    graph: OpGraph, costs: OpCosts, cluster: Cluster | None, precision: str, software: Software, *, update: float,
    gpus: int, accumulate: int = 1,
) -> ReplicasStep:  # fmt: skip
    """A step of `gpus` replicas with `accumulate` micro-batches each, and an optimizer of `update` seconds.

    `costs` are those of one micro-batch; `cluster` may be None for one GPU. The last backward pass overlaps the
    reduction. Tables are divided evenly, unless the costs know the exchange of placed ones.
    """
    if software.shares_update and cluster is not None:
        update /= min(gpus, cluster.gpus_per_node)
    alone = accumulate * sum(costs.passes) + update + software.host_step
    if gpus == 1 and costs.exchange:  # rows that come from host memory
        alone += accumulate * costs.exchange
    if cluster is None or gpus == 1:
        return ReplicasStep(seconds=alone, alone=alone, update=update, reduction=None, tables=0.0)
    reduction = reduce_graph(graph, costs, cluster, software, gpus=gpus)
    tables = costs.exchange
    if tables is None:
        tables = tables_seconds(graph, precision, cluster, software, gpus=gpus)
    seconds = alone + (accumulate * tables + reduction.exposed)
    return ReplicasStep(seconds=seconds, alone=alone, update=update, reduction=reduction, tables=tables)


def reduce_graph(
    graph: OpGraph, costs: OpCosts, cluster: Cluster, software: Software, *, gpus: int
) -> Reduction:
    """The reduction of a graph's gradients over replicas, during a backward pass that may wait for the host."""
    slowed = costs.passes[1] / max(float(costs.backward.sum()), 1e-30)
    return reduce_gradients(graph.parameters, costs.backward * slowed, cluster, software, gpus=gpus)


def tables_seconds(
    graph: OpGraph, precision: str, cluster: Cluster, software: Software, *, gpus: int
) -> float:
    """Seconds that the exchange of rows of tables with sparse gradients adds to the two passes of a step.

    Such tables are not replicated but divided. Each GPU looks up its tables for all samples; rows go to the samples and
    gradients back, without overlap. A GPU looks up as many rows as a replica would: uneven divisions are left out.
    """
    if gpus == 1 or not graph.sparse.any():
        return 0.0
    sent = float(graph.output[graph.sparse].sum()) * element_bytes(precision) / graph.element
    members = np.array(float(min(gpus, cluster.gpus_per_node)))
    took = group_seconds(
        "all_to_all", np.array(sent), cluster, software, ranks=np.array(gpus), members=members
    )
    return 2.0 * (float(took) + software.host_collective)


def bucket_sizes(gradients: Array, bucket: float = Software.bucket) -> tuple[Array, Array]:
    """(B of each bucket, position of the op that fills it), for gradients in the order of the backward pass."""
    sizes, last = [], []
    held, room = 0.0, FIRST
    for op, size in enumerate(gradients.tolist()):
        held += size
        if held >= room or (op == len(gradients) - 1 and held):
            sizes.append(held)
            last.append(op)
            held, room = 0.0, bucket
    return np.array(sizes), np.array(last, dtype=np.int64)


def reduce_gradients(
    parameters: Array, backward: Array, cluster: Cluster, software: Software, *, gpus: int
) -> Reduction:
    """The reduction of the gradients of ops, in forward order, over `gpus` ranks.

    `parameters` counts each op's weights, `backward` is each op's seconds of the backward pass, host included.
    """
    sizes, last = bucket_sizes(parameters[::-1] * software.gradient_bytes, software.bucket)
    members = np.array(float(min(gpus, cluster.gpus_per_node)))
    took = np.zeros(0)
    if gpus > 1 and len(sizes):
        took = group_seconds("all_reduce", sizes, cluster, software, ranks=np.array(gpus), members=members)
        took = took + software.host_collective
    exposed = float(took.sum()) + (software.collective_wait if len(took) else 0.0)
    if "overlap_grad" in software.can_overlap:
        exposed = _exposed_seconds(
            np.cumsum(backward[::-1])[last], took, float(backward.sum()), software.contention
        )
    return Reduction(
        buckets=len(sizes), bytes=float(sizes.sum()), seconds=float(took.sum()), exposed=exposed, took=took
    )


def _exposed_seconds(ready: Array, took: Array, backward: float, contention: float) -> float:
    """Seconds that the reduction outlasts the backward pass, or slows it, whichever is longer."""
    done = 0.0
    for at, seconds in zip(ready.tolist(), took.tolist(), strict=False):
        done = max(done, at) + seconds
    after = max(done - backward, 0.0)
    hidden = max(float(took.sum()) - after, 0.0)
    return max(after, hidden * contention)


def loading_seconds(network: str, batch: int, cluster: Cluster | None, gpus: int, loader: str) -> float:
    """Seconds in which a node prepares the images of a step of `batch` on each GPU; 0 if nothing is known to limit it.

        seconds = GPUs of a node x batch x core seconds of an image / cores of a node

    What a step takes with it says `fed_step`. Networks whose first input is no image have no such law here. Core seconds
    are those of podsim.workload.image_loaders, which has their source and known error; podsim.storage.input_pipeline adds
    storage and caches. Raises PlanError for an unknown loader.
    """
    made, entry = load_image_loader(loader), networks().get(network)
    image = _IMAGE.match(entry.inputs[0]) if entry else None
    if image is None or cluster is None or not cluster.system.cores:
        return 0.0
    each = made.core_seconds(int(image[1]) * int(image[2]))
    return min(gpus, cluster.gpus_per_node) * batch * each / cluster.system.cores


def fed_step(step: ReplicasStep, loading: float, software: Software) -> ReplicasStep:
    """The step on all GPUs with the loading of its images.

    An engine that runs by itself loads beside the step, which takes the longer of the two. Elsewhere the same cores
    launch and load: they do one after the other.
    """
    both = max(step.seconds, loading) if software.loads_beside else step.seconds + loading
    return replace(step, seconds=both, alone=both if step.reduction is None else step.alone)
