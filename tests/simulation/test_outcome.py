"""What a played step says: lanes without gaps, parts that add up, memory as the closed form has it, links, files."""

from __future__ import annotations

import numpy as np
import pytest
from lane_seconds import lane_seconds

from podsim.simulation.events import critical_path, play
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble
from podsim.simulation.outcome import memory_counters, outcome
from podsim.timeline.timelines import read_timeline, write_timeline
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.step import SPLIT
from podsim.workload.catalog import load_model

close = pytest.approx

PLANS = {
    "pipeline": Plan(
        tp=2, pp=4, dp=2, zero=1, global_batch=16, sequence_parallel=True, recompute="selective"
    ),
    "sharded": Plan(tp=1, dp=8, zero=3, global_batch=16),
    "not overlapped": Plan(
        tp=2, pp=2, dp=4, zero=1, global_batch=16, overlap_grad=False, overlap_param=False
    ),
    "pairs": Plan(tp=2, pp=4, dp=2, global_batch=32, schedule="dualpipe"),
    "zero bubble": Plan(tp=2, pp=4, dp=2, global_batch=16, schedule="zb-v", virtual_stages=2),
}


def run(model, cluster, plan, trouble=None, **options):
    lowered = lower(model, cluster, plan, trouble=trouble, **options)
    played = play(lowered.ops)
    closed = float(step_cost(model, cluster, plan).seconds[0])
    return lowered, played, outcome(model, cluster, plan, lowered, played, closed)


@pytest.fixture(scope="module", params=PLANS)
def step(request, two, small):
    return run(small, two, PLANS[request.param], kernels=False)


def test_parts_add_up_to_the_step(step):
    _, played, found = step
    assert set(found.parts) == set(SPLIT)
    assert sum(found.parts.values()) == close(found.step_time) == close(played.seconds)
    assert min(found.parts.values()) >= 0
    assert 0 <= found.bubble < 1


def test_compute_lanes_are_filled_from_start_to_end(step):
    _, _, found = step
    t = found.timeline
    for k, lane in enumerate(t.lanes):
        mine = np.flatnonzero(t.lane == k)
        mine = mine[np.argsort(t.start[mine])]
        assert np.all(t.start[mine][1:] >= t.end[mine][:-1] - 1e-12), lane
        if lane.name == "compute":
            assert t.start[mine[0]] == 0
            assert t.end[mine[-1]] == found.step_time
            assert np.array_equal(t.start[mine][1:], t.end[mine][:-1]), lane


def test_the_critical_path_is_the_step(step):
    lowered, played, found = step
    path = critical_path(played)
    assert played.start[path[0]] == 0
    assert np.array_equal(played.start[path[1:]], played.end[path[:-1]])
    assert sum(one.seconds for one in found.critical) == close(found.step_time)
    assert sum(one.count for one in found.critical) <= len(path)
    assert [one.seconds for one in found.critical] == sorted(
        (o.seconds for o in found.critical), reverse=True
    )
    assert found.ops == len(lowered.what)
    assert found.represented == sum(
        int(n) * int(c) for n, c in zip(np.diff(lowered.base), lowered.classes.copies, strict=True)
    )


def test_links_carry_what_their_transfers_say(step):
    _, _, found = step
    for link in found.links:
        assert link.bytes == close(sum(link.carried.values()))
        assert np.all(link.rate <= link.capacity * (1 + 1e-6))
        assert np.sum(np.diff(link.time) * link.rate[:-1]) == close(link.bytes, rel=1e-6)
        assert 0 < link.busy <= found.step_time * (1 + 1e-9)
    out, into = (sum(k.bytes * k.copies for k in found.links if k.name.endswith(w)) for w in ("out", "in"))
    assert out == close(into)


@pytest.mark.parametrize("kind", [".pftrace", ".json"])
def test_files_say_the_same_by_kind(kind, two, small, tmp_path):
    _, _, found = run(small, two, PLANS["pipeline"], kernels=False)
    path = tmp_path / f"step{kind}"
    write_timeline(found.timeline, path)
    again = read_timeline(path)
    assert again.seconds == close(found.step_time, abs=1e-9)
    busy = dict(zip(again.kinds, again.busy(), strict=True))
    for name, seconds in zip(found.timeline.kinds, found.timeline.busy(), strict=True):
        assert busy.get(name, 0.0) == close(seconds, rel=1e-4, abs=1e-6), name
    # the seconds of a lane are its spans, kinds told apart where ops are not merged
    lowered, played, fine = run(small, two, PLANS["pipeline"])
    t, seconds = fine.timeline, lane_seconds(lowered, played)
    lanes = [k for k, lane in enumerate(t.lanes) if lane.name == "compute"]
    for k, lane in zip(lanes, seconds, strict=True):
        mine = t.lane == k
        parts = np.bincount(t.kind[mine], (t.end - t.start)[mine], len(t.kinds))
        assert parts.sum() == close(fine.step_time)
        assert [parts[t.kinds.index(name)] for name in SPLIT] == close(lane.tolist(), abs=1e-12)


# memory


def high_water(model, cluster, plan):
    lowered = lower(model, cluster, plan, kernels=False)
    high, counters = memory_counters(lowered, play(lowered.ops), plan)
    assert max(float(c.value.max()) for c in counters) == close(high)
    for counter in counters:
        assert np.all(np.diff(counter.time) >= 0)
        assert counter.value[-1] == close(counter.value.min())
    return high


@pytest.mark.parametrize("recompute", [("none", 0), ("selective", 0), ("full", 0), ("full", 2)], ids=str)
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1", "zb-h2", "pipedream"])
def test_memory_is_what_the_closed_form_says(schedule, recompute, two, small):
    plan = Plan(
        tp=2, pp=4, schedule=schedule, global_batch=12, recompute=recompute[0], recompute_layers=recompute[1]
    )
    closed = float(step_cost(small, two, plan).memory[0])
    assert high_water(small, two, plan) == close(closed, rel=1e-9)


@pytest.mark.parametrize(("schedule", "v", "low", "high"), [
    ("interleaved", 2, 0.0, 0.005),  # equal chunks, but the first holds the embedding's activations too
    ("interleaved", 4, 0.0, 0.02),  # uneven ones: the closed form counts in mean chunks
    ("breadth-first", 2, 0.0, 0.005),
    ("zb-v", 2, -0.08, 0.0),  # the first rank also has the head: few of its chunks are layers
    ("dualpipe", 1, -0.05, 0.005),  # passes from both ends: the closed form counts p + 1 of a mean part
    ("dualpipe-v", 2, -0.09, 0.005),
])  # fmt: skip
def test_memory_of_chunks(schedule, v, low, high, two, small):
    plan = Plan(tp=2, pp=4, schedule=schedule, virtual_stages=v, global_batch=16)
    closed = float(step_cost(small, two, plan).memory[0])
    assert low - 1e-9 <= high_water(small, two, plan) / closed - 1 <= high


def test_stages_of_alternating_layers_keep_their_own_memory(two):
    """Encoder, decoder: a rank has the memory of its own class of stages, wherever classes lie."""
    model = load_model("t5-3b")
    plan = Plan(tp=2, pp=4, global_batch=8)
    assert high_water(model, two, plan) == close(float(step_cost(model, two, plan).memory[0]), rel=1e-9)


def test_who_waits_for_a_slow_gpu(two, small):
    """The slow rank waits least; its tensor peer waits for it in collectives, the other stages in bubbles."""
    plan = Plan(tp=2, pp=2, dp=2, global_batch=16)
    lowered, played, found = run(small, two, plan, Trouble(slow={0: 1.5}), kernels=False)
    parts = lane_seconds(lowered, played)
    label = lowered.classes.label
    slow, peer, behind = (parts[label[where]] for where in ((0, 0, 0), (0, 0, 1), (1, 0, 0)))
    tp, bubble, compute = (SPLIT.index(k) for k in ("tp", "bubble", "compute"))
    assert slow[compute] == close(1.5 * peer[compute], rel=0.01)  # beside exchanges, less of it is slowed
    assert peer[tp] > slow[tp]
    assert behind[bubble] > slow[bubble]
    assert found.step_time == close(parts.sum(axis=1).max())


def test_ops_that_stand_for_several_are_of_the_kind_that_most_of_them_are(two, small):
    """What begins with a norm is arithmetic all the same: kinds of the timeline are near the split of the step."""
    plan = Plan(tp=2, pp=2, dp=4, global_batch=16)
    lowered = lower(small, two, plan, kernels=False)
    step = outcome(small, two, plan, lowered, play(lowered.ops), 1.0)
    kinds = dict(zip(step.timeline.kinds, step.timeline.busy(), strict=True))
    assert kinds["compute"] > 0.9 * step.parts["compute"] * step.ranks
    assert kinds.get("memory", 0.0) < 0.3 * kinds["compute"]
