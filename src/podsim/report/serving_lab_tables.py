"""Reports of servers that ran for real, and of their simulations."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.compared_server import ComparedFigure, ComparedServer
from podsim.answers.quantiles import quantile
from podsim.answers.served_real import MeasuredServing
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items
from podsim.units import format_quantity


def measured_report(run: MeasuredServing) -> Iterator[Block]:
    """A line for each load: rates, and percentiles of the times."""
    yield f"{run.server}; {run.host}, {run.cores} cores, {run.software}"
    if run.saturation:
        limits = f"{run.sequences} sequences, {run.budget} tokens a step"
        yield f"{limits}: at most {run.saturation:,.4g} answers a second; {len(run.step_seconds):,} steps timed"
    columns = (
        Column("load", "0", align="r"),
        Column("rate", "1", align="r"),
        Column("answers", "2", ":,d"),
        Column("tokens/s", "3", ":,.0f"),
        Column("first token p50", "4", "s", digits=3),
        Column("p99", "5", "s", digits=3),
        Column("end to end p50", "6", "s", digits=3),
        Column("p99", "7", "s", digits=3),
        Column("others", "8", ":.0%"),
    )
    rows = [_line(run, number) for number in range(len(run.rates))]
    yield from ("", Rows(Table(*columns), rows))
    if run.sequences:
        yield dim(
            "podsim compare FILE simulates the recorded requests; others: processors' time of other programs"
        )


def _line(run: MeasuredServing, number: int) -> tuple[str | float, ...]:
    """The cells of one run."""
    rows = [row for row in run.rows if row.run == number]
    load = f"{run.shares[number]:.0%}" if run.shares[number] else "-"
    rate = f"{run.rates[number]:,.4g} /s" if run.rates[number] else "-"
    if not rows:
        return (load, rate, 0, 0.0, 0.0, 0.0, 0.0, 0.0, run.others[number])
    first, end = (
        [quantile([getattr(row, name) - row.sent for row in rows], share) for share in (0.5, 0.99)]
        for name in ("first", "done")
    )
    span = max(row.done for row in rows) - min(row.sent for row in rows)
    tokens = sum(row.tokens for row in rows) / max(span, 1e-9)
    return (load, rate, len(rows), tokens, *first, *end, run.others[number])


def _text(figure: ComparedFigure, value: float) -> str:
    return format_quantity(value, "s", digits=3) if figure.unit == "s" else f"{value:,.4g}/s"


_FIGURES = Table(
    Column("figure", "words"),
    Column("measured", lambda figure: _text(figure, figure.measured), align="r"),
    Column("predicted", lambda figure: _text(figure, figure.predicted), align="r"),
    Column("error", "error", ":+.1%"),
)


def compared_server_report(answer: ComparedServer) -> Iterator[Block]:
    """A table for each run, and the mean error."""
    for run in answer.runs:
        yield bold(f"{run.id} ({run.tool}): {run.load}")
        if run.reason:
            yield Paragraph(f"No prediction: {run.reason}", "warning")
            continue
        yield run.setup
        yield Rows(_FIGURES, run.figures)
    if answer.mean is not None:
        yield bold(f"Mean absolute error of {len(answer.rows)} figures: {answer.mean:.1%}")
    yield from items("Assumptions", answer.assumptions)
