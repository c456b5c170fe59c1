"""Number formats against other libraries: every code, and float32 values around every boundary and midpoint."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.learning.number_format import FORMATS, NumberFormat, decode, number_format
from podsim.learning.rounding import encode, round_to

TRUTH: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
TORCH = {
    "bf16": "bfloat16", "fp16": "float16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu",
}  # fmt: skip


def floats(number: NumberFormat) -> NDArray[np.float32]:
    """Finite float32 values: codes of the format, midpoints, and their neighbours up to 2 ulp; and a dense sample."""
    values = decode(np.arange(1 << number.bits, dtype=np.uint32), number).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    ends = np.concatenate(
        (values, (values[1:] + values[:-1]) / 2, number.largest * np.array([1.03, 1.07, 2.0]))
    )
    with np.errstate(over="ignore"):
        bits = ends.astype(np.float32).view(np.uint32)
    near = (bits[:, None] + np.arange(-2, 3).astype(np.uint32)).ravel()
    every = np.arange(0, 1 << 32, 8191, dtype=np.uint64).astype(np.uint32)
    single = np.concatenate((near, every)).view(np.float32)
    return single[np.isfinite(single)]


def in_domain(values: NDArray[np.float32], number: NumberFormat) -> NDArray[np.float32]:
    return values[values > 0] if number.is_scale else values


@pytest.mark.parametrize("name", TRUTH)
def test_every_code(name: str) -> None:
    number = FORMATS[name]
    codes = np.arange(1 << number.bits, dtype=np.uint16 if number.bits > 8 else np.uint8)
    truth = codes.view(TRUTH[name]).astype(np.float32)
    values = decode(codes, number)
    assert np.array_equal(values, truth, equal_nan=True)
    there = ~np.isnan(values)
    assert np.array_equal(np.signbit(values[there]), np.signbit(truth[there]))
    assert np.array_equal(encode(values, number)[there], codes[there])
    assert values[there & np.isfinite(values)].max() == number.largest
    assert values[values > 0].min() == number.smallest


@pytest.mark.parametrize("name", TRUTH)
def test_rounding_is_that_of_ml_dtypes(name: str) -> None:
    number = FORMATS[name]
    values = in_domain(floats(number), number)
    with np.errstate(over="ignore"):
        truth = values.astype(TRUTH[name])
    codes = encode(values, number)
    assert np.array_equal(codes, truth.view(codes.dtype))
    rounded = truth.astype(np.float32)
    assert np.array_equal(round_to(values, number), rounded, equal_nan=True)
    saturated = round_to(values, number, overflow="saturate")
    inside = np.abs(rounded) <= number.largest
    assert np.array_equal(saturated[inside], rounded[inside])
    assert np.array_equal(saturated[~inside], np.copysign(np.float32(number.largest), values[~inside]))


@pytest.mark.torch
@pytest.mark.parametrize("name", TORCH)
def test_rounding_is_that_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    number = FORMATS[name]
    values = in_domain(floats(number), number)
    truth = torch.from_numpy(values).to(getattr(torch, TORCH[name])).float().numpy()
    inside = np.abs(values) <= number.largest
    assert np.array_equal(round_to(values, number)[inside], truth[inside])


@pytest.mark.long
@pytest.mark.parametrize("name", TRUTH)
def test_every_float32(name: str) -> None:
    number = FORMATS[name]
    for first in range(0, 1 << 32, 1 << 24):
        values = np.arange(first, first + (1 << 24), dtype=np.uint64).astype(np.uint32).view(np.float32)
        values = in_domain(values[np.isfinite(values)], number)
        with np.errstate(over="ignore"):
            truth = values.astype(TRUTH[name])
        codes = encode(values, number)
        assert np.array_equal(codes, truth.view(codes.dtype))


def test_tf32_keeps_the_first_bits() -> None:
    """Rounded to nearest, ties to even, in integer arithmetic on the bits of float32."""
    bits = np.arange(0, 0x7F800000, 4093, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate(
        (bits, bits | np.uint32(0x80000000), np.arange(0x3F800000, 0x3F810000, dtype=np.uint32))
    )
    low, kept = bits & 0x1FFF, bits >> 13
    up = (low > 0x1000) | ((low == 0x1000) & (kept & 1 == 1))
    truth = ((kept + up) << 13).astype(np.uint32)
    number = FORMATS["tf32"]
    assert np.array_equal(round_to(bits.view(np.float32), number).view(np.uint32), truth)
    assert np.array_equal(encode(bits.view(np.float32), number), truth >> 13)
    assert np.array_equal(decode(truth >> 13, number), truth.view(np.float32), equal_nan=True)


@pytest.mark.parametrize("name", ["fp64", "fp32", "fp16"])
def test_wide_formats_are_those_of_numpy(name: str) -> None:
    """Doubles rounded once: not first to float32."""
    kind = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}[name]
    generator = np.random.default_rng(0)
    values = generator.standard_normal(20_000) * 10.0 ** generator.integers(-50, 50, 20_000)
    values = np.concatenate((values, [1 + 2.0**-11 + 2.0**-40, 1e300, -0.0, np.inf, np.nan]))
    with np.errstate(over="ignore"):
        truth = values.astype(kind)
    assert np.array_equal(round_to(values, FORMATS[name]), truth.astype(np.float64), equal_nan=True)
    codes = encode(values, FORMATS[name])
    assert np.array_equal(codes[:-1], truth.view(codes.dtype)[:-1])
    assert np.array_equal(
        decode(codes, FORMATS[name]).astype(np.float64), truth.astype(np.float64), equal_nan=True
    )


@pytest.mark.parametrize("name", ["bf16", "fp16", "e4m3", "e2m1", "int8"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_stochastic_rounding_is_right_on_average(name: str, kind: type) -> None:
    number = FORMATS[name]
    for value in (1.3, 0.7, number.smallest_normal * 1.2, number.smallest * 0.4):
        draws = (np.arange(4096) + 0.5) / 4096
        rounded = round_to(np.full(4096, value, kind), number, draws=draws).astype(np.float64)
        assert len(set(rounded)) == 2
        step = rounded.max() - rounded.min()
        assert abs(rounded.mean() - float(kind(value))) < 2e-3 * step
    kept = decode(np.arange(1 << number.bits, dtype=np.uint32), number).astype(kind)
    kept = kept[np.isfinite(kept)]
    assert np.array_equal(round_to(kept, number, draws=np.zeros(kept.shape)), kept)


@pytest.mark.parametrize(
    ("name", "plain", "saturated"),
    [("fp16", np.inf, 65504.0), ("e4m3", np.nan, 448.0), ("e5m2", np.inf, 57344.0), ("e2m1", 6.0, 6.0),
     ("int8", 127.0, 127.0), ("e8m0", np.nan, 2.0**127)],
)  # fmt: skip
def test_overflow(name: str, plain: float, saturated: float) -> None:
    number, beyond = FORMATS[name], np.array([1e39, np.inf])
    assert np.array_equal(round_to(beyond, number), [plain, plain], equal_nan=True)
    assert np.array_equal(round_to(beyond, number, overflow="saturate"), [saturated, saturated])


def test_integers() -> None:
    values = np.array([-300.0, -128.5, -0.5, 0.5, 1.5, 126.6, np.nan])
    assert round_to(values, FORMATS["int8"]).tolist() == [-128, -128, 0, 0, 2, 127, 0]
    assert encode(values, FORMATS["int8"]).view(np.int8).tolist() == [-128, -128, 0, 0, 2, 127, 0]
    assert encode(np.array([-3.0, 7.0]), FORMATS["int4"]).tolist() == [13, 7]


def test_names() -> None:
    assert number_format("float8_e4m3fn") is number_format("FP8") is FORMATS["e4m3"]
    with pytest.raises(PodsimError, match="unknown number format"):
        number_format("fp9")
    with pytest.raises(PodsimError, match="one for each"):
        round_to(np.zeros(3), FORMATS["bf16"], draws=np.zeros(2))
