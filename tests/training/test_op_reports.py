"""Every op of a model by hand, and what sparse products leave of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import load_cluster
from podsim.kernels.sparse_products import GAIN
from podsim.questions.train.predict import predict
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan
from podsim.training.sparse_step import with_sparsity
from podsim.workload.catalog import load_model

GPT, NODE = load_model("gpt-1.7b"), load_cluster("dgx-a100-80gb:1")
PLAN = Plan(tp=2, dp=4, micro_batch=3, global_batch=12)


def test_each_op_by_hand() -> None:
    """3 x 2,048 tokens of hidden 2,304 on two ranks; an A100 has 312 TFLOP/s and 2.039 TB/s."""
    rows = {row.name: row for row in op_reports(GPT, NODE, PLAN)}
    assert [*rows][:3] == ["embedding.lookup", "embedding.position", "embedding.dropout"]
    assert [*rows][-1] == "head.loss"
    tokens, gpu = 3 * 2048, NODE.gpu
    up = rows["mlp.up"]
    assert (up.block, up.kind, up.copies, up.shape, up.bound) == (
        "layer",
        "gemm",
        24,
        "6144x4608x2304",
        "arithmetic",
    )
    assert up.light == pytest.approx(2 * tokens * 4608 * 2304 / gpu.peaks["bf16"] / up.forward)
    core = rows["attention.core"]
    assert core.shape == "12 heads x 2048 x 96"
    assert core.light == pytest.approx(2 * tokens * 12 * 2048 * 192 * 0.5 / gpu.peaks["bf16"] / core.forward)
    assert (core.source, core.bound) == ("law", "arithmetic")
    norm = rows["attention.norm"]  # each rank norms all tokens, reads and writes them in 2 B
    assert (norm.source, norm.bound) == ("roofline", "memory")
    assert norm.light == pytest.approx(tokens * 2 * 2304 * 2 / gpu.memory_bandwidth / norm.forward)
    assert norm.shape.endswith(" MB")
    half = {row.name: row for row in op_reports(GPT, NODE, replace(PLAN, sequence_parallel=True))}[
        "attention.norm"
    ]
    assert half.light * half.forward == pytest.approx(norm.light * norm.forward / 2)
    assert up.backward == pytest.approx(2 * up.forward, rel=0.3)


def test_sparse_products_save_their_part_of_the_arithmetic() -> None:
    plain = predict(
        "gpt-1.7b", on="dgx-a100-80gb:1", tp=2, dp=4, micro_batch=3, batch=12, software="nemo-2024"
    )
    plan = replace(PLAN, software="nemo-2024")
    sparse = with_sparsity(plain, GPT, NODE, plan)
    ops = op_reports(GPT, NODE, plan)
    products = sum(op.copies * op.forward for op in ops if op.kind == "gemm")
    busy = sum(op.copies * (op.forward + op.backward) for op in ops if op.kind in ("gemm", "attention"))
    saved = plain.parts["compute"] * products / busy * (1 - 1 / GAIN)
    assert plain.step_time - sparse.step_time == pytest.approx(saved)
    assert plain.parts["compute"] - sparse.parts["compute"] == pytest.approx(saved)
    faster = plain.step_time / sparse.step_time
    for name in ("tokens_per_second", "samples_per_second", "mfu", "hfu", "mfu_6pd"):
        assert getattr(sparse, name) / getattr(plain, name) == pytest.approx(faster)
    assert len(sparse.warnings) == len(plain.warnings) + 1
    with pytest.raises(PlanError, match="no 2:4 sparse"):
        with_sparsity(plain, GPT, load_cluster("dgx-1-v100:1"), replace(plan, precision="fp16"))
