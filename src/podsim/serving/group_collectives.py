"""Seconds of the collectives of one replica: sums over a tensor-parallel group, exchanges, sends between stages."""

from __future__ import annotations

import numpy as np

from podsim.axes import Floats
from podsim.hardware.cluster import Cluster
from podsim.kernels.engine_constants import engine_file
from podsim.kernels.engine_run import EngineRun
from podsim.kernels.engine_sums import EngineSum, sums_seconds
from podsim.network.bus import bus_factor
from podsim.network.nccl import Members, collective_seconds
from podsim.network.nccl import send_seconds as nccl_send_seconds
from podsim.serving.serving_plan import ServingPlan


def _group_seconds(cluster: Cluster, collective: str, sizes: Floats, ranks: int) -> Floats:
    """s of a collective of each size over the first GPUs of the cluster."""
    if ranks <= 1:
        return np.zeros_like(sizes)
    members = Members(ranks=ranks, ranks_per_node=min(ranks, cluster.gpus_per_node))
    return collective_seconds(collective, sizes, cluster, members)


def sum_seconds(cluster: Cluster, ranks: int, run: EngineRun, sizes: Floats) -> Floats:
    """s of one sum of tensors of each size over GPUs of a stage: the engine's own all-reduce, or else NCCL's.

    With groups that do attention for their own sequences, that of an MLP is a gather before and a scatter after: the
    same bytes.
    """
    gpu = cluster.gpu
    if run.kernel and 1 < ranks <= cluster.gpus_per_node and has_own_sum(cluster):
        all_ranks = np.full_like(sizes, ranks)
        buffers = EngineSum(ranks=all_ranks, bytes=sizes, bus=bus_factor("all_reduce", all_ranks))
        return sums_seconds(gpu, run, buffers)
    return _group_seconds(cluster, "all_reduce", sizes, ranks)


def has_own_sum(cluster: Cluster) -> bool:
    """Whether engines run their own all-reduce: every GPU of a node reaches all others over NVLink, as measured."""
    gpu = cluster.gpu
    known = engine_file("all-reduce")["architecture"]
    return gpu.nvlinks > 0 and not gpu.bridge and gpu.architecture in known and gpu.fraction == 1


def exchange_seconds(cluster: Cluster, plan: ServingPlan, sizes: Floats) -> Floats:
    """s of the exchange of partial attention outputs where the keys of a sequence are divided."""
    if plan.context <= 1:
        return np.zeros_like(sizes)
    return _group_seconds(cluster, "all_to_all", sizes / plan.attention_degree, plan.context)


def send_seconds(cluster: Cluster, plan: ServingPlan, sizes: Floats) -> Floats:
    """s of the sends of a pass from stage to stage."""
    if plan.pipeline <= 1:
        return np.zeros_like(sizes)
    crosses = plan.gpus > cluster.gpus_per_node
    return np.asarray(
        (plan.pipeline - 1) * nccl_send_seconds(sizes / plan.tensor, cluster, crosses_node=crosses)
    )
