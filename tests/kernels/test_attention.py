"""Attention and memory-bound kernels: blocks by hand, bounds, and the bars of the published figures."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.errors import PlanError
from podsim.hardware.catalog import load_gpu
from podsim.kernels import attention
from podsim.kernels import elementwise as kernels_memory
from podsim.kernels.attention import AttentionShape, flash_law, score_passes
from podsim.kernels.constants import FlashConstants, kernel_constants
from podsim.kernels.elementwise import memory_seconds, optimizer_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows, read_rows

A100, H100 = load_gpu("a100-sxm4-80gb"), load_gpu("h100-sxm5-80gb")
SHAPE = {
    "batch": 4,
    "heads": 16,
    "kv_heads": 16,
    "queries": 2048,
    "keys": 2048,
    "head_dim": 128,
    "value_dim": 128,
}
PLAIN = FlashConstants(share_64=1.0, share_128=1.0, fill=0.0, tail=0.0, backward_64=1.0, backward_128=1.0,
                       backward_fill=0.0)  # fmt: skip
MACHINE = (100.0, 1e12, 1e30)


def attention_seconds(gpu, *, algorithm="flash2", direction="forward", precision="bf16", dropout=False,
                      fused_softmax=True, **sizes):  # fmt: skip
    """Seconds of an attention core of these sizes."""
    return attention.attention_seconds(
        gpu, AttentionShape(**sizes), algorithm=algorithm, direction=direction, precision=precision, dropout=dropout,
        fused_softmax=fused_softmax,
    )  # fmt: skip


def flash(causal=False, backward=False, window=0, **changes):
    shape = {**SHAPE, **changes}
    return float(flash_law(PLAIN, MACHINE, [np.asarray(v, float) for v in shape.values()], causal=causal,
                           backward=backward, window=window)) - 4e-6  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> KernelRows:
    with as_file(files("podsim.accuracy.tables") / "kernels.csv.gz") as path:
        return read_rows(path)


def test_full_attention_without_overheads_runs_at_peak():
    assert flash() == pytest.approx(4 * 4 * 16 * 2048**2 * 128 / 1e12)


def test_a_mask_leaves_half_the_keys_and_half_a_diagonal_block():
    assert flash(causal=True) == pytest.approx(4 * 4 * 16 * 2048 * (1024 + 64) * 128 / 1e12)


def test_few_blocks_take_as_long_as_the_longest():
    one = flash(batch=1, heads=1, kv_heads=1, queries=128)
    assert one == pytest.approx(4 * 128 * 2048 * 128 / (1e12 / 100))
    assert flash(batch=1, heads=100, kv_heads=100, queries=128) == pytest.approx(one)


def test_backward_makes_five_products_for_two():
    assert flash(backward=True) == pytest.approx(2.5 * flash())
    assert flash(backward=True, head_dim=192) == pytest.approx(flash() * (3 * 192 + 2 * 128) / 256)


def test_heads_are_padded():
    assert flash(head_dim=80, value_dim=80) == pytest.approx(flash(head_dim=96, value_dim=96))


@pytest.mark.parametrize(("backward", "tensors"), [(False, 1.0), (True, 2.5)])
def test_slow_memory_counts_tensors_once_forward_and_two_and_a_half_times_back(backward, tensors):
    """Queries and results of 16 heads, keys and values of four, in 1 B, at 1 GB/s; arithmetic is free."""
    shape = {**SHAPE, "kv_heads": 4, "keys": 1024}
    sizes = [np.asarray(v, float) for v in shape.values()]
    law = flash_law(PLAIN, (100.0, 1e30, 1e9), sizes, causal=False, backward=backward, width=1.0)
    assert float(law) - 4e-6 == pytest.approx(tensors * 4 * (2048 * 16 + 1024 * 4) * 256 / 1e9)


def test_an_algorithm_that_needs_a_newer_gpu_has_those_that_run():
    with pytest.raises(
        PlanError, match=r"flash3 needs compute capability 9.0; .* has 8.0 and runs .*flash1, flash2$"
    ):
        attention_seconds(A100, algorithm="flash3", causal=True, **SHAPE)


def test_a_window_limits_the_keys():
    seen = 512 - 512**2 / (2 * 2048)
    assert flash(causal=True, window=512) == pytest.approx(4 * 4 * 16 * 2048 * (seen + 64) * 128 / 1e12)
    assert flash(causal=True, window=4096) == pytest.approx(flash(causal=True))


def test_unfused_is_its_products_and_passes():
    scores = 4 * 16 * 2048 * 2048
    expected = (
        gemm_seconds(A100, 2048, 2048, 128, batch=64)
        + gemm_seconds(A100, 2048, 128, 2048, batch=64)
        + memory_seconds(A100, 4 * scores)
        + memory_seconds(A100, 5 * scores)
    )
    found = attention_seconds(A100, **SHAPE, causal=True, algorithm="unfused", dropout=True)
    assert float(found) == pytest.approx(float(expected))


def test_separate_softmax_passes_cost_more():
    for direction in ("forward", "backward"):
        fused = attention_seconds(A100, **SHAPE, causal=True, algorithm="unfused", direction=direction)
        apart = attention_seconds(A100, **SHAPE, causal=True, algorithm="unfused", direction=direction,
                                  fused_softmax=False)  # fmt: skip
        assert fused < apart < 5 * fused
    assert sum(score_passes("forward", False, False)) == 37


@pytest.mark.parametrize("algorithm", ["unfused", "flash1", "flash2", "flash3"])
@given(
    batch=st.integers(1, 16), heads=st.integers(1, 64), tokens=st.integers(1, 20_000),
    width=st.integers(16, 256),
    causal=st.booleans(), backward=st.booleans(), window=st.sampled_from([0, 1, 4096]),
)  # fmt: skip
def test_never_beats_the_data_sheet(algorithm, batch, heads, tokens, width, causal, backward, window):
    seconds = float(attention_seconds(
        H100, batch=batch, heads=heads, kv_heads=1, queries=tokens, keys=tokens, head_dim=width,
        value_dim=width,
        causal=causal, algorithm=algorithm, direction="backward" if backward else "forward", window=window,
    ))  # fmt: skip
    seen = tokens if not (causal or window) else tokens / 2
    if window:
        inside = min(window, tokens)
        seen = inside - inside**2 / (2 * tokens)
    work = (10 if backward else 4) * batch * heads * tokens * seen * width
    assert seconds >= work / H100.peaks["bf16"] * (1 - 1e-12)
    assert seconds >= 2e-6


@given(st.integers(1, 12), st.integers(1, 40))
def test_two_batches_take_at_most_twice_and_at_least_as_long(batch, heads):
    one, two = attention_seconds(H100, **{**SHAPE, "batch": np.array([batch, 2.0 * batch]), "heads": heads},
                                 causal=True, algorithm="flash3")  # fmt: skip
    assert one <= two <= 2 * one


@pytest.mark.parametrize(("direction", "products"), [("forward", 128 + 64), ("backward", 3 * 128 + 2 * 64)])
def test_constants_of_a_user_cannot_beat_the_peak(monkeypatch, direction, products):
    """Scores and gradients of queries and keys have the width of keys; outputs and two gradients that of values."""
    quick = replace(PLAIN, share_64=1e3, share_128=1e3)
    constants = replace(kernel_constants(A100), flash={"flash2": quick})
    monkeypatch.setattr(attention, "kernel_constants", lambda gpu: constants)
    found = attention_seconds(A100, **{**SHAPE, "value_dim": 64}, causal=False, direction=direction)
    assert float(found) == pytest.approx(2 * 4 * 16 * 2048**2 * products / A100.peaks["bf16"])


def test_grouped_keys_are_never_slower():
    many, few = attention_seconds(A100, **{**SHAPE, "kv_heads": np.array([16, 2])}, causal=True)
    assert few <= many


def test_all_sizes_broadcast():
    found = attention_seconds(
        A100, **{**SHAPE, "batch": np.ones((3, 1)), "keys": np.array([1024, 2048.0])}, causal=True
    )
    assert found.shape == (3, 2)


@pytest.mark.parametrize(("gpu", "algorithm", "median"), [
    (A100, "flash1", 0.06), (A100, "flash2", 0.02), (H100, "flash1", 0.05), (H100, "flash2", 0.02),
    (H100, "flash3", 0.04),
])  # fmt: skip
def test_bars_of_the_published_figures(rows, gpu, algorithm, median):
    own = rows.take((rows.gpu == gpu.name) & (rows.op == algorithm))
    assert len(own) >= 24
    predicted = []
    for i in range(len(own)):
        shape = {"batch": own.batch[i], "heads": own.heads[i], "kv_heads": own.kv_heads[i]}
        shape |= {"queries": own.tokens[i], "keys": own.tokens[i]}
        shape |= {"head_dim": own.head_dim[i], "value_dim": own.head_dim[i], "causal": bool(own.causal[i])}
        passes = ("forward",) if own.direction[i] == "fwd" else ("forward", "backward")
        predicted.append(sum(
            float(attention_seconds(gpu, **shape, algorithm=algorithm, direction=d))
            for d in passes
        ))  # fmt: skip
    errors = np.abs(np.array(predicted) / own.seconds - 1)
    assert np.median(errors) < median
    assert errors.max() < 0.18


@pytest.mark.parametrize(("gpu", "algorithm", "tolerance"), [(A100, "flash2", 0.12), (H100, "flash3", 0.15)])
def test_serving_kernels_confirm_the_shape(rows, gpu, algorithm, tolerance):
    """Long prompts, where the paged cache weighs least: slower by one factor."""
    own = rows.take((rows.gpu == gpu.name) & (rows.op == "prefill") & (rows.tokens >= 4096))
    ratio = attention_seconds(
        gpu, batch=own.batch, heads=own.heads, kv_heads=own.kv_heads, queries=own.tokens, keys=own.tokens,
        head_dim=own.head_dim, value_dim=own.head_dim, causal=True, algorithm=algorithm,
    ) / own.seconds  # fmt: skip
    assert len(own) > 200
    assert 0.75 < np.median(ratio) < 1
    assert np.median(np.abs(ratio / np.median(ratio) - 1)) < tolerance / 2


@pytest.mark.parametrize(("changes", "text"), [
    ({"algorithm": "flash3"}, "flash3 needs compute capability 9.0; a100-sxm4-80gb has 8.0 and runs unf"),
    ({"algorithm": "flash"}, "unknown attention algorithm 'flash': did you mean"),
    ({"direction": "sideways"}, "unknown direction"),
    ({"window": -1}, r"window=-1 must be zero"),
    ({"heads": 0}, "heads=0 must be positive"),
])  # fmt: skip
def test_mistakes(changes, text):
    with pytest.raises(ValueError, match=text):
        attention_seconds(A100, **{**SHAPE, "causal": True, **changes})


def test_memory_bound_kernels_approach_the_bandwidth():
    share = kernel_constants(A100).memory.share
    assert 0.75 < share < 0.95
    assert 1e12 / float(memory_seconds(A100, 1e12)) / A100.memory_bandwidth == pytest.approx(share, rel=1e-3)
    small = float(memory_seconds(A100, 1000))
    assert 2e-6 < small < 8e-6
    assert memory_seconds(A100, 0) == 0


@given(st.floats(1, 1e13), st.floats(1, 1e13))
def test_one_large_kernel_beats_two_small_ones(a, b):
    assert memory_seconds(A100, a + b) < memory_seconds(A100, a) + memory_seconds(A100, b)
    assert memory_seconds(A100, a) >= a / A100.memory_bandwidth


def test_what_caches_do_not_hold_takes_longer(monkeypatch):
    """On a machine that was measured so: per byte 1 up to `near`, 1 + spill from `far` on, between by the logarithm."""
    known = kernel_constants(A100)
    memory = replace(known.memory, startup=0.0, near=1e6, far=1e8, spill=0.5)
    plain = replace(known, memory=replace(memory, spill=0.0))
    sizes = np.array([1e3, 1e6, 1e7, 1e8, 1e9])
    seconds = []
    for constants in (plain, replace(known, memory=memory)):
        monkeypatch.setattr(kernels_memory, "kernel_constants", lambda gpu, constants=constants: constants)
        seconds.append(memory_seconds(A100, sizes) - memory.latency)
        assert optimizer_seconds(A100, 1e9, 30) == pytest.approx(
            30e9 / A100.memory_bandwidth / memory.share, rel=1e-3
        )
    assert seconds[1] / seconds[0] == pytest.approx([1, 1, 1.25, 1.5, 1.5])


def test_an_adam_step_moves_its_bytes():
    assert optimizer_seconds(A100, 1e9, 30) == memory_seconds(A100, 30e9)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_impossible_bytes(bad):
    with pytest.raises(ValueError, match="must be finite, and zero or more"):
        memory_seconds(A100, [1.0, bad])


def test_few_heads_have_no_fused_softmax():
    """Megatron-LM's kernel wants a multiple of four heads on a rank, over all samples: 3 have none."""
    from podsim.training.plan import Plan
    from podsim.training.shapes import Item, attention_times
    from podsim.training.software import load_software
    from podsim.workload.catalog import load_model

    model, software = load_model("gpt2"), load_software("megatron-2021")
    block = next(block for block in model.kinds if any(op.kind == "attention" for op in block.ops))
    items = [Item(block=block, op=op) for op in block.ops if op.kind == "attention"]
    plan = Plan(tp=4, micro_batch=np.array([1, 2, 4, 8]), global_batch=8, flash=False)
    one, two, four, eight = attention_times(A100, items, plan, 1024, software).forward[0] / np.array(
        [1, 2, 4, 8]
    )
    assert min(one, two) > 1.5 * four
    assert eight < 1.05 * four
    never = attention_times(A100, items, plan, 1024, replace(software, fused_softmax=False))
    assert never.forward[0][2] > 1.5 * 4 * four
    assert attention_times(A100, items, plan, 1024, software).kernels[0].tolist() == [7.0, 7.0, 4.0, 4.0]
