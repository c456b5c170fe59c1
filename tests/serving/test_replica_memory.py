"""Bytes of a served model by hand: stages that are not alike, the widest tensors of a step, and drafts."""

from __future__ import annotations

import pytest

from podsim.hardware.cluster import load_cluster
from podsim.serving.language_engines import load_language_engine
from podsim.serving.replica_memory import activation_bytes, fixed_bytes, stage_share
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.catalog import load_model

LLAMA, MIXTRAL = load_model("llama-2-7b"), load_model("mixtral-8x7b")


@pytest.mark.parametrize(("stages", "fullest"), [(1, 32), (3, 11), (5, 7), (6, 6), (7, 5), (32, 1)])
def test_the_fullest_stage_has_a_whole_number_of_32_layers(stages: int, fullest: int) -> None:
    assert stage_share(LLAMA, ServingPlan(engine="vllm", pipeline=stages)) == fullest / 32


@pytest.mark.parametrize("tensor", [1, 2])
def test_the_widest_product_of_a_mixture_makes_a_copy_for_each_of_its_two_experts(tensor: int) -> None:
    """Gate and up projections of 14,336 each for two experts, in and out, beside two states of 4,096; fp32 logits."""
    plan = ServingPlan(engine="vllm", tensor=tensor)
    tensors = 2 * (2 * 2 * 14336) / tensor + 2 * 4096
    assert activation_bytes(MIXTRAL, plan, 512.0, 64.0) == 2 * 512 * tensors + 4 * 64 * 32000 / tensor


def test_a_draft_model_is_held_in_16_bits_beside_weights_of_8() -> None:
    engine = load_language_engine("vllm", load_cluster("h100").gpu)
    alone, drafted = (
        fixed_bytes(LLAMA, ServingPlan(engine="vllm", precision="fp8", **more), engine, 512.0, 64.0)
        for more in ({}, {"draft": "gpt2", "draft_tokens": 4})
    )
    layers, tables = 12 * (12 * 768**2 + 13 * 768) + 2 * 768, (50257 + 1024) * 768  # the head is the table
    assert drafted - alone == pytest.approx(2 * (layers + tables), rel=1e-9)
