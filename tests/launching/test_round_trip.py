"""Every legal plan that a tool can run comes back from what is written for it; what it cannot run is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.launching.job import Job, effective, is_started
from podsim.launching.tools import TOOLS, emit, guess, read
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.training.software import software_names
from podsim.workload.catalog import load_model
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

MODELS = ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3")
QUICK = 20
PLANS = int(os.environ.get("PODSIM_PLANS", str(QUICK)))
TITAN = ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "deepseek-v3")
KNOWN = {"torchtitan": TITAN, "torchtitan-python": TITAN}
"""models that a tool of few models has"""


@cache
def _model(name: str) -> Model:
    return load_model(name)


@cache
def _cluster(gpus: int) -> Cluster:
    return load_cluster("superpod-h100:2su").subset(gpus)


def _tame(tool: str, plan: Plan) -> dict[str, object]:
    """Values that a tool can run, for the fields on which it is strictest."""
    if tool in ("megatron", "nemo"):
        return {"optimizer_precision": "fp32"}
    tame = {"optimizer_precision": "fp32", "recompute_layers": 0, "precision": "bf16", "flash": True}
    alone = plan.dp * plan.cp == 1
    if tool == "deepspeed":
        over = {"overlap_tp": False, "overlap_param": plan.zero == 3, "cp": 1, "ep": 1, "shard": 0}
        return tame | over | {"sequence_parallel": False, "recompute": "full"}
    overlapped = {"overlap_grad": True, "overlap_param": True}
    if tool in ("accelerate", "axolotl"):
        over = {
            "overlap_tp": False,
            "pp": 1,
            "virtual_stages": 1,
            "ep": 1,
            "sequence_parallel": False,
            "schedule": "1f1b",
        }
        zero = 0 if alone else 3 if plan.zero == 1 or plan.tp * plan.cp > 1 else plan.zero
        recompute = "none" if zero == 0 else "full"
        del tame["flash"]
        return tame | overlapped | over | {"zero": zero, "shard": 0, "recompute": recompute}
    if tool == "maxtext":
        own = "1f1b" if plan.pp == 1 else "gpipe" if plan.virtual_stages == 1 else "breadth-first"
        zero = 0 if alone else 3 if plan.zero == 2 or plan.cp * plan.ep > 1 else plan.zero
        return overlapped | {
            "optimizer_precision": "fp32",
            "recompute_layers": 0,
            "overlap_tp": False,
            "schedule": own,
            "zero": zero,
            "shard": 0,
        }
    return tame | overlapped | {
        "sequence_parallel": plan.tp > 1, "zero": 3 if plan.zero == 1 or plan.pp * plan.tp > 1 else plan.zero,
        "precision": "fp8" if "row" in plan.software else "bf16",
    }  # fmt: skip


@cache
def _software(tool: str) -> list[str]:
    """The software that a tool starts, its own first."""
    eras = TOOLS[tool].eras
    return [eras[0], *(name for name in software_names() if is_started(name, eras))]


def jobs(tool: str, models: tuple[str, ...] = MODELS) -> Iterator[Job]:
    """Endless legal plans, with all fields drawn, on just the GPUs that they need; the same ones every time."""
    dice = Random(f"plans of {tool}")
    while True:
        model = _model(dice.choice(models))
        tp, pp, cp = dice.choice((1, 2, 8)), dice.choice((1, 2, 3, 4, 6)), dice.choice((1, 1, 2))
        dp, chunks = dice.choice((1, 2, 4, 8)), dice.choice((1, 1, 2, 3)) if pp > 1 else 1
        gpus = tp * pp * cp * dp
        if gpus > 512 or (gpus > 8 and gpus % 8):
            continue
        micro, zero = dice.choice((1, 2, 4)), dice.choice((0, 1, 2, 3) if pp == 1 else (0, 1, 3))
        plan = Plan(
            tp=tp, pp=pp, cp=cp, dp=dp, virtual_stages=chunks, ep=dice.choice((1, 2)), micro_batch=micro, zero=zero,
            global_batch=dp * micro * pp * dice.choice((1, 2, 4)),
            sequence_parallel=tp > 1 and dice.random() < 0.5, shard=dice.choice((0, 0, 1, dp * cp, 2)) if zero else 0,
            recompute=dice.choice(("none", "selective", "full")), recompute_layers=dice.choice((0, 0, 1, 2)),
            schedule="interleaved" if chunks > 1 else dice.choice(("1f1b", "1f1b", "gpipe")),
            flash=dice.random() < 0.5, overlap_grad=dice.random() < 0.5, overlap_param=dice.random() < 0.5,
            overlap_tp=dice.random() < 0.5, precision=dice.choice(("bf16", "bf16", "fp16", "fp32", "fp8", "tf32")),
            optimizer_precision=dice.choice(("fp32", "fp32", "bf16", "fp8")), software=dice.choice(_software(tool)),
            sequence=dice.choice((0, 4096)),
        )  # fmt: skip
        if dice.random() < 0.75:
            plan = plan.having(_tame(tool, plan))
        cluster = _cluster(gpus)
        if not plan.problems(model, cluster):
            yield Job(model=model, cluster=cluster, plan=plan, mounts=("/lustre:/data",), partition="batch")


def written(tool: str, count: int) -> Iterator[tuple[Job, str]]:
    """The first plans that a tool can run, and what is written for them."""
    for job in islice(jobs(tool, KNOWN.get(tool, MODELS)), 100 * count):
        with suppress(PlanError):
            yield job, emit(job, tool).text
            count -= 1
        if not count:
            return
    pytest.fail("too few plans could be written: the test shows little")


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
def test_torchtitan_plans_come_back_to_the_era(tool: str) -> None:
    plan = Plan(
        tp=4, dp=16, zero=3, shard=4, global_batch=64, sequence_parallel=True, precision="fp8",
        software="torchtitan-2024-rowwise", recompute="selective", sequence=8192,
    )  # fmt: skip
    model = _model("llama-3.1-8b")
    job = Job(model=model, cluster=_cluster(64), plan=plan)
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
    model = _model(name)
    job = Job(model=model, cluster=_cluster(8), plan=Plan(dp=8, global_batch=8))
    found = read(emit(job, "torchrun").text)
    again = build(Transformer(name="again", **found.model))  # type: ignore[arg-type]
    assert again.parameters == pytest.approx(model.parameters, rel=2e-3)
    assert again.forward_flops() == pytest.approx(model.forward_flops())


@pytest.mark.parametrize(
    ("tool", "asked"), [("slurm", "--gres=gpu:a100_3g.20gb:1"), ("kubernetes", "nvidia.com/mig-3g.20gb: '1'")]
)
def test_a_plan_on_an_instance_asks_for_that_instance(tool: str, asked: str) -> None:
    model, cluster = _model("llama-3.1-8b"), load_cluster("a100-40gb/3g.20gb")
    made = emit(Job(model=model, cluster=cluster, plan=Plan(global_batch=8)), tool)
    assert asked in made.text
    assert "gpus-per-node" not in made.text
    assert "nvidia.com/gpu" not in made.text
    assert "--exclusive" not in made.text
    found = read(made.text)
    assert (found.gpus, found.plan.global_batch) == (1, 8)


def test_only_a_job_of_whole_nodes_has_them_alone() -> None:
    model = _model("llama-3.1-8b")
    half, whole = (
        emit(Job(model=model, cluster=_cluster(gpus), plan=Plan(dp=gpus, global_batch=gpus)), "slurm")
        for gpus in (4, 16)
    )
    assert "--exclusive" in whole.text
    assert "--mem=0" in whole.text
    assert "--exclusive" not in half.text
    assert "--mem=0" not in half.text
    assert "--gpus-per-node=4" in half.text
    assert any("--mem-per-gpu" in note for note in half.notes)
