"""Failures, drains, windows, partitions and tiers of a queue: by hand, and against the closed form of a long run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.operations import Operations, Span, read_partitions, read_span
from podsim.fleet.policies import POLICIES, find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.reliability import overhead
from podsim.fleet.reliability_rates import load_study
from podsim.fleet.traces import read_jobs

sys.path.insert(0, str(Path(__file__).parent))
from small import random_jobs

SMALL = Machine(nodes=2, gpus_per_node=4)
HOUR = 3600.0


def job(id, submit, gpus, seconds, **more):
    return Job(id=id, submit=submit, gpus=gpus, seconds=seconds, **more)


def ends(jobs, policy="easy", machine=SMALL, policy_changes=None, **operations):
    policy = find_policy(policy, **(policy_changes or {}))
    return run_queue(jobs_of(jobs), machine, policy, operations=Operations(**operations)).end.tolist()


def spans(*texts, what="maintenance"):
    return tuple(read_span(text, 2, what) for text in texts)


@pytest.mark.parametrize(("study", "gpus", "hours"), [
    ("rsc-jobs", 1024, 7.9), ("rsc-jobs", 8, 47.7 * 24), ("rsc-1", 16384, 1.8), ("rsc-1", 131072, 0.23),
    ("llama-3", 16384, 3.093),
])  # fmt: skip
def test_time_between_failures_and_goodput_of_a_long_job(study, gpus, hours):
    # published mean times between failures, and the closed form of the time for each second of work
    mtbf = 8 / gpus / load_study(study).rate
    policy = find_policy("easy", saves=mtbf / 20, checkpoint=mtbf / 500, restart=mtbf / 60)
    machine = Machine(nodes=gpus // 8, gpus_per_node=8)
    run = run_queue(
        jobs_of([job("long", 0, gpus, 1000 * mtbf)]), machine, policy,
        operations=Operations(rate=load_study(study).rate, seed=4),
    )  # fmt: skip
    assert run.end[0] / run.failed / HOUR == pytest.approx(hours, rel=0.15)
    pays = overhead(policy.saves, stall=policy.checkpoint, mtbf=mtbf, restart=policy.restart)
    assert run.end[0] / (1000 * mtbf) == pytest.approx(float(pays), rel=0.01)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_machine_without_failures_is_todays(policy):
    jobs, machine = read_jobs("philly-3"), Machine(nodes=8, gpus_per_node=8)
    plain = run_queue(jobs, machine, policy)
    none = run_queue(jobs, machine, policy, operations=Operations(drain=0.4, repair=9.0))
    assert np.array_equal(plain.end, none.end)
    if policy.backfill != "conservative":  # the code of changes, with nothing that changes
        wide = {"all": (read_span("all", 8, "partition"), 0)}
        assert np.array_equal(
            plain.end, run_queue(jobs, machine, policy, operations=Operations(partitions=wide)).end
        )


def test_drains_and_maintenance_by_hand():
    jobs = [job("A", 0, 4, 100), job("B", 0, 4, 100), job("C", 1, 8, 10), job("D", 2, 4, 30)]
    assert ends(jobs) == [100, 100, 110, 140]
    # node 0 ends A, then is away until 300 s: C waits for both nodes, D overtakes it
    assert ends(jobs, drains=spans("0@50+250", what="drain")) == [100, 100, 310, 130]
    # a window from 105 to 200 s, known in advance: C would run into it, and D as well on node 0, but not on node 1
    assert ends(jobs, windows=spans("0@105+95")) == [100, 100, 210, 130]
    # a longer limit does not fit the gap before the window, although the job would
    late = [job("A", 0, 4, 100, limit=200), job("B", 0, 8, 10)]
    assert ends(late, windows=spans("all@150+50")) == [300, 10]


def test_reservations_by_hand():
    jobs = [job("A", 0, 4, 60, user="alice"), job("B", 0, 4, 60, user="bob"), job("C", 0, 4, 60, user="bob")]
    # node 0 is alice's until 500 s
    assert ends(jobs, windows=spans("0@0+500:alice", what="reserve")) == [60, 60, 120]


def test_partitions_by_hand():
    two = read_partitions(["batch=0", "debug=1"], 2)
    jobs = [job("A", 0, 4, 100), job("B", 1, 4, 50), job("C", 2, 4, 10, partition="debug")]
    assert ends(jobs, "fifo", partitions=two) == [100, 150, 12]
    with pytest.raises(PodsimError, match=r"unknown partition 'debg'.*did you mean debug"):
        ends([job("A", 0, 4, 1, partition="debg")], partitions=two)
    with pytest.raises(PodsimError, match="8 GPUs, but the nodes that it may use have 4"):
        ends([job("A", 0, 8, 1)], partitions=two)


def test_tiers_by_hand():
    # the urgent job stops the youngest of the jobs on the node that it takes; that job saves and loads
    jobs = [job("A", 0, 4, 100), job("B", 1, 4, 100), job("urgent", 10, 4, 20, rank=1.0)]
    costs = {"tiers": True, "checkpoint": 2.0, "restart": 3.0}
    assert ends(jobs, policy_changes=costs) == [100, 126, 30]
    # of two urgent jobs the second waits for the first, as equals do not stop each other
    more = [*jobs, job("second", 11, 8, 5, rank=1.0)]
    assert ends(more, policy_changes=costs) == [35 + 5 + 70, 35 + 5 + 91, 30, 35]
    tiers = read_partitions(["batch=all", "urgent=all:2"], 2)
    by_partition = [job("A", 0, 8, 100), job("B", 10, 4, 20, partition="urgent")]
    assert ends(by_partition, policy_changes={"tiers": True}, partitions=tiers) == [120, 30]


def test_a_failure_throws_a_job_back():
    machine = Machine(nodes=2, gpus_per_node=4)
    long = [job("A", 0, 4, 40 * HOUR)]
    some = {"rate": 1 / (30 * HOUR), "seed": 2}
    saved, unsaved = (
        run_queue(
            jobs_of(long),
            machine,
            find_policy("fifo", saves=saves, restart=60.0),
            operations=Operations(**some),
        )
        for saves in (600.0, 0.0)
    )
    assert unsaved.end[0] > saved.end[0] > 40 * HOUR
    assert unsaved.undone > saved.undone > 0
    away = run_queue(
        jobs_of(long), machine, find_policy("fifo", saves=600.0),
        operations=Operations(rate=2e-4, seed=1, drain=1.0, repair=9e3, spread=0.7),
    )  # fmt: skip
    assert away.away > 0


def test_jobs_that_never_end_are_an_error():
    with pytest.raises(
        PodsimError, match="job A on 1 nodes: failures come faster than its progress is saved"
    ):
        ends([job("A", 0, 4, 1e6)], rate=1e-4)
    with pytest.raises(PodsimError, match="4 GPUs, but the nodes that it may use have 0"):
        ends([job("A", 0, 4, 1)], drains=spans("all", what="drain"))
    with pytest.raises(PodsimError, match="conservative reserves GPUs of a machine that does not change"):
        ends([job("A", 0, 4, 1)], "conservative", drains=spans("0@1+1", what="drain"))


def random_operations(rng, nodes):
    """Windows one after the other, a drain, two partitions, failures."""
    windows, time = [], 100.0
    for _ in range(3):
        first = int(rng.integers(0, nodes))
        time += rng.uniform(50, 900)
        end = time + rng.uniform(20, 400)
        windows.append(
            Span(
                text="w", ranges=((first, nodes - 1),), start=time, end=end, user=str(rng.choice(["u1", ""]))
            )
        )
        time = end
    begin = float(rng.uniform(0, 2000))
    halves = {
        "a": (Span(text="a", ranges=((0, nodes // 2),)), 0),
        "b": (Span(text="b", ranges=((nodes // 2, nodes - 1),)), 1),
    }
    return Operations(
        rate=float(rng.choice([0.0, 3e-4])), drain=0.5, repair=300.0, windows=tuple(windows), partitions=halves,
        drains=(Span(text="d", ranges=((0, 0),), start=begin, end=begin + 500.0),), seed=int(rng.integers(1000)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "policy", [p for p in POLICIES if p.backfill != "conservative"], ids=lambda p: p.name
)
@pytest.mark.parametrize("seed", [353, 1, 2])
def test_no_job_runs_where_it_must_not(policy, seed):
    rng, nodes, size = np.random.default_rng(seed), 4, 3
    operations = random_operations(rng, nodes)
    jobs = replace(
        random_jobs(seed, n=50, most=6, limits=True), partition=rng.choice(["a", "b"], 50).tolist()
    )
    jobs = jobs.only(jobs.gpus <= operations.room_for(jobs, nodes, size), "larger")
    policy = replace(policy, saves=50.0, restart=5.0, tiers=not policy.preempt)
    run = run_queue(jobs, Machine(nodes=nodes, gpus_per_node=size), policy, operations=operations)
    access, allowed, _ = operations.access_of(jobs, nodes)
    assert allowed[access[run.span_job], run.span_node].all()
    user = np.array(jobs.users)[jobs.user][run.span_job]
    for window in operations.windows:
        inside = np.array([window.mask(nodes)[node] for node in run.span_node])
        inside &= (run.span_start < window.end - 1e-9) & (run.span_end > window.start + 1e-9)
        assert set(user[inside]) <= {window.user}
    closed = operations.drains[0]
    late = (run.span_node == 0) & (run.span_start >= closed.start) & (run.span_start < closed.end)
    assert not late.any()
    changes = np.concatenate([run.span_size, -run.span_size])[np.lexsort((
        np.repeat([1, 0], len(run.span_job)), np.concatenate([run.span_start, run.span_end]),
    ))]  # fmt: skip
    assert changes.cumsum().max() <= nodes * size


WRONG = (
    ({"failures": "-1"}, "failures=-1; it must be finite and not negative"),
    ({"failures": "rcs-1"}, "did you mean rsc-1"),
    ({"failures": "parts"}, "8x8 says no parts"),
    ({"failures": "400"}, "save more often"),
    ({"failures": "rsc-1", "policy": ["conservative"]}, "does not change"),
    ({"saves": "1h"}, "nothing fails"),
    ({"spread": 1.0}, "nothing fails"),
    ({"drain": ["5-3"]}, "give nodes, as 0-19,30 or all"),
    ({"drain": ["8"]}, "8 nodes, 0 to 7"),
    ({"maintenance": ["all@2d"]}, r"say how long, as all@2d\+8h"),
    ({"maintenance": ["all@2d+1h:x"]}, "it is for nobody"),
    ({"maintenance": ["0-3@1d+1d", "2@36h+1h"]}, "overlap"),
    ({"reserve": ["0@1d+1d"]}, "for whom"),
    ({"reserve": ["0@1d+1d:zoe"]}, "unknown user 'zoe'"),
    ({"partition": ["a=0-9"]}, "8 nodes, 0 to 7"),
    ({"partition": ["a=0", "a=1"]}, "more than once"),
    ({"partition": ["a=0@3h"]}, "give a name and nodes"),
)


@pytest.mark.parametrize(("options", "says"), WRONG, ids=str)
def test_wrong_input(options, says):
    with pytest.raises(PodsimError, match=says):
        podsim.queue("philly-3", on="8x8", **options)
