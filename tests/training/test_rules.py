from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import PlanOptions
from podsim.training.plan import Plan, read_plan
from podsim.training.rules import RULES, Facts, facts, problems, violations
from podsim.workload.catalog import load_model
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


@pytest.mark.parametrize("value", [2.0, True, "2"])
def test_degrees_are_whole_numbers(value: object) -> None:
    with pytest.raises(PlanError, match=f"tp={value!r} is not a whole number"):
        read_plan(PlanOptions(model="gpt2", on="dgx-a100-80gb:1", tp=value))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="tp=0"):
        read_plan(PlanOptions(model="gpt2", on="dgx-a100-80gb:1", tp=0))


def test_unknown_words_are_errors() -> None:
    with pytest.raises(PlanError, match="recompute may be none, selective, full"):
        Plan(recompute="most")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="schedule may be gpipe, 1f1b, interleaved"):
        Plan(schedule="zigzag")  # type: ignore[arg-type]


def test_a_legal_plan_has_no_problems(gpt3: Model, selene: Cluster) -> None:
    assert Plan(tp=8, pp=8, dp=70, global_batch=70 * 24).problems(gpt3, selene) == []


FACTS = Facts(
    heads=12, kv_heads=4, hidden=768, ffn=3072, layers=12, experts=8, causal=True, gpus=64, capability=8.0,
    has_fused_attention=True, precisions=("bf16",), length=1024, streams=False,
)  # fmt: skip
BATCH = 64


@pytest.mark.parametrize(
    ("plan", "facts", "broken"),
    [
        ({}, {}, ""),
        *(({name: 0}, {}, "positive") for name in ("tp", "dp", "micro_batch", "ep")),
        ({"dp": 64}, {}, ""),
        ({"dp": 65, "global_batch": 65}, {}, "gpus"),
        *(({name: 2}, {"streams": True}, "streamed weights") for name in ("tp", "pp", "cp")),
        ({"ep": 2, "dp": 2}, {"streams": True}, "streamed weights"),
        ({"dp": 2}, {"streams": True}, ""),
        ({"tp": 8}, {}, "heads"),
        ({"tp": 8}, {"heads": 0}, ""),
        ({"tp": 2}, {"heads": 1}, "heads"),
        ({"tp": 6}, {}, "kv heads"),
        ({"tp": 4}, {}, ""),
        ({"tp": 12}, {}, ""),  # three ranks have the same head of keys
        ({"tp": 2}, {"kv_heads": 0}, ""),
        ({"tp": 4}, {"ffn": 3074}, "mlp width"),
        ({"tp": 4}, {"ffn": 0}, ""),
        ({"tp": 2}, {"ffn": 1}, "mlp width"),
        ({"pp": 12}, {}, ""),
        ({"pp": 13}, {}, "layers"),
        ({"pp": 4, "virtual_stages": 3, "schedule": "interleaved"}, {}, ""),
        ({"pp": 4, "virtual_stages": 4, "schedule": "interleaved"}, {}, "layers"),
        ({"pp": 4, "virtual_stages": 3}, {}, "virtual stages"),
        ({"pp": 4, "schedule": "interleaved"}, {}, "virtual stages"),
        (
            {"pp": 4, "virtual_stages": 3, "schedule": "interleaved", "global_batch": 6},
            {},
            "schedule's batches",
        ),
        ({"pp": 2, "schedule": "pipedream", "zero": 1}, {}, ""),
        ({"pp": 2, "schedule": "pipedream", "zero": 3}, {}, "asynchronous zero"),
        ({"dp": 2, "micro_batch": 3, "global_batch": 12}, {}, ""),
        ({"dp": 2, "micro_batch": 3, "global_batch": 64}, {}, "batch"),
        ({"dp": 2, "micro_batch": 1, "global_batch": 3}, {}, "batch"),
        ({"cp": 3}, {"length": 1026}, ""),
        ({"cp": 4}, {"length": 1028}, "context"),  # a causal rank has an early and a late part: 8 parts
        ({"cp": 4}, {"length": 1028, "causal": False}, ""),
        ({"cp": 1}, {"length": 1023}, ""),
        ({"sequence_parallel": True}, {}, "sequence parallel"),
        ({"sequence_parallel": True, "tp": 2}, {}, ""),
        ({"sequence_parallel": True, "tp": 4}, {"length": 1022}, "sequence split"),
        ({"sequence_parallel": True, "tp": 4, "cp": 2}, {"length": 1028}, "sequence split"),
        ({"tp": 4}, {"length": 1022}, ""),
        ({"ep": 8, "dp": 8}, {}, ""),
        ({"ep": 3, "dp": 3, "global_batch": 63}, {}, "experts"),
        ({"ep": 2, "dp": 2}, {"experts": 0}, "experts"),
        ({"ep": 2, "dp": 3, "global_batch": 63}, {}, "expert groups"),
        ({"ep": 8, "dp": 2, "cp": 4}, {}, ""),
        *(({"zero": zero}, {}, "") for zero in range(4)),
        *(({"zero": zero}, {}, "zero") for zero in (-1, 4)),
        *(({"zero": zero, "pp": 2}, {}, "" if zero != 2 else "zero 2 pipeline") for zero in range(4)),
        ({"shard": -1, "zero": 1}, {}, "shard"),
        ({"shard": 1}, {}, "shard"),
        ({"shard": 1, "zero": 1}, {}, ""),
        ({"shard": 8, "zero": 1, "dp": 4, "cp": 2}, {}, ""),
        ({"shard": 3, "zero": 1, "dp": 4}, {}, "shard"),
        ({"recompute_layers": -1, "recompute": "full"}, {}, "recompute layers"),
        ({"recompute_layers": 1, "recompute": "full"}, {}, ""),
        ({"recompute_layers": 1, "recompute": "selective"}, {}, "recompute layers"),
        ({"recompute_layers": 3, "recompute": "full", "pp": 5}, {}, ""),  # 12 layers on 5 stages: at most 3
        ({"recompute_layers": 4, "recompute": "full", "pp": 5}, {}, "recompute layers"),
        ({"flash": True}, {"has_fused_attention": False}, "flash"),
        ({"flash": False}, {"has_fused_attention": False}, ""),
    ],
)
def test_each_rule_at_its_bound(plan: dict[str, Any], facts: dict[str, Any], broken: str) -> None:
    plan_values = Plan(**{"global_batch": BATCH, "flash": False} | plan)
    found = [
        name
        for name, is_broken in violations(plan_values, replace(FACTS, **facts)).items()
        if is_broken.any()
    ]
    assert found == [broken] * bool(broken) or (broken == "positive" and broken in found)


@pytest.mark.parametrize(
    ("plan", "facts", "said"),
    [
        ({"tp": 0, "dp": 0}, {}, "tp=0, dp=0: degrees and batches are whole numbers from 1"),
        ({"dp": 65, "tp": 2, "global_batch": 65}, {}, "tp x pp x dp x cp = 130 GPUs, but the cluster has 64"),
        ({"tp": 8}, {}, "tp=8 does not divide heads=12; tp may be 1, 2, 3, 4, 6, 12"),
        (
            {"tp": 6},
            {},
            "tp=6 neither divides nor is a multiple of kv_heads=4; tp may be 1, 2, 4 or a multiple of 4",
        ),
        ({"tp": 4}, {"ffn": 6}, "tp=4 does not divide the MLP width 6; tp may be 1, 2, 3, 6"),
        ({"pp": 13}, {}, "pp x virtual_stages = 13 x 1 is more than layers=12; at most 12"),
        (
            {"pp": 2, "schedule": "pipedream", "zero": 3},
            {},
            "schedule=pipedream with zero=3: it keeps versions of whole weights; zero may be 0, 1",
        ),
        (
            {"dp": 2, "micro_batch": 3, "global_batch": 64},
            {},
            "global_batch=64 is not a multiple of dp x micro_batch = 2 x 3; "
            "dp x micro_batch may be 1, 2, 4, 8, 16, 32, 64",
        ),
        (
            {"cp": 4},
            {"length": 12},
            "cp=4 does not divide a sequence of 12 tokens into equal causally balanced halves (2 x cp parts); "
            "cp may be 1, 2, 3, 6",
        ),
        (
            {"cp": 5},
            {"length": 12, "causal": False},
            "cp=5 does not divide a sequence of 12 tokens into equal parts; cp may be 1, 2, 3, 4, 6, 12",
        ),
        (
            {"sequence_parallel": True, "tp": 4, "cp": 3},
            {"length": 18},
            "tp x cp = 4 x 3 does not divide a sequence of 18 tokens, which sequence parallelism needs; "
            "tp x cp may be 1, 2, 3, 6, 9, 18",
        ),
        ({"ep": 3, "dp": 3, "global_batch": 63}, {}, "ep=3 does not divide experts=8; ep may be 1, 2, 4, 8"),
        ({"ep": 2, "dp": 2}, {"experts": 0}, "ep=2, but the model has no experts; ep may be 1"),
        (
            {"shard": 3, "zero": 1, "dp": 2, "cp": 2},
            {},
            "shard=3 with zero=1; it needs zero of 1 or more and must divide dp x cp = 2 x 2: "
            "1, 2, 4 (or 0, all of them)",
        ),
        (
            {"recompute_layers": 4, "recompute": "full", "pp": 5},
            {},
            "recompute_layers=4 with recompute=full and 3 layers a stage; "
            "it counts layers of a stage under recompute=full",
        ),
        (
            {"flash": True},
            {"has_fused_attention": False, "capability": 7.0},
            "flash attention needs compute capability 7.5 or newer, this GPU has 7.0",
        ),
    ],
)
def test_each_rule_names_what_would_do(plan: dict[str, Any], facts: dict[str, Any], said: str) -> None:
    values, of = Plan(**{"global_batch": BATCH, "flash": False} | plan), replace(FACTS, **facts)
    assert said in [say(values, of) for _, broken, say in RULES if np.any(broken(values, of))]


def test_long_lists_of_divisors_are_cut() -> None:
    few, many = replace(FACTS, heads=60), replace(FACTS, heads=120)  # 12 and 16 divisors
    said = {name: say for name, _, say in RULES}["heads"]
    assert said(Plan(tp=7, global_batch=1), few).endswith(
        "tp may be 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60"
    )
    assert said(Plan(tp=7, global_batch=1), many).endswith(
        "tp may be 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, …"
    )


def test_facts_of_a_dense_and_a_sparse_model(selene: Cluster) -> None:
    dense = facts(load_model("llama-3.1-70b"), selene, 4096)
    assert (dense.heads, dense.kv_heads, dense.hidden, dense.ffn) == (64, 8, 8192, 28672)
    assert (dense.layers, dense.experts, dense.causal, dense.gpus, dense.length) == (80, 0, True, 4480, 4096)
    assert (dense.capability, dense.has_fused_attention, dense.streams) == (8.0, True, False)
    assert dense.precisions == ("fp32", "tf32", "bf16", "fp16")
    assert facts(load_model("mixtral-8x7b"), selene, 4096).experts == 8
    assert facts(load_model("gpt-22b"), selene, 2048).kv_heads == 64
    assert not facts(load_model("bert-large"), selene, 512).causal


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"sequence": -1}, "sequence=-1: a sequence has 1 to 1073741824 tokens"),
        ({"sequence": 1}, ""),
        ({"sequence": 1 << 30}, ""),
        ({"sequence": (1 << 30) + 1}, "sequence=1073741825: a sequence has"),
        ({"global_batch": 1 << 40}, "global_batch=1099511627776 is not a whole number"),
        ({"global_batch": (1 << 40) - 1}, ""),
        ({"capacity_factor": 8.0}, ""),
        ({"capacity_factor": 0.5}, ""),
        ({"capacity_factor": 8.5}, "capacity_factor=8.5: 0 for no limit, or above 0 to 8"),
        ({"capacity_factor": -1.0}, "capacity_factor=-1: 0 for no limit"),
        ({"imbalance": 1.0}, ""),
        ({"imbalance": 8.0}, ""),
        ({"imbalance": 0.5}, "imbalance=0.5: 0 for the software's, or 1 (even) to 8"),
        ({"imbalance": 8.5}, "imbalance=8.5: 0 for"),
        ({"capacity_factor": 1.25, "model": "gpt-22b"}, "capacity_factor and imbalance are of experts"),
        ({"imbalance": 1.25, "model": "gpt-22b"}, "capacity_factor and imbalance are of experts"),
        ({"optimizer_precision": "bf16"}, ""),
        ({"optimizer_precision": "fp16"}, ""),
        ({"optimizer_precision": "fp8"}, ""),
    ],
)
def test_sizes_of_text_and_experts_at_their_bounds(selene: Cluster, plan: dict[str, Any], said: str) -> None:
    model = load_model(plan.pop("model", "mixtral-8x7b"))
    found = problems(Plan(**{"global_batch": BATCH} | plan), model, selene)
    assert [text[: len(said)] for text in found] == [said] * bool(said)
