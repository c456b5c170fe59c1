from __future__ import annotations

import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.workload.model import Model


def test_all_problems_at_once(gpt3: Model, selene: Cluster) -> None:
    plan = Plan(tp=5, pp=200, dp=9, global_batch=7)
    found = plan.problems(gpt3, selene)
    assert any("tp=5 does not divide heads=96; tp may be 1, 2, 3, 4, 6, 8, 12" in text for text in found)
    assert any("at most 96" in text for text in found)
    assert any("5 x 200 x 9" in text or "9000 GPUs" in text for text in found)
    assert any("global_batch=7" in text for text in found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tp": 0}, "whole numbers from 1"),
        ({"tp": 5}, "does not divide heads=96"),
        ({"ep": 2}, "no experts"),
        ({"cp": 3}, "cp=3"),
        ({"sequence_parallel": True}, "tp must be 2 or more"),
        ({"schedule": "interleaved"}, "virtual_stages of 2 or more"),
        ({"virtual_stages": 2}, "interleaved needs"),
        ({"zero": 4}, "zero may be 0, 1, 2, 3"),
        ({"zero": 2, "pp": 2}, "zero=2 with pp=2"),
        ({"shard": 4}, "needs zero of 1 or more"),
        ({"recompute_layers": 3}, "under recompute=full"),
        ({"precision": "fp8"}, "this GPU trains in"),
        ({"precision": "int8"}, "this GPU trains in fp32, tf32, bf16, fp16"),
        ({"precision": "fp64"}, "this GPU trains in fp32, tf32, bf16, fp16"),
        ({"precision": "nonsense"}, "this GPU trains in"),
        ({"optimizer_precision": "x"}, "may be fp32"),
        ({"software": "x"}, "may be megatron"),
        ({"micro_batch": 3}, "dp x micro_batch may be"),
        ({"tp": 2.5}, "not a whole number"),
    ],
)
def test_each_rule_says_what_would_work(
    gpt3: Model, selene: Cluster, change: dict[str, object], said: str
) -> None:
    plan = Plan(**{"global_batch": 64, **change})  # type: ignore[arg-type]
    found = plan.problems(gpt3, selene)
    assert any(said in text for text in found), found
    with pytest.raises(PlanError):
        plan.check(gpt3, selene)


def test_unknown_words_are_errors() -> None:
    with pytest.raises(PlanError, match="recompute may be none, selective, full"):
        Plan(recompute="most")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="schedule may be gpipe, 1f1b, interleaved"):
        Plan(schedule="zigzag")  # type: ignore[arg-type]


def test_a_legal_plan_has_no_problems(gpt3: Model, selene: Cluster) -> None:
    assert Plan(tp=8, pp=8, dp=70, global_batch=70 * 24).problems(gpt3, selene) == []
