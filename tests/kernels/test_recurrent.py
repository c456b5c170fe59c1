"""The loop of a recurrent layer: steps in a row, directions side by side, one product for the weights' gradient."""

from __future__ import annotations

import pytest

from podsim.errors import PlanError
from podsim.hardware.catalog import load_gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.recurrent import recurrent_seconds

A100 = load_gpu("a100-sxm4-80gb")
SIZES = {"batch": 1, "m": 128, "n": 4096, "k": 1024}


def test_steps_run_one_after_the_other() -> None:
    one, ten = (recurrent_seconds(A100, "forward", steps=s, precision="fp16", **SIZES) for s in (1, 10))
    assert ten == pytest.approx(10 * one)
    assert ten > 2 * gemm_seconds(A100, 128, 4096, 1024, batch=10, precision="fp16")
    product = gemm_seconds(A100, 128, 4096, 1024, precision="fp16")
    gates = memory_seconds(A100, 2 * 128 * 1024 * (3 * 4 + 3))
    assert one == pytest.approx(product + gates)


def test_the_gradient_of_the_state_is_the_product_turned_round() -> None:
    """Gates of 4 x 1,024: 2 x 4 + 6 elements of 2 B for each of 128 x 1,024 of the state."""
    found = recurrent_seconds(A100, "state", steps=3, precision="fp16", **SIZES)
    product = gemm_seconds(A100, 128, 1024, 4096, precision="fp16")
    assert found == pytest.approx(3 * (product + memory_seconds(A100, 2 * 128 * 1024 * 14)))


@pytest.mark.parametrize("part", ["forward", "state"])
def test_two_directions_are_products_of_one_kernel(part: str) -> None:
    """The gates of both: twice 128 x 1,024 elements of the state, 3 x 4 + 3 or 2 x 4 + 6 each of 2 B."""
    wide, deep, each = (4096, 1024, 15) if part == "forward" else (1024, 4096, 14)
    product = gemm_seconds(A100, 128, wide, deep, batch=2, precision="fp16", kernel="grouped")
    found = recurrent_seconds(A100, part, steps=1, precision="fp16", **{**SIZES, "batch": 2})
    assert found == pytest.approx(product + memory_seconds(A100, 2 * 2 * 128 * 1024 * each))
    weight = recurrent_seconds(A100, "weight", steps=5, precision="fp16", **{**SIZES, "batch": 2})
    both = gemm_seconds(A100, 1024, 4096, 128 * 5, batch=2, precision="fp16", kernel="grouped")
    assert weight == pytest.approx(both)


def test_directions_run_side_by_side() -> None:
    one, two = (
        recurrent_seconds(A100, "state", steps=10, precision="fp16", **{**SIZES, "m": 32, "batch": ways})
        for ways in (1, 2)
    )
    assert one < two < 2 * one


def test_the_gradient_of_the_weights_is_one_product() -> None:
    found = recurrent_seconds(A100, "weight", steps=50, precision="fp16", **SIZES)
    assert found == pytest.approx(gemm_seconds(A100, 1024, 4096, 128 * 50, precision="fp16"))


def test_unknown_parts() -> None:
    with pytest.raises(PlanError, match="did you mean weight"):
        recurrent_seconds(A100, "weigth", steps=1, precision="fp16", **SIZES)
