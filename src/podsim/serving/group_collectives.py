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

_DEAL, _DEAL_OUTSIDE, _LINK_SHARE = 1.5e-5, 2.5e-5, 0.7
"""s of a kernel that deals tokens to experts, more where it crosses nodes, and the share of NVLink that it reaches"""


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


def routed_seconds(
    cluster: Cluster, plan: ServingPlan, copies: Floats, hidden: float, width: float
) -> Floats:
    """s of sending tokens to their experts and of bringing the outputs back, by the GPU that deals most.

    `copies` are those that one GPU sends: each token's to each of its experts, `hidden` elements of `width` B with a
    scale for each 128, and 2 B on the way back (DeepEP's low-latency kernels, csrc/kernels/internode_ll.cu). A GPU sends
    to others of its node over NVLink, and to others over its share of the adapters. With 128 tokens to 8 experts each,
    this is 118 to 192 us there and 195 to 369 us back on 16 to 128 H800, published in docs/legacy.md; known error 5 %.
    """
    ranks, near = plan.layer_degree, min(plan.layer_degree, cluster.gpus_per_node)
    there, back = (copies * size for size in (hidden * (width + 4 / 128) + 16, 2 * hidden))
    nic = cluster.nics * cluster.network.bandwidth / cluster.gpus_per_node
    inside, outside = (near - 1) / ranks, (ranks - near) / ranks
    seconds = 2 * _DEAL + (there + back) * inside / (_LINK_SHARE * cluster.nvlink.bandwidth)
    if outside:
        seconds = seconds + 2 * _DEAL_OUTSIDE + (there + back) * outside / nic
    return np.asarray(seconds)


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
