"""Plans that no published run has say so, with what the usual choice would give."""

from __future__ import annotations

import pytest

import podsim


def said(model: str, **plan: object) -> list[str]:
    warnings = podsim.predict(model, on="dgx-h100:4", **plan).warnings
    return [text for text in warnings if "no published run" in text]


def test_tensor_parallelism_beyond_a_node_has_the_step_within_it() -> None:
    (text,) = said("llama-2-7b", tp=16, sequence_parallel=True, batch=64)
    inside = podsim.predict("llama-2-7b", on="dgx-h100:4", tp=8, dp=4, sequence_parallel=True, batch=64)
    assert text.startswith("tp 16 leaves the node of 8 GPUs")
    assert podsim.units.format_quantity(inside.step_time, "s") in text


def test_a_short_sequence_in_parts_has_the_step_in_one() -> None:
    (text,) = said("gpt-22b", tp=8, cp=2, batch=64)
    assert "cp 2 divides a sequence of 2048 tokens" in text


def test_experts_on_every_gpu_need_a_reason() -> None:
    (text,) = said("deepseek-v3", tp=8, pp=2, batch=64)
    assert "ep 1 keeps all 256 experts" in text


@pytest.mark.parametrize("plan", [{"tp": 8}, {"tp": 4, "pp": 2}])
def test_usual_plans_need_none(plan: dict[str, int]) -> None:
    assert said("llama-2-13b", batch=64, **plan) == []
