"""Elastic jobs: their speeds, the division of GPUs by goodput, and elastic against rigid."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError
from podsim.fleet.elastic import elastic_jobs, goodput_rates
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.operations import Operations
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.traces import read_jobs

MACHINE = Machine(nodes=8, gpus_per_node=8)


def elastic(jobs, machine, factor=4.0, scaling=0.9, **changes):
    jobs = elastic_jobs(jobs, factor, scaling, np.full(len(jobs), machine.gpus))
    return run_queue(jobs, machine, find_policy("elastic", **changes))


def test_jobs_that_cannot_change_are_those_of_tiresias():
    jobs = read_jobs("philly-3")
    same = elastic(jobs, MACHINE, factor=1.0, refresh=0.0)
    assert np.array_equal(same.end, run_queue(jobs, MACHINE, find_policy("tiresias")).end)


def test_sizes_by_hand():
    one = Machine(gpus_per_node=8)
    # alone, A takes 8 GPUs, twice what it asks for, and is 2 * 0.9 times as fast
    alone = elastic(jobs_of([Job(id="A", submit=0, gpus=4, seconds=180)]), one)
    assert alone.end[0] == pytest.approx(100.0)
    assert alone.span_size.tolist() == [8]
    # after its lease it gives half of them to B, and loads again for 10 s: 72 s are left
    both = [Job(id="A", submit=0, gpus=4, seconds=180), Job(id="B", submit=60, gpus=4, seconds=500)]
    run = elastic(jobs_of(both), one, lease=60.0, restart=10.0)
    assert run.end[0] == pytest.approx(60 + 10 + 72)
    assert sorted(run.span_size.tolist())[:3] == [4, 4, 8]


@pytest.mark.parametrize("trace", ["philly-1", "philly-3", "philly-4"])
def test_elastic_is_faster_than_rigid_in_the_same_order(trace):
    jobs = read_jobs(trace)
    rigid = run_queue(jobs, MACHINE, find_policy("tiresias", restart=60.0))
    free = elastic(jobs, MACHINE, restart=60.0)
    assert (free.end - jobs.submit).mean() < (rigid.end - jobs.submit).mean()
    assert free.end.max() < 1.01 * rigid.end.max()
    held = np.bincount(free.span_job, free.span_size * (free.span_end - free.span_start))
    assert (held < 1.0001 * MACHINE.gpus * free.end.max()).all()


def test_failures_favour_fewer_gpus():
    jobs = jobs_of([Job(id="A", submit=0, gpus=64, seconds=1e6)])
    jobs = elastic_jobs(jobs, 16, 0.95, np.array([4096]))
    policy = find_policy("elastic", saves=3600.0, restart=600.0)
    calm, rough = (goodput_rates(jobs, policy, Operations(rate=rate / 86400), 8)[0] for rate in (0.0, 0.5))
    assert calm.argmax() == 8
    assert rough.argmax() < 8
    # twice the 64 GPUs are 16 nodes, each of which fails every second day and costs 10 minutes and half an hour
    assert calm[5] == pytest.approx(2 * 0.95)
    assert rough[5] == pytest.approx(2 * 0.95 * (1 - 16 * 0.5 / 86400 * 2400))


def test_speeds_of_models_are_predicted(tmp_path):
    path = tmp_path / "planned.csv"
    plan = "tp=8 dp=2 batch=64 zero=1"
    path.write_text(
        f"id,submit,model,plan,steps,gpus,seconds\na,0,llama-3.1-8b,{plan},500,,\nb,1,,,,8,3600\n", "utf-8"
    )
    rigid, free = podsim.queue(str(path), on="selene:8", elastic=4, policy=["easy", "elastic"]).runs
    assert free.makespan < rigid.makespan
    assert 1.0 < rigid.jct[0] / free.jct[0] < 4.0


def test_wrong_input():
    with pytest.raises(PodsimError, match=r"elastic=40.*elastic is 1 to 16"):
        podsim.queue("philly-3", on="8x8", elastic=40)
    with pytest.raises(PodsimError, match=r"scaling=0.4"):
        podsim.queue("philly-3", on="8x8", elastic=4, scaling=0.4)
    with pytest.raises(PodsimError, match="no job is elastic; say how far, as --elastic 4"):
        podsim.queue("philly-3", on="8x8", policy=["elastic"])
