"""Convolutions by the law of products: sizes by hand, bounds, and what never may be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PlanError
from podsim.hardware.catalog import load_gpu
from podsim.kernels import convolutions
from podsim.kernels.constants import kernel_constants
from podsim.kernels.convolutions import (
    DIRECT_ARITHMETIC,
    DIRECT_BYTES,
    GATHER_BYTES,
    LONG_ARITHMETIC,
    PARTS,
    ConvShape,
)
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds

A100 = load_gpu("a100-sxm4-80gb")
THREE = {
    "batch": 256,
    "channels": 64,
    "filters": 128,
    "groups": 1,
    "window": 9,
    "positions": 784,
    "inputs": 3136,
}


def conv_seconds(gpu, part: str, *, precision: str = "bf16", **sizes) -> np.ndarray:
    """Seconds of a convolution of these sizes."""
    return convolutions.conv_seconds(gpu, part, ConvShape(**sizes), precision=precision)


def conv_product(part: str, **sizes) -> tuple[np.ndarray, ...]:
    """The product that a convolution of these sizes is."""
    return convolutions.conv_product(part, ConvShape(**sizes).sizes())


def test_products_by_hand() -> None:
    """3 x 3, 64 to 128 channels, stride 2, 56 x 56 to 28 x 28: each pass has the same arithmetic."""
    m, n, k = (float(v) for v in conv_product("forward", **THREE))
    assert (m, n, k) == (256 * 784, 128, 576)
    assert [float(v) for v in conv_product("weight", **THREE)] == [576, 128, 256 * 784]
    assert [float(v) for v in conv_product("input", **THREE)] == [256 * 3136, 64, 9 * 128 / 4]
    # a 1 x 1 of stride 2 reads a quarter of its inputs: only those have a gradient
    one = {**THREE, "window": 1}
    assert [float(v) for v in conv_product("input", **one)] == [256 * 784, 64, 128]


def test_groups_of_two_filters_are_not_aligned() -> None:
    """Rows of 4 B: four groups of 256 channels, with windows too long for direct kernels; all fit into one tile."""
    sizes = {**THREE, "channels": 1024, "groups": 4, "window": 49, "inputs": 784}
    two, eight = (float(conv_seconds(A100, "forward", **sizes | {"filters": 4 * each})) for each in (2, 8))
    assert two / eight == pytest.approx(1 / kernel_constants(A100).gemm["bf16"].unaligned, rel=0.02)


def test_a_window_of_one_is_a_plain_product() -> None:
    one = {**THREE, "window": 1, "positions": 3136}
    assert conv_seconds(A100, "forward", **one) == gemm_seconds(A100, 256 * 3136, 128, 64)


def test_large_convolutions_run_near_the_peak() -> None:
    large = {"batch": 128, "channels": 512, "filters": 512, "window": 9, "positions": 784, "inputs": 784}
    flops = 2 * 128 * 784 * 512 * 512 * 9
    for part in PARTS:
        share = flops / float(conv_seconds(A100, part, **large)) / A100.peaks["bf16"]
        assert 0.6 < share < 1.0, part


DEPTHWISE = {
    "batch": 64,
    "channels": 384,
    "filters": 384,
    "groups": 384,
    "window": 9,
    "positions": 784,
    "inputs": 784,
}


def test_depthwise_moves_few_bytes_a_cycle() -> None:
    """No tensor core helps a product one column wide; all SMs together move far less than memory could give."""
    moved = 2 * (2 * 64 * 384 * 784 + 9 * 384)
    flops = 2 * 9 * 64 * 384 * 784
    seconds = moved / (DIRECT_BYTES * A100.sms * A100.clock) + flops / (
        DIRECT_ARITHMETIC * A100.peaks["fp32"]
    )
    assert conv_seconds(A100, "forward", **DEPTHWISE) == pytest.approx(seconds)
    assert seconds > 4 * memory_seconds(A100, moved)


def test_depthwise_gains_little_from_faster_memory() -> None:
    faster = replace(A100, memory_bandwidth=4 * A100.memory_bandwidth)
    assert conv_seconds(faster, "weight", **DEPTHWISE) == conv_seconds(A100, "weight", **DEPTHWISE)


def test_long_windows_of_single_channels_cost_more_than_their_arithmetic() -> None:
    """Kernels are compiled for windows up to 5 x 5: one weight more costs a lot, and each after it the same."""
    speech = {"batch": 48, "channels": 512, "filters": 512, "groups": 512, "positions": 615, "inputs": 615}
    short, longer, long, doubled = (
        float(conv_seconds(A100, "forward", **speech, window=window)) for window in (25, 26, 33, 66)
    )
    assert longer > 2 * short
    weight = 2 * 48 * 512 * 615 / (LONG_ARITHMETIC * A100.peaks["fp32"])
    assert doubled - long == pytest.approx(33 * weight, rel=1e-3)


NARROW = {
    "batch": 128,
    "channels": 512,
    "filters": 512,
    "groups": 32,
    "window": 9,
    "positions": 196,
    "inputs": 196,
}


@pytest.mark.parametrize("part", PARTS)
def test_narrow_groups_are_packed_on_tensor_cores(part: str) -> None:
    """32 groups of 16 channels are no slower than 16 of 32 or 8 of 64, which hold them; 32 products are."""
    seconds = float(conv_seconds(A100, part, **NARROW, precision="fp16"))
    for wider in (16, 8):
        assert seconds <= float(conv_seconds(A100, part, **{**NARROW, "groups": wider}, precision="fp16"))
    m, n, k = (float(one) for one in conv_product(part, **NARROW))
    assert seconds < float(gemm_seconds(A100, m, n, k, batch=32, precision="fp16"))


def test_what_is_too_narrow_or_has_no_tensor_cores_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds() -> list[float]:
        kinds = ((32, "fp16"), (128, "fp16"), (256, "fp16"), (32, "fp32"))
        return [
            float(conv_seconds(A100, "forward", **{**NARROW, "groups": groups}, precision=precision))
            for groups, precision in kinds
        ]

    packed = seconds()
    monkeypatch.setattr("podsim.kernels.convolutions.PACKS", (1,))
    alone = seconds()
    assert [one < other for one, other in zip(packed, alone, strict=True)] == [True, True, False, False]
    assert packed[2:] == alone[2:]


def test_few_filters_wait_for_the_gathering_of_their_windows() -> None:
    """Eight filters of 7 x 7 over 64 channels: each place gathers 64 x 49 elements of 2 B at GATHER_BYTES a cycle."""
    sizes = {
        "batch": 256,
        "channels": 64,
        "filters": 8,
        "groups": 1,
        "window": 49,
        "positions": 3136,
        "inputs": 3136,
    }
    found = float(conv_seconds(A100, "forward", **sizes, precision="fp16"))
    gathered = 2 * 256 * 3136 * 64 * 49 / (GATHER_BYTES * A100.sms * A100.clock)
    assert found == pytest.approx(gathered)


def test_few_wide_groups_are_products() -> None:
    """Two groups of 256 channels fill tiles: no slower than twice one of them."""
    half = {"batch": 64, "channels": 256, "filters": 256, "window": 9, "positions": 784, "inputs": 784}
    both = {**half, "channels": 512, "filters": 512, "groups": 2}
    assert conv_seconds(A100, "forward", **both) <= 2 * conv_seconds(A100, "forward", **half)


def test_a_transposed_convolution_is_the_input_gradient_of_another() -> None:
    other = {**THREE, "channels": 128, "filters": 64, "positions": 3136, "inputs": 784}
    assert conv_seconds(A100, "forward", **other, transposed=True) == conv_seconds(A100, "input", **THREE)
    assert conv_seconds(A100, "input", **other, transposed=True) == conv_seconds(A100, "forward", **THREE)
    assert conv_seconds(A100, "weight", **other, transposed=True) == conv_seconds(A100, "weight", **THREE)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(PARTS), st.integers(1, 256), st.integers(1, 64), st.integers(1, 64), st.sampled_from([1, 9, 25, 49]),
    st.integers(1, 3000), st.sampled_from(["bf16", "tf32", "fp32"]),
)  # fmt: skip
def test_never_faster_than_light(
    part: str, batch: int, channels: int, filters: int, window: int, places: int, precision: str
) -> None:
    sizes = {"batch": batch, "channels": channels, "filters": filters, "window": window, "positions": places}
    seconds = float(conv_seconds(A100, part, **sizes, inputs=places, precision=precision))
    flops = 2.0 * batch * places * channels * filters * window
    if precision == "fp32" and window == 9:  # Winograd's algorithm multiplies 16 times in place of 36
        flops *= 16 / 36
    assert seconds >= flops / A100.peaks[precision]
    width = 2 if precision == "bf16" else 4
    moved = width * (batch * places * (channels + filters) + window * channels * filters)
    assert seconds >= (moved - A100.l2) / A100.memory_bandwidth


@pytest.mark.parametrize("part", PARTS)
def test_plain_units_save_multiplications_of_three_by_three(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 36 / 16 = 2.25 of them; a stride, other windows, tensor cores and processors save none."""
    v100 = load_gpu("v100-sxm2-16gb")
    same = {
        "batch": 64,
        "channels": 256,
        "filters": 256,
        "groups": 1,
        "window": 9,
        "positions": 784,
        "inputs": 784,
    }
    cases = {
        "same": (v100, same, "fp32"),
        "stride": (v100, {**same, "inputs": 3136}, "fp32"),
        "cube": (v100, {**same, "window": 27}, "fp32"),
        "groups": (v100, {**same, "groups": 2}, "fp32"),
        "half": (v100, same, "fp16"),
        "tf32": (A100, same, "tf32"),
        "processor": (replace(v100, compute_capability=0.0), same, "fp32"),
    }

    def seconds() -> dict[str, float]:
        return {
            name: float(conv_seconds(gpu, part, **sizes, precision=precision))
            for name, (gpu, sizes, precision) in cases.items()
        }

    found = seconds()
    monkeypatch.setattr("podsim.kernels.convolutions.TILED_WINDOW", 0.5)  # no such window
    plain = seconds()
    assert 1.5 < plain.pop("same") / found.pop("same") <= 2.25
    assert found == plain


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    channels = np.array([32.0, 64.0, 512.0])
    together = conv_seconds(A100, "input", **{**THREE, "channels": channels})
    assert together.shape == (3,)
    for c, seconds in zip(channels, together, strict=True):
        assert seconds == conv_seconds(A100, "input", **{**THREE, "channels": c})


@pytest.mark.parametrize(
    ("change", "word"),
    [({"channels": 0}, "channels=0"), ({"window": -1}, "window=-1"), ({"batch": np.inf}, "batch=inf")],
)
def test_wrong_sizes(change: dict[str, float], word: str) -> None:
    with pytest.raises(PlanError, match=word):
        conv_seconds(A100, "forward", **{**THREE, **change})


def test_unknown_part_and_precision() -> None:
    with pytest.raises(PlanError, match="forward, input, weight"):
        conv_seconds(A100, "backward", **THREE)
    with pytest.raises(PlanError, match="has no fp8"):
        conv_seconds(A100, "forward", **THREE, precision="fp8")
