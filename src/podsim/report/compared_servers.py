"""Measured servers next to their predictions."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.compared_server import ComparedFigure, ComparedServer
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold, items
from podsim.units import format_quantity


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
