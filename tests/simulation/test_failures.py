"""A rank, or an adapter, that fails in the middle of a step: what still runs, and who waits for whom."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import PodsimError, SimulationError
from podsim.questions.train.simulate import simulate
from podsim.simulation.events import play
from podsim.simulation.export import _stream_order
from podsim.simulation.failures import _blocked_ops, stop
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble
from podsim.simulation.ops import Ops
from podsim.training.plan import Plan

PLANS = {
    "pipeline": Plan(tp=2, pp=4, dp=2, global_batch=16),
    "sharded": Plan(tp=2, pp=1, dp=8, zero=3, global_batch=32),
    "pairs": Plan(tp=2, pp=4, dp=2, global_batch=32, schedule="dualpipe"),
}


def failed(model, cluster, plan, rank, share, **more):
    """(healthy play, what is left of it) when a rank fails after a share of the step."""
    lowered = lower(model, cluster, plan, kernels=False, trouble=Trouble(fail=(rank,)), **more)
    played = play(lowered.ops)
    return lowered, played, stop(lowered, played, plan, rank, share * played.seconds)


def test_each_op_is_followed_by_the_next_of_its_stream():
    """Streams 0, 1, 0, 1, 0: 0 before 2 before 4, and 1 before 3."""
    assert _stream_order(np.array([0, 1, 0, 1, 0])).T.tolist() == [[0, 2], [2, 4], [1, 3]]


def test_who_meets_a_failed_rank_waits_for_ever():
    """Six streams: 0 and 1 meet, 2 and 3 meet apart, 4 waits for 1 and 5 for 2. Without 0 there is no 1 and no 4."""
    ops = Ops(
        stream=np.arange(6, dtype=np.int32), seconds=np.ones(6), before=np.array([1, 2], np.int32),
        after=np.array([4, 5], np.int32), join=np.array([0, 0, 1, 1, -1, -1], np.int32),
    )  # fmt: skip
    assert _blocked_ops(ops, np.arange(6) == 0).tolist() == [True, True, False, False, True, False]
    assert _blocked_ops(ops, np.arange(6) == 3).tolist() == [False, False, True, True, False, True]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("share", [0.02, 0.4, 0.9])
def test_nothing_before_changes_and_nothing_after_depends_on_it(name, share, two, small):
    lowered, played, found = failed(small, two, PLANS[name], 5, share)
    time = share * played.seconds
    early = played.end <= time
    assert np.allclose(found.played.end[early], played.end[early], rtol=1e-9)
    begun = played.start < time
    assert np.allclose(found.played.start[begun], played.start[begun], rtol=1e-9)
    c = int(lowered.classes.label.ravel()[5])
    mine = slice(int(lowered.base[c]), int(lowered.base[c + 1]))
    worked = found.lowered.ops.seconds[mine] > 0
    assert found.played.end[mine][worked].max(initial=0.0) <= time * (1 + 1e-9)
    done = found.lowered.ops.seconds >= lowered.ops.seconds - 1e-15
    never = ~done & (lowered.ops.seconds > 0)
    waits = lowered.ops.after[never[lowered.ops.before]]
    assert not (found.lowered.ops.seconds[waits] > 0).any()
    assert found.played.seconds <= played.seconds * (1 + 1e-9)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("share", [0.3, 0.85])
def test_folded_equals_every_rank_by_itself(name, share, two, small):
    plan = PLANS[name]
    folded, alone = (failed(small, two, plan, 5, share, unfold=unfold) for unfold in (False, True))
    assert folded[2].played.seconds == pytest.approx(alone[2].played.seconds, rel=1e-6)
    assert folded[2].hung == pytest.approx(alone[2].hung, rel=1e-6)
    stood = [{}, {}]
    for told, (lowered, _, found) in zip(stood, (folded, alone), strict=True):
        for one in found.standing:
            first = int(re.search(r"\d+$", one.ranks).group())
            c = int(lowered.classes.label.ravel()[first])
            for rank in np.flatnonzero(lowered.classes.label.ravel() == c).tolist():
                told[rank] = (one.since, one.op)
    assert stood[0].keys() == stood[1].keys() == set(range(16))
    for rank, (since, op) in stood[0].items():
        assert since == pytest.approx(stood[1][rank][0], rel=1e-6)
        assert op == stood[1][rank][1]


def test_who_waits_for_whom(two, small):
    """The tensor peer waits for the failed rank itself, other replicas at their gradients, which come last."""
    _, _, found = failed(small, two, PLANS["pipeline"], 0, 0.5)
    by = {one.ranks: one for one in found.standing}
    assert found.standing[0].ranks == "rank 0"
    assert found.standing[0].waits_for == ""
    assert by["rank 1"].waits_for == "rank 0"
    assert by["rank 2"].waits_for == "rank 0"
    assert by["rank 2"].op == "gradients"
    assert by["rank 2"].since > by["rank 1"].since


def test_a_failure_when_all_others_are_done_holds_nobody_up(two, small):
    plan = Plan(tp=2, pp=1, dp=8, global_batch=16)
    _, played, found = failed(small, two, plan, 3, 0.9999)
    assert [one.ranks for one in found.standing] == ["rank 3"]
    assert found.played.seconds == pytest.approx(played.seconds)


def step(**more):
    options = {"tp": 2, "pp": 1, "zero": 1, "batch": 32, "kernels": False, **more}
    return simulate("gpt-1.7b", on="dgx-a100-80gb:2", **options)


def test_the_watchdog_and_the_checkpoint():
    found = step(fail={3: 0.1}, checkpoint_every=1800).failure
    assert found.watchdog == 600  # PyTorch's: ten minutes for NCCL
    assert 0.1 <= found.noticed - 600 <= found.still
    assert found.lost == found.noticed + 900
    assert step(fail={3: 0.1}, watchdog=30).failure.noticed == pytest.approx(found.noticed - 570)


def test_a_detour_over_the_adapter_beside_it():
    """From the start it is a link of half the speed for two ranks; at the end it changes nothing."""
    whole = step().step_time
    slow = step(slow_link={2: 0.5, 3: 0.5}).step_time
    times = [step(fail_link={3: share * whole}).step_time for share in (0.0, 0.7, 0.999)]
    assert times[0] == pytest.approx(slow, rel=1e-6)
    assert whole < times[0]
    assert whole <= times[2] * (1 + 1e-9) <= times[1] * (1 + 2e-9) <= times[0] * (1 + 3e-9)
    assert step(fail_link={3: 0.1}).failure.rerouted == "the adapter of rank 2"
    # a link that is slow already has half of what it had left
    worse = step(slow_link={3: 0.5}, fail_link={3: 0.0}).step_time
    assert worse == pytest.approx(step(slow_link={2: 0.5, 3: 0.25}).step_time, rel=1e-6)


def test_what_is_left_of_an_exchange_takes_longer_in_proportion():
    """The reduction of gradients is on its way from half of the step on: each moment later spares the same."""
    alone = {"zero": 0, "batch": 8, "overlap_grad": False}
    whole = step(**alone).step_time
    early, middle, late = (
        step(fail_link={3: share * whole}, **alone).step_time for share in (0.60, 0.65, 0.70)
    )
    assert early - middle == pytest.approx(middle - late, rel=1e-6)
    assert early > middle > late > whole


def test_no_way_around():
    found = step(fail_link={3: 0.1}, overrides={"nics": "1"})
    assert found.failure.rerouted == ""
    assert len(found.failure.standing) >= 1
    assert found.step_time < found.failure.healthy


@pytest.mark.parametrize(("more", "said"), [
    ({"fail": {3: 1e3}}, "the step is over after"), ({"fail": {99: 0.1}}, "ranks 0 to 15"),
    ({"fail": {3: -1.0}}, "0 s or more"), ({"fail": {3: 0.1, 4: 0.1}}, "give one"),
    ({"watchdog": 5.0}, "give fail or fail_link"), ({"fail": {3: 0.1}, "watchdog": 0.0}, "above 0"),
])  # fmt: skip
def test_what_cannot_be(more, said):
    with pytest.raises((PodsimError, SimulationError), match=re.escape(said)):
        step(**more)


def test_a_healthy_step_says_nothing_of_failures():
    from podsim.report import simulated_data

    assert "failure" not in simulated_data(step())
    assert replace(step(), failure=None).failure is None
