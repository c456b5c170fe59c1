"""`podsim format`: number formats, their codes around a number, the GPUs that run them, what they cost in accuracy."""

from __future__ import annotations

import math

import numpy as np

from podsim.answers.number_formats import (
    FormatCode,
    FormatGpu,
    FormatRow,
    FormatSheet,
    FormatTable,
    FormatTrade,
)
from podsim.errors import CatalogError, PodsimError
from podsim.hardware.catalog import load_gpu, names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.parts import Gpu, matmul_peak
from podsim.learning.format_accuracy import accuracy_of
from podsim.learning.number_format import FORMATS, NumberFormat, code_text, decode
from podsim.learning.number_format_blocks import BLOCK_FORMATS, BlockFormat, any_format, quantize
from podsim.learning.rounding import Overflow, encode, round_to
from podsim.options.format_options import FormatOptions
from podsim.options.question import question
from podsim.questions.learn.format_trade import format_trade

_MULTIPLIED = {
    "e4m3": "fp8", "e5m2": "fp8", "mxfp8": "mxfp8", "mxfp8_e5m2": "mxfp8", "mxfp6": "mxfp8", "mxfp6_e3m2": "mxfp8",
    "mxfp4": "nvfp4", "nvfp4": "nvfp4",
}  # fmt: skip
"""format -> the precision of the catalog whose products take it, if it is not of its name"""
_PEERS = ("fp32", "tf32", "fp16", "bf16")
"""what DGX A100's paper draws next to each other in figure 3"""
_MOST_NUMBERS = 64


@question(FormatOptions)
def format(options: FormatOptions) -> FormatTable | FormatSheet | FormatTrade:
    """One number format; without a name a table of all, or for a model what each gains and costs.

    Raises PodsimError for an unknown format or GPU, and for text that holds no numbers.
    """
    if options.model:
        if options.name:
            raise PodsimError(f"--model compares all formats: leave {options.name[:40]!r} out")
        return format_trade(options)
    gpus = [_gpu(options.on)] if options.on else [load_gpu(name) for name in names("gpu")]
    if not options.name:
        if options.numbers:
            raise PodsimError("numbers are rounded to a format: podsim format e4m3 0.3")
        return FormatTable(
            rows=tuple(_row(each, gpus) for each in map(any_format, (*FORMATS, *BLOCK_FORMATS)))
        )
    number = any_format(options.name)
    peers = [FORMATS[name] for name in _PEERS if name != number.name]
    return FormatSheet(
        row=_row(number, gpus), peers=tuple(_row(each, gpus) for each in peers),
        codes=tuple(_codes(_numbers(options.numbers), number)) if options.numbers else (),
        overflow=_overflow(number), gpus=tuple(_gpus(number, gpus)), accuracy=accuracy_of(number),
    )  # fmt: skip


def _gpu(name: str) -> Gpu:
    """The GPU of a name, or of a system or cluster."""
    try:
        return load_gpu(name)
    except CatalogError:
        return load_cluster(name).gpu


def _numbers(text: str) -> list[float]:
    """Numbers from text with commas. Raises PodsimError for text that is none."""
    words = [word for word in text.replace(",", " ").split() if word]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if not numbers or len(numbers) > _MOST_NUMBERS or any(map(math.isnan, numbers)):
        raise PodsimError(f"numbers={text[:40]!r}: 1 to {_MOST_NUMBERS} numbers, as 0.3 or 0.3,1e-9,-5")
    return numbers


def _row(number: NumberFormat | BlockFormat, gpus: list[Gpu]) -> FormatRow:
    """The figures of a format."""
    blocks = number if isinstance(number, BlockFormat) else None
    element = number.element if isinstance(number, BlockFormat) else number
    return FormatRow(
        name=number.name, bits=float(number.bits), sign=int(element.is_signed), exponent=element.exponent_bits,
        mantissa=element.mantissa_bits, bias=element.bias, special=element.special, largest=element.largest,
        smallest_normal=element.smallest_normal, smallest=element.smallest, epsilon=element.epsilon,
        decades=element.decades, block=blocks.block if blocks else 0, scale=blocks.scale.name if blocks else "",
        memory_bits=element.storage_bits or element.bits, gpus=len(list(_gpus(number, gpus))), use=number.use,
        source=number.source,
    )  # fmt: skip


def _gpus(number: NumberFormat | BlockFormat, gpus: list[Gpu]) -> list[FormatGpu]:
    """The GPUs that multiply a format, the fastest first."""
    precision = _MULTIPLIED.get(number.name, number.name)
    peaks = [(gpu, _peak(gpu, precision)) for gpu in gpus]
    rows = [
        FormatGpu(
            gpu=gpu.name, peak=peak, gain=peak / gpu.peaks["fp32"] if "fp32" in gpu.peaks else None,
            sparse=_peak(gpu, precision, sparse=True),
        )
        for gpu, peak in peaks
        if peak is not None
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.peak)


def _peak(gpu: Gpu, precision: str, *, sparse: bool = False) -> float | None:
    """FLOP/s of a GPU's products in a precision; None where it has none."""
    try:
        return matmul_peak(gpu, precision, sparse=sparse)
    except CatalogError:
        return None


def _overflow(number: NumberFormat | BlockFormat) -> tuple[float, ...]:
    """(what twice the largest number becomes, what it becomes if the format saturates)."""
    element = number.element if isinstance(number, BlockFormat) else number
    if isinstance(number, BlockFormat) or element.name == "fp64":
        return ()
    beyond = np.array([2.0 * element.largest])
    ways: tuple[Overflow, ...] = ("inf", "saturate")
    return tuple(float(round_to(beyond, element, overflow=way)[0]) for way in ways)


def _codes(asked: list[float], number: NumberFormat | BlockFormat) -> list[FormatCode]:
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
