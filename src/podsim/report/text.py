"""Comparisons as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.report.figures import SUMMARY_COLUMNS, by_reason, percent, signed_percent, summary_cells, value
from podsim.report.verdicts import VERDICT_COLUMNS, met_line, verdict_cells
from podsim.results.comparison import Comparison, Verdict

if TYPE_CHECKING:
    from rich.table import Table

_LEFT = {"table", "role", "worst row", "id", "note", "reason", "class", "figure", "met"}

_MANY = 60
"""rows not expressed from which on they are listed by reason"""


def _table(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """A rich table, numbers to the right; cells are plain text, never markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in _LEFT else "right", overflow="fold")
    for line in lines:
        table.add_row(*[Text(cell) for cell in line])
    return table


def summary_table(comparisons: Sequence[Comparison]) -> Table:
    """One line for each table and role."""
    return _table("Predicted against measured", SUMMARY_COLUMNS, summary_cells(comparisons))


def class_table(comparison: Comparison) -> Table:
    """Errors of one comparison by class of row."""
    lines = [
        (
            c.name,
            s.role,
            str(c.rows),
            percent(c.mae),
            signed_percent(c.bias),
            c.worst_id,
            signed_percent(c.worst_error),
        )
        for s in comparison.scores
        for c in s.classes
    ]
    columns = ("class", "role", "rows", "MAE", "bias", "worst row", "its error")
    return _table(f"{comparison.title}: by class", columns, lines)


def row_table(comparison: Comparison, limit: int | None = None) -> Table:
    """Rows of one comparison, in table order; with a limit, those with the largest errors, largest first."""
    rows = list(comparison.rows)
    title = f"{comparison.title} ({comparison.what})"
    if limit is not None and len(rows) > limit:
        title += f": the {limit} largest errors of {len(rows)} rows"
        rows = sorted(rows, key=lambda row: -abs(row.error))[:limit]
    unit = comparison.unit
    lines = [
        (
            row.id,
            row.role,
            value(row.predicted, unit),
            value(row.measured, unit),
            signed_percent(row.error),
            row.note,
        )
        for row in rows
    ]
    return _table(title, ("id", "role", "predicted", "measured", "error", "note"), lines)


def missing_table(comparison: Comparison) -> Table:
    """Rows without a prediction, each with the reason; of very many, the first ids of each reason."""
    lines, count = comparison.not_expressed, len(comparison.not_expressed)
    if count > _MANY:
        lines = tuple(
            (", ".join(ids[:3]) + (f", … ({len(ids)} rows)" if len(ids) > 3 else ""), reason)
            for reason, ids in by_reason(lines).items()
        )
    return _table(f"{comparison.title}: rows not expressed, {count}", ("id", "reason"), lines)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """One line for each bar."""
    return _table(f"Bars: {met_line(verdicts)}", VERDICT_COLUMNS, verdict_cells(verdicts))


def render(
    comparisons: Sequence[Comparison],
    verdicts: Sequence[Verdict] = (),
    *,
    width: int = 140,
    limit: int | None = 20,
    detail: bool = True,
) -> str:
    """Plain text of the summary and the bars, then of each comparison: classes, the worst rows, rows not expressed.

    Without `detail`, the summary and the bars only.
    """
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, legacy_windows=False, _environ={})
    console.print(summary_table(comparisons))
    if verdicts:
        console.print(verdict_table(verdicts))
    for comparison in comparisons if detail else ():
        if any(score.classes for score in comparison.scores):
            console.print(class_table(comparison))
        if comparison.rows:
            console.print(row_table(comparison, limit))
        if comparison.not_expressed:
            console.print(missing_table(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
