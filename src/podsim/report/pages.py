"""Reports as pages: self-contained HTML in one theme, and docs/accuracy.md. Templates hold the tables of a report."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import podsim.report.acceptance_tables as acceptance_columns
import podsim.report.comparisons as comparison_tables
from podsim.answers.acceptance import Acceptance
from podsim.answers.comparison import Comparison, Verdict
from podsim.answers.scheduled import ScheduleSheet
from podsim.report.columns import Column, Table
from podsim.report.comparisons import (
    class_rows,
    ids_by_reason,
    largest_errors,
    met_line,
    rows_table,
    score_rows,
)
from podsim.report.matplotlib_charts import draw
from podsim.report.plot_acceptance import checks_svg, curve_svg
from podsim.report.plot_accuracy import error_line, plot_svg
from podsim.report.plot_schedule import schedule_figure
from podsim.report.plots import figure_image
from podsim.report.schedules import bubble_text, title
from podsim.report.theme import inline_svg, render_page

ORIGINS = {
    "published": "published by the tool's authors",
    "either": "published, or measured by the podsim developers on the same reference rows",
    "none": "no figure known",
}
_MOST_ROWS = 800
_ROLES = {
    "test": "Rows that nothing was fitted on (`test`)",
    "calibrate": "Rows that constants may be fitted on (`calibrate`)",
}
_MISSING = Table(Column("table", "0"), Column("rows", "1", ":d"), Column("reason", "2"), Column("ids", "3"))
_OTHERS = Table(
    Column("tool"),
    Column("error", "text", align="r"),
    Column("on"),
    Column("where the figure comes from", lambda figure: ORIGINS[figure.origin]),
    Column("note"),
)


_RANKS = Table(
    Column("rank", "0", ":d"),
    Column("waits", "1", ":.4g"),
    Column("activations held, micro-batches", "2", ":g"),
    Column("copies of its weights", "3", ":g"),
)


def page(
    comparisons: Sequence[Comparison],
    verdicts: Sequence[Verdict] = (),
    *,
    title: str = "podsim: predicted against measured",
) -> str:
    """HTML of the summary and the bars, and for each comparison its plot, classes, rows, rows not expressed, and sources.

    The same text for the same comparisons. Needs matplotlib; raises PodsimError without it.
    """
    sections = [_section(comparison, f"t{index}") for index, comparison in enumerate(comparisons)]
    return render_page(
        "comparisons.html", title=title, tables=comparison_tables, score_rows=score_rows(comparisons),
        verdicts=verdicts, met_line=met_line(verdicts), sections=sections,
    )  # fmt: skip


def _section(comparison: Comparison, prefix: str) -> dict[str, Any]:
    """Everything about one comparison; of a long table the rows with the largest errors."""
    rows, missing = largest_errors(comparison, _MOST_ROWS), comparison.not_expressed
    if len(missing) > _MOST_ROWS:
        missing = tuple((", ".join(ids), reason) for reason, ids in ids_by_reason(missing).items())
    count, label = len(comparison.rows), f"{comparison.title}: predicted against measured"
    return {
        "comparison": comparison,
        "errors": error_line(comparison),
        "plot": inline_svg(plot_svg(comparison, titled=False), prefix, label) if rows else "",
        "classes": class_rows(comparison),
        "table": rows_table(comparison, has_class=True),
        "rows": rows,
        "count": f"{count}" if count == len(rows) else f"the {len(rows)} largest errors of {count}",
        "missing": missing,
    }


def acceptance_page(acceptance: Acceptance) -> str:
    """HTML of the verdict, inventory, checks, plots and thresholds. Needs matplotlib; PodsimError without it."""
    checks = acceptance.checks
    has_plot = any(check.share is not None for check in checks)
    return render_page(
        "acceptance.html", title=f"Acceptance as {acceptance.expected}", acceptance=acceptance,
        tables=acceptance_columns, verdict=acceptance.outcome,
        checks_plot=inline_svg(checks_svg(checks), "checks", "measured over expected") if has_plot else "",
        curves=[
            (curve.name, inline_svg(curve_svg(curve), f"c{index}", curve.name))
            for index, curve in enumerate(acceptance.curves)
        ],
        evidence=[*acceptance.parts, *checks],
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PublishedError:
    """The mean error of another tool (a share; from `error` to `error_to` if a range), and who says so."""

    tool: str
    on: str
    """The rows of the comparison."""
    origin: str
    """A key of ORIGINS."""
    note: str
    error: float | None = None
    error_to: float | None = None

    @property
    def text(self) -> str:
        """The error as a percentage or a range of them."""
        if self.error is None:
            return "not known"
        low = f"{self.error * 100:g}"
        return f"{low} %" if self.error_to is None else f"{low} to {self.error_to * 100:g} %"


def published_errors() -> tuple[PublishedError, ...]:
    """What is known of other tools; an assert fails on a figure without an origin or a note."""
    text = files(__package__).joinpath("published.toml").read_text("utf-8")
    figures = tuple(PublishedError(**figure) for figure in tomllib.loads(text)["figure"])
    for figure in figures:
        assert figure.origin in ORIGINS, f"{figure.tool}: unknown origin {figure.origin!r}"
        assert figure.note, f"{figure.tool}: no note"
        assert (figure.error is None) == (figure.origin == "none"), figure.tool
    return figures


def schedule_page(sheet: ScheduleSheet) -> str:
    """HTML of a schedule's drawing and the numbers of each rank. Needs matplotlib; PodsimError without it."""
    svg = figure_image(draw(schedule_figure(sheet, titled=False)), "svg")
    return render_page(
        "schedule.html", title=title(sheet), sheet=sheet, bubble=bubble_text(sheet),
        plot=inline_svg(svg, "schedule", title(sheet)), ranks=_RANKS,
        rows=list(zip(range(sheet.ranks), sheet.idle, sheet.activations, sheet.copies, strict=True)),
    )  # fmt: skip


def accuracy_page(
    comparisons: Sequence[Comparison], verdicts: Sequence[Verdict] = (), *, unknown: str = ""
) -> str:
    """Markdown of docs/accuracy.md: the errors of each table next to what is known of other tools.

    The same text for the same comparisons. `unknown` is Markdown that says what the model does not know.
    """
    rows = score_rows(comparisons)
    classes = [
        (comparison, [row for row in class_rows(comparison) if row["score"].role == "test"])
        for comparison in comparisons
    ]
    return render_page(
        "accuracy.md", tables=comparison_tables, comparisons=comparisons, verdicts=verdicts,
        met_line=met_line(verdicts),
        roles=[
            (heading, [row for row in rows if row["score"] and row["score"].role == role])
            for role, heading in _ROLES.items()
        ],
        classes=[(comparison, group) for comparison, group in classes if len(group) > 1],
        missing=list(_missing_rows(comparisons)), missing_table=_MISSING, unknown=unknown,
        others=published_errors(), others_table=_OTHERS,
    )  # fmt: skip


def _missing_rows(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, int, str, str]]:
    """How many rows have no prediction, by table and reason, with the first ids."""
    for comparison in comparisons:
        ids = ids_by_reason(comparison.not_expressed)
        for reason, count in Counter({reason: len(held) for reason, held in ids.items()}).most_common():
            first = ", ".join(ids[reason][:4]) + (", …" if count > 4 else "")
            yield f"`{comparison.table}`", count, reason, first
