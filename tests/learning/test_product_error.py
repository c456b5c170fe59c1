"""The rounding error of a product, against hand arithmetic of uniform rounding errors."""

from __future__ import annotations

import math

import pytest

from podsim.errors import PodsimError
from podsim.learning.product_error import product_error

SPREAD = math.sqrt(0.75 / (2 * math.log(2)) / 12)
"""The RMS of a rounding error over epsilon, for mantissas that are even in their logarithm: E[1 / mantissa^2] / 12."""


@pytest.mark.parametrize(("precision", "bits"), [("bf16", 7), ("fp16", 10), ("tf32", 10)])
def test_two_rounded_operands_add_their_squares(precision: str, bits: int) -> None:
    assert product_error(precision, 4096) == pytest.approx(math.sqrt(2) * SPREAD * 2.0**-bits, rel=0.1)


def test_integers_err_by_their_step() -> None:
    """The largest of 4096 normal numbers is 3.6 to 3.8 in the mean, 127 steps high."""
    assert product_error("int8", 4096) == pytest.approx(math.sqrt(2 / 12) * 3.7 / 127, rel=0.1)


def test_weights_alone_err_by_one_operand() -> None:
    assert product_error("int8_wo", 4096) == pytest.approx(
        product_error("int8", 4096) / math.sqrt(2), rel=0.1
    )


def test_sums_in_fp32_lose_more_the_deeper_they_are() -> None:
    assert product_error("fp32", 256) < product_error("fp32", 16384) < 1e-5


def test_narrow_formats_lose_more() -> None:
    names = ("fp64", "fp32", "tf32", "bf16", "fp8", "nvfp4", "int4")
    errors = [product_error(name, 2048) for name in names]
    assert errors == sorted(errors)
    assert errors[0] < 1e-14


def test_blocks_of_fp8_lose_what_rows_lose() -> None:
    assert product_error("fp8_block", 1000) == pytest.approx(product_error("fp8", 1000), rel=0.2)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(PodsimError, match="fp7"):
        product_error("fp7", 64)
