"""Collectives of tensor, context and expert groups that reach over nodes, as links tell them."""

from __future__ import annotations

import pytest

from podsim.hardware.cluster import load_cluster
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble
from podsim.simulation.outcome import outcome
from podsim.training.batch import prepare
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

close = pytest.approx


def played(model, cluster, plan, **options):
    lowered = lower(model, cluster, plan, **options)
    return outcome(model, cluster, plan, lowered, play(lowered.ops), 1.0)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize(("tp", "ep", "near"), [(4, 8, 2), (8, 4, 1), (2, 8, 4)])
def test_tokens_sent_to_experts(kernels, tp, ep, near):
    """Each all-to-all takes what is for experts of other nodes out of the node: four a layer and micro-batch."""
    model, cluster = load_model("mixtral-8x7b"), load_cluster("dgx-a100-80gb:4")
    plan = Plan(tp=tp, ep=ep, dp=32 // tp, global_batch=64, recompute="none")
    step = played(model, cluster, plan, kernels=kernels)
    routed = 2 * model.sequence * model.hidden * 2 * prepare(model, cluster, plan).software.expert_imbalance
    sent = 4 * 32 * int(plan.micro_batches) * routed * (1 - near / ep)
    assert {use.name[:3] for use in step.links} == {"out", "int"}
    for use in step.links:
        assert use.carried["ep"] == close(sent)


def test_collectives_of_two_groups_in_a_row_keep_both_waiting():
    """A slow rank holds up its expert group, whether or not what lies between collectives is one op."""
    model, cluster = load_model("mixtral-8x7b"), load_cluster("dgx-a100-40gb:4")
    plan = Plan(
        tp=8, cp=2, ep=4, dp=2, zero=3, sequence_parallel=True, global_batch=32, recompute="selective"
    )
    trouble = Trouble(slow={27: 1.3, 12: 1.5}, link={15: 0.1}, nodes={3: "h100"})
    whole, parted = (
        play(lower(model, cluster, plan, kernels=kernels, trouble=trouble).ops).seconds
        for kernels in (True, False)
    )
    assert parted == close(whole, rel=1e-9)


def test_experts_of_one_node_send_nothing_over_the_network():
    model, cluster = load_model("mixtral-8x7b"), load_cluster("dgx-a100-80gb:4")
    step = played(model, cluster, Plan(tp=1, ep=8, dp=32, global_batch=64))
    assert all("ep" not in use.carried for use in step.links)


def test_tensor_groups_over_two_nodes(two, small):
    """An all-reduce over two nodes of eight takes twice half of its bytes out of a node, over eight adapters."""
    plan = Plan(tp=16, dp=1, global_batch=2, precision="bf16")
    if plan.problems(small, two):  # 24 heads do not divide by 16
        small = load_model("llama-2-70b")
    step = played(small, two, plan)
    size = small.sequence * small.hidden * 2
    syncs = 2 * (2 * small.layer_count + 1)  # two a layer forward and backward, one of embedding and head
    for use in step.links:
        assert use.carried == {"tp": close(2 * syncs * size * 2 * 0.5 / 8)}


def test_a_slow_adapter_slows_the_groups_that_use_it():
    """Half the bandwidth of one adapter: all-to-alls that nearly fill it take longer, folded as unfolded."""
    model, cluster = load_model("mixtral-8x7b"), load_cluster("dgx-a100-80gb:4")
    plan = Plan(tp=4, ep=8, dp=8, global_batch=32)
    plain = played(model, cluster, plan, kernels=False).step_time
    slow = [
        played(model, cluster, plan, kernels=False, unfold=unfold, trouble=Trouble(link={3: share})).step_time
        for share, unfold in ((0.5, False), (0.5, True), (1.0, False))
    ]
    assert slow[0] > 1.1 * plain
    assert slow[1] == close(slow[0], rel=1e-9)
    assert slow[2] == close(plain, rel=1e-9)
