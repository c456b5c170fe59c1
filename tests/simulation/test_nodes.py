"""Servers with GPUs of another type."""

from __future__ import annotations

import pytest

from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.simulation.events import play
from podsim.simulation.lower import Trouble, lower
from podsim.training.plan import Plan
from podsim.verbs.simulate import simulate

PLANS = [
    Plan(tp=2, pp=4, dp=4, global_batch=32), Plan(tp=2, pp=1, dp=16, zero=3, global_batch=32),
    Plan(tp=8, pp=2, dp=2, global_batch=32, schedule="zb-h1"),
]  # fmt: skip


def seconds(model, cluster, plan, nodes, **more):
    lowered = lower(model, cluster, plan, kernels=False, trouble=Trouble(nodes=nodes), **more)
    return lowered, play(lowered.ops).seconds


@pytest.fixture(scope="module")
def four():
    return load_cluster("dgx-a100-80gb:4")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("gpu", ["a100-sxm4-40gb", "h100-sxm5-80gb"])
def test_one_server_breaks_only_the_classes_it_touches(plan, gpu, four, small):
    folded, time = seconds(small, four, plan, {1: gpu})
    assert time == pytest.approx(seconds(small, four, plan, {1: gpu}, unfold=True)[1], rel=1e-6)
    assert folded.classes.count <= 2 * int(plan.pp)
    ends = [seconds(small, one, plan, {})[1] for one in (four, four.having(gpu))]
    assert min(ends) * (1 - 1e-6) <= time <= max(ends) * (1 + 1e-6)


@pytest.mark.parametrize("plan", PLANS)
def test_all_servers_of_another_type_are_another_cluster(plan, four, small):
    gpu = "h100-sxm5-80gb"
    every = seconds(small, four, plan, dict.fromkeys(range(4), gpu))[1]
    assert every == pytest.approx(seconds(small, four.having(gpu), plan, {})[1], rel=1e-9)


def test_one_slow_server_holds_all_replicas_up(four, small):
    """Data-parallel ranks meet at their gradients: three quick servers gain nothing from being quick."""
    plan = Plan(tp=8, dp=4, global_batch=32)
    quick = four.having("h100-sxm5-80gb")
    mixed = seconds(small, quick, plan, {2: "a100-sxm4-80gb"})[1]
    assert mixed == pytest.approx(seconds(small, four, plan, {})[1], rel=0.02)
    assert mixed > 1.3 * seconds(small, quick, plan, {})[1]


def test_the_smallest_memory_counts():
    options = {"on": "dgx-a100-80gb:2", "tp": 8, "pp": 1, "batch": 32, "micro_batch": 8, "kernels": False}
    assert simulate("gpt-7.5b", **options).step_time > 0
    with pytest.raises(NoFitError, match="a GPU has 40"):
        simulate("gpt-7.5b", **options, node={1: "a100-sxm4-40gb"})


@pytest.mark.parametrize(("node", "said"), [({9: "a100-sxm4-40gb"}, "0 to 1"), ({0: "a100-50"}, "a100-50")])
def test_what_cannot_be(node, said):
    with pytest.raises(PodsimError, match=said):
        simulate("gpt-1.7b", on="dgx-a100-80gb:2", tp=2, batch=32, node=node)
