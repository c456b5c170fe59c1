"""Servers with GPUs of another type."""

from __future__ import annotations

import pytest

from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.questions.train.simulate import simulate
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble
from podsim.training.plan import Plan

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
    with pytest.raises(NoFitError, match=r"a GPU has 38\.7"):
        simulate("gpt-7.5b", **options, node={1: "a100-sxm4-40gb"})


@pytest.mark.parametrize(("node", "said"), [({9: "a100-sxm4-40gb"}, "0 to 1"), ({0: "a100-50"}, "a100-50")])
def test_what_cannot_be(node, said):
    with pytest.raises(PodsimError, match=said):
        simulate("gpt-1.7b", on="dgx-a100-80gb:2", tp=2, batch=32, node=node)


def test_fewer_micro_batches_for_slow_replicas(small):
    """Eight GPUs of a third of the speed beside 24: they hold the others up until they have less to do."""
    options = {
        "on": "dgx-h100:4",
        "tp": 8,
        "pp": 1,
        "batch": 64,
        "kernels": False,
        "node": {3: "a100-sxm4-80gb"},
    }
    even, uneven = (simulate("gpt-1.7b", **options, uneven=uneven) for uneven in (False, True))
    given = next(note for note in uneven.warnings if "micro-batches" in note)
    shares = [int(text) for text in given.split(": ")[1].split(", ")]
    assert sum(shares) == 64
    assert 0 < shares[3] < min(shares[:3]) >= max(shares[:3]) - 1
    assert uneven.step_time < 0.8 * even.step_time


@pytest.mark.parametrize("shares", [(18, 18, 18, 10), (1, 2, 30, 31)])
def test_uneven_shares_folded_and_each_by_itself(shares, four, small):
    for degrees in ({"tp": 8, "pp": 1}, {"tp": 2, "pp": 4}):
        plan = Plan(dp=4, global_batch=64, zero=1, **degrees)
        trouble = Trouble(shares=shares)
        folded, alone = (
            play(lower(small, four, plan, kernels=False, unfold=unfold, trouble=trouble).ops).seconds
            for unfold in (False, True)
        )
        assert folded == pytest.approx(alone, rel=1e-6)
        most = Plan(dp=4, global_batch=4 * max(shares), zero=1, **degrees)
        assert folded == pytest.approx(seconds(small, four, most, {})[1], rel=0.01)


@pytest.mark.parametrize(("plan", "shares", "said"), [
    (PLANS[0], (4, 4), "for dp=4 replicas"), (PLANS[0], (0, 8, 12, 12), "of 1 or more"),
    (PLANS[1], tuple(range(1, 17)), "zero may be 0, 1"),
])  # fmt: skip
def test_shares_that_cannot_be(plan, shares, said, four, small):
    with pytest.raises(PodsimError, match=said):
        lower(small, four, plan, trouble=Trouble(shares=shares))
