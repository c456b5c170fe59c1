"""The recorded accuracy of the packaged tables: `podsim validate` fails if a figure is worse than this.

scripts/record.py writes FILE, which holds the rows and the mean absolute error of each table and role. A bar that is
not met is reported, and no failure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from podsim.results.comparison import Comparison

Accuracy = dict[str, dict[str, dict[str, Any]]]

FILE = "recorded_accuracy.json"
_DIGITS = 6
_SLACK = 0.001
"""share. The growth of an error that does not count as a loss yet."""


@cache
def packaged_accuracy() -> Accuracy:
    """Table -> role -> figures, as recorded with this version of podsim."""
    record: Accuracy = json.loads(files("podsim.accuracy").joinpath(FILE).read_text("utf-8"))
    return record


def accuracy_text(accuracy: Accuracy) -> str:
    """The text of FILE for the figures of `recorded_accuracy`."""
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
    """Texts of the figures of these tables that are worse than recorded, of one role if it is given."""
    compared = {comparison.table for comparison in comparisons}
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
