"""Every legal plan that a tool can run comes back from what is written for it; what it cannot run is refused."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.launching.job import Job, effective
from podsim.launching.tools import TOOLS, emit, guess, read
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

MODELS = ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3")
KNOWN = {"torchtitan": ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "deepseek-v3")}
"""models that a tool of few models has"""


@cache
def _model(name: str) -> Model:
    return load_model(name)


@cache
def _cluster(gpus: int) -> Cluster:
    return load_cluster("superpod-h100:2su").subset(gpus)


def _of(*values: int) -> st.SearchStrategy[int]:
    return st.sampled_from(values)


def _tame(tool: str, plan: Plan) -> dict[str, object]:
    """Values that a tool can run, for the fields on which it is strictest."""
    if tool == "megatron":
        return {"optimizer_precision": "fp32"}
    tame = {"optimizer_precision": "fp32", "recompute_layers": 0, "precision": "bf16", "flash": True}
    if tool == "deepspeed":
        over = {"overlap_tp": False, "overlap_param": plan.zero == 3, "cp": 1, "ep": 1, "shard": 0}
        return tame | over | {"sequence_parallel": False, "recompute": "full"}
    return tame | {
        "overlap_grad": True, "overlap_param": True, "sequence_parallel": plan.tp > 1,
        "zero": 3 if plan.zero == 1 or plan.pp * plan.tp > 1 else plan.zero,
        "precision": "fp8" if "row" in plan.software else "bf16",
    }  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn, tool: str, models: tuple[str, ...] = MODELS) -> Job:
    """A legal plan, with all fields drawn, on just the GPUs that it needs."""
    model = _model(draw(st.sampled_from(models)))
    tp, pp, cp, dp = draw(_of(1, 2, 8)), draw(_of(1, 2, 3, 4, 6)), draw(_of(1, 1, 2)), draw(_of(1, 2, 4, 8))
    chunks = draw(_of(1, 1, 2, 3)) if pp > 1 else 1
    gpus = tp * pp * cp * dp
    assume(gpus <= 512 and (gpus < 8 or gpus % 8 == 0))
    micro = draw(_of(1, 2, 4))
    zero = draw(_of(0, 1, 2, 3) if pp == 1 else _of(0, 1, 3))
    plan = Plan(
        tp=tp, pp=pp, cp=cp, dp=dp, virtual_stages=chunks, ep=draw(_of(1, 2)), micro_batch=micro,
        global_batch=dp * micro * pp * draw(_of(1, 2, 4)), sequence_parallel=tp > 1 and draw(st.booleans()), zero=zero,
        shard=draw(_of(0, 0, 1, dp * cp, 2)) if zero else 0,
        recompute=draw(st.sampled_from(["none", "selective", "full"])), recompute_layers=draw(_of(0, 0, 1, 2)),
        schedule="interleaved" if chunks > 1 else draw(st.sampled_from(["1f1b", "1f1b", "gpipe"])),
        flash=draw(st.booleans()), overlap_grad=draw(st.booleans()), overlap_param=draw(st.booleans()),
        overlap_tp=draw(st.booleans()), precision=draw(st.sampled_from(["bf16", "bf16", "fp16", "fp32", "fp8", "tf32"])),
        optimizer_precision=draw(st.sampled_from(["fp32", "fp32", "bf16", "fp8"])),
        software=draw(st.sampled_from(TOOLS[tool].eras[:4])), sequence=draw(_of(0, 4096)),
    )  # fmt: skip
    if draw(st.integers(0, 3)):
        plan = plan.having(_tame(tool, plan))
    cluster = _cluster(gpus)
    assume(not plan.problems(model, cluster))
    return Job(model=model, cluster=cluster, plan=plan, mounts=("/lustre:/data",), partition="batch")


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_written_is_read_back(tool: str) -> None:
    written = 0

    @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(job=jobs(tool, KNOWN.get(tool, MODELS)))
    def holds(job: Job) -> None:
        nonlocal written
        try:
            made = emit(job, tool)
        except PlanError:
            return
        written += 1
        assert made.text
        assert guess(made.text) == tool
        silent = tool in ("megatron", "deepspeed")
        found = read(
            made.text, gpus=int(job.plan.gpus) if silent else None, layers=job.model.layer_count,
            sequence=job.plan.length(job.model),
        )  # fmt: skip
        wanted = effective(job.plan, job.model)
        unsaid = {} if "torchtitan" in made.text or tool == "torchtitan" else {"software": wanted.software}
        if tool == "deepspeed":
            unsaid["flash"] = wanted.flash  # the training script's choice, as the notes say
        assert found.plan.having(unsaid) == wanted
        assert found.gpus == job.plan.gpus

    holds()
    assert written > 10, "hardly any plan could be written: the test shows little"


@pytest.mark.parametrize("tool", ["torchtitan", "slurm"])
def test_torchtitan_plans_come_back_to_the_era(tool: str) -> None:
    plan = Plan(
        tp=4, dp=16, zero=3, shard=4, global_batch=64, sequence_parallel=True, precision="fp8",
        software="torchtitan-2024-rowwise", recompute="selective", sequence=8192,
    )  # fmt: skip
    model = _model("llama-3.1-8b")
    job = Job(model=model, cluster=_cluster(64), plan=plan)
    assert read(emit(job, tool).text).plan == effective(plan, model)


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(job=jobs("megatron"))
def test_effective_plans_cost_the_same(job: Job) -> None:
    one = predict_plan(job.model, job.cluster, job.plan.having({"software": "megatron-core"}))
    other = predict_plan(
        job.model, job.cluster, effective(job.plan, job.model).having({"software": "megatron-core"})
    )
    assert other.memory == pytest.approx(one.memory, rel=1e-9)
    assert other.step_time == pytest.approx(one.step_time, rel=1e-9)


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
