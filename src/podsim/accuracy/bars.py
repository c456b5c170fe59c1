"""The bars that each table's predictions have to reach, as data, and their verdicts.

A bar on errors also asks for a small bias (4 % where none is given), so errors must have both signs. A bar on the
skill asks for less than half the error of the best single efficiency.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsim.results.comparison import ComparedRow, Comparison, Verdict

_BIAS = 0.04


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar: the error (or skill) that the rows of one role of one table have to reach."""

    table: str
    metric: str
    limit: float
    role: str = "test"
    classes: str = ""
    """A regular expression for the classes of rows, matched in full; "" is every row."""
    each: bool = False
    """Whether every class has to reach it, instead of all rows together."""
    note: str = ""
    bias: float = _BIAS
    """share. The largest mean error, with its sign."""


BARS = (
    Bar(table="korthikanti", metric="mae", limit=0.035),
    Bar(table="sc21-table1", metric="mae", limit=0.05),
    Bar(table="sc21-table2-ptdp", metric="mae", limit=0.05),
    Bar(table="vtrain-single", metric="mae", limit=0.07),
    Bar(table="vtrain-multi", metric="mae", limit=0.09),
    Bar(table="llm-foundry-a100", metric="mae", limit=0.08),
    Bar(table="torchtitan", metric="mae", limit=0.08),
    Bar(table="memory-korthikanti", metric="mae", limit=0.08),
    Bar(table="memory-torchtitan", metric="mae", limit=0.08),
    Bar(table="gemm-a100", metric="median", limit=0.06, role="calibrate", classes=".*, over 20 us",
        note="five-fold cross-validation"),
    Bar(table="gemm-a100", metric="mae", limit=0.10, role="calibrate", classes=".*, over 20 us",
        note="five-fold cross-validation"),
    Bar(table="all-reduce-a100", metric="mae", limit=0.08, role="calibrate", classes=r"1e([3-9]|1\d) .*", each=True,
        note="five-fold cross-validation over sweeps"),
    Bar(table="all-reduce-lookup-a100", metric="mae", limit=0.08, each=True),
    Bar(table="all-reduce-dgx-a100", metric="mae", limit=0.15, each=True, bias=0.15),
    Bar(table="all-reduce-a100-nodes", metric="mae", limit=0.10, bias=0.06, note="clusters count alike"),
    Bar(table="all-reduce-cloud-nodes", metric="mae", limit=0.18, bias=0.18, note="clusters count alike"),
    Bar(table="all-reduce-h100-nodes", metric="mae", limit=0.08, bias=0.08, note="clusters count alike"),
    Bar(table="gather-nodes", metric="mae", limit=0.15, bias=0.15, note="clusters count alike"),
    Bar(table="korthikanti", metric="skill", limit=0.5),
    Bar(table="sc21-table2", metric="skill", limit=0.5),
    Bar(table="sc21-figures", metric="skill", limit=0.5),
    Bar(table="vtrain-single", metric="skill", limit=0.5),
    Bar(table="vtrain-multi", metric="skill", limit=0.5),
    Bar(table="torchtitan", metric="skill", limit=0.5),
)  # fmt: skip


def verdicts(comparisons: Sequence[Comparison], bars: Sequence[Bar] = BARS) -> tuple[Verdict, ...]:
    """One verdict for each bar on one of these tables, and for each class of rows where each has to reach it."""
    known = {comparison.table: comparison for comparison in comparisons}
    judged: list[Verdict] = []
    for bar in bars:
        if bar.table in known:
            judged += _bar_verdicts(bar, known[bar.table])
    return tuple(judged)


def _bar_verdicts(bar: Bar, comparison: Comparison) -> list[Verdict]:
    rows = [row for row in comparison.only(bar.role).rows if _is_judged(bar, row)]
    if not rows:
        return [Verdict(table=bar.table, role=bar.role, of=bar.classes or "all", rows=0, metric=bar.metric,
                        value=None, limit=bar.limit, met=False, note="no row was compared")]  # fmt: skip
    if bar.metric == "skill":
        score = comparison.score(bar.role)
        value = None if score is None else score.skill
        return [Verdict(table=bar.table, role=bar.role, of="all", rows=len(rows), metric="skill", value=value,
                        limit=bar.limit, met=value is not None and value > bar.limit, note=bar.note)]  # fmt: skip
    if not bar.each:
        return [_error_verdict(bar, rows, bar.classes.replace(".*, ", "") or "all")]
    classes = sorted({row.group for row in rows})
    return [_error_verdict(bar, [row for row in rows if row.group == name], name) for name in classes]


def _is_judged(bar: Bar, row: ComparedRow) -> bool:
    return not bar.classes or re.fullmatch(bar.classes, row.group) is not None


def _error_verdict(bar: Bar, rows: Sequence[ComparedRow], of: str) -> Verdict:
    errors = np.array([row.error for row in rows])
    weights = np.array([row.weight for row in rows])
    size, bias = np.abs(errors), float(np.average(errors, weights=weights))
    value = float(np.median(size) if bar.metric == "median" else np.average(size, weights=weights))
    met = value <= bar.limit and abs(bias) <= bar.bias
    return Verdict(table=bar.table, role=bar.role, of=of, rows=len(rows), metric=bar.metric, value=value,
                   limit=bar.limit, bias=bias, bias_limit=bar.bias, met=met, note=bar.note)  # fmt: skip
