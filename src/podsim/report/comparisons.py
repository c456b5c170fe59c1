"""Predictions against measurements: scores by table and class, bars, rows, and rows without a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from podsim.answers.comparison import ClassScore, ComparedRow, Comparison, Score, Verdict
from podsim.report.columns import Column, Table, percent, quantity_text, ratio, signed_percent
from podsim.report.screen import Block, Rows, bold, report_text

_MANY = 60
"""The number of rows not expressed from which they are listed by reason."""
_LARGE_ERROR = 0.1


def _role_badge(role: str | None) -> str:
    return f"role {role}" if role else ""


_PLAIN = ("skill", "tau", "tau / limit")
"""metrics whose values are plain numbers, and the larger the better"""


def _limit_text(verdict: Verdict) -> str:
    if verdict.metric in _PLAIN:
        return f"{'above' if verdict.metric == 'skill' else 'at least'} {verdict.limit:g}"
    return f"at most {verdict.limit * 100:g} %"


def _met_text(verdict: Verdict) -> str:
    """Yes or NO, and a remark."""
    word = "yes" if verdict.met else "NO"
    limit = verdict.bias_limit
    if not verdict.met and limit is not None and verdict.bias is not None and abs(verdict.bias) > limit:
        is_within = verdict.value is not None and verdict.value <= verdict.limit
        word = f"NO: bias beyond {limit * 100:g} %" if is_within else word
    return f"{word} ({verdict.note})" if verdict.note else word


def worst_row(score: Score | ClassScore) -> str:
    """The row with the largest error, and that error."""
    return f"{score.worst_id} {signed_percent(score.worst_error)}"


_ERRORS = (
    Column("MAE", "score.mae", percent, missing="-"),
    Column("median", "score.median", percent, missing="-"),
    Column("bias", "score.bias", signed_percent, missing="-"),
    Column("p95", "score.p95", percent, missing="-"),
)
_RANKS = (
    Column("tau-b", "score.tau", ratio, missing="-"),
    Column("regret", "score.regret", ratio, missing="-"),
    Column("skill", "score.skill", ratio, missing="-"),
)
SUMMARY = Table(
    Column("table", "comparison.table", mark="id", link=lambda row: f"#{row['anchor']}"),
    Column(
        "role",
        "score.role",
        missing="-",
        mark=lambda row: _role_badge(row["score"] and row["score"].role),
    ),
    Column("rows", lambda row: row["score"].rows if row["score"] else 0, ":d"),
    Column("not expressed", lambda row: len(row["comparison"].not_expressed), ":d"),
    *_ERRORS,
    Column("worst row", lambda row: row["score"] and worst_row(row["score"]), missing="-"),
    *_RANKS,
)
"""a line for each table and role; "not expressed" counts the rows of the whole table"""
SCORES = Table(
    Column(
        "table",
        lambda row: f"{row['comparison'].title} (`{row['comparison'].table}`, {row['comparison'].what})",
    ),
    Column("rows", "score.rows", ":d"),
    *_ERRORS,
    Column("worst row", "score", worst_row, align="l"),
    Column("sweeps", "score.sweeps", lambda count: str(count or "-")),
    *_RANKS,
    Column("against", lambda row: row["score"].skill_basis if row["score"].skill is not None else "-"),
)
"""a line for each table, of one role"""
_CLASS_ERRORS = (
    Column("rows", "class.rows", ":d"),
    Column("MAE", "class.mae", percent),
    Column("bias", "class.bias", signed_percent),
)
CLASSES = Table(
    Column("class", "class.name"),
    Column("role", "score.role", mark=lambda row: _role_badge(row["score"].role)),
    *_CLASS_ERRORS,
    Column("worst row", "class.worst_id", mark="id"),
    Column("its error", "class.worst_error", signed_percent),
)
CLASSES_OF_ROLE = Table(
    Column("class", "class.name"),
    *_CLASS_ERRORS,
    Column("worst row", "class", worst_row, align="l"),
)
VERDICTS = Table(
    Column("table", "table"),
    Column("role", "role", mark=lambda verdict: _role_badge(verdict.role)),
    Column("class", "of"),
    Column("rows", "rows", ":d"),
    Column("figure", lambda verdict: verdict.metric.upper() if verdict.metric == "mae" else verdict.metric),
    Column(
        "value",
        lambda verdict: (ratio if verdict.metric in _PLAIN else percent)(verdict.value),
        align="r",
    ),
    Column("bar", _limit_text, align="r"),
    Column("bias", "bias", signed_percent, missing="-"),
    Column("met", _met_text, wrap=True),
)
RANKS = Table(
    Column("group", "rank.name", wrap=True),
    Column("role", "score.role", mark=lambda row: _role_badge(row["score"].role)),
    Column("plans", "rank.plans", ":d"),
    Column("rows", "rank.rows", ":d"),
    Column("tau-b", "rank.tau", ratio),
    Column("of at most", "rank.limit", ratio),
    Column("regret", "rank.regret", percent),
)
"""a line for each group of at least five plans; repeats of a plan count with their median"""
MISSING = Table(Column("id", "0", mark="id"), Column("reason", "1", wrap=True))


def rows_table(comparison: Comparison, *, has_class: bool) -> Table:
    """The columns of a comparison's rows, in its unit."""
    quantity = partial(quantity_text, unit=comparison.unit)
    return Table(
        Column("id", mark="id"),
        Column("role", mark=lambda row: _role_badge(row.role)),
        Column("predicted", "", quantity),
        Column("measured", "", quantity),
        Column("error", "", signed_percent, mark=lambda row: "big" if abs(row.error) > _LARGE_ERROR else ""),
        *([Column("class", "group")] if has_class else []),
        Column("note", wrap=True),
    )


def met_line(verdicts: Sequence[Verdict]) -> str:
    """The number of bars that are met."""
    return f"{sum(verdict.met for verdict in verdicts)} of {len(verdicts)} bars are met."


def score_rows(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """A row for each table and role; a table without a compared row has one, too."""
    return [
        {"comparison": comparison, "score": score, "anchor": f"t{index}"}
        for index, comparison in enumerate(comparisons)
        for score in comparison.scores or (None,)
    ]


def class_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each class and role."""
    return [{"score": score, "class": group} for score in comparison.scores for group in score.classes]


def rank_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each group of plans and role."""
    return [{"score": score, "rank": rank} for score in comparison.scores for rank in score.ranks]


def largest_errors(comparison: Comparison, limit: int | None) -> Sequence[ComparedRow]:
    """All rows, or of more than `limit` those with the largest errors."""
    if limit is None or len(comparison.rows) <= limit:
        return comparison.rows
    return sorted(comparison.rows, key=lambda row: -abs(row.error))[:limit]


def ids_by_reason(not_expressed: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Reason -> ids of the rows it keeps out, in the order of the table."""
    ids: dict[str, list[str]] = {}
    for id, reason in not_expressed:
        ids.setdefault(reason, []).append(id)
    return ids


def summary_report(result: Any) -> Iterator[Block]:
    """The summary and the bars of a result that has `comparisons` and `verdicts`."""
    return comparisons_report(result.comparisons, result.verdicts, has_detail=False)


def comparisons_report(
    comparisons: Sequence[Comparison],
    verdicts: Sequence[Verdict] = (),
    *,
    limit: int | None = 20,
    has_detail: bool = True,
) -> Iterator[Block]:
    """The summary and the bars; with detail, of each comparison: classes, the worst rows, rows not expressed."""
    yield from (bold("Predicted against measured"), Rows(SUMMARY, score_rows(comparisons)))
    if verdicts:
        yield from ("", bold(f"Bars: {met_line(verdicts)}"), Rows(VERDICTS, verdicts))
    for comparison in comparisons if has_detail else ():
        yield from _comparison(comparison, limit)


def _comparison(comparison: Comparison, limit: int | None) -> Iterator[Block]:
    yield from (f"{comparison.title}: {remark}" for remark in comparison.remarks)
    if classes := class_rows(comparison):
        yield from ("", bold(f"{comparison.title}: by class"), Rows(CLASSES, classes))
    if ranks := rank_rows(comparison):
        yield from ("", bold(f"{comparison.title}: plans ranked"), Rows(RANKS, ranks))
    if comparison.rows:
        rows, count = largest_errors(comparison, limit), len(comparison.rows)
        some = f": the {len(rows)} largest errors of {count} rows" if len(rows) < count else ""
        yield from ("", bold(f"{comparison.title} ({comparison.what}){some}"))
        yield Rows(rows_table(comparison, has_class=False), rows)
    if missing := comparison.not_expressed:
        yield from ("", bold(f"{comparison.title}: rows not expressed, {len(missing)}"))
        yield Rows(MISSING, missing if len(missing) <= _MANY else _first_of_each_reason(missing))


def _first_of_each_reason(missing: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first ids of each reason, and their number."""
    return [
        (", ".join(ids[:3]) + (f", … ({len(ids)} rows)" if len(ids) > 3 else ""), reason)
        for reason, ids in ids_by_reason(missing).items()
    ]


def render(
    comparisons: Sequence[Comparison],
    verdicts: Sequence[Verdict] = (),
    *,
    width: int = 140,
    limit: int | None = 20,
    detail: bool = True,
) -> str:
    """`comparisons_report` as plain text."""
    return report_text(comparisons_report(comparisons, verdicts, limit=limit, has_detail=detail), width)


def comparison_rows(validation: Any) -> list[Any]:
    """The rows of all comparisons."""
    return [row for comparison in validation.comparisons for row in comparison.rows]
