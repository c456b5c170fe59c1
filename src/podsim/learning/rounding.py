"""Values rounded to a number format: to nearest, ties to even, or stochastically; overflow saturates or leaves.

The core uses operators and methods that arrays of numpy and tensors of torch share, so that both give the same bits.

For formats with fewer exponents than their carrier, |x| + c - c with c = 2^(e + m - M) rounds x of exponent e to M
mantissa bits, where the carrier has m: the sum's last bit is worth 2^(e - M). With e at least the format's least
exponent, the same line rounds subnormal numbers. Formats with the carrier's exponents (tf32, bf16) are rounded on the
integers of the bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import PodsimError
from podsim.learning.number_format import Codes, NumberFormat

Overflow = Literal["saturate", "inf"]
"""what a value beyond the largest becomes: the largest, or infinity (NaN without one, the largest without both)"""
_CHUNK = 1 << 15
"""elements that are rounded at a time, so that they stay in the cache"""
_INFINITE = 0x7F800000
"""the bits of infinity in float32"""


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """The floating-point type that holds the values, and functions that libraries name differently."""

    mantissa: int
    bias: int
    floating: Any
    integer: Any
    where: Callable[[Any, Any, Any], Any]
    """The choice between two arrays, given (condition, first, second)."""
    floor: Callable[[Any], Any]
    nearest: Callable[[Any], Any]
    """The whole number nearest to each value, ties to even."""
    is_nan: Callable[[Any], Any]

    @property
    def sign(self) -> int:
        """The sign bit, as a negative integer."""
        return -1 << (31 if self.bias == 127 else 63)


SINGLE = Carrier(
    mantissa=23,
    bias=127,
    floating=np.float32,
    integer=np.int32,
    where=np.where,
    floor=np.floor,
    nearest=np.rint,
    is_nan=np.isnan,
)
DOUBLE = replace(SINGLE, mantissa=52, bias=1023, floating=np.float64, integer=np.int64)


def rounded_values(
    values: Any, number: NumberFormat, carrier: Carrier, *, overflow: Overflow, draws: Any = None
) -> Any:
    """Values of the carrier, rounded to a format; see `round_to`. The values themselves stay."""
    if number.is_integer:
        integers = carrier.nearest(values) if draws is None else carrier.floor(values + draws)
        return carrier.where(carrier.is_nan(values), 0.0, integers).clip(number.lowest, number.largest)
    if number.is_scale:
        return _rounded_scales(values, number, carrier, overflow)
    if number.exponent_bits + number.mantissa_bits >= carrier.mantissa + (8 if carrier.bias == 127 else 11):
        return values
    bits = values.view(carrier.integer)
    sign = bits & carrier.sign
    size = (bits & ~carrier.sign).view(carrier.floating)
    if number.bias == carrier.bias:
        rounded = _round_bits(size, number, carrier, draws)
    else:
        rounded = _round_sizes(size.clip(None, 2.0 ** (number.top_exponent + 1)), number, carrier, draws)
    beyond = number.largest
    if overflow == "inf" and number.has_nan:
        beyond = float("inf") if number.has_infinity else float("nan")
    rounded = carrier.where(rounded > number.largest, beyond, rounded)
    if not number.has_nan:  # as the conversion instructions of GPUs do (PTX, cvt.satfinite)
        rounded = carrier.where(carrier.is_nan(rounded), number.largest, rounded)
    return (rounded.view(carrier.integer) | sign).view(carrier.floating)


def _round_bits(size: Any, number: NumberFormat, carrier: Carrier, draws: Any) -> Any:
    """Magnitudes rounded on their bits, for a format with the carrier's exponents."""
    dropped = carrier.mantissa - number.mantissa_bits
    bits, unit = size.view(carrier.integer), 1 << dropped
    if draws is None:
        up = bits + ((bits >> dropped & 1) + (unit // 2 - 1))
    else:
        share = (bits & (unit - 1)) * (1.0 / unit)
        up = carrier.where(draws < share, bits + unit, bits)
    finite = size < float("inf")
    return carrier.where(finite, up & -unit, bits).view(carrier.floating)


def _round_sizes(size: Any, number: NumberFormat, carrier: Carrier, draws: Any) -> Any:
    """Magnitudes rounded to a format with fewer exponents than the carrier."""
    least = (number.least_exponent + carrier.bias) << carrier.mantissa
    exponent = (size.view(carrier.integer) & (-1 << carrier.mantissa)).clip(least, None)
    if draws is None:
        large = (exponent + ((carrier.mantissa - number.mantissa_bits) << carrier.mantissa)).view(
            carrier.floating
        )
        return (size + large) - large
    quantum = (exponent - (number.mantissa_bits << carrier.mantissa)).view(carrier.floating)
    count = size / quantum
    below = carrier.floor(count)
    up = carrier.where(draws < count - below, below + 1.0, below) * quantum
    return carrier.where(carrier.is_nan(size), size, up)


def _rounded_scales(values: Any, number: NumberFormat, carrier: Carrier, overflow: Overflow) -> Any:
    """Positive values rounded to the nearest power of two, halves up; NaN for those that are negative or infinite.

    As ml_dtypes and torch do, values between 2^-127 and 2^-126 all become the latter in float32.
    """
    half = 1 << (carrier.mantissa - 1)
    bits = values.clip(number.smallest, None).view(carrier.integer)
    near = (bits + half) & (-2 * half)
    if (
        carrier.bias == number.bias
    ):  # the smallest power is subnormal in float32, and libraries round up beyond it
        near = carrier.where(bits == half, half, near)
    power = near.view(carrier.floating)
    if overflow == "saturate":
        power = power.clip(None, number.largest)
    return carrier.where((values >= 0) & (power <= number.largest), power, float("nan"))


def round_to(
    values: ArrayLike, number: NumberFormat, *, overflow: Overflow = "inf", draws: ArrayLike | None = None
) -> NDArray[np.floating[Any]]:
    """Values rounded to a format, as float32 or float64, whichever they come in.

    draws: numbers of [0, 1) in the values' shape, for stochastic rounding: a value x between its neighbours a and b
    becomes b where the draw is below (x - a) / (b - a), away from zero. Without draws rounding is to nearest, ties to
    even. NaN stays NaN, but for formats without NaN it becomes the largest value, and 0 for integers. An integer format
    always saturates. Raises PodsimError for draws of another shape.
    """
    array = _floats(values)
    return _by_chunks(
        lambda part, random: _rounded(part, number, overflow, random), array, draws, array.dtype
    )


def encode(values: ArrayLike, number: NumberFormat, *, overflow: Overflow = "inf") -> Codes:
    """The codes of values, rounded as `round_to` does: unsigned integers of 8, 16, 32 or 64 bits."""
    array = _floats(values)
    sizes = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
    kind = next(kind for bits, kind in sizes.items() if number.bits <= bits)
    return _by_chunks(
        lambda part, random: _codes(_rounded(part, number, overflow, random), number),
        array,
        None,
        np.dtype(kind),
    )


def _by_chunks(
    function: Callable[[Any, Any], Any], array: NDArray[Any], draws: ArrayLike | None, kind: np.dtype[Any]
) -> NDArray[Any]:
    """The results of a function of some values and their draws, for all values."""
    random = None if draws is None else np.asarray(draws, array.dtype)
    if random is not None and random.shape != array.shape:
        raise PodsimError(f"draws of shape {random.shape} for values of shape {array.shape}: one for each")
    flat, output = np.ascontiguousarray(array).reshape(-1), np.empty(array.size, kind)
    flat_draws = None if random is None else np.ascontiguousarray(random).reshape(-1)
    with np.errstate(all="ignore"):
        for first in range(0, flat.size, _CHUNK):
            part = slice(first, first + _CHUNK)
            output[part] = function(flat[part], None if flat_draws is None else flat_draws[part])
    return output.reshape(array.shape)


def _rounded(part: Any, number: NumberFormat, overflow: Overflow, draws: Any) -> Any:
    carrier = DOUBLE if part.dtype == np.float64 else SINGLE
    return rounded_values(part, number, carrier, overflow=overflow, draws=draws)


def _codes(rounded: NDArray[Any], number: NumberFormat) -> NDArray[Any]:
    """The codes of values that a format holds."""
    if number.name == "fp64":
        return rounded.astype(np.float64).view(np.uint64)
    single = rounded.astype(np.float32, copy=False)  # exact: float32 holds every value of these formats
    if number.is_integer:
        return single.astype(np.int32) & ((1 << number.bits) - 1)
    bits = single.view(np.uint32)
    if number.is_scale:
        return np.where(np.isnan(single), 255, bits >> 23)
    size = bits & 0x7FFFFFFF
    sign = (bits >> 31) << (number.bits - 1)
    codes = size >> (23 - number.mantissa_bits)
    if number.bias != SINGLE.bias:
        small = size < (number.least_exponent + SINGLE.bias) << 23
        count = (np.abs(single) * np.float32(2.0**-number.quantum_exponent)).clip(
            None, 2.0**number.mantissa_bits
        )
        codes -= np.uint32((SINGLE.bias - number.bias) << number.mantissa_bits)
        codes = np.where(small, np.where(small, count, 0).astype(np.uint32), codes)
    last = (1 << (number.bits - 1)) - 1
    infinite = last + 1 - (1 << number.mantissa_bits)
    quiet = last if number.special == "nan" else infinite + (1 << (number.mantissa_bits - 1))
    if size.max(initial=0) >= _INFINITE:
        codes = np.where(size == _INFINITE, infinite, np.where(size > _INFINITE, quiet, codes))
    return codes | sign


def _floats(values: ArrayLike) -> NDArray[Any]:
    """Values as float32 or float64."""
    array = np.asarray(values)
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)
