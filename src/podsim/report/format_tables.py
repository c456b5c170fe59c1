"""Number formats: a table of all, and one with its bits, its codes around numbers, its GPUs and its accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from podsim.answers.number_formats import FormatGpu, FormatRow, FormatSheet, FormatTradeRow
from podsim.report.columns import Column, Table, percent, signed_percent
from podsim.report.screen import Block, Paragraph, Rows, bold, facts, raw


def number_text(value: float | None) -> str:
    """A number with four digits: 65504 as "65,504", 1e-9 as "1e-09"."""
    if value is None:
        return "-"
    if value.is_integer() and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _small_percent(share: float) -> str:
    """0.0006 as "0.06 %"."""
    return f"{share * 100:.2f} %"


def bits_text(row: FormatRow) -> str:
    """The bits of a format in short: "1-8-10"."""
    if not row.exponent:
        return f"{row.sign + row.mantissa}-bit integer"
    return "-".join(str(bits) for bits in (row.sign, row.exponent, row.mantissa))


_GPUS = Table(
    Column("dense", "0.peak", "FLOP/s"),
    Column("2:4 sparse", "0.sparse", "FLOP/s", missing="-"),
    Column("over fp32", "0.gain", ":.1f", missing="-"),
    Column("GPU", lambda same: ", ".join(gpu.gpu for gpu in same), wrap=True),
)
_CODES = Table(
    Column("asked", "asked", ":.9g"),
    Column("value", "value", ":.9g"),
    Column("bits", "bits"),
    Column("error", "error", percent),
    Column("stochastic", "chance", percent),
    Column("", lambda code: "nearest" if code.is_nearest else ""),
)
_ACCURACY = Table(
    Column("against", "baseline"),
    Column("", "phase"),
    Column("results", "count", ":d"),
    Column("median", "median", signed_percent),
    Column("size", "size", _small_percent),
    Column("p90", "p90", _small_percent),
    Column("source", "source", wrap=True),
)


def changes_text(row: FormatTradeRow) -> str:
    """The median and the 90th percentile of the sizes of published changes, and how many there are."""
    accuracy = row.accuracy
    if accuracy is None:
        return "no pairs"
    sizes = f"{_small_percent(accuracy.size)}, p90 {_small_percent(accuracy.p90)}"
    return f"{sizes} ({accuracy.count} pairs, {accuracy.phase})"


def sheet_report(sheet: FormatSheet) -> Iterator[Block]:
    """One format."""
    row = sheet.row
    yield bold(f"{row.name}: {row.use}")
    yield from (raw(line, indent="  ") for line in _drawn([row, *sheet.peers]))
    yield ""
    yield facts(*_figures(sheet))
    if sheet.codes:
        yield from ("", Rows(_CODES, sheet.codes))
    if sheet.gpus:
        yield from ("", "Matrix products, by the peaks of the catalog:", Rows(_GPUS, _same_speed(sheet.gpus)))
    else:
        yield from ("", "None of the GPUs multiplies it by itself.")
    if sheet.accuracy:
        yield from (
            "",
            "Changes for the worse of published models, as a share of the result:",
            Rows(_ACCURACY, sheet.accuracy),
        )
    yield Paragraph(f"Source: {row.source}", "dim")


def _same_speed(gpus: Sequence[FormatGpu]) -> list[list[FormatGpu]]:
    """GPUs of equal peaks together, in their order."""
    groups: dict[tuple[object, ...], list[FormatGpu]] = {}
    for gpu in gpus:
        gain = None if gpu.gain is None else round(gpu.gain, 1)
        groups.setdefault((gpu.peak, gpu.sparse, gain), []).append(gpu)
    return list(groups.values())


def _figures(sheet: FormatSheet) -> Iterator[tuple[str, str, str]]:
    row = sheet.row
    element = " of an element" if row.block else ""
    if row.block:
        yield "bits of a value", f"{row.bits:g}", f"blocks of {row.block} with a scale in {row.scale}"
    elif row.memory_bits != row.sign + row.exponent + row.mantissa:
        yield (
            "bits in memory",
            str(row.memory_bits),
            "the rest of the fp32 mantissa is dropped when operands are read",
        )
    yield f"largest{element}", number_text(row.largest), ""
    if row.exponent:
        yield "smallest normal", number_text(row.smallest_normal), ""
        yield "smallest", number_text(row.smallest), "subnormal" * (row.smallest < row.smallest_normal)
        yield "epsilon", number_text(row.epsilon), f"{row.decades:.1f} decimal orders of magnitude in all"
    if sheet.overflow:
        plain, saturated = sheet.overflow
        yield (
            "beyond it",
            "NaN" if math.isnan(plain) else number_text(plain),
            f"{number_text(saturated)} if it saturates",
        )


def _drawn(rows: list[FormatRow]) -> Iterator[str]:
    """The bits of formats below each other: S sign, E exponent (range), M mantissa (precision)."""
    width = max(len(row.name) for row in rows)
    for row in rows:
        letters = " ".join(filter(None, ("S" * row.sign, "E" * row.exponent, "M" * row.mantissa)))
        if row.exponent + row.mantissa > 40:
            letters = f"S {row.exponent} x E {row.mantissa} x M"
        yield f"{row.name:{width}}  {letters}"
    yield f"{'':{width}}  S sign, E exponent: range, M mantissa: precision"
