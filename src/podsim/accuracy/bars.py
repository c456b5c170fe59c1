"""The bars that each table's predictions have to reach, as data, and their verdicts.

A bar on errors also asks for a small bias, so errors must have both signs. A bar on the skill asks for less than half the
error of the best single efficiency. Bars on tau and regret are on the mean over groups of at least five plans.

The recorded accuracy (RECORD, written by scripts/record.py) holds the rows and the mean absolute error of each table and
role: `podsim validate` fails if a figure is worse than that. A bar that is not met is reported, and no failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from podsim.answers.comparison import ComparedRow, Comparison, GroupRank, Score, Verdict
from podsim.packaged import packaged_toml

Accuracy = dict[str, dict[str, dict[str, Any]]]

RECORD = "recorded_accuracy.json"
_DIGITS = 6
_SLACK = 0.001
"""share. The growth of an error that does not count as a loss yet."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar: the error (or skill) that the rows of one role of one table have to reach."""

    table: str
    metric: str
    limit: float
    bias: float = 0.04
    """share. The limit of the bias, for a bar on errors."""
    role: str = "test"
    classes: str = ""
    """A regular expression for the classes of rows, matched in full; "" is every row."""
    each: bool = False
    """Whether every class has to reach it, instead of all rows together."""
    note: str = ""


BARS = tuple(Bar(**entry) for entry in packaged_toml("accuracy/bars.toml")["bars"])
"""The bars of the packaged tables, from bars.toml."""


def verdicts(comparisons: Sequence[Comparison], bars: Sequence[Bar] = BARS) -> tuple[Verdict, ...]:
    """One verdict for each bar on one of these tables, and for each class of rows where each has to reach it.

    A table that lacks an extra is not judged.
    """
    known = {comparison.table: comparison for comparison in comparisons if not comparison.missing_extras}
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
    if bar.metric in _RANKS:
        return [_rank_verdict(bar, comparison.score(bar.role), len(rows))]
    if not bar.each:
        return [_error_verdict(bar, rows, bar.classes.replace(".*, ", "") or "all")]
    classes = sorted({row.group for row in rows})
    return [_error_verdict(bar, [row for row in rows if row.group == name], name) for name in classes]


_RANKS: Mapping[str, Callable[[GroupRank], float]] = {
    "tau": lambda group: group.tau,
    "tau / limit": lambda group: group.tau / group.limit,
    "regret": lambda group: group.regret,
}
"""Metric -> its value in one group of plans."""


def _rank_verdict(bar: Bar, score: Score | None, rows: int) -> Verdict:
    """Whether the mean over the groups of plans reaches a bar on ranks."""
    groups = score.ranks if score is not None else ()
    value = float(np.mean([_RANKS[bar.metric](group) for group in groups])) if groups else None
    met = value is not None and (value <= bar.limit if bar.metric == "regret" else value >= bar.limit)
    return Verdict(table=bar.table, role=bar.role, of=f"{len(groups)} groups", rows=rows, metric=bar.metric,
                   value=value, limit=bar.limit, met=met, note=bar.note)  # fmt: skip


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


@cache
def packaged_accuracy() -> Accuracy:
    """Table -> role -> figures, as recorded with this version of podsim."""
    record: Accuracy = json.loads(files("podsim.accuracy").joinpath(RECORD).read_text("utf-8"))
    return record


def accuracy_text(accuracy: Accuracy) -> str:
    """The text of RECORD for the figures of `recorded_accuracy`."""
    kept = {
        table: {
            role: {"rows": figures["rows"], "mae": figures["mae"], "classes": {}}
            for role, figures in roles.items()
        }
        for table, roles in accuracy.items()
    }
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(table)}: {json.dumps(roles)}" for table, roles in kept.items())
        + "\n}\n"
    )


def worse_figures(comparisons: Sequence[Comparison], role: str = "") -> tuple[str, ...]:
    """Texts of the figures of these tables that are worse than recorded, of one role if it is given.

    A table that lacks an extra is not judged.
    """
    compared = {comparison.table for comparison in comparisons if not comparison.missing_extras}
    old = {
        table: {name: figures for name, figures in roles.items() if role in ("", name)}
        for table, roles in packaged_accuracy().items()
        if table in compared
    }
    return tuple(losses(old, recorded_accuracy(comparisons)))


def recorded_accuracy(comparisons: Sequence[Comparison]) -> Accuracy:
    """Table -> role -> figures, with those of its classes of rows."""
    figures_by_table: Accuracy = {}
    for comparison in comparisons:
        for score in comparison.scores:
            figures = {
                name: _rounded(getattr(score, name))
                for name in ("rows", "mae", "median", "bias", "p95", "tau", "regret", "skill")
            }
            classes = {c.name: [c.rows, _rounded(c.mae), _rounded(c.bias)] for c in score.classes}
            figures_by_table.setdefault(comparison.table, {})[score.role] = {**figures, "classes": classes}
    return figures_by_table


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def losses(old: Accuracy, new: Accuracy) -> list[str]:
    """Texts of tables, roles and classes whose predictions are worse, or that compare fewer rows."""
    texts = []
    for table, roles in old.items():
        for role, before in roles.items():
            after: Mapping[str, Any] | None = new.get(table, {}).get(role)
            where = f"{table}, {role}"
            if after is None:
                texts.append(f"{where}: no row is compared any more")
                continue
            texts += _losses_of_rows(where, before["rows"], before["mae"], after["rows"], after["mae"])
            for name, (rows, mae, _) in before["classes"].items():
                now = after["classes"].get(name, [0, 0.0, 0.0])
                texts += _losses_of_rows(f"{where}, {name}", rows, mae, now[0], now[1])
    return texts


def _losses_of_rows(where: str, rows: int, mae: float, rows_now: int, mae_now: float) -> list[str]:
    if rows_now < rows:
        return [f"{where}: {rows_now} rows compared, were {rows}"]
    return [f"{where}: mean error {mae_now:.2%}, was {mae:.2%}"] if mae_now > mae + _SLACK else []
