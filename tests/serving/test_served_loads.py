"""Rows of measured servers: asked as they were measured, with their recipes, and every one answered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.curate_serving import curated_load

from podsim.hardware.cluster import load_cluster
from podsim.serving.group_collectives import routed_seconds
from podsim.serving.load_rows import compare_loads, load_kind
from podsim.serving.served_loads import cluster_of, gpu_format, row_kinds, row_requests, serve_row
from podsim.serving.served_streams import chat_requests
from podsim.serving.serving_plan import ServingPlan

_ROW = {
    "id": "a", "role": "test", "source": "s", "model": "llama-3.1-8b", "gpu": "h100-sxm5-80gb", "engine": "vllm",
    "engine_version": "0.15.1", "precision": "bf16", "experts_precision": "bf16", "mode": "aggregated", "draft": "",
    "shortest": "0.8", "input_tokens": "1000", "output_tokens": "100", "concurrency": "4", "gpus": "1",
    "attention_tp": "1", "attention_dp": "1", "pp": "1", "experts_tp": "1", "ep": "1", "workers": "1",
    "first_token_s_median": "0.05", "each_token_s_median": "0.007", "total_tokens_per_s_per_gpu": "5000",
}  # fmt: skip
_RAW = {
    **_ROW, "origin": "inferencex", "measured": "2026-02-01", "lengths": "80-100 %", "served_by": "",
    "model": "deepseek-ai/DeepSeek-R1-0528", "gpu": "b200-sxm", "engine": "tensorrt-llm", "engine_version": "",
    "precision": "fp8", "experts_precision": "fp8",
}  # fmt: skip


def test_a_row_is_asked_as_it_was_measured() -> None:
    table, clients, waves = row_requests(_ROW)
    assert (len(table), clients, waves) == (40, 4, 10)
    assert set(table.input_tokens) <= set(range(800, 1001))
    assert set(table.output_tokens) <= set(range(80, 101))
    exact, _, waves = row_requests(_ROW | {"shortest": "1", "waves": "20"})
    assert waves == 20
    assert set(exact.input_tokens) == {1000}


def test_more_clients_take_longer_for_a_token_and_give_more_tokens() -> None:
    few, many = (serve_row(_ROW | {"concurrency": str(count)}) for count in (4, 64))
    assert np.median(few.each_token) < np.median(many.each_token)
    assert few.output_tokens / few.seconds < many.output_tokens / many.seconds
    assert few.gpus == few.decode_gpus == 1


def test_older_releases_wait_for_the_host() -> None:
    old, new = (serve_row(_ROW | {"engine_version": release}) for release in ("0.12.0", "0.15.1"))
    assert np.median(old.each_token) > np.median(new.each_token)


def test_pools_have_any_number_of_gpus_and_layouts_of_their_own() -> None:
    row = _ROW | {
        "mode": "disaggregated", "model": "deepseek-v3", "gpu": "b200", "precision": "fp8_block", "gpus": "20",
        "experts_precision": "fp8_block", "attention_tp": "1", "attention_dp": "8", "ep": "8", "decode_gpus": "16",
        "workers": "2", "prefill_attention_tp": "4", "prefill_attention_dp": "1", "prefill_ep": "1",
        "prefill_workers": "1", "prefill_gpus": "4",
    }  # fmt: skip
    prefill, decode = row_kinds(row)
    assert (prefill.role, prefill.gpus, prefill.replicas) == ("prefill", 4, 1)
    assert (decode.role, decode.gpus, decode.replicas) == ("decode", 8, 2)
    run = serve_row(row)
    assert (run.gpus, run.decode_gpus) == (20, 16)
    assert cluster_of("b200", 20).gpus == 24


def test_experts_over_more_gpus_than_attention_make_groups_of_it() -> None:
    (kind,) = row_kinds(_ROW | {"model": "qwen3-235b-a22b", "gpu": "h200-sxm5-141gb", "precision": "fp8_block",
                                "experts_precision": "fp8_block", "experts_tp": "4"})  # fmt: skip
    assert kind.gpus == 4


def test_weights_in_mxfp4_meet_the_arithmetic_of_the_gpu() -> None:
    assert gpu_format("mxfp4", load_cluster("b200").gpu) == "w4a8_mxfp4_mxfp8"
    assert gpu_format("mxfp4", load_cluster("h100").gpu) == "w4a16_mxfp4"


@pytest.mark.parametrize(
    ("ranks", "there", "back"), [(16, 118e-6, 195e-6), (32, 155e-6, 273e-6), (64, 173e-6, 314e-6)]
)
def test_tokens_are_dealt_as_fast_as_deepep_publishes(ranks: int, there: float, back: float) -> None:
    # 128 tokens to 8 of 256 experts on H800, hidden 7,168, fp8 there and bf16 back (DeepEP docs/legacy.md)
    cluster = load_cluster(f"dgx-h100:{ranks // 8}")
    plan = ServingPlan(engine="sglang", tensor=ranks, expert=ranks, data_attention=ranks)
    seconds = float(routed_seconds(cluster, plan, np.array([1024.0]), 7168.0, 1.0)[0])
    assert seconds == pytest.approx(there + back, rel=0.1)


def test_users_of_a_chat_share_a_prefix_and_keep_their_question() -> None:
    row = {"rate_per_s": "2", "seconds": "10", "prefix_tokens": "32", "prefixes": "2", "users_of_a_prefix": "2",
           "question_tokens": "32", "output_tokens": "5"}  # fmt: skip
    table = chat_requests(row)
    blocks = table.prefix_ids.reshape(-1, 4)
    assert len(table) == 20
    assert (blocks[0] == blocks[4]).all()  # the same user again
    assert (blocks[0, :2] == blocks[2, :2]).all()
    assert (blocks[0, 2:] != blocks[2, 2:]).all()
    assert (blocks[0, :2] != blocks[1, :2]).all()


def test_recipes_follow_the_date_and_the_attention() -> None:
    after, before = curated_load([_RAW, _RAW | {"measured": "2025-12-15"}])
    assert after["max_batched_tokens"] == "8192"
    assert before["max_batched_tokens"] == "1088"  # 4 clients + 1,000 tokens + 64, in steps of 64
    assert after["precision"] == "fp8_block"
    (grouped,) = curated_load([_RAW | {"attention_tp": "1", "attention_dp": "8", "draft": "mtp"}])
    assert (grouped["draft_tokens"], grouped["hold_steps"]) == ("1", "60")


def test_a_table_has_a_comparison_for_each_quantity(tmp_path: Path) -> None:
    columns = list(_ROW)
    lines = [
        ",".join(columns),
        ",".join(_ROW.values()),
        ",".join((_ROW | {"id": "b", "model": "no-such"}).values()),
    ]
    assert load_kind(lines[0]) == "serving-load"
    each, first, tokens = compare_loads("\n".join(lines), "mine")
    assert [len(comparison.rows) for comparison in (each, first, tokens)] == [1, 1, 1]
    assert (each.what, tokens.what) == ("seconds", "tokens/s per GPU")
    assert [id for id, _ in each.not_expressed] == ["b"]
    row = each.rows[0]
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.predicted < row.high
    bad = ",".join((_ROW | {"first_token_s_median": "-1"}).values())
    (listed, *_) = compare_loads("\n".join([lines[0], bad]), "mine")
    assert "no number above 0" in listed.not_expressed[0][1]
