"""The codes of a number format around numbers, with the chance of each under stochastic rounding."""

from __future__ import annotations

import math

import numpy as np

from podsim.answers.number_formats import FormatCode
from podsim.learning.number_format import NumberFormat, code_text, decode
from podsim.learning.number_format_blocks import BlockFormat, quantize
from podsim.learning.rounding import encode, round_to


def format_codes(asked: list[float], number: NumberFormat | BlockFormat) -> list[FormatCode]:
    """The numbers of a format around those that were asked for; of a block format those that the block holds."""
    if isinstance(number, BlockFormat):
        return _block_codes(asked, number)
    return [code for value in asked for code in _neighbours(value, number)]


def _neighbours(asked: float, number: NumberFormat) -> list[FormatCode]:
    """The numbers below and above one, with the chance of each under stochastic rounding."""
    exact = np.array([asked])
    nearest = float(round_to(exact, number)[0])
    if number.is_integer:
        ends = [min(max(end, number.lowest), number.largest) for end in (math.floor(asked), math.ceil(asked))]
    elif number.is_scale or not math.isfinite(asked) or math.isnan(nearest):
        ends = [nearest]
    else:
        ends = [float(round_to(exact, number, draws=np.array([draw]))[0]) for draw in (1.0, 0.0)]
    values = [nearest] if len(set(ends)) == 1 else sorted(ends)
    chances = {value: _chance(asked, value, values) for value in values}
    return [
        _code(asked, value, number, chance=chances[value], is_nearest=len(values) == 1 or value == nearest)
        for value in values
    ]


def _chance(asked: float, value: float, values: list[float]) -> float:
    """The probability that stochastic rounding picks a value; 0 beyond the largest finite one."""
    if len(values) == 1:
        return 1.0
    low, high = values
    if not (math.isfinite(low) and math.isfinite(high)):
        return float(math.isfinite(value))
    share = (asked - low) / (high - low)
    return share if value == high else 1.0 - share


def _code(asked: float, value: float, number: NumberFormat, *, chance: float, is_nearest: bool) -> FormatCode:
    code = int(encode(np.array([value]), number)[0])
    error = abs(value / asked - 1.0) if asked and math.isfinite(asked) and math.isfinite(value) else None
    return FormatCode(
        asked=asked, value=value, code=code, bits=code_text(code, number), error=error, chance=chance,
        is_nearest=is_nearest,
    )  # fmt: skip


def _block_codes(asked: list[float], number: BlockFormat) -> list[FormatCode]:
    """The codes of numbers that share blocks."""
    blocks = quantize(np.array(asked, np.float32), number)
    scales = decode(blocks.scales, number.scale) * blocks.tensor_scale
    rows = []
    for index, (value, code) in enumerate(zip(asked, blocks.elements.tolist(), strict=False)):
        held = float(blocks.values[index])
        scale = float(scales[index // number.block])
        rows.append(
            FormatCode(
                asked=value, value=held, code=code,
                bits=f"{code_text(code, number.element)} x {scale:g}",
                error=abs(held / value - 1.0) if value and math.isfinite(value) else None, chance=1.0, is_nearest=True,
            )
        )  # fmt: skip
    return rows
