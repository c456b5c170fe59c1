"""Bars and whether they are met, as cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.report.figures import percent, ratio, signed_percent
from podsim.results.comparison import Verdict

VERDICT_COLUMNS = ("table", "role", "class", "rows", "figure", "value", "bar", "bias", "met")


def verdict_cells(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """One line of VERDICT_COLUMNS for each bar."""
    return [
        (
            v.table, v.role, v.of, str(v.rows), v.metric.upper() if v.metric == "mae" else v.metric,
            ratio(v.value) if v.metric == "skill" else percent(v.value),
            f"above {v.limit:g}" if v.metric == "skill" else f"at most {v.limit * 100:g} %",
            signed_percent(v.bias), _met(v),
        )
        for v in verdicts
    ]  # fmt: skip


def _met(verdict: Verdict) -> str:
    """yes or NO, and what the reader should know."""
    word = "yes" if verdict.met else "NO"
    limit = verdict.bias_limit
    if not verdict.met and limit is not None and verdict.bias is not None and abs(verdict.bias) > limit:
        word = f"NO: bias beyond {limit * 100:g} %" if _reached(verdict) else word
    return f"{word} ({verdict.note})" if verdict.note else word


def _reached(verdict: Verdict) -> bool:
    return verdict.value is not None and verdict.value <= verdict.limit


def met_line(verdicts: Sequence[Verdict]) -> str:
    """How many bars are met."""
    return f"{sum(v.met for v in verdicts)} of {len(verdicts)} bars are met."
