"""`podsim verify`: the inventory, the checks, and the problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from podsim.answers.acceptance import Acceptance, Check, Part
from podsim.report.columns import Column, Table, quantity_text
from podsim.report.screen import Block, Rows

_VERDICTS = (
    "ok", "differs", "wrong result", "falls short", "above the limit", "not run", "remark", "no expectation",
    "cannot tell here",
)  # fmt: skip
_BAD = _VERDICTS[1:6]
_LONGEST = 46
"""The most characters of an inventory cell on a terminal."""


def _verdict_badge(row: Part | Check) -> str:
    kind = "ok" if row.verdict == "ok" else "bad" if row.verdict in _BAD else ""
    return f"verdict {kind}"


def _figure_text(name: str, check: Check) -> str:
    number = getattr(check, name)
    return "-" if number is None else quantity_text(number, check.unit)


def _share_text(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


PARTS = Table(
    indent=0,
    columns=(
        Column("part", "name"),
        Column("expected"),
        Column("found"),
        Column("verdict", mark=_verdict_badge),
        Column("why", mark="why", wrap=True),
    ),
)
CHECKS = Table(
    indent=0,
    columns=(
        Column("check", "name"),
        Column("measured", partial(_figure_text, "measured"), align="r"),
        Column("expected", partial(_figure_text, "expected"), align="r"),
        Column("of it", "share", _share_text, missing="-"),
        Column("limit", partial(_figure_text, "limit"), align="r"),
        Column("verdict", mark=_verdict_badge),
        Column("why", mark="why", wrap=True),
    ),
)
EVIDENCE = Table(
    columns=(
        Column("group", lambda row: "inventory" if isinstance(row, Part) else row.group),
        Column("what", "name"),
        Column(
            "expected", lambda row: row.expected if isinstance(row, Part) else _figure_text("expected", row)
        ),
        Column("measured", lambda row: row.found if isinstance(row, Part) else _figure_text("measured", row)),
        Column("of it", lambda row: None if isinstance(row, Part) else row.share, _share_text, missing="-"),
        Column("limit", lambda row: "-" if isinstance(row, Part) else _figure_text("limit", row)),
        Column("verdict", mark=_verdict_badge),
        Column("measured by", lambda row: (row.source if isinstance(row, Part) else row.how) or "-"),
        Column("expected from", lambda row: "" if isinstance(row, Part) else row.basis),
        Column("why", mark="why"),
    )
)
"""every line of an acceptance"""
THRESHOLDS = Table(
    columns=(
        Column("figure", "name"),
        Column("of the expected", "least", lambda share: f"{100 * share:g} %", align="l"),
        Column("why"),
    )
)


def verdict_line(acceptance: Acceptance) -> str:
    """One sentence: whether the machine is accepted, and the number of lines by verdict."""
    verdicts = [part.verdict for part in acceptance.parts] + [check.verdict for check in acceptance.checks]
    order = sorted(
        set(verdicts), key=lambda name: _VERDICTS.index(name) if name in _VERDICTS else len(_VERDICTS)
    )
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in order)
    word = "Accepted" if acceptance.accepted else "Not accepted"
    return f"{word} as {acceptance.expected}: {counts or 'nothing was judged'}."


def acceptance_report(acceptance: Acceptance) -> Iterator[Block]:
    """The inventory, the checks, and the verdict."""
    yield acceptance.machine
    yield f"expected: {acceptance.expected}; {acceptance.started}, {acceptance.seconds:.0f} s"
    if acceptance.parts:
        columns = (replace(column, format=_shorten, align="l") for column in PARTS.columns[:-1])
        yield ""
        yield Rows(replace(PARTS, columns=(*columns, PARTS.columns[-1])), acceptance.parts)
    if acceptance.checks:
        yield from ("", Rows(CHECKS, acceptance.checks))
    yield from ("", *acceptance.notes, verdict_line(acceptance))
