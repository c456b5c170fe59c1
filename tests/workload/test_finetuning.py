"""Fine-tuning: what is trained, kept and computed, by counting; and that training in full is as it was."""

import math
from typing import Any

import pytest
from click.testing import CliRunner

import podsim
from podsim.cli import app
from podsim.errors import ModelError, PlanError
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned
from podsim.workload.model import Model

MODEL = load_model("llama-3.1-8b", {"layers": "4"})


def predicted(train: str, **changes: Any) -> Any:
    given = {"on": "dgx-h100", "gpus": 8, "batch": 64, "overrides": {"model.layers": "4"}, **changes}
    return podsim.predict("llama-3.1-8b", train=train, **given)


def adapters(model: Model, rank: int) -> int:
    """Parameters of A and B on q, k, v, o, gate, up and down (Hu et al. 2021: r (inner + outer) each)."""
    hidden, keys, inner = 4096, 1024, 14336
    sizes = [(hidden, hidden), (hidden, keys), (hidden, keys), (hidden, hidden), *[(hidden, inner)] * 3]
    return model.layer_count * sum(rank * sum(pair) for pair in sizes)


def test_adapters_of_a_whole_network() -> None:
    """PEFT prints 41,943,040 trainable parameters of Llama 3.1 8B with rank 16 on all linear layers."""
    assert adapters(load_model("llama-3.1-8b"), 16) == 41_943_040


def test_lora_trains_its_adapters_alone() -> None:
    tuned = fine_tuned(MODEL, "lora:16")
    assert tuned.trained_parameters == adapters(MODEL, 16)
    assert tuned.parameters == MODEL.parameters + adapters(MODEL, 16)
    assert fine_tuned(MODEL, "full") is MODEL


def test_adapters_stand_beside_each_product() -> None:
    """Of rank 16 at a width of 4,096: queries, keys and values have three A side by side, gate and up two; B one each."""
    ops = {op.name: op for block in fine_tuned(MODEL, "lora:16").layers for op in block.ops}
    for name, matrices, inner, outer in (
        ("attention.qkv", 3, 4096, 4096 + 2 * 1024), ("mlp.up", 2, 4096, 2 * 14336), ("mlp.down", 1, 14336, 4096),
    ):  # fmt: skip
        first, second = ops[f"{name}.lora_a"], ops[f"{name}.lora_b"]
        assert (first.n, first.k, first.weight) == (16 * matrices, inner, 16 * matrices * inner)
        assert (second.n, second.k, second.weight) == (outer, 16, 16 * outer)
        assert second.saved[0].elements == 16 * matrices
        assert (ops[name].gradient, first.gradient, first.saved) == ("input", "both", ())


def test_memory_of_adapters_is_counted() -> None:
    """Frozen weights in 16 bits or QLoRA's 4.127; gradients, fp32 masters and moments of the adapters alone."""
    full, lora, qlora = (predicted(train).memory_kinds for train in ("full", "lora:16", "qlora:16"))
    trained = adapters(MODEL, 16)
    assert lora["weights"] == pytest.approx(2 * (MODEL.parameters + trained))
    assert lora["gradients"] == pytest.approx(full["gradients"] * trained / MODEL.parameters)
    assert lora["optimizer"] == pytest.approx(12 * trained)
    inside = sum(op.weight for block in MODEL.layers for op in block.ops * block.count if op.kind == "gemm")
    assert lora["weights"] - qlora["weights"] == pytest.approx(inside * (2 - 4.127 / 8))


def test_a_step_without_gradients_of_weights_is_shorter() -> None:
    full, lora, frozen = (predicted(train).step_time for train in ("full", "lora:16", "frozen:3"))
    assert 0.6 * full < lora < 0.85 * full
    assert frozen < lora
    assert predicted("qlora:16").step_time > lora


def test_frozen_layers_have_no_backward_pass() -> None:
    tuned = fine_tuned(MODEL, "frozen:3")
    passive, trained = tuned.layers
    assert (passive.count, passive.is_reached, trained.count, trained.is_reached) == (3, False, 1, True)
    layer = MODEL.layers[0].parameters // 4
    assert tuned.trained_parameters == layer + MODEL.head.parameters
    kept = [predicted(train).memory_kinds["activations"] for train in ("full", "frozen:1", "frozen:3")]
    assert kept[1] - kept[2] == pytest.approx(2 * (kept[0] - kept[1]), rel=0.02)


def test_preference_training_passes_the_reference_forward() -> None:
    """Four forward passes' worth of work for three: the policy's, and one of the reference, which keeps nothing."""
    full, dpo = predicted("full"), predicted("dpo")
    assert 1.1 * full.step_time < dpo.step_time < 1.45 * full.step_time
    shared, own = fine_tuned(MODEL, "dpo+lora:8"), fine_tuned(MODEL, "dpo")
    assert shared.parameters == fine_tuned(MODEL, "lora:8").parameters
    assert own.trained_parameters == MODEL.parameters < own.parameters


@pytest.mark.parametrize("train", ["lora:16", "qlora:8", "frozen:2", "dpo", "dpo+lora:4"])
@pytest.mark.parametrize("name", ["deepseek-v3", "gpt2", "t5-3b", "mixtral-8x7b"])
def test_every_family_is_planned(name: str, train: str) -> None:
    model = fine_tuned(load_model(name), train)
    assert 0 < model.trained_parameters <= model.parameters
    assert 0 < model.passes < 3 + (train == "full")


def test_a_search_fine_tunes() -> None:
    result = podsim.plan("gpt2", on="dgx-h100", gpus=8, batch=64, train="lora:4", top=1)
    assert result.ranked[0].prediction.training is None  # no number of tokens is usual
    run = podsim.predict("gpt2", on="dgx-h100", gpus=8, batch=64, train="lora:4", tokens="10M").training
    assert run is not None
    assert run.tokens == pytest.approx(10e6, rel=0.1)
    assert result.ranked[0].prediction.memory_kinds["optimizer"] < 1e8


@pytest.mark.parametrize(
    "text", ["lora:0", "lora:x", "adapter", "frozen", "full:3", "frozen:4", "lora:99999", ""]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="train="):
        fine_tuned(MODEL, text)


def test_tools_that_train_in_full_refuse() -> None:
    with pytest.raises(PlanError, match="train=lora:16"):
        podsim.launch("llama-3.1-8b", on="dgx-h100", gpus=8, zero=3, train="lora:16", tool="slurm")
    recipe = podsim.launch("llama-3.1-8b", on="dgx-h100", gpus=8, zero=3, train="lora:16")
    assert any("LoraConfig(r=16" in note for note in recipe.notes)


def test_jobs_follow_each_other() -> None:
    common = {"model": "gpt2", "on": "dgx-h100", "gpus": 8, "batch": 64, "question": "predict"}
    designs = [{"name": "first", "tokens": "1G"}, {"name": "second", "tokens": "100M", "train": "lora:4"}]
    chain = podsim.study({"order": "sequential", "question": "predict", "common": common, "design": designs})
    first, second = chain.rows
    assert first.start == 0.0
    assert second.start == first.end
    assert chain.duration == second.end
    assert math.isclose(chain.cost or 0.0, (first.cost or 0.0) + (second.cost or 0.0))


def test_the_utilisation_of_adapters_says_what_it_counts() -> None:
    """Frozen weights take 4 FLOPs a token instead of 6, attention's products no fewer."""
    told = podsim.predict("llama-3.1-8b", on="dgx-h100:1", train="lora:16")
    assert 4.0 < told.parameter_flops < 5.0
    peak = 8 * 989.4e12
    counted = told.tokens_per_second * told.parameter_flops * 8.03e9 / peak
    assert told.mfu_6pd == pytest.approx(counted, rel=0.01)
    shown = (
        CliRunner()
        .invoke(app, ["predict", "llama-3.1-8b", "--on", "dgx-h100:1", "--train", "lora:16"])
        .output
    )
    assert f"({told.parameter_flops:.3g} x parameters)" in shown
