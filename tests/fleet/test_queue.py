"""Every policy against the naive simulator, and the theorems that each must keep."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import podsim
from podsim.errors import ClusterError, PodsimError
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.orders import ORDERS
from podsim.fleet.policies import POLICIES, Policy, find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.traces import read_jobs

sys.path.insert(0, str(Path(__file__).parent))
from naive import Naive
from small import random_jobs

MACHINES = (
    Machine(gpus_per_node=8),
    Machine(nodes=4, gpus_per_node=2, nodes_per_leaf=2),
    Machine(nodes=3, gpus_per_node=4, nodes_per_leaf=1, placement="first-fit"),
    Machine(nodes=4, gpus_per_node=3, nodes_per_leaf=2, placement="spread"),
)
COSTLY = (
    find_policy("srtf", restart=7.0, checkpoint=3.0, start=2.0),
    find_policy("srsf", interval=60.0),
    find_policy("tiresias", levels=(300.0, 900.0), interval=30.0, restart=5.0),
    find_policy("easy", depth=2, start=4.0),
    find_policy("conservative", depth=2),
    find_policy("fifo", interval=45.0),
    Policy(
        name="strict-srtf",
        says="nobody overtakes",
        order="shortest remaining",
        preempt=True,
        backfill="strict",
    ),
)
ALL = [*POLICIES, *COSTLY]
NAMES = [f"{policy.name}-{place}" for place, policy in enumerate(ALL)]


def spans_of(schedule):
    return sorted(
        zip(
            schedule.span_job.tolist(), schedule.span_start.tolist(), schedule.span_end.tolist(), strict=True
        ),
        key=lambda span: (span[1], span[0]),
    )


@pytest.mark.parametrize("policy", ALL, ids=NAMES)
def test_as_the_naive_simulator(policy):
    for place, machine in enumerate(MACHINES):
        if policy.backfill == "conservative" and machine.nodes > 1:
            continue  # its profile counts GPUs; where they are scattered it has a rule of its own
        jobs = random_jobs(
            100 + place, most=machine.gpus, limits=place % 2 == 0, chains=place == 1, slow=place == 3
        )
        ours = run_queue(jobs, machine, policy)
        ends, spans = Naive(jobs, machine, policy).run()
        np.testing.assert_allclose(ours.end, ends, rtol=1e-9, atol=1e-4)
        mine = [span for span in spans_of(ours) if span[2] > span[1] + 1e-4]
        theirs = [span for span in spans if span[2] > span[1] + 1e-4]
        assert [span[0] for span in mine] == [span[0] for span in theirs]
        np.testing.assert_allclose([s[1:] for s in mine], [s[1:] for s in theirs], rtol=1e-9, atol=1e-4)


@pytest.mark.parametrize("depth", [0, 10])
def test_long_queue_of_reservations_as_the_naive_simulator(depth):
    # jobs end long before their limits, so reservations move at every end
    jobs = random_jobs(9, n=45, most=8, limits=True)
    jobs = replace(jobs, submit=jobs.submit / 8)
    policy = find_policy("conservative", depth=depth)
    ends, spans = Naive(jobs, MACHINES[0], policy).run()
    ours = run_queue(jobs, MACHINES[0], policy)
    np.testing.assert_allclose(ours.end, ends, rtol=1e-9, atol=1e-4)
    assert [span[0] for span in spans_of(ours)] == [span[0] for span in spans]


@pytest.mark.parametrize("name", ["easy", "sjf", "qssf", "fifo-skip", "slurm"])
@pytest.mark.parametrize("backfill", ["easy", "skip"])
def test_jobs_that_a_decision_passes_by_could_not_start(name, backfill):
    # with a depth, a decision looks at every job; without one, it passes by sizes and lengths that cannot start
    machine = Machine(nodes=30, gpus_per_node=4, nodes_per_leaf=5)
    jobs = random_jobs(3, n=1500, most=24, limits=True, chains=True, slow=True)
    jobs = replace(jobs, submit=jobs.submit / 10)
    policy = find_policy(name, backfill=backfill)
    fast, slow = run_queue(jobs, machine, policy), run_queue(jobs, machine, replace(policy, depth=len(jobs)))
    np.testing.assert_array_equal(fast.end, slow.end)
    np.testing.assert_array_equal(fast.span_node, slow.span_node)
    assert fast.scattered == slow.scattered


@pytest.mark.parametrize("policy", ALL, ids=NAMES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), where=st.integers(0, len(MACHINES) - 1))
def test_theorems(policy, seed, where):
    machine = MACHINES[where]
    jobs = random_jobs(
        seed, most=machine.gpus, limits=seed % 2 == 0, chains=seed % 3 == 0, slow=seed % 5 == 0
    )
    run = run_queue(jobs, machine, policy)
    job, start, end = run.span_job, run.span_start, run.span_end
    again = run_queue(jobs, machine, policy)
    np.testing.assert_array_equal(run.end, again.end)
    np.testing.assert_array_equal(run.span_start, again.span_start)
    # capacity is never exceeded, gang: all of a job's GPUs at once
    for moment in np.unique(start):
        assert jobs.gpus[job[(start <= moment) & (end > moment)]].sum() <= machine.gpus
    # nobody starts before it is submitted or before what it waits for has ended
    assert np.all(run.start >= jobs.submit - 1e-9)
    for j, parents in jobs.after.items():
        assert all(run.end[parent] <= run.start[j] + 1e-9 for parent in parents)
    # a job never runs twice at once, and all its work is done
    lead = policy.start + (run.runs - 1) * (policy.checkpoint + policy.restart)
    held = np.bincount(job, end - start, len(jobs))
    slowest = jobs.slow.min(axis=1)
    assert np.all(held <= jobs.seconds / slowest + lead + 1e-6)
    assert np.all(held >= jobs.seconds - 1e-6 * (1 + run.runs))
    if (jobs.slow == 1).all() and not (policy.start or policy.restart or policy.checkpoint):
        np.testing.assert_allclose(held, jobs.seconds, rtol=1e-9, atol=1e-6)
    if not policy.preempt:
        assert len(job) == len(jobs)
    # bounds of the whole
    assert run.end.max() >= (jobs.seconds * jobs.gpus).sum() / machine.gpus - 1e-6
    assert np.all(run.end >= jobs.submit + jobs.seconds - 1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_fifo_starts_in_order_of_release(seed):
    jobs = random_jobs(seed)
    run = run_queue(jobs, MACHINES[1], find_policy("fifo"))
    assert np.all(np.diff(run.start) >= 0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_conservative_delays_nobody_that_easy_and_fifo_would_not(seed):
    # with exact lengths no job starts later than under FIFO without overtaking
    jobs = random_jobs(seed)
    strict = run_queue(jobs, MACHINES[0], find_policy("fifo"))
    reserved = run_queue(jobs, MACHINES[0], find_policy("conservative"))
    assert np.all(reserved.start <= strict.start + 1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_srtf_on_one_gpu_has_the_least_mean_completion_time(seed):
    # Schrage 1968: optimal on one server
    jobs = random_jobs(seed, most=1)
    one = Machine(gpus_per_node=1)
    best = run_queue(jobs, one, find_policy("srtf")).end.mean()
    for policy in POLICIES:
        assert best <= run_queue(jobs, one, policy).end.mean() + 1e-6


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_time_has_no_unit(policy):
    # twice the lengths, gaps and constants of time: twice every time
    jobs = random_jobs(3, limits=True)
    double = replace(
        jobs, submit=jobs.submit * 2, seconds=jobs.seconds * 2, limit=jobs.limit * 2, guess=jobs.guess * 2
    )
    slower = replace(
        policy, refresh=policy.refresh * 2, max_age=policy.max_age * 2, half_life=policy.half_life * 2,
        levels=tuple(2 * level for level in policy.levels),
    )  # fmt: skip
    one, two = run_queue(jobs, MACHINES[1], policy), run_queue(double, MACHINES[1], slower)
    np.testing.assert_allclose(two.end, 2 * one.end, rtol=1e-7)


def job(id, submit, gpus, seconds, **more):
    return Job(id=id, submit=submit, gpus=gpus, seconds=seconds, **more)


def ends(jobs, gpus, policy, **more):
    return run_queue(jobs_of(jobs), Machine(gpus_per_node=gpus), find_policy(policy, **more)).end.tolist()


def test_backfill_by_hand():
    # 4 GPUs; A holds 3 for 100 s; B wants 4; C (1 GPU, 100 s) ends with A, D (1 GPU, 50 s) follows, E would delay B
    jobs = [
        job("A", 0, 3, 100),
        job("B", 1, 4, 10),
        job("C", 2, 1, 98),
        job("D", 3, 1, 50),
        job("E", 3, 1, 200),
    ]
    assert ends(jobs, 4, "fifo") == [100, 110, 208, 160, 310]
    assert ends(jobs, 4, "easy") == [100, 110, 100, 160, 310]
    # a long job of one GPU would delay B: it may if nobody minds, and must wait if somebody does
    jobs = [job("A", 0, 3, 100), job("B", 1, 4, 10), job("E", 2, 1, 200)]
    assert ends(jobs, 4, "fifo-skip") == [100, 212, 202]
    assert ends(jobs, 4, "easy") == ends(jobs, 4, "conservative") == [100, 110, 310]
    # B wants 3 of 4 from 100 s on: E is harmless to it (EASY), and to F, whose 4 are free after B and E (conservative)
    jobs = [job("A", 0, 3, 100), job("B", 1, 3, 10), job("F", 2, 4, 10), job("E", 3, 1, 200)]
    assert ends(jobs, 4, "easy") == [100, 110, 213, 203]
    assert ends(jobs, 4, "conservative") == [100, 110, 120, 320]


def test_preemption_by_hand():
    # B comes when A has 90 of 100 s left, takes its GPU for 20 s; A then pays 5 s to save and 3 s to load
    jobs = [job("A", 0, 1, 100), job("B", 10, 1, 20)]
    assert ends(jobs, 1, "srtf") == [120, 30]
    assert ends(jobs, 1, "srtf", checkpoint=5.0, restart=3.0) == [128, 30]
    assert ends(jobs, 1, "srtf", start=2.0) == [124, 32]
    assert ends(jobs, 1, "srtf", interval=25.0) == [125, 45]


def test_tiresias_by_hand():
    # A falls after 50 GPU seconds, and B (new) overtakes it at once; B falls at 100, and A, who fell first, goes on
    jobs = [job("A", 0, 1, 100), job("B", 10, 1, 100)]
    assert ends(jobs, 1, "tiresias", levels=(50.0,)) == [150, 200]
    # D falls at 10 s and A at 20 s, behind D, who goes on; C, new, stops D for 8 s; then D, then A
    jobs = [job("D", 0, 1, 30), job("A", 1, 1, 30), job("C", 25, 1, 8)]
    assert ends(jobs, 1, "tiresias", levels=(10.0,)) == [48, 68, 33]
    # within a level nobody is stopped: X (2 GPUs) fell at 5 s, but first Y and then V of its level run, so it waits
    jobs = [job("X", 0, 2, 20), job("Y", 1, 1, 40), job("V", 10, 1, 60)]
    assert ends(jobs, 2, "tiresias", levels=(10.0,)) == [85, 45, 70]


def test_themis_by_hand():
    # looked at every 10 s: the job that has had least for its age; one that has had none comes first
    jobs = [job("A", 0, 1, 20), job("B", 5, 1, 20)]
    assert ends(jobs, 1, "themis", refresh=10.0) == [40, 35]
    assert ends(jobs, 1, "themis-known", refresh=10.0) == [30, 40]


def test_fair_share_by_hand():
    # u1 has used the machine; of two jobs that wait, u2's goes first although it came later
    jobs = [job("A", 0, 1, 100, user="u1"), job("B", 1, 1, 10, user="u1"), job("C", 2, 1, 10, user="u2")]
    assert ends(jobs, 1, "slurm") == [100, 120, 110]
    assert ends(jobs, 1, "easy") == [100, 110, 120]


def test_places_by_leaf():
    # two leaves of two nodes of 4: an 8-GPU job goes under one leaf, also if nodes before it are idle
    machine = Machine(nodes=4, gpus_per_node=4, nodes_per_leaf=2)
    jobs = jobs_of([job("A", 0, 4, 100), job("B", 1, 8, 100), job("C", 2, 4, 100)])
    run = run_queue(jobs, machine, find_policy("easy"))
    assert run.span_node.tolist() == [0, 2, 1]
    assert run.span_reach.tolist() == [0, 1, 0]
    far = jobs_of([job("A", 0, 12, 100, slow=(0.9, 0.5))])
    assert run_queue(far, machine, find_policy("easy")).end[0] == 200.0


def test_speed_follows_place():
    machine = Machine(nodes=2, gpus_per_node=4)
    wide = jobs_of([job("A", 0, 8, 90, slow=(0.9, 0.5))])
    assert run_queue(wide, machine, find_policy("fifo")).end[0] == pytest.approx(100.0)


def test_orders_and_their_numbers_agree():
    for number, name in enumerate(ORDERS):
        assert Policy(name="x", says="", order=name).rules(8).order == number
        # each order is told apart from the one before it
    assert len({policy.name for policy in POLICIES}) == len(POLICIES)


def test_bad_policies_and_machines():
    with pytest.raises(PodsimError, match=r"did you mean.*easy") as said:
        find_policy("eazy")
    assert "fifo" in str(said.value)
    with pytest.raises(PodsimError, match=r"restart=-1.*backfill=easy plans"):
        find_policy("easy", restart=-1.0, preempt=True)
    with pytest.raises(PodsimError, match="levels"):
        find_policy("tiresias", levels=(5.0, 1.0))
    with pytest.raises(PodsimError, match=r"levels=\(5.0,\) need order='by level'"):
        find_policy("las", levels=(5.0,))
    with pytest.raises(PodsimError, match="conservative backfill decides"):
        find_policy("conservative", interval=60.0)
    with pytest.raises(ClusterError, match=r"nodes=0.*placement='worst'"):
        Machine(nodes=0, gpus_per_node=8, placement="worst")
    with pytest.raises(PodsimError, match=r"1 jobs need more than the 4 GPUs of the machine.*job A: 9"):
        ends([job("A", 0, 9, 1)], 4, "fifo")
    with pytest.raises(PodsimError, match="speed must not depend on place"):
        run_queue(
            jobs_of([job("A", 0, 1, 1, slow=(0.9, 0.9))]),
            Machine(gpus_per_node=1),
            find_policy("srtf", moves=True),
        )


class Stopped(Exception):
    """Somebody has had enough."""


def test_a_run_tells_how_far_it_is_and_can_be_stopped() -> None:
    jobs = read_jobs("philly-3")
    told: list[tuple[int, int]] = []
    run_queue(jobs, Machine(gpus_per_node=64), find_policy("srtf"), progress=lambda *both: told.append(both))
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1] == (992, 992)

    def stop(done: int, whole: int) -> None:
        assert done < whole
        raise Stopped

    with pytest.raises(Stopped):  # as Ctrl-C does, which is heard between two calls of the kernel
        run_queue(jobs, Machine(gpus_per_node=64), find_policy("conservative"), progress=stop)
    counted: list[tuple[int, int]] = []
    podsim.queue("philly-3", on="64", policy=["fifo", "sjf"], progress=lambda *both: counted.append(both))
    assert counted == sorted(counted)
    assert counted[-1] == (2 * 992, 2 * 992)
