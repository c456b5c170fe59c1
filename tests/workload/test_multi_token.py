"""Multi-token prediction against sums by hand (DeepSeek-V3, arXiv 2412.19437, section 2.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import ModelError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.launching.job import Job
from podsim.launching.tools import emit, read
from podsim.sharding.layer_graph import layer_graph
from podsim.training.batch import step_cost
from podsim.training.memory import KINDS
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.training.software import load_software
from podsim.workload.catalog import load_model
from podsim.workload.specification import Transformer, resolve
from podsim.workload.transformer import build

LLAMA = Transformer(
    name="small", layers=8, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, sequence=4096, gated=True,
    activation="silu", norm="rmsnorm", position="rope", qkv_bias=False, proj_bias=False, mlp_bias=False, tied=False,
)  # fmt: skip
H, F, V, S = 4096, 14336, 128256, 4096
LAYER = 2 * H * H + 2 * H * (H // 4) + 3 * H * F + 2 * H
"""Parameters of a layer: queries and output, keys and values of 8 of 32 heads, a gated MLP, two norms."""
MODULE = LAYER + 2 * H * H + 3 * H
"""Of a module: a layer, the projection of two widths to one, and three norms."""
HERE = load_cluster("dgx-h100:2")


def having(mtp: int, **changes: object) -> Transformer:
    return replace(LLAMA, mtp=mtp, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("mtp", [0, 1, 2, 3])
def test_each_module_has_a_layer_a_projection_and_norms(mtp: int) -> None:
    model, plain = build(having(mtp)), build(LLAMA)
    assert model.parameters - plain.parameters == mtp * MODULE
    assert (model.layer_count, model.order) == (plain.layer_count, plain.order)
    assert len(model.later) == mtp


def test_the_module_of_deepseek_v3_has_the_size_of_its_model_card() -> None:
    # 671 x 10^9 in the main model, and 14 x 10^9 in the module, whose files repeat embedding and head
    plain, model = load_model("deepseek-v3", {}), load_model("deepseek-v3", {"mtp": "1"})
    own = model.parameters - plain.parameters
    latent = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512
    experts = 257 * 3 * 7168 * 2048 + 256 * 7168 + 256
    assert own == latent + experts + 2 * 7168 * 7168 + 5 * 7168
    assert (own + 2 * 129280 * 7168) / 1e9 == pytest.approx(14, rel=0.05)
    assert plain.parameters / 1e9 == pytest.approx(671, rel=1e-3)


def test_each_module_computes_a_layer_a_projection_and_the_logits_again() -> None:
    model, plain = build(having(2)).forward_flops(), build(LLAMA).forward_flops()
    products = 2 * (2 * H * H + 2 * H * (H // 4) + 3 * H * F)
    assert model["gemm"] - plain["gemm"] == 2 * (products + 2 * 2 * H * H)
    assert model["attention"] - plain["attention"] == 2 * plain["attention"] / 8
    assert model["logits"] == 3 * plain["logits"] == 3 * 2 * H * V


def kinds(model: Transformer, plan: Plan) -> list[dict[str, float]]:
    cost = predict_plan(build(model), HERE, plan)
    return [dict(stage.kinds) for stage in cost.stages]


def test_the_last_stage_alone_holds_the_modules_and_a_copy_of_the_embedding() -> None:
    plan = Plan(tp=1, pp=4, dp=4, global_batch=32, micro_batch=1, software="megatron-core")
    plain, model = kinds(LLAMA, plan), kinds(having(1), plan)
    for before, after in zip(plain[:-1], model[:-1], strict=True):
        assert after == before
    held = (model[-1]["weights"] - plain[-1]["weights"]) / 2
    assert held == pytest.approx(MODULE + V * H, rel=1e-9)
    assert model[-1]["logits"] == pytest.approx(2 * plain[-1]["logits"])
    gradients = (model[-1]["gradients"] - plain[-1]["gradients"]) / (
        plain[-1]["gradients"] / plain[-1]["weights"]
    )
    assert gradients / 2 == pytest.approx(MODULE + V * H, rel=1e-9)


def test_one_stage_holds_no_copy_of_the_embedding() -> None:
    plan = Plan(tp=1, pp=1, dp=16, global_batch=16, micro_batch=1, software="megatron-core")
    (plain,), (model,) = kinds(LLAMA, plan), kinds(having(2), plan)
    assert (model["weights"] - plain["weights"]) / 2 == pytest.approx(2 * MODULE)


def test_a_module_keeps_the_activations_of_a_layer_and_of_its_ends() -> None:
    # beyond a layer's: two norms' and the projection's inputs (4 widths), the last norm's and the logits' (2), and fp32
    # softmax of the vocabulary; the lookup keeps an index
    plan = Plan(dp=16, global_batch=16, micro_batch=1, software="megatron-core")
    scale = load_software("megatron-core").activation_scale

    def activations(model: Transformer) -> float:
        return kinds(model, plan)[0]["activations"]

    layer = activations(replace(LLAMA, layers=9)) - activations(LLAMA)
    ends = S * ((2 * H + 2 * H + H) * 2 + 8) * scale + S * (H * 2 + V * 4)
    assert activations(having(1)) - activations(LLAMA) == pytest.approx(layer + ends, rel=0.01)


def test_full_recomputation_keeps_the_input_of_a_module() -> None:
    plan = Plan(dp=16, global_batch=16, micro_batch=1, recompute="full", software="megatron-core")
    more = kinds(having(1), plan)[0]["activations"] - kinds(LLAMA, plan)[0]["activations"]
    softmax, again = S * (H * 2 + V * 4), S * 20 * H
    assert S * H * 2 + softmax <= more <= S * H * 2 + softmax + again


@pytest.mark.parametrize("mtp", [1, 2])
def test_the_arithmetic_of_a_step_grows_as_its_flops(mtp: int) -> None:
    plan = Plan(dp=16, global_batch=64, micro_batch=4, software="megatron-core")

    def compute(model: Transformer) -> float:
        return predict_plan(build(model), HERE, plan).parts["compute"]

    flops = [sum(build(model).forward_flops().values()) for model in (having(mtp), LLAMA)]
    assert compute(having(mtp)) / compute(LLAMA) == pytest.approx(flops[0] / flops[1], rel=0.03)


def test_the_last_stage_slows_a_pipeline_by_the_module() -> None:
    plan = Plan(pp=4, dp=4, global_batch=256, micro_batch=1, software="megatron-core")
    wide = Plan(pp=1, dp=16, global_batch=256, micro_batch=1, software="megatron-core")
    steps = {
        (mtp, at): float(step_cost(build(having(mtp)), HERE, at).seconds[0])
        for mtp in (0, 1)
        for at in (plan, wide)
    }
    each = (steps[1, wide] - steps[0, wide]) / 16  # s of a module for one micro-batch
    assert steps[1, plan] - steps[0, plan] == pytest.approx(64 * each, rel=0.15)


def test_adapters_train_beside_the_products_of_a_module() -> None:
    from podsim.workload.finetuning import fine_tuned

    model, plain = fine_tuned(build(having(1)), "lora:8"), fine_tuned(build(LLAMA), "lora:8")
    assert model.trained_parameters > plain.trained_parameters * 9 / 8


@pytest.mark.parametrize("tool", ["megatron", "nemo", "slurm"])
@pytest.mark.parametrize("mtp", [0, 2])
def test_megatron_writes_and_reads_it(tool: str, mtp: int) -> None:
    plan = Plan(tp=2, dp=8, global_batch=16, sequence_parallel=True, software="megatron-core")
    job = Job(model=build(having(mtp)), cluster=HERE, plan=plan)
    text = emit(job, tool).text
    assert ("mtp" in text) == bool(mtp)
    reading = read(text, layers=8)
    assert reading.model["mtp"] == mtp
    assert not any("mtp" in said for said in (*reading.assumptions, *reading.ignored))


def test_an_uneven_pipeline_names_the_modules_of_its_last_stage() -> None:
    plan = Plan(pp=3, dp=8, global_batch=8, software="megatron-core")
    text = emit(Job(model=build(having(2)), cluster=load_cluster("dgx-h100:3"), plan=plan), "megatron").text
    assert "Et*3|t*3|t*2mmL" in text
    reading = read(text, layers=8)
    assert (reading.plan.pp, reading.model["mtp"]) == (3, 2)


def test_a_tool_without_it_says_so() -> None:
    plan = Plan(dp=16, global_batch=16, zero=3, software="torchtitan-2024")
    job = Job(model=load_model("llama-3.1-8b", {"mtp": "1"}), cluster=HERE, plan=plan)
    assert any("set mtp=1 yourself" in note for note in emit(job, "torchtitan").notes)


def test_what_has_no_logits_or_an_encoder_has_none() -> None:
    for changes in ({"lm_head": False}, {"encoder_layers": 4}):
        with pytest.raises(ModelError, match="mtp=1 needs a decoder alone"):
            resolve(having(1, **changes))
    with pytest.raises(PodsimError, match=r"model\.mtp=0"):
        layer_graph(build(having(1)), 4, load_software("megatron-core"))


def test_kinds_of_memory_stay_positive_in_every_depth() -> None:
    for mtp in (1, 4):
        cost = step_cost(
            build(having(mtp)), HERE, Plan(pp=2, tp=2, dp=4, global_batch=16, software="torchtitan-2024")
        )
        assert np.all(cost.kinds >= 0)
        assert cost.kinds.shape[0] == len(KINDS)
