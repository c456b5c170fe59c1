"""The tables of the page of `podsim verify`."""

from __future__ import annotations

from podsim.answers.acceptance import VERDICTS, Check, Part
from podsim.report.columns import Column, Table, quantity_text

_BAD = VERDICTS[1:6]


def _verdict_badge(row: Part | Check) -> str:
    kind = "ok" if row.verdict == "ok" else "bad" if row.verdict in _BAD else ""
    return f"verdict {kind}"


def figure_text(name: str, check: Check) -> str:
    """A figure of a check in its unit."""
    number = getattr(check, name)
    return "-" if number is None else quantity_text(number, check.unit)


def share_text(share: float | None) -> str:
    """A share of what was expected; "-" where it is unknown."""
    if share is None:
        return "-"
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


EVIDENCE = Table(
    Column("group", lambda row: "inventory" if isinstance(row, Part) else row.group),
    Column("what", "name"),
    Column("expected", lambda row: row.expected if isinstance(row, Part) else figure_text("expected", row)),
    Column("measured", lambda row: row.found if isinstance(row, Part) else figure_text("measured", row)),
    Column("of it", lambda row: None if isinstance(row, Part) else row.share, share_text),
    Column("limit", lambda row: "-" if isinstance(row, Part) else figure_text("limit", row)),
    Column("verdict", mark=_verdict_badge),
    Column("measured by", lambda row: (row.source if isinstance(row, Part) else row.how) or "-"),
    Column("expected from", lambda row: "" if isinstance(row, Part) else row.basis),
    Column("why", mark="why"),
)
"""every line of an acceptance"""
THRESHOLDS = Table(
    Column("figure", "name"),
    Column("of the expected", "least", lambda share: f"{100 * share:g} %", align="l"),
    Column("plausible up to", "most", lambda times: f"{times:g} x", align="l"),
    Column("why"),
)
