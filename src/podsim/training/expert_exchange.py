"""What layers of experts exchange: dispatch of routed tokens to the ranks of their experts, and what comes back.

Sources: arXiv 2504.14960 (parallel folding); arXiv 2412.19437, section 3.2.2, and the code of DeepEP (one copy a node);
Megatron-Core, token_dispatcher.py. Known error: choices of experts are taken to be uniform; trained routers' are not.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.expert_load import expert_load
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Grid
from podsim.training.shapes import element_bytes, group_seconds, routed_width, split_ranks, tokens
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


def ep_bytes(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software
) -> Shaped[Array, "plan"]:
    """B of routed tokens that the busiest expert rank sends in one exchange, the mean of dispatch and combine."""
    members = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).ep
    width = sum(_element_bytes(plan, software)) / 2
    if software.dispatcher == "allgather":
        copies = plan.ep / members
    else:
        copies = _node_copies(block, plan.ep / members) if software.sends_once else np.asarray(block.top_k)
    return np.asarray(_sent_elements(model, block, plan, software) * width * copies)


def _sent_elements(model: Model, block: Block, plan: Plan, software: Software) -> Shaped[Array, "plan"]:
    """Elements of the tokens of a rank, one copy, where the busiest rank has as many more."""
    sent = tokens(plan, plan.length(model)) / split_ranks(plan, "sequence")
    return np.asarray(sent * (routed_width(block) or model.hidden) * expert_load(plan, software))


def _element_bytes(plan: Plan, software: Software) -> tuple[float, float]:
    """(B of an element in dispatch, in combine)."""
    stored = element_bytes(plan.precision)
    return software.dispatch_bytes or stored, software.combine_bytes or stored


def distinct_targets(choices: int, targets: Array) -> Shaped[Array, "plan"]:
    """Expected number of `targets` that hold at least one of so many uniform choices: n (1 - (1 - 1/n)^k)."""
    targets = np.maximum(np.asarray(targets, dtype=float), 1.0)
    return np.asarray(targets * (1 - (1 - 1 / targets) ** choices))


def _node_copies(block: Block, nodes: Array) -> Shaped[Array, "plan"]:
    """Nodes to which a token goes; limited groups of experts are taken to be the nodes' own."""
    return distinct_targets(block.top_k, np.minimum(nodes, block.top_groups) if block.top_groups else nodes)


def exchange_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
    """Seconds of (dispatch, combine) of one micro-batch, as the software's dispatcher sends it, if nothing hides it.

    What is sent once a node goes on to the GPUs of that node meanwhile: the longer of both hops counts.
    """
    members = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan).ep
    one_copy = _sent_elements(model, block, plan, software)

    def seconds(collective: str, size: Array, ranks: Array) -> Shaped[Array, "plan"]:
        near = np.minimum(members, ranks)
        return group_seconds(
            collective, size, cluster, software, ranks=ranks, members=near, stride=plan.expert_ranks
        )

    def of(width: float, gathering: str) -> Shaped[Array, "plan"]:
        size, ranks = one_copy * width, np.asarray(plan.ep)
        if software.dispatcher == "allgather":
            return seconds(gathering, size * ranks, ranks)
        if not software.sends_once:
            return seconds("all_to_all", size * block.top_k, ranks)
        between = seconds("all_to_all", size * _node_copies(block, ranks / members), ranks)
        within = seconds("all_to_all", size * distinct_targets(block.top_k, ranks), members)
        return np.maximum(np.where(ranks > members, between, 0.0), within)

    dispatch, combine = _element_bytes(plan, software)
    there = of(dispatch, "all_gather")
    is_alike = dispatch == combine and software.dispatcher != "allgather"
    return there, there if is_alike else of(combine, "reduce_scatter")


def ep_seconds(
    model: Model, block: Block, cluster: Cluster, plan: Plan, software: Software, work: Array
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
    """Exposed seconds of dispatch and combine of a mixture-of-experts layer, forward and backward.

    `work`: s of the layer's kernels, forward and backward. Exchanges of one micro-batch hide behind the kernels of
    another, both passes' together, so no more of them than these kernels take.
    """
    if not block.experts or not (np.asarray(plan.ep) > 1).any():
        return np.zeros(1), np.zeros(1)
    both = sum(exchange_seconds(model, block, cluster, plan, software))
    exposed = both - np.minimum(both * software.ep_overlap, work.mean(axis=0))
    return exposed, exposed


def add_waits_for_counts(
    busy: Shaped[Array, "block plan"],
    host: Shaped[Array, "block plan"],
    routed: Shaped[Array, "block plan"],
    routed_host: Shaped[Array, "block plan"],
) -> None:
    """Add to the host's seconds what it cannot launch ahead: products of experts, before it has read their tokens.

        host = max(host, busy + max(experts' host - experts' busy, 0) + max(other host - other busy, 0))

    Without a capacity, the sizes of products come from the GPU in each forward pass (MCore, token_dispatcher.py).
    """
    late = np.maximum(routed_host - routed, 0.0)
    early = np.maximum(host - routed_host - (busy - routed), 0.0)
    np.maximum(host, np.where(routed_host > 0, busy + late + early, 0.0), out=host)
