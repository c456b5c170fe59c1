"""Experts in a grid of their own: expert_tp x ep x replicas, held against ranks that are counted by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.launching.job import Job
from podsim.launching.tools import emit, read
from podsim.training.memory import weight_table
from podsim.training.plan import Plan
from podsim.training.plan_values import Grid
from podsim.training.predict import predict_plan
from podsim.training.shapes import Item, gemm_shapes
from podsim.training.software import load_software
from podsim.workload.catalog import load_model

MIXTRAL = load_model("mixtral-8x22b")
CLUSTER = load_cluster("dgx-h100:16")


def folded(expert_tp: int, **fields: int | str) -> Plan:
    """Mixtral 8x22B on 128 GPUs as arXiv 2504.14960, table 3, lays it out: tp 2, ep 8, pp 8."""
    plan = {"tp": 2, "pp": 8, "dp": 8, "ep": 8, "zero": 1, "global_batch": 256, "sequence": 4096}
    return Plan(
        **{**plan, "software": "nemo-2024", "sequence_parallel": True, "expert_tp": expert_tp, **fields}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(("expert_tp", "ep"), [*product((1, 2, 4), (2, 4, 8, 16))])
def test_members_of_an_expert_group_are_counted_rank_by_rank(expert_tp: int, ep: int) -> None:
    """tp 4, cp 2, dp 8 on nodes of eight: rank = (replica x ep + member) x expert_tp + part of the expert."""
    plan = Plan(tp=4, cp=2, dp=8, ep=ep, expert_tp=expert_tp, sequence_parallel=True, global_batch=8)
    groups: dict[tuple[int, int], list[int]] = {}
    for rank in range(64):
        replica, part = rank // (expert_tp * ep), rank % expert_tp
        groups.setdefault((replica, part), []).append(rank // 8)
    assert int(Grid(gpus_per_node=8, plan=plan).ep) == min(
        nodes.count(n) for nodes in groups.values() for n in nodes
    )
    assert int(plan.expert_copies(16)) == 64 // (expert_tp * ep)


@pytest.mark.parametrize("expert_tp", [1, 2])
def test_an_expert_rank_holds_its_part_of_its_experts(expert_tp: int) -> None:
    """Three matrices of 6,144 x 16,384 for each of eight experts."""
    held = weight_table(MIXTRAL, folded(expert_tp).arrays()).expert[1, 0]
    assert held == 8 * 3 * 6144 * 16384 / (8 * expert_tp)


def test_folding_changes_the_shape_of_products_not_their_work() -> None:
    software = load_software("nemo-2024")
    block = MIXTRAL.kinds[1]
    items = [Item(op, block) for op in block.ops if op.expert and op.kind == "gemm"]
    whole, split = (gemm_shapes(items, folded(ways).arrays(), 4096, software) for ways in (1, 2))
    assert np.allclose(np.prod(whole, axis=0), np.prod(split, axis=0))
    tokens = 4096 / 2 * 2 * 1.1  # of one rank, to two experts each, on the busiest
    assert np.allclose(whole[0], tokens)


def test_folding_makes_mixtral_faster_as_published() -> None:
    """46.3 % of the peak without folding, 49.3 % with it (arXiv 2504.14960, table 3, capacity 1): 6 % of the time."""
    whole, split = (
        predict_plan(
            MIXTRAL, CLUSTER, folded(ways, virtual_stages=7, schedule="interleaved", capacity_factor=1)
        ).step_time
        for ways in (1, 2)
    )
    assert 0.88 < whole / split < 0.98


def test_only_software_that_folds_experts_divides_them_otherwise() -> None:
    assert not folded(1).problems(MIXTRAL, CLUSTER)
    assert not folded(1, dp=2, cp=4, ep=8).problems(MIXTRAL, CLUSTER)
    assert not folded(1, dp=4, tp=4, ep=8).problems(MIXTRAL, CLUSTER)
    (old,) = folded(1, software="megatron-core").problems(MIXTRAL, CLUSTER)
    assert "expert_tp may be 2" in old
    assert "nemo-2025" in old
    (alone,) = folded(1, sequence_parallel=False).problems(MIXTRAL, CLUSTER)
    assert "sequence_parallel" in alone
    (wide,) = folded(1, tp=4, dp=1, pp=8, ep=8, global_batch=256).problems(MIXTRAL, CLUSTER)
    assert "does not divide tp x cp x dp = 4 x 1 x 1" in wide


def test_degrees_beyond_any_machine_are_reported_not_overflown() -> None:
    most = 10**12
    told = folded(most, tp=most, cp=most, ep=most).problems(MIXTRAL, CLUSTER)
    assert any("does not divide" in words for words in told)


def test_megatron_says_over_how_many_ranks_an_expert_is_divided() -> None:
    words = (
        "torchrun --nnodes 16 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 4 "
        "--pipeline-model-parallel-size 8 --expert-model-parallel-size 8 --num-experts 8 --micro-batch-size 1 "
        "--global-batch-size 256 --sequence-parallel --bf16"
    )
    assert int(read(words).plan.expert_ranks) == 4  # its default is the tensor-parallel size
    assert int(read(f"{words} --expert-tensor-parallel-size 1").plan.expert_ranks) == 1


@pytest.mark.parametrize(("tool", "software"), [("megatron", "nemo-2024"), ("nemo", "nemo-2024")])
def test_a_folded_plan_comes_back_from_what_is_written(tool: str, software: str) -> None:
    plan = folded(1, software=software)
    text = emit(Job(model=MIXTRAL, cluster=CLUSTER, plan=plan), tool).text
    assert int(read(text, layers=MIXTRAL.layer_count).plan.expert_tp) == 1
