"""Text of the figures that every report shows: shares as percentages, SI values with a unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podsim.results.comparison import Comparison, Score
from podsim.units import format_quantity

SUMMARY_COLUMNS = (
    "table", "role", "rows", "not expressed", "MAE", "median", "bias", "p95", "worst row", "tau-b",
    "regret", "skill",
)  # fmt: skip
_NONE = "-"


def percent(share: float | None) -> str:
    """0.0425 as "4.2 %", None as "-"."""
    return _NONE if share is None else f"{share * 100:.1f} %"


def signed_percent(share: float | None) -> str:
    """0.0425 as "+4.2 %", None as "-"."""
    return _NONE if share is None else f"{share * 100:+.1f} %"


def ratio(number: float | None) -> str:
    """1.0312 as "1.03", None as "-"."""
    return _NONE if number is None else f"{number:.2f}"


def value(number: float, unit: str) -> str:
    """An SI value with its unit: (0.0203, "s") as "20.3 ms", rates in 1/s as "1,234 /s" or "12.35 k/s"."""
    if unit != "1/s":
        return format_quantity(number, unit)
    if number >= 1e4:
        return format_quantity(number, "/s")
    return f"{number:,.0f} /s" if number >= 1000 else f"{number:.4g} /s"


def duration(seconds: float) -> str:
    """Seconds in the unit that a reader would use: (11124, ) as "3.09 h", 40 as "40 s", 5e6 as "57.9 d"."""
    if not math.isfinite(seconds):
        return "no end"
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.995 * size:
            return (
                f"{seconds / size:,.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
            )
    return format_quantity(seconds, "s", digits=3)


def days(seconds: float) -> str:
    """Seconds as "21.92 days" from two days on, else as `duration`."""
    return f"{seconds / 86400.0:,.2f} days" if 2 * 86400.0 <= seconds < math.inf else duration(seconds)


def by_reason(not_expressed: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Reason -> ids of the rows it keeps out, in the order of the table."""
    found: dict[str, list[str]] = {}
    for id, reason in not_expressed:
        found.setdefault(reason, []).append(id)
    return found


def worst(score: Score) -> str:
    """The row with the largest error, and that error."""
    return f"{score.worst_id} {signed_percent(score.worst_error)}"


def summary_cells(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """One line of SUMMARY_COLUMNS for each table and role; a table with no compared row has one line too.

    "not expressed" counts the rows of the whole table, whatever their role.
    """
    lines: list[tuple[str, ...]] = []
    for comparison in comparisons:
        missing = str(len(comparison.not_expressed))
        for s in comparison.scores:
            lines.append(
                (
                    comparison.table, s.role, str(s.rows), missing, percent(s.mae), percent(s.median),
                    signed_percent(s.bias), percent(s.p95), worst(s), ratio(s.tau),
                    ratio(s.regret), ratio(s.skill),
                )
            )  # fmt: skip
        if not comparison.scores:
            lines.append((comparison.table, _NONE, "0", missing, *[_NONE] * (len(SUMMARY_COLUMNS) - 4)))
    return lines
