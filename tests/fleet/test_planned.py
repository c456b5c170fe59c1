"""Jobs that know their plan: slower across nodes and leaves, longer on fewer GPUs."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PlanError, PodsimError
from podsim.fleet.jobs import jobs_of
from podsim.fleet.planned import placed_step_seconds, planned_job, reduce_replicas
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue

MODEL = podsim.load_model("llama-3.1-8b")
SELENE = podsim.load_cluster("selene")


def plan(**fields):
    return podsim.Plan(**({"tp": 8, "dp": 1, "global_batch": 64, "zero": 1, "sequence": 4096} | fields))


def test_across_nodes_and_leaves():
    one, more, far = placed_step_seconds(MODEL, SELENE, plan())
    assert one < more <= far  # tensor parallelism over adapters instead of NVLink
    same, wide, tapered = placed_step_seconds(MODEL, SELENE, plan(dp=4), taper=0.25)
    assert same == wide < tapered
    assert placed_step_seconds(MODEL, SELENE, plan(dp=4))[0] == podsim.predict(
        "llama-3.1-8b", on="selene", gpus=32, tp=8, dp=4, batch=64, zero=1, sequence=4096
    ).step_time  # fmt: skip


def test_the_queue_runs_it_at_that_speed():
    job = planned_job("a", MODEL, SELENE, plan(dp=4), steps=100, taper=0.25)
    _, _, far = placed_step_seconds(MODEL, SELENE, plan(dp=4), taper=0.25)
    for per_leaf, seconds in ((4, job.seconds), (2, far * 100)):
        machine = Machine(nodes=4, gpus_per_node=8, nodes_per_leaf=per_leaf)
        assert run_queue(jobs_of([job]), machine, find_policy("easy")).end[0] == pytest.approx(seconds)


def test_on_fewer_gpus():
    long = planned_job("a", MODEL, SELENE, reduce_replicas(plan(dp=4), 16), steps=100)
    short = planned_job("a", MODEL, SELENE, plan(dp=4), steps=100)
    assert long.gpus == 16
    assert 1.5 < long.seconds / short.seconds < 2.2
    with pytest.raises(PlanError, match="one replica takes 8; 8, 16, 32 would work"):
        reduce_replicas(plan(dp=4), 12)


def test_bad_input():
    with pytest.raises(PodsimError, match="steps=0, taper=2"):
        planned_job("a", MODEL, SELENE, plan(), steps=0, taper=2.0)
    with pytest.raises(PlanError, match="tp=3"):
        planned_job("a", MODEL, SELENE, plan(tp=3), steps=1)
