"""What layers of experts exchange: dispatch of routed tokens to the ranks of their experts, and what comes back.

Source: arXiv 2504.14960 (parallel folding).
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.expert_load import expert_load
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Grid
from podsim.training.shapes import element_bytes, group_seconds, tokens
from podsim.training.software import Software
from podsim.workload.model import Block, Model


def spared_syncs(block: Block, plan: Plan) -> Shaped[Array, "plan"]:
    """The part of a layer's syncs that folded experts spare: the TP group's ranks keep their tokens apart.

    What is left is gathered over the ranks of an expert. Shared experts are divided as the rest.
    """
    if not block.experts or block.shared_experts:
        return np.zeros(1)
    others = np.maximum(np.asarray(plan.tp) - 1, 1)
    return np.asarray((np.asarray(plan.tp) - plan.expert_ranks) / others)


def ep_bytes(model: Model, block: Block, plan: Plan, software: Software) -> Shaped[Array, "plan"]:
    """B of routed tokens that the busiest expert rank sends in one all-to-all."""
    tp = np.where(np.asarray(plan.sequence_parallel).astype(bool), plan.tp, 1)
    routed = tokens(plan, plan.length(model)) / tp * block.top_k
    width = next((op.k for op in block.ops if op.expert and op.kind == "gemm"), model.hidden)
    return np.asarray(routed * width * element_bytes(plan.precision) * expert_load(plan, software))


def ep_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software, work: Array
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
    """Exposed seconds of the two all-to-alls (dispatch, combine) of a mixture-of-experts layer.

    `work`: s of the layer's kernels, forward and backward. Exchanges of one micro-batch hide behind the kernels of
    another, both passes' together, so no more of them than these kernels take.
    """
    ep = np.asarray(plan.ep, dtype=float)
    if not block.experts or not (ep > 1).any():
        return np.zeros(1), np.zeros(1)
    members = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).ep
    busiest = ep_bytes(model, block, plan, software)
    once = group_seconds(
        "all_to_all", busiest, cluster, software, ranks=plan.ep, members=members, stride=plan.expert_ranks
    )
    exposed = 2 * once - np.minimum(2 * once * software.ep_overlap, work.mean(axis=0))
    return exposed, exposed
