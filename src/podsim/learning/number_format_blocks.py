"""Blocks of values with a scale each: MXFP8, MXFP6, MXFP4 (OCP) and NVFP4; and tensors with one scale.

The arithmetic is written with operators that arrays of numpy and tensors of torch share, as `rounding` is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import PodsimError, check_name, unknown_name
from podsim.learning.number_format import FORMATS, Codes, NumberFormat, decode, number_format
from podsim.learning.rounding import SINGLE, Carrier, encode, rounded_values

SCALE_RULES = ("floor", "ceil", "even", "rceil")
"""the power of two of an MX block: OCP's own, of its largest value (floor); the next one unless that is a power of two
(ceil); of the largest value rounded to the element's mantissa (even); the least that keeps the largest value in range
(rceil, NVIDIA's)"""


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
    """Elements of a format, and a scale for each block of them."""

    name: str
    element: NumberFormat
    scale: NumberFormat
    block: int
    """The number of elements that share a scale."""
    has_tensor_scale: bool = False
    """Whether a float32 scale of the whole tensor keeps the blocks' scales in range."""
    use: str = ""
    source: str = ""
    also: tuple[str, ...] = ()

    @property
    def bits(self) -> float:
        """The bits of an element, with its share of the scale."""
        return self.element.bits + self.scale.bits / self.block


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """An array in a block format. Blocks lie along its last axis; the last one is filled up with zeros."""

    block_format: BlockFormat
    elements: Codes
    """The codes of the elements, in the array's shape with its last axis filled up."""
    scales: Codes
    """The codes of the scales, one for each block."""
    tensor_scale: float
    """factor. The scale of the whole tensor; 1 for formats without one."""
    width: int
    """The length of the last axis before it was filled up."""

    @property
    def values(self) -> NDArray[np.float32]:
        """The values that the codes stand for."""
        number = self.block_format
        scales = decode(self.scales, number.scale) * np.float32(self.tensor_scale)
        parts = decode(self.elements, number.element).reshape(*self.scales.shape, number.block)
        with np.errstate(over="ignore", invalid="ignore"):
            values = (parts * scales[..., None]).reshape(self.elements.shape)
        return np.ascontiguousarray(values[..., : self.width], np.float32)


_MX = "OCP microscaling formats specification 1.0, section 5.2"
BLOCK_FORMATS: dict[str, BlockFormat] = {
    number.name: number
    for number in (
        *(
            BlockFormat(
                name=name, element=FORMATS[element], scale=FORMATS["e8m0"], block=32, source=_MX, use=use, also=also
            )
            for name, element, use, also in (
                ("mxfp8", "e4m3", "training and inference", ("mxfp8_e4m3",)),
                ("mxfp8_e5m2", "e5m2", "gradients, where e4m3 is too narrow", ()),
                ("mxfp6", "e2m3", "inference", ("mxfp6_e2m3",)),
                ("mxfp6_e3m2", "e3m2", "inference", ()),
                ("mxfp4", "e2m1", "weights of inference", ("mxfp4_e2m1",)),
            )
        ),
        BlockFormat(
            name="nvfp4", element=FORMATS["e2m1"], scale=FORMATS["e4m3"], block=16, has_tensor_scale=True,
            source="arxiv.org/abs/2509.25149, section 2", use="training and inference", also=("fp4_nv",),
        ),
    )
}  # fmt: skip
"""by name"""


def any_format(name: str) -> NumberFormat | BlockFormat:
    """The format or the block format of a name. Raises PodsimError for an unknown one."""
    key = name.strip().lower().replace("-", "_")
    for block_format in BLOCK_FORMATS.values():
        if key in (block_format.name, *block_format.also):
            return block_format
    try:
        return number_format(name)
    except PodsimError:
        raise PodsimError(unknown_name("number format", name, [*FORMATS, *BLOCK_FORMATS])) from None


def scaled_elements(
    blocks: Any, largest: Any, number: BlockFormat, carrier: Carrier, *, rule: str, tensor_scale: Any
) -> tuple[Any, Any]:
    """(elements before they are rounded, scales) of float32 blocks along the last axis.

    largest: the largest magnitude of each block, with an axis of length 1 for its elements.
    """
    if number.has_tensor_scale:
        wanted = (largest / number.element.largest / tensor_scale).clip(
            number.scale.smallest_normal, number.scale.largest
        )
        scales = rounded_values(wanted, number.scale, carrier, overflow="saturate")
        return blocks * ((1.0 / tensor_scale) / scales), scales
    scales = _powers(largest, number.element, carrier, rule)
    return blocks / scales, scales


def _powers(largest: Any, element: NumberFormat, carrier: Carrier, rule: str) -> Any:
    """The power of two that divides each block; NaN for a block with NaN, 2^-127 for one of zeros."""
    unit = 1 << 23
    bits = largest.view(carrier.integer)
    if rule == "even":
        bits = bits + (1 << (22 - element.mantissa_bits))
    elif rule == "ceil":
        bits = bits + (unit - 1)
    elif rule == "rceil":
        bits = (largest / element.largest).view(carrier.integer)
        bits = carrier.where(bits > unit // 2, bits + (unit - 1), 0)
    top = 0 if rule == "rceil" else element.top_exponent << 23
    code = (bits & -unit) - top  # the bits of the power of two
    power = code.clip(0, 254 << 23)
    power = carrier.where(power < unit, unit // 2, power).view(carrier.floating)
    return carrier.where(carrier.is_nan(largest), float("nan"), power)


def quantize(values: ArrayLike, number: BlockFormat, *, rule: str = "floor") -> Blocks:
    """An array in a block format, blocks along its last axis, elements rounded to nearest, ties to even.

    Elements saturate. The tensor scale of NVFP4 is the largest magnitude over (448 x 6). Raises PodsimError for an
    unknown rule, and an array without an axis.
    """
    array, width = _padded(values, number, rule)
    parts = array.reshape(*array.shape[:-1], -1, number.block)
    with np.errstate(all="ignore"):
        tensor_scale = _tensor_scale(np.abs(parts).max(initial=0.0), number)
        largest = np.abs(parts).max(-1, keepdims=True, initial=0.0)
        elements, scales = scaled_elements(
            parts, largest, number, SINGLE, rule=rule, tensor_scale=tensor_scale
        )
    return Blocks(
        block_format=number, elements=encode(elements, number.element, overflow="saturate").reshape(array.shape),
        scales=encode(scales[..., 0], number.scale), tensor_scale=float(tensor_scale), width=width,
    )  # fmt: skip


def _tensor_scale(largest: np.floating[Any], number: BlockFormat) -> np.float32:
    """The scale of a tensor with that largest magnitude; 1 for one of zeros and formats without such a scale."""
    if not number.has_tensor_scale or largest == 0:
        return np.float32(1.0)
    return np.float32(largest) / np.float32(number.scale.largest * number.element.largest)


def _padded(values: ArrayLike, number: BlockFormat, rule: str) -> tuple[NDArray[np.float32], int]:
    """(the array in float32 with whole blocks, the length of its last axis before)."""
    array = np.asarray(values, np.float32)
    check_name("rule of scales", rule, SCALE_RULES)
    if array.ndim == 0:
        raise PodsimError(
            f"{number.name} is of blocks of {number.block} values: give an array, not one number"
        )
    width = array.shape[-1]
    missing = -width % number.block
    filled = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array
    return np.ascontiguousarray(filled), width


def round_blocks(values: ArrayLike, number: BlockFormat, *, rule: str = "floor") -> NDArray[np.float32]:
    """The values of an array in a block format: `quantize(values, number).values`."""
    return quantize(values, number, rule=rule).values
