"""Number formats as data: exponent and mantissa bits, bias, special values; their ranges and their codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError, unknown_name

Special = Literal["ieee", "nan", "none"]
"""values besides numbers: infinities and NaNs in the top exponent; NaN in the last code alone; none"""
Codes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A number format. Without exponent bits it is a two's complement integer; without a sign it is a power of two."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    """count. The stored bits of the significand; of an integer all bits but the sign."""
    bias: int
    """count. The exponent's code that stands for 2^0."""
    special: Special = "ieee"
    is_signed: bool = True
    storage_bits: int = 0
    """count. The bits of a value in memory, where they are more than the format uses; 0: as many."""
    use: str = ""
    """The common use, in words."""
    source: str = ""
    also: tuple[str, ...] = ()
    """The other names that users give it."""

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return int(self.is_signed) + self.exponent_bits + self.mantissa_bits

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers with one distance between them."""
        return self.exponent_bits == 0

    @property
    def is_scale(self) -> bool:
        """Whether values are powers of two alone, without sign and zero."""
        return not self.is_signed

    @property
    def has_infinity(self) -> bool:
        """Whether a code stands for infinity."""
        return self.special == "ieee" and not self.is_integer

    @property
    def has_nan(self) -> bool:
        """Whether a code stands for NaN."""
        return self.special != "none"

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return -self.bias if self.is_scale else 1 - self.bias

    @property
    def top_exponent(self) -> int:
        """The exponent of the largest finite number; of an integer that of its largest power of two."""
        if self.is_integer:
            return self.mantissa_bits - 1
        return (1 << self.exponent_bits) - 1 - self.bias - (self.has_infinity or self.is_scale)

    @property
    def quantum_exponent(self) -> int:
        """The exponent of the smallest positive number: the distance of numbers around 0."""
        return 0 if self.is_integer else self.least_exponent - self.mantissa_bits

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.is_integer:
            return float((1 << self.mantissa_bits) - 1)
        lost = 2.0 if self.special == "nan" and self.is_signed else 1.0  # the last mantissa stands for NaN
        return float(2.0 - lost * 2.0**-self.mantissa_bits) * 2.0**self.top_exponent

    @property
    def lowest(self) -> float:
        """The lowest finite number."""
        if self.is_scale:
            return self.smallest
        return -self.largest - self.is_integer

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with full precision."""
        return 1.0 if self.is_integer else 2.0**self.least_exponent

    @property
    def smallest(self) -> float:
        """The smallest positive number."""
        return 2.0**self.quantum_exponent

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number."""
        return 1.0 if self.is_integer else 2.0**-self.mantissa_bits

    @property
    def decades(self) -> float:
        """The decimal orders of magnitude from the smallest to the largest positive number."""
        return float(np.log10(self.largest) - np.log10(self.smallest))


_IEEE = "IEEE 754-2019, table 3.5"
_FP8 = "OCP 8-bit floating point specification 1.0, section 5; arxiv.org/abs/2209.05433"
_MX = "OCP microscaling formats specification 1.0, section 5.3"
_SHORT = "NVIDIA A100 white paper, figure 9 and section on TF32; DGX A100 paper, figure 3"

FORMATS: dict[str, NumberFormat] = {
    number.name: number
    for number in (
        NumberFormat(
            name="fp64", exponent_bits=11, mantissa_bits=52, bias=1023, source=_IEEE, also=("float64", "double"),
            use="simulation; sums that must not drift",
        ),
        NumberFormat(
            name="fp32", exponent_bits=8, mantissa_bits=23, bias=127, source=_IEEE, also=("float32", "float", "single"),
            use="master weights, sums, optimizers",
        ),
        NumberFormat(
            name="tf32", exponent_bits=8, mantissa_bits=10, bias=127, storage_bits=32, source=_SHORT,
            also=("tensorfloat32", "tensorfloat", "tf19"), use="operands of matrix products; fp32 in memory",
        ),
        NumberFormat(
            name="bf16", exponent_bits=8, mantissa_bits=7, bias=127, source=_SHORT, also=("bfloat16", "bfloat"),
            use="training without loss scaling",
        ),
        NumberFormat(
            name="fp16", exponent_bits=5, mantissa_bits=10, bias=15, source=_IEEE, also=("float16", "half"),
            use="training with loss scaling; inference",
        ),
        NumberFormat(
            name="e4m3", exponent_bits=4, mantissa_bits=3, bias=7, special="nan", source=_FP8,
            also=("fp8", "e4m3fn", "float8_e4m3fn", "fp8_e4m3"), use="weights and activations of FP8",
        ),
        NumberFormat(
            name="e5m2", exponent_bits=5, mantissa_bits=2, bias=15, source=_FP8, also=("float8_e5m2", "fp8_e5m2"),
            use="gradients of FP8",
        ),
        NumberFormat(
            name="e3m2", exponent_bits=3, mantissa_bits=2, bias=3, special="none", source=_MX,
            also=("fp6", "float6_e3m2fn", "fp6_e3m2"), use="elements of MXFP6",
        ),
        NumberFormat(
            name="e2m3", exponent_bits=2, mantissa_bits=3, bias=1, special="none", source=_MX,
            also=("float6_e2m3fn", "fp6_e2m3"), use="elements of MXFP6",
        ),
        NumberFormat(
            name="e2m1", exponent_bits=2, mantissa_bits=1, bias=1, special="none", source=_MX,
            also=("fp4", "float4_e2m1fn", "fp4_e2m1"), use="elements of MXFP4 and NVFP4",
        ),
        NumberFormat(
            name="e8m0", exponent_bits=8, mantissa_bits=0, bias=127, special="nan", is_signed=False,
            source="OCP microscaling formats specification 1.0, section 5.4.1", also=("ue8m0", "float8_e8m0fnu"),
            use="scales of MX blocks",
        ),
        NumberFormat(
            name="int8", exponent_bits=0, mantissa_bits=7, bias=0, special="none", source="two's complement",
            use="inference with a scale",
        ),
        NumberFormat(
            name="int4", exponent_bits=0, mantissa_bits=3, bias=0, special="none", source="two's complement",
            use="weights of inference, a scale for a group",
        ),
    )
}  # fmt: skip
"""by name"""


def number_format(name: str) -> NumberFormat:
    """The format of a name, in any spelling that libraries use. Raises PodsimError for an unknown one."""
    key = name.strip().lower().removeprefix("torch.").replace("-", "_")
    names = {other: each for each in FORMATS.values() for other in (each.name, *each.also)}
    if key not in names:
        raise PodsimError(unknown_name("number format", name, FORMATS))
    return names[key]


def decode(codes: Codes, number: NumberFormat) -> NDArray[np.floating[Any]]:
    """The values of codes: float64 for fp64, else float32, which holds every value of every other format."""
    codes = np.asarray(codes)
    if number.bits > 16:
        return _decode(codes, number)
    values: NDArray[np.floating[Any]] = _all_values(number)[codes & ((1 << number.bits) - 1)]
    return values


@lru_cache(maxsize=16)
def _all_values(number: NumberFormat) -> NDArray[np.floating[Any]]:
    """The values of all codes of a format of at most 16 bits."""
    return _decode(np.arange(1 << number.bits, dtype=np.uint32), number)


def _decode(codes: Codes, number: NumberFormat) -> NDArray[np.floating[Any]]:
    wide = codes.astype(np.uint64)
    if number.name == "fp64":
        return wide.view(np.float64)
    mantissa_bits, exponent_bits = number.mantissa_bits, number.exponent_bits
    mantissa = (wide & ((1 << mantissa_bits) - 1)).astype(np.float64)
    if number.is_integer:
        sign_weight = 2.0**mantissa_bits
        return (mantissa - sign_weight * (wide >> mantissa_bits & 1)).astype(np.float32)
    exponent = (wide >> mantissa_bits & ((1 << exponent_bits) - 1)).astype(np.int64)
    if number.is_scale:
        return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - number.bias)).astype(np.float32)
    normal = np.ldexp(1.0 + mantissa * 2.0**-mantissa_bits, exponent - number.bias)
    size = np.where(exponent > 0, normal, mantissa * number.smallest)
    last = exponent == (1 << exponent_bits) - 1
    if number.special == "ieee":
        size = np.where(last, np.where(mantissa > 0, np.nan, np.inf), size)
    elif number.special == "nan":
        size = np.where(last & (mantissa == (1 << mantissa_bits) - 1), np.nan, size)
    is_negative = (wide >> (mantissa_bits + exponent_bits) & 1).astype(bool)
    return np.copysign(size, np.where(is_negative, -1.0, 1.0)).astype(np.float32)


def code_text(code: int, number: NumberFormat) -> str:
    """A code's bits, sign, exponent and mantissa apart: "0 0111 010"."""
    bits = f"{code:0{number.bits}b}"
    first = int(number.is_signed)
    parts = (bits[:first], bits[first : first + number.exponent_bits], bits[first + number.exponent_bits :])
    return " ".join(part for part in parts if part)
