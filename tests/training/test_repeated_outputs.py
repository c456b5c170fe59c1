"""Selective recomputation of the scope "outputs": DeepSeek-V3's own run on 2,048 H800."""

from dataclasses import replace

import numpy as np
import pytest

import podsim
from podsim.training.memory import activation_table
from podsim.training.pipeline_stages import repeated_inputs
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute
from podsim.training.software import load_software
from podsim.workload.catalog import load_model

RUN = {
    "on": "hgx-h800", "gpus": 2048, "batch": 15360, "pp": 16, "ep": 64, "zero": 1, "schedule": "dualpipe",
    "precision": "fp8", "optimizer_precision": "bf16", "software": "hai-llm",
}  # fmt: skip


def test_outputs_of_norms_activations_and_wide_latents_are_not_kept() -> None:
    block = load_model("deepseek-v3").layers[-1]
    dropped = {op.name for op in block.ops if id(op) in repeated_inputs(block) and op.saved}
    assert dropped == {
        "attention.q_down", "attention.q_up", "attention.kv_up", "attention.core", "moe.router", "moe.down",
        "moe.shared_down",
    }  # fmt: skip


def test_bytes_of_an_expert_layer_by_hand() -> None:
    """A token: bf16 inputs of norms, sums of 128 heads; in 8 bits attention's output, experts' inputs, gate and up."""
    by_hand = 2 * (2 * 7168 + 1536 + 512) + 16384 + 8 * 7168 + 9 * 4096 + 128 * 4
    model, plan = load_model("deepseek-v3"), Plan(global_batch=1, precision="fp8", ep=64, dp=64)
    kept = activation_table(model, plan.having({"global_batch": 64}).arrays(), load_software("hai-llm")).kept
    layer = kept[Recompute.SELECTIVE, -2, 0] / 4096
    assert layer == pytest.approx(by_hand, rel=1e-6)


def test_the_published_plan_fits_and_repeating_costs_a_few_percent() -> None:
    kept, again = (podsim.predict("deepseek-v3", **RUN, recompute=how) for how in ("none", "selective"))
    assert (kept.fits, again.fits) == (False, True)
    assert 1 < again.step_time / kept.step_time < 1.06


def test_other_scopes_are_as_they_were() -> None:
    software = replace(load_software("hai-llm"), selective="core")
    plan = Plan(global_batch=64, ep=64, dp=64).arrays()
    kept = activation_table(load_model("deepseek-v3"), plan, software).kept
    assert np.all(kept[Recompute.SELECTIVE] <= kept[Recompute.NONE])
