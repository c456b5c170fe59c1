"""Activation memory against Korthikanti et al. 2022 (Table 2, Figure 1), worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import podsim
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.memory import (
    activation_table,
    weight_table,
)
from podsim.training.pipeline_stages import stages_table
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute
from podsim.training.predict import predict_plan
from podsim.training.schedule_sizes import micro_batches_in_flight, weight_copies
from podsim.training.software import load_software, usable_bytes
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

GIB = 2**30


def layer_bytes(s: int, b: int, h: int, a: int, t: int, *, sp: bool, selective: bool) -> float:
    """Korthikanti et al. 2022, Table 2: bytes of activations per layer."""
    core = 0 if selective else 5 * a * s / (h * t)
    return s * b * h * (34 / t + core if sp else 10 + 24 / t + core)


@pytest.mark.parametrize("sp", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_table_2(gpt22: Model, node: Cluster, sp: bool, recompute: str) -> None:
    plan = Plan(tp=8, micro_batch=4, global_batch=4, sequence_parallel=sp, flash=False, precision="fp16")
    table = activation_table(gpt22, plan.arrays(), load_software("megatron-2022"))
    mode = Recompute[recompute.upper()]
    expected = layer_bytes(2048, 4, 6144, 64, 8, sp=sp, selective=recompute == "selective")
    assert table.kept[mode, 1, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "plan", "weights", "activations"),
    [
        ("gpt-22b", {"tp": 8, "pp": 1, "micro_batch": 4, "global_batch": 4}, 45.5625, 9.5625),
        ("gpt3-175b", {"tp": 8, "pp": 8, "virtual_stages": 3, "global_batch": 64}, 45.5625, 12.3515625),
        ("gpt-530b", {"tp": 8, "pp": 35, "virtual_stages": 3, "global_batch": 280}, 31.640625, 23.076171875),
        ("gpt-1t", {"tp": 8, "pp": 64, "global_batch": 512}, 32.958984375, 26.5625),
    ],
)
def test_figure_1(
    selene: Cluster, name: str, plan: dict[str, int], weights: float, activations: float
) -> None:
    """First-stage memory with sequence parallelism and selective recomputation, GiB (the paper leaves out the edges)."""
    degrees = dict(plan, schedule="interleaved" if plan.get("virtual_stages") else "1f1b")
    layout = Plan(
        **degrees,  # type: ignore[arg-type]
        sequence_parallel=True,
        recompute="selective",  # type: ignore[arg-type]
        flash=False,
        precision="fp16",
        software="megatron-2022",
    )
    model, software, many = load_model(name), load_software("megatron-2022"), layout.arrays()
    stages = stages_table(model, many)
    layers = stages.blocks[0, 1, 0]
    parameters = layers * weight_table(model, many).dense[1, 0]
    assert 18 * parameters / GIB == pytest.approx(weights, rel=0.01)  # the paper leaves out biases and norms
    kept = activation_table(model, many, software).kept[Recompute.SELECTIVE, 1, 0]
    held = layers * kept * micro_batches_in_flight(many, stages.first)[0, 0]
    assert held / GIB == pytest.approx(activations, rel=0.005)


@pytest.mark.parametrize(
    ("name", "tp", "pp"), [("gpt2-xl", 1, 4), ("bloom-176b", 4, 7), ("llama-2-7b", 1, 8)]
)
def test_all_stages_hold_the_model_and_a_tied_table_twice(
    selene: Cluster, name: str, tp: int, pp: int
) -> None:
    """First and last stage of a pipeline each need a tied embedding's table, as they do in Megatron-LM."""
    model = load_model(name)
    plan = Plan(tp=tp, pp=pp, dp=2, global_batch=8)
    told = predict_plan(model, selene, plan)
    # every rank of a TP group holds what it does not divide: norms, and biases behind a sum
    whole = sum(
        block.count
        * (op.weight * (op.split in ("none", "sequence")) + op.bias * (op.split not in ("column", "vocab")))
        for block in model.blocks
        for op in block.ops
    )
    table = model.vocab * model.hidden if model.tied_embeddings else 0
    held = tp * sum(stage.count * stage.kinds["weights"] for stage in told.stages) / 2
    assert held == pytest.approx(model.parameters + (tp - 1) * whole + table, rel=1e-9)
    alone = predict_plan(model, selene, Plan(tp=tp, dp=2, global_batch=8))
    assert tp * alone.memory_kinds["weights"] / 2 == pytest.approx(
        model.parameters + (tp - 1) * whole, rel=1e-9
    )


GPT2 = 124_439_808
"""parameters: 50257 x 768 tokens, 1024 x 768 positions, 12 layers of 12 x 768 x 768 + 13 x 768, a norm of 2 x 768"""
TABLES = (50_257 + 1_024) * 768
"""parameters of GPT-2's largest block, the embedding"""


@pytest.mark.parametrize(
    ("plan", "weights", "gradients", "optimizer"),
    [
        # bf16: 2 B a weight, 4 B a gradient, 4 B of master weights and 2 x 4 B of moments; over 8 ranks
        ({"zero": 0}, 2, 4, 4 + 8),
        ({"zero": 1}, 2, 4, (4 + 8) / 8),
        ({"zero": 2}, 2, 4 / 8, (4 + 8) / 8),
        ({"zero": 3}, 2 / 8, 4 / 8, (4 + 8) / 8),
        ({"zero": 1, "shard": 4}, 2, 4, (4 + 8) / 4),
        ({"zero": 2, "shard": 4}, 2, 4 / 4, (4 + 8) / 4),
        ({"zero": 3, "shard": 4}, 2 / 4, 4 / 4, (4 + 8) / 4),
        ({"zero": 3, "dp": 2, "cp": 4}, 2 / 8, 4 / 8, (4 + 8) / 8),  # context ranks hold the same weights
        # fp32 weights are their own master
        ({"zero": 0, "precision": "fp32"}, 4, 4, 8),
        ({"zero": 3, "precision": "fp32"}, 4 / 8, 4 / 8, 8 / 8),
        ({"zero": 2, "optimizer_precision": "bf16"}, 2, 4 / 8, (4 + 4) / 8),
        # FSDP2 keeps weights in fp32 shards, which are the master weights, and gathers a layer at a time
        ({"zero": 2, "software": "torchtitan-2024"}, 2, 4 / 8, (4 + 8) / 8),
        ({"zero": 3, "software": "torchtitan-2024"}, 0, 4 / 8, (4 + 8) / 8),
    ],
)  # fmt: skip
def test_each_zero_level_by_hand(
    node: Cluster, plan: dict[str, Any], weights: float, gradients: float, optimizer: float
) -> None:
    """Rajbhandari et al. 2020, Figure 1: level 1 divides the optimizer, 2 gradients too, 3 weights too."""
    kinds = predict_plan(load_model("gpt2"), node, Plan(**{"dp": 8, "global_batch": 8} | plan)).memory_kinds
    held = {"weights": weights * GPT2, "gradients": gradients * GPT2, "optimizer": optimizer * GPT2}
    assert {kind: kinds[kind] for kind in held} == pytest.approx(held, rel=1e-12)


@pytest.mark.parametrize(("precision", "each"), [("bf16", 2 + 2 + 4), ("fp32", 4 + 4 + 4)])
def test_the_third_zero_level_gathers_a_block_at_a_time(node: Cluster, precision: str, each: int) -> None:
    """Weights of the largest block and of the next one, and the gradient of one that is not yet divided."""
    plan = Plan(dp=8, global_batch=8, zero=3, precision=precision)
    assert predict_plan(load_model("gpt2"), node, plan).memory_kinds["buffers"] == each * TABLES


def test_a_rank_has_a_head_of_keys_and_values_at_least(selene: Cluster) -> None:
    """8 key heads on 16 ranks: each computes and keeps one of them, 8192 / 16 + 2 x 128 columns of the product."""
    from podsim.training.layers import op_times
    from podsim.training.shapes import gemm_shapes

    model, software = load_model("llama-3.1-70b"), load_software(Plan().software)
    plan = Plan(tp=np.array([1, 8, 16]), global_batch=1).arrays()
    items = [
        item for item in op_times(model, selene, plan, software)[0][0] if item.op.name == "attention.qkv"
    ]
    assert gemm_shapes(items, plan, 8192, software)[1].tolist() == [[10240, 1280, 768]]
    layer = weight_table(model, plan).dense[1]
    norms = 2 * 8192
    assert layer[1] == pytest.approx((layer[0] - norms) / 8 + norms)
    assert layer[2] == pytest.approx((layer[0] - norms) / 16 + norms + 128 * 8192)


@pytest.mark.parametrize("pp", [1, 2])
def test_only_a_pipeline_keeps_what_it_gathered(gpt22: Model, node: Cluster, pp: int) -> None:
    """ZeRO 3 of a framework that gathers weights once a step: all weights and gradients of a stage stay whole."""
    plan = Plan(pp=pp, dp=8 // pp, zero=3, global_batch=8)
    entry = load_software(plan.software)
    once, again = (
        float(step_cost(gpt22, node, plan, software=replace(entry, regather=each)).memory[0])
        for each in (False, True)
    )
    assert (once > 1.5 * again) == (pp > 1)
    assert (once == again) == (pp == 1)


@pytest.mark.parametrize(
    ("gpu", "change", "bytes_"),
    [
        ("a100-sxm4-80gb", {}, 80 * GIB),  # a data sheet's gigabytes are binary
        ("a100-sxm4-80gb", {"fraction": 0.5, "memory": 39.5 * GIB}, 39.5 * GIB),
        ("a100-sxm4-80gb", {"architecture": "cpu", "memory": 1e9}, 1e9),
    ],
)
@pytest.mark.parametrize("room", [0.0, 0.25])
def test_what_a_plan_may_need(gpu: str, change: dict[str, Any], bytes_: float, room: float) -> None:
    software = replace(load_software("megatron-core"), head_room=room)
    assert usable_bytes(replace(load_gpu(gpu), **change), software) == pytest.approx(
        bytes_ * (1 - room), rel=1e-12
    )


@pytest.mark.parametrize(
    ("schedule", "homes", "versions"),
    [
        ("1f1b", None, None),
        ("dualpipe", [2, 2, 2, 2], [1, 1, 1, 1]),
        ("pipedream", [1, 1, 1, 1], [4, 3, 2, 1]),  # rank r has p - r micro-batches in flight
        ("pipedream-2bw", [1, 1, 1, 1], [2, 2, 2, 2]),
    ],
)
def test_copies_of_weights_by_schedule(
    schedule: str, homes: list[int] | None, versions: list[int] | None
) -> None:
    plan = Plan(pp=4, global_batch=16, schedule=schedule).arrays()
    copies = weight_copies(plan, np.arange(4)[:, None])
    shape = (4, 1)
    found = None if copies is None else [np.broadcast_to(each, shape)[:, 0].tolist() for each in copies]
    assert found == (None if homes is None else [homes, versions])


@pytest.mark.parametrize(
    ("schedule", "chunks", "held"),
    [
        ("1f1b", 1, [4, 3, 2, 1]),
        ("gpipe", 1, [16, 16, 16, 16]),
        # (2 (p - i - 1) + (v - 1) p + 1) / v, Narayanan et al. 2021
        ("interleaved", 2, [5.5, 4.5, 3.5, 2.5]),
    ],
)
def test_micro_batches_in_flight(schedule: str, chunks: int, held: list[float]) -> None:
    plan = Plan(pp=4, virtual_stages=chunks, global_batch=16, schedule=schedule).arrays()
    assert micro_batches_in_flight(plan, np.arange(4)[:, None])[:, 0].tolist() == held


def test_xla_gathers_a_tensor_at_a_time_and_keeps_no_copy_in_16_bits() -> None:
    """The largest tensor of Llama-3.1-8B is its table, 128,256 x 4,096: two bf16 copies and a gradient in fp32."""
    kinds = podsim.predict("llama-3.1-8b", on="tpu-v6e:64", zero=3, batch=64, recompute="full").memory_kinds
    assert kinds["buffers"] == pytest.approx(128_256 * 4096 * (2 * 2 + 4))
    assert kinds["weights"] == 0.0
    assert kinds["optimizer"] == pytest.approx(12 * 8_030_261_248 / 64, rel=1e-6)
    one = podsim.predict("llama-3.1-8b", on="tpu-v6e:64", zero=1, batch=64, recompute="full").memory_kinds
    assert (one["weights"], one["buffers"]) == (pytest.approx(2 * 8_030_261_248, rel=1e-6), 0.0)
