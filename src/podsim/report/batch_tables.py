"""Batches: the critical one, what others cost, and what is published of their accuracy."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.batch_sizes import BatchAdvice, BatchRow
from podsim.report.columns import Column, Table, percent
from podsim.report.screen import Block, Paragraph, Rows, bold

_RULES = {"linear": "linear in the batch", "sqrt": "with the root of the batch"}


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def batch_report(advice: BatchAdvice) -> Iterator[Block]:
    """The critical batch, a table of batches, and published accuracies."""
    band = (
        ""
        if advice.low is None or advice.high is None
        else f" ({_count(advice.low)} to {_count(advice.high)})"
    )
    yield bold(f"Critical batch {_count(advice.critical)} samples{band}: {advice.source}")
    if advice.target:
        held = (
            "" if advice.held_out is None else f"; {percent(advice.held_out)} on batches that were not fitted"
        )
        yield Paragraph(
            f"steps to {advice.target}; the law is within {percent(advice.error or 0.0)}{held}", indent="  "
        )
    yield from ("", Rows(_table(advice), advice.rows), "")
    yield Paragraph(
        (
            "steps and samples of the run"
            if advice.target
            else "steps and samples relative to the fewest of any batch"
        )
        + f". With {advice.optimizer} the rate usually grows {_RULES[advice.rule]}, up to the critical batch."
    )
    yield from ("", bold("Published accuracy by batch (podsim predicts none)"))
    yield from (Paragraph(text, indent="  ") for text in _published(advice))


def _published(advice: BatchAdvice) -> Iterator[str]:
    """The published accuracies, a sentence for each study."""
    for study in dict.fromkeys(row.study for row in advice.published):
        rows = [row for row in advice.published if row.study == study]
        values = (f"{row.value:.2f} at {row.batch:,}" + f" ({row.notes})" * bool(row.notes) for row in rows)
        yield f"{rows[0].model}, {rows[0].optimizer}, {rows[0].metric}: {', '.join(values)} ({study})"


def _table(advice: BatchAdvice) -> Table:
    number = _count if advice.target else ":.2f"
    return Table(
        columns=(
            Column("batch", "", ":,d"),
            Column("steps", "", number),
            Column("measured", _measured, optional=True, align="r"),
            Column("samples", "", number),
            Column("rate: linear", "linear", ":.3g", optional=True),
            Column("root", "", ":.3g", optional=True),
            Column("advised", "usual", ":.3g", optional=True),
        )
    )


def _measured(row: BatchRow) -> str:
    return "" if row.measured is None else f"{row.measured:,.0f}" + " (test)" * (row.role == "test")
