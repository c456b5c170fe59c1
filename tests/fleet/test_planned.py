"""Jobs that know their plan: slower across nodes and leaves, longer on fewer GPUs."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PlanError
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.planned import placed_step_seconds, reduce_replicas
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue

MODEL = podsim.load_model("llama-3.1-8b")
SELENE = podsim.load_cluster("selene")


def plan(**fields):
    return podsim.Plan(**({"tp": 8, "dp": 1, "global_batch": 64, "zero": 1, "sequence": 4096} | fields))


def planned_job(plan, *, taper=1.0):
    """A job of 100 steps that knows its speed across nodes and leaves."""
    best, more, far = placed_step_seconds(MODEL, SELENE, plan, taper=taper)
    return Job(
        id="a",
        submit=0.0,
        gpus=int(plan.gpus),
        seconds=best * 100,
        slow=(min(best / more, 1.0), min(best / far, 1.0)),
    )


def test_across_nodes_and_leaves():
    one, more, far = placed_step_seconds(MODEL, SELENE, plan())
    assert one < more <= far  # tensor parallelism over adapters instead of NVLink
    same, wide, tapered = placed_step_seconds(MODEL, SELENE, plan(dp=4), taper=0.25)
    assert same == wide < tapered
    assert placed_step_seconds(MODEL, SELENE, plan(dp=4))[0] == podsim.predict(
        "llama-3.1-8b", on="selene", gpus=32, tp=8, dp=4, batch=64, zero=1, sequence=4096
    ).step_time  # fmt: skip


def test_the_queue_runs_it_at_that_speed():
    job = planned_job(plan(dp=4), taper=0.25)
    _, _, far = placed_step_seconds(MODEL, SELENE, plan(dp=4), taper=0.25)
    for per_leaf, seconds in ((4, job.seconds), (2, far * 100)):
        machine = Machine(nodes=4, gpus_per_node=8, nodes_per_leaf=per_leaf)
        assert run_queue(jobs_of([job]), machine, find_policy("easy")).end[0] == pytest.approx(seconds)


def test_on_fewer_gpus():
    long = planned_job(reduce_replicas(plan(dp=4), 16))
    short = planned_job(plan(dp=4))
    assert long.gpus == 16
    assert 1.5 < long.seconds / short.seconds < 2.2
    with pytest.raises(PlanError, match="one replica takes 8; 8, 16, 32 would work"):
        reduce_replicas(plan(dp=4), 12)


def test_bad_input():
    with pytest.raises(PlanError, match="tp=3"):
        planned_job(plan(tp=3))
