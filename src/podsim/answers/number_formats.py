"""Number formats, their codes around a number, the GPUs that multiply them, and what they cost in accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown


@dataclass(frozen=True, kw_only=True)
class FormatRow:
    """A number format, or the elements of a block format."""

    name: str = shown("format")
    bits: float = shown(format=":g")
    """count. The bits of a value, with its share of a block's scale."""
    sign: int = shown("s-e-m", of_row="report.format_tables:bits_text")
    exponent: int = shown(is_hidden=True)
    mantissa: int = shown(is_hidden=True)
    bias: int = shown(is_hidden=True)
    special: str = shown(is_hidden=True)
    """The codes besides numbers: ieee (infinities and NaNs), nan (one NaN) or none."""
    largest: float = shown(format="report.format_tables:number_text")
    """factor. The largest finite number."""
    smallest_normal: float = shown(is_hidden=True)
    """factor. The smallest positive number with full precision."""
    smallest: float = shown(format="report.format_tables:number_text", drop=2)
    """factor. The smallest positive number."""
    epsilon: float = shown(format="report.format_tables:number_text")
    """factor. The distance from 1 to the next larger number."""
    decades: float = shown(is_hidden=True)
    """count. The decimal orders of magnitude from the smallest to the largest positive number."""
    block: int = shown(of_row=lambda row: f"{row.block} x {row.scale}" if row.block else "", drop=1)
    """The number of values that share a scale; 0 without blocks."""
    scale: str = shown(is_hidden=True)
    """The format of a block's scale; empty without blocks."""
    memory_bits: int = shown(is_hidden=True)
    """count. The bits of a value in memory."""
    gpus: int = shown("GPUs")
    """The number of GPUs of the catalog that multiply it."""
    use: str = shown(drop=3)
    source: str = shown(is_hidden=True)


@dataclass(frozen=True, kw_only=True)
class FormatTable(
    Answer,
    view=View(rows="rows", figure="report.plot_formats:format_figure"),
):
    """All number formats."""

    rows: tuple[FormatRow, ...]


@dataclass(frozen=True, kw_only=True)
class FormatCode:
    """A number that a format holds, next to one that was asked for."""

    asked: float
    """factor. The number that was asked for."""
    value: float
    """factor. The number that the code stands for, times its block's scale."""
    code: int
    bits: str
    """The code's bits: sign, exponent, mantissa."""
    error: float | None
    """share. The distance from the number that was asked for, over its size; None for 0 and infinities."""
    chance: float
    """share. The probability that stochastic rounding picks it."""
    is_nearest: bool
    """Whether rounding to nearest, ties to even, picks it."""


@dataclass(frozen=True, kw_only=True)
class FormatGpu:
    """A GPU that multiplies a format."""

    gpu: str
    peak: float
    """FLOP/s. The dense peak."""
    gain: float | None
    """factor. The dense peak over that of fp32 without tensor cores; None where the catalog has none."""
    sparse: float | None
    """FLOP/s. The peak with 2:4 sparsity; None without it."""


@dataclass(frozen=True, kw_only=True)
class FormatAccuracy:
    """What published models lost or won in a format."""

    format: str
    baseline: str
    """The format that it is compared with."""
    phase: str
    """The phase: training, or inference of a network that was trained in the baseline."""
    count: int
    """The number of pairs of results."""
    median: float
    """share. The median of the changes for the worse: negative where half of the models got better."""
    size: float
    """share. The median size of the changes."""
    p90: float
    """share. The 90th percentile of the sizes of the changes."""
    source: str
    licence: str


@dataclass(frozen=True, kw_only=True)
class FormatSheet(
    Answer,
    view=View(
        report="report.format_tables:sheet_report",
        rows=lambda answer: answer.codes or answer.gpus,
        figure="report.plot_formats:format_figure",
    ),
):
    """One number format."""

    row: FormatRow
    peers: tuple[FormatRow, ...]
    """The formats that it is drawn with."""
    codes: tuple[FormatCode, ...]
    """The numbers next to those that were asked for."""
    overflow: tuple[float, ...]
    """factor. The values that a number beyond the range becomes: plainly, and if the format saturates."""
    gpus: tuple[FormatGpu, ...]
    accuracy: tuple[FormatAccuracy, ...]


@dataclass(frozen=True, kw_only=True)
class FormatTradeRow:
    """A precision of training: what it gains, and what it costs."""

    precision: str
    peak: float
    """FLOP/s. The dense peak of the GPU."""
    step_time: float = shown("step", "units:short_seconds")
    """s. The time of a step of the fastest plan."""
    gain: float = shown("speed", lambda gain: f"{gain:.2f} x")
    """factor. The speed over that of the first precision."""
    mfu: float = shown(is_hidden=True)
    """share. The share of the peak that the model's FLOPs use."""
    memory: float = shown(drop=1)
    """B. The memory of the fullest GPU."""
    accuracy: FormatAccuracy | None = shown("published changes", of_row="report.format_tables:changes_text")
    """The published changes of accuracy; None where there are none."""


@dataclass(frozen=True, kw_only=True)
class FormatTrade(
    Answer,
    view=View(rows="rows", figure="report.plot_formats:format_figure"),
):
    """What the number formats of a GPU gain in a model's step, and what they cost in accuracy."""

    model: str
    gpu: str
    gpus: int
    batch: int
    """The number of sequences of a step."""
    rows: tuple[FormatTradeRow, ...]
