"""`podsim format`: number formats, their codes around a number, the GPUs that run them, what they cost in accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from podsim.answers.number_formats import (
    FormatAccuracy,
    FormatGpu,
    FormatRow,
    FormatSheet,
    FormatTable,
    FormatTrade,
    FormatTradeRow,
)
from podsim.errors import CatalogError, NoFitError, PlanError, PodsimError
from podsim.hardware.catalog import load_gpu, names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.parts import PRECISIONS, Gpu, matmul_peak
from podsim.learning.format_accuracy import all_accuracy
from podsim.learning.format_codes import format_codes
from podsim.learning.number_format import FORMATS, NumberFormat
from podsim.learning.number_format_blocks import BLOCK_FORMATS, BlockFormat, any_format
from podsim.learning.number_format_recipes import RECIPES, read_recipe
from podsim.learning.rounding import Overflow, round_to
from podsim.options.output_options import PlotOutput
from podsim.options.plan_options import JobOptions
from podsim.options.question import like, option, question
from podsim.questions.registry import ask

_MULTIPLIED = {
    "e4m3": "fp8", "e5m2": "fp8", "mxfp8": "mxfp8", "mxfp8_e5m2": "mxfp8", "mxfp6": "mxfp8", "mxfp6_e3m2": "mxfp8",
    "mxfp4": "nvfp4", "nvfp4": "nvfp4",
}  # fmt: skip
"""format -> the precision of the catalog whose products take it, if it is not of its name"""
_PEERS = ("fp32", "tf32", "fp16", "bf16")
"""what DGX A100's paper draws next to each other in figure 3"""
_MOST_NUMBERS = 64
_PHASES = ("training", "retrained", "inference")
"""phases of published accuracy, the first that has any counts"""


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """A number format, and numbers that it rounds."""

    name: str = option(
        "", "A number format: tf32, bf16, e4m3, mxfp4; without one all are listed.", argument=True
    )
    numbers: str = option(
        "", "Numbers whose nearest codes are shown: 0.3, or 0.3,1e-9,-5.", argument=True, has_sign=True
    )
    on: str = option("", "A GPU, system or cluster, h100: only what it runs, and at what speed.")
    model: str = option(
        "", "A model: what each format gains in its training step on --on, and what it costs in accuracy."
    )
    gpus: int = like(JobOptions, "gpus")
    batch: str | int | None = like(JobOptions, "batch")


@question(
    FormatOptions,
    output=PlotOutput,
)
def format(options: FormatOptions) -> FormatTable | FormatSheet | FormatTrade:
    """One number format; without a name a table of all, or for a model what each gains and costs.

    Raises PodsimError for an unknown format or GPU, and for text that holds no numbers.
    """
    if options.model:
        if options.name:
            raise PodsimError(f"--model compares all formats: leave {options.name[:40]!r} out")
        return _trade(options)
    gpus = [_gpu(options.on)] if options.on else [load_gpu(name) for name in names("gpu")]
    if not options.name:
        if options.numbers:
            raise PodsimError("numbers are rounded to a format: podsim format e4m3 0.3")
        return FormatTable(
            rows=tuple(_row(number, gpus) for number in map(any_format, (*FORMATS, *BLOCK_FORMATS)))
        )
    number = any_format(options.name)
    peers = [FORMATS[name] for name in _PEERS if name != number.name]
    return FormatSheet(
        row=_row(number, gpus), peers=tuple(_row(peer, gpus) for peer in peers),
        codes=tuple(format_codes(_numbers(options.numbers), number)) if options.numbers else (),
        overflow=_overflow(number), gpus=tuple(_gpus(number, gpus)),
        accuracy=tuple(row for row in all_accuracy() if row.format == number.name),
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
        raise PodsimError(f"numbers={text[:40]!r}: 1 to {_MOST_NUMBERS} numbers, e.g. 0.3 or 0.3,1e-9,-5")
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


def _trade(options: FormatOptions) -> FormatTrade:
    """The fastest plan of a model in each precision of training that its GPU multiplies, and published accuracy.

    Raises what `plan` raises if no precision has a plan.
    """
    if not options.on:
        raise PodsimError(
            "--model needs a GPU or a cluster: podsim format --model llama-3.1-8b --on h100 --gpus 8"
        )
    from podsim.training.job_inputs import (
        read_inputs,  # the table of a model alone needs the room of training
    )

    _, cluster, count, _ = read_inputs(options.model, options.on, options.gpus, None, None, "full")
    gpu = cluster.gpu
    rows: list[FormatTradeRow] = []
    problems: list[PodsimError] = []
    for precision in (
        name for name in RECIPES if name in PRECISIONS and PRECISIONS[name].is_native(cluster.gpu)
    ):
        try:
            best = ask(
                "plan",
                options.model,
                on=options.on,
                gpus=options.gpus,
                batch=options.batch,
                precision=precision,
                top=1,
            )
        except (NoFitError, PlanError, CatalogError) as error:
            problems.append(error)
            continue
        prediction = best.ranked[0].prediction
        rows.append(
            FormatTradeRow(
                precision=precision, peak=matmul_peak(gpu, precision), step_time=prediction.step_time,
                gain=rows[0].step_time / prediction.step_time if rows else 1.0, mfu=prediction.mfu,
                memory=prediction.memory, accuracy=_accuracy(precision),
            )
        )  # fmt: skip
    if not rows:
        raise problems[0] if problems else PodsimError(f"{gpu.name} multiplies no precision of training")
    return FormatTrade(
        model=options.model,
        gpu=gpu.name,
        gpus=count,
        batch=int(str(prediction.plan["global_batch"])),
        rows=tuple(rows),
    )


def _accuracy(precision: str) -> FormatAccuracy | None:
    """The largest group of published changes of a precision: trained in it, or else quantised; None without any."""
    name = read_recipe(precision).forward
    rows = [row for row in all_accuracy() if row.format == name]
    return min(rows, key=lambda row: (_PHASES.index(row.phase), -row.count), default=None)
