"""Memory in PyTorch's own runtime: worked by hand, and against fake runs of that runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.schedules.actions import Work
from podsim.schedules.entries import SCHEDULES, build
from podsim.training.batch import prepare
from podsim.training.memory import KINDS, memory_kind_bytes
from podsim.training.memory_torch import has_chunks_apart, op_checkpoint_bytes, traffic_bytes
from podsim.training.plan import Plan
from podsim.training.software import Software, load_software
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build as build_model

EAGER = "torchtitan-2024"
BASE: dict[str, Any] = {
    "hidden": 1024, "heads": 8, "kv_heads": 4, "ffn": 4096, "layers": 4, "vocab": 8000, "sequence": 2048,
    "micro_batch": 2, "micro_batches": 1, "tp": 1, "pp": 1, "dp": 8, "chunks": 1, "rank": 0, "recompute": "full",
    "schedule": "1f1b",
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "fsdp": {},
    "fsdp, no update": {"updates": False},
    "fsdp, MemTracker": {"updates": False, "tracker": True},
    "fsdp, layers decide": {"vocab": 256, "layers": 2},
    "fsdp, nothing recomputed": {"recompute": "none"},
    "fsdp, per op": {"recompute": "selective"},
    "tensor parallel": {"tp": 4},
    "tensor parallel, layers decide": {"tp": 8, "kv_heads": 8, "vocab": 256},
    "1f1b, first": {"tp": 4, "pp": 2, "micro_batches": 4},
    "1f1b, last": {"tp": 4, "pp": 2, "micro_batches": 4, "rank": 1},
    "gpipe, first": {"tp": 4, "pp": 2, "micro_batches": 4, "schedule": "gpipe"},
    "interleaved in a round": {
        "tp": 4, "pp": 2, "micro_batches": 2, "chunks": 2, "schedule": "interleaved", "layers": 8,
    },
    "interleaved in rounds": {
        "tp": 4, "pp": 2, "micro_batches": 4, "chunks": 2, "schedule": "interleaved", "layers": 8, "rank": 1,
    },
}  # fmt: skip


FEW = (
    "fsdp",
    "fsdp, no update",
    "fsdp, MemTracker",
    "fsdp, per op",
    "tensor parallel",
    "interleaved in rounds",
)


@cache
def _llama(hidden: int, heads: int, kv_heads: int, ffn: int, layers: int, vocab: int, sequence: int) -> Model:
    return build_model(
        Transformer(
            name="small", family="llama", layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn,
            vocab=vocab, sequence=sequence, dropout=False, gated=True, activation="silu", norm="rmsnorm", norm_bias=False,
            qkv_bias=False, proj_bias=False, mlp_bias=False, tied=False, position="rope",
        )
    )  # fmt: skip


def _kinds(case: dict[str, Any], software: Software, **changes: Any) -> dict[str, float]:
    """Bytes by kind on the rank of a case."""
    sizes = [case[name] for name in ("hidden", "heads", "kv_heads", "ffn", "layers", "vocab", "sequence")]
    model, cluster = _llama(*sizes), load_cluster("dgx-h100:64")
    plan = Plan(
        tp=case["tp"], pp=case["pp"], dp=case["dp"], virtual_stages=case["chunks"], micro_batch=case["micro_batch"],
        global_batch=case["micro_batch"] * case["micro_batches"] * case["dp"], sequence_parallel=case["tp"] > 1, zero=3,
        recompute=case["recompute"], schedule=case["schedule"], software=software.name,
    )  # fmt: skip
    plan = replace(plan, **changes)
    assert not [problem for problem in plan.problems(model, cluster) if "GPUs" not in problem]
    ready = prepare(model, cluster, plan, software=software)
    every = slice(None)
    stages = ready.stages.of(every)
    plan = ready.plan.wide()
    weights, activations = ready.weights.of(every), ready.activations.of(every)
    holds = (stages.blocks[:, [0, -1], 0] > 0).tolist()
    stage = holds.index([case["rank"] == 0, case["rank"] == case["pp"] - 1])
    shape = stages.blocks[:, 0].shape
    kinds = (
        np.broadcast_to(kind, shape)
        for kind in memory_kind_bytes(plan, software, stages, weights, activations)
    )
    return {name: float(kind[stage, 0]) for name, kind in zip(KINDS, kinds, strict=True)}


def _allocated(case: dict[str, Any]) -> float:
    """Bytes in use at the highest moment: what the law says, less what the allocator holds beyond."""
    software = load_software(EAGER)
    kinds = _kinds(case, software)
    kinds.pop("floor")
    tokens = case["micro_batch"] * case["sequence"]
    logits = tokens * case["vocab"] / case["tp"]
    at_loss = kinds["logits"] > 3 * logits
    hole = 2 * logits if case["pp"] == 1 else 0.0  # where logits lay that are freed, but nothing else fits
    assert at_loss or kinds["logits"] <= 2 * logits * case["micro_batches"]
    gathers = 0.0
    if case["chunks"] > 1:  # PyTorch 2.13 gathers these without a stream of its own, 2.6 had one
        layer = (
            4 * case["hidden"] ** 2 * 0.75
            + 3 * case["hidden"] * case["ffn"]
            + 2 * case["hidden"] * case["tp"]
        )
        ends = case["vocab"] * case["hidden"] + (case["rank"] == case["pp"] - 1) * case["hidden"] * case["tp"]
        gathers = 2 / case["tp"] * (max(layer, ends) + layer * (1 + 1 / case["dp"]))
    return sum(kinds.values()) - hole - gathers


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Any]]:
    """Each case, run by PyTorch on fake tensors: PODSIM_LONG=1 runs all."""
    pytest.importorskip("torch.distributed.pipelining")
    script = Path(__file__).parents[1] / "made" / "fake_torch_step.py"
    names = CASES if os.environ.get("PODSIM_LONG") else FEW
    cases = json.dumps([{**BASE, **CASES[name]} for name in names])
    done = subprocess.run(
        [sys.executable, script, cases], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(names, lines, strict=True))


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="forked processes")
def test_fake_runs_hold_as_many_bytes(measured: dict[str, dict[str, Any]]) -> None:
    """The peaks of one rank's streams, added up, to 1.5 %."""
    found = {
        name: sum(line["streams"].values())
        for name, line in measured.items()
        if CASES[name].get("updates", True)
    }
    law = {name: _allocated({**BASE, **CASES[name]}) for name in found}
    errors = {name: round(law[name] / found[name] - 1, 4) for name in found}
    assert errors == {name: pytest.approx(0.0, abs=0.015) for name in found}


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="forked processes")
def test_what_the_allocator_reserves_lies_above_what_is_in_use(measured: dict[str, dict[str, Any]]) -> None:
    """Most of what one process's streams reserve beside their peaks is the hole that the logits leave."""
    for name in ("fsdp", "fsdp, per op"):
        line, logits = measured[name], 2 * 2048 * 8000
        beyond = line["reserved"] - sum(line["streams"].values())
        assert 2 * logits < beyond < 4 * logits


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="forked processes")
def test_the_tracker_agrees_with_pytorchs_own(measured: dict[str, dict[str, Any]]) -> None:
    """MemTracker counts all streams at one moment, so that it is at most the sum of their peaks, and not much less."""
    streams, own = measured["fsdp, no update"]["streams"], measured["fsdp, MemTracker"]["tracker"]
    assert streams["main"] <= own * 1.001
    assert own <= sum(streams.values()) * 1.001


SHAPES = [
    ("1f1b", 4, 1, 4), ("1f1b", 4, 1, 9), ("gpipe", 4, 1, 6), ("interleaved", 4, 2, 4), ("interleaved", 4, 3, 8),
    ("interleaved", 2, 4, 2), ("breadth-first", 4, 2, 6),
]  # fmt: skip


@pytest.mark.parametrize(("name", "p", "v", "m"), SHAPES)
def test_a_played_schedule_meets_gradients_with_so_many_chunks(name: str, p: int, v: int, m: int) -> None:
    """Chunks in flight once gradients are there, and how many chunks have gradients at a time."""
    table = build(name, p, v, m)
    plan = Plan(pp=p, virtual_stages=v, schedule=name, global_batch=m)
    for rank in range(p):
        held, most, together = 0, 0, 0
        left: Counter[int] = Counter()
        row = table.row(rank)
        for work, stage in zip(table.work[row].tolist(), table.stage[row].tolist(), strict=True):
            if work == Work.FORWARD:
                held += 1
                continue
            most = max(most, held if left else 0)
            left[stage] += 1
            together = max(together, sum(0 < count <= m for count in left.values()))
            if left[stage] == m:
                left[stage] = m + 1  # reduced
            held -= 1
        entry = SCHEDULES[name]
        assert most == min(entry.activations(p, v, m, rank), m * v - 1)
        assert together == (1 if has_chunks_apart(plan) else v)


def test_the_first_stage_by_hand() -> None:
    """1F1B of two stages, four micro-batches, TP 4 and FSDP 8: what stands when the third forward pass has run."""
    case = {**BASE, **CASES["1f1b, first"]}
    kinds = _kinds(case, load_software(EAGER))
    h, f, layers, shards = 1024, 4096, 2, 8
    # q, o, and k and v half as wide; norms on every rank
    layer = (2 * h * h + 2 * h * h / 2 + 3 * h * f) / 4 + 2 * h
    table = 8000 * h
    held = layers * layer + table / 4
    assert kinds["weights"] == pytest.approx(2 * held)
    assert kinds["optimizer"] == pytest.approx(12 * held / shards)
    # every rank of the TP group has a gradient of the whole table
    assert kinds["gradients"] == pytest.approx(4 * (layers * layer + table) + 4 * held / shards)
    slice_ = 2 * 2048 * h * 2 / 4
    whole, inner = 4 * slice_, 2 * 2048 * f * 2 / 4
    ids, sums = 2 * 2048 * 8, 2 * 2048 * 8 / 4 * 4  # whole numbers of 8 B; a log-sum per token and head
    # a layer: two gathered inputs, its norms twice in fp32, q, k, v and o; each way of the MLP, and what passes through
    saved = 2 * whole + 4 * inner + 2 * 4 * slice_ + (1 + 1 + 1) * slice_
    passing = max(whole + inner, 2 * inner) + h * f / 4 * 2
    in_flight = 2 * ((layers + 1) * slice_ + ids)
    assert kinds["activations"] == pytest.approx(in_flight + saved + sums + passing)
    gathers = 2 * (max(table / 4, layer) + layer * (1 + 1 / shards))
    assert kinds["buffers"] == pytest.approx(4 * slice_ + gathers)


def test_logits_of_the_last_stage_by_hand() -> None:
    """16 B of the loss, with a divided vocabulary, and 2 B of each micro-batch, which the schedule gives back."""
    case = {**BASE, **CASES["1f1b, last"]}
    kinds = _kinds(case, load_software(EAGER))
    assert kinds["logits"] == pytest.approx((16 + 4 * 2) * 2 * 2048 * 8000 / 4)
    slice_ = 2 * 2048 * 1024 * 2 / 4
    # the head's gathered input, its norm twice in fp32, and one layer's input, as the other's lies in the buffers
    assert kinds["activations"] == pytest.approx((4 + 2 * 2 + 1) * slice_)


def test_interleaved_needs_less_than_1f1b_where_all_fits_in_a_round() -> None:
    """Gradients of one chunk are gone before the next has any."""
    case = {**BASE, **CASES["interleaved in a round"]}
    plain = {**case, "chunks": 1, "schedule": "1f1b"}
    software = load_software(EAGER)
    layer = (3 * 1024 * 1024 + 3 * 1024 * 4096) / 4 + 2 * 1024
    less = _kinds(plain, software)["gradients"] - _kinds(case, software)["gradients"]
    # half of four layers; and the embedding's gradient is there after the layers', not with them
    assert less >= 4 * 2 * layer


def test_overlapped_tensor_parallelism_needs_no_buffer_for_one_sequence() -> None:
    """Attention decides where the MLP is narrow: the collective's own buffer, or the copy out of turns."""
    software = load_software("torchtitan-2024-compile")
    case = {**BASE, **CASES["tensor parallel, layers decide"], "ffn": 1024}
    for batch, saved in ((1, 2048 * 1024 * 2), (4, 0)):
        one = {**case, "micro_batch": batch}
        plain, overlapped = (_kinds(one, software, overlap_tp=on) for on in (False, True))
        assert plain["activations"] - overlapped["activations"] == pytest.approx(saved, abs=1)
        assert {**overlapped, "activations": 0} == {**plain, "activations": 0}


def test_a_context_group_gathers_keys_and_values() -> None:
    software = load_software("torchtitan-2024-compile")
    case = {**BASE, **CASES["tensor parallel, layers decide"], "sequence": 32768}
    used = [
        _kinds({**case, "sequence": 32768 * cp, "dp": 8 // cp}, software, cp=cp)["activations"]
        for cp in (1, 4, 8)
    ]
    assert used[0] <= used[1] < used[2]


def test_fp8_keeps_operands_in_a_byte() -> None:
    software = load_software("torchtitan-2024-compile")
    case = {**BASE, **CASES["tensor parallel"], "recompute": "none"}
    low, high = (_kinds(case, software, precision=name)["activations"] for name in ("fp8", "bf16"))
    assert low < 0.8 * high


def test_fewer_heads_of_keys_than_of_queries_by_hand() -> None:
    """4,096 tokens of 2 B, 8 heads of 128 with 4 of keys and values, on one rank and on two.

    Every second product is kept: queries, values, the MLP's gate and its last, with attention's output and a log-sum in
    fp32 for each head. Keys and values grow from 4 heads to 8, both.
    """
    count, h, f, kv, sizes = 2 * 2048, 1024, 4096, 4 * 128, (1024, 8, 4, 4096, 4, 8000, 2048)
    block = _llama(*sizes).layers[0]
    plan = Plan(tp=np.array([1, 2]), dp=np.array([8, 4]), micro_batch=2, global_batch=16)
    whole = 2 * count * (h + h + h + kv + f) + count * 8 * 4 + 2 * count * h
    halved = 2 * count * (h + (h + h + kv + f) / 2) + count * 8 * 4 / 2 + 2 * count * h
    summed = 2 * 2 * count * h  # of attention's output and of the MLP's
    assert op_checkpoint_bytes(block, plan, 2048, h) == pytest.approx([whole, halved + summed])
    # values of half the width halve attention's output
    ops = [replace(op, value_dim=64) if op.kind == "attention" else op for op in block.ops]
    narrow = op_checkpoint_bytes(replace(block, ops=tuple(ops)), plan, 2048, h)
    assert narrow == pytest.approx([whole - 2 * count * h / 2, halved + summed - 2 * count * h / 4])
    traffic = traffic_bytes(block, plan, 2048, h)
    assert traffic.heads == pytest.approx([2 * count * h, 2 * count * h / 2])
    assert traffic.repeated == pytest.approx([2 * 2 * count * (h - kv), 2 * 2 * count * (h - kv) / 2])
    assert traffic.inner == pytest.approx([2 * count * f, 2 * count * f / 2])
