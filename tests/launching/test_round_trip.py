"""Every legal plan that a tool can run comes back from what is written for it; what it cannot run is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice

import pytest
from made_launches import jobs, known_cluster, known_model, written

import podsim as api
from podsim.errors import PlanError
from podsim.hardware.cluster import load_cluster
from podsim.launching.job import Job, effective
from podsim.launching.tools import TOOLS, emit, guess, read
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

QUICK = 20
PLANS = int(os.environ.get("PODSIM_PLANS", str(QUICK)))


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_written_is_read_back(tool: str) -> None:
    """PODSIM_PLANS plans that a tool can run: each comes back field by field, and so does its prediction."""
    for number, (job, text) in enumerate(written(tool, PLANS)):
        assert guess(text) == tool
        reading = read(text, layers=job.model.layer_count)
        assert reading.plan == job.plan.having({"sequence": job.plan.length(job.model)})
        assert reading.gpus == job.plan.gpus
        if number == 0 or PLANS > QUICK:
            again = predict_plan(job.model, job.cluster, reading.plan)
            assert again == replace(predict_plan(job.model, job.cluster, job.plan), plan=again.plan)


@pytest.mark.parametrize("tool", ["torchtitan", "slurm"])
def test_torchtitan_plans_come_back_with_their_software(tool: str) -> None:
    plan = Plan(
        tp=4, dp=16, zero=3, shard=4, global_batch=64, sequence_parallel=True, precision="fp8",
        software="torchtitan-2024-rowwise", recompute="selective", sequence=8192,
    )  # fmt: skip
    model = known_model("llama-3.1-8b")
    job = Job(model=model, cluster=known_cluster(64), plan=plan)
    assert read(emit(job, tool).text).plan == plan


def test_effective_plans_cost_the_same() -> None:
    for job in islice(jobs("megatron"), PLANS):
        plan = predict_plan(job.model, job.cluster, job.plan)
        other = predict_plan(job.model, job.cluster, effective(job.plan, job.model))
        assert other.memory == pytest.approx(plan.memory, rel=1e-9)
        assert other.step_time == pytest.approx(plan.step_time, rel=1e-9)


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "gpt3-175b", "mixtral-8x7b", "llama-3.1-70b", "deepseek-v3", "gpt2"]
)
def test_the_shape_of_a_model_comes_back(name: str) -> None:
    model = known_model(name)
    job = Job(model=model, cluster=known_cluster(8), plan=Plan(dp=8, global_batch=8))
    found = read(emit(job, "torchrun").text)
    again = build(Transformer(name="again", **found.model))  # type: ignore[arg-type]
    assert again.parameters == pytest.approx(model.parameters, rel=2e-3)
    assert again.forward_flops() == pytest.approx(model.forward_flops())


@pytest.mark.parametrize(
    ("tool", "asked"), [("slurm", "--gres=gpu:a100_3g.20gb:1"), ("kubernetes", "nvidia.com/mig-3g.20gb: '1'")]
)
def test_a_plan_on_an_instance_asks_for_that_instance(tool: str, asked: str) -> None:
    model, cluster = known_model("llama-3.1-8b"), load_cluster("a100-40gb/3g.20gb")
    made = emit(Job(model=model, cluster=cluster, plan=Plan(global_batch=8)), tool)
    assert asked in made.text
    assert "gpus-per-node" not in made.text
    assert "nvidia.com/gpu" not in made.text
    assert "--exclusive" not in made.text
    found = read(made.text)
    assert (found.gpus, found.plan.global_batch) == (1, 8)


def test_only_a_job_of_whole_nodes_has_them_alone() -> None:
    model = known_model("llama-3.1-8b")
    half, whole = (
        emit(Job(model=model, cluster=known_cluster(gpus), plan=Plan(dp=gpus, global_batch=gpus)), "slurm")
        for gpus in (4, 16)
    )
    assert "--exclusive" in whole.text
    assert "--mem=0" in whole.text
    assert "--exclusive" not in half.text
    assert "--mem=0" not in half.text
    assert "--gpus-per-node=4" in half.text
    assert any("--mem-per-gpu" in note for note in half.notes)


@pytest.mark.parametrize("tool", ["axolotl", "nemo", "accelerate", "deepspeed"])
def test_adapters_come_back(tool: str) -> None:
    plan = {"on": "dgx-h100:1", "batch": 64, "recompute": "full"}
    made = api.launch("llama-3.1-8b", tool=tool, train="lora:8", zero=0 if tool == "nemo" else 3, **plan)
    assert read(made.text, gpus=8).names["train"] == "lora:8"
    with pytest.raises(PlanError, match="can be written for"):
        api.launch("llama-3.1-8b", tool="megatron", train="lora:8", **plan)


def test_adapters_are_read_from_the_keys() -> None:
    made = api.launch("llama-3.1-8b", tool="axolotl", train="qlora:8", on="dgx-h100:1", batch=64, zero=3)
    assert "load_in_4bit: true" in made.text
    assert read(made.text.replace("lora_r: 8", "lora_r: 32")).names["train"] == "qlora:32"
