"""What is recorded of every prediction, so that a refactor shows zero difference and a loss of accuracy shows at all.

`recorded_predictions` holds each prediction of the packaged tables to twelve digits, `recorded_accuracy` the figures of
each table, role and class of rows. scripts/record.py writes both; the tests hold the code against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsim.accuracy.pricing import price
from podsim.accuracy.tables import TABLES, load, named_table
from podsim.results.comparison import Comparison

Predictions = dict[str, dict[str, float]]
Accuracy = dict[str, dict[str, dict[str, Any]]]

_DIGITS = 6
_SLACK = 0.001
"""by how much an error may grow before that is a loss: a tenth of a percent"""


def recorded_predictions() -> Predictions:
    """Table -> id -> prediction, for every table once; products by the packaged constants, without scipy."""
    found: Predictions = {}
    for slug in TABLES:
        rows = load(slug)
        if named_table(slug).overlaps and rows.what == load(named_table(slug).of).what:
            continue  # its rows are another table's too
        priced = price(rows, cross_validate=False)
        if priced.predictions:
            found[slug] = {id: float(f"{value:.12g}") for id, value in priced.predictions.items()}
    return found


def differences(old: Predictions, new: Predictions, *, relative: float = 1e-9) -> list[str]:
    """What moved by more than a relative difference, appeared or is gone, the largest move first."""
    moved: list[tuple[float, str]] = []
    for table in sorted(old.keys() | new.keys()):
        before, after = old.get(table, {}), new.get(table, {})
        for id in sorted(before.keys() - after.keys()):
            moved.append((float("inf"), f"{table} {id}: is gone"))
        for id in sorted(after.keys() - before.keys()):
            moved.append((float("inf"), f"{table} {id}: is new"))
        for id in before.keys() & after.keys():
            change = after[id] / before[id] - 1
            if not abs(change) <= relative:
                moved.append(
                    (abs(change), f"{table} {id}: {before[id]:.6g} -> {after[id]:.6g} ({change:+.2e})")
                )
    return [text for _, text in sorted(moved, key=lambda item: (-item[0], item[1]))]


def recorded_accuracy(comparisons: Sequence[Comparison]) -> Accuracy:
    """Table -> role -> figures, its classes of rows among them."""
    found: Accuracy = {}
    for comparison in comparisons:
        for score in comparison.scores:
            figures = {
                name: _rounded(getattr(score, name))
                for name in ("rows", "mae", "median", "bias", "p95", "tau", "regret", "skill")
            }
            classes = {c.name: [c.rows, _rounded(c.mae), _rounded(c.bias)] for c in score.classes}
            found.setdefault(comparison.table, {})[score.role] = {**figures, "classes": classes}
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def losses(old: Accuracy, new: Accuracy) -> list[str]:
    """Where predictions became worse, or rows came or went, by table, role and class."""
    found = []
    for table, roles in old.items():
        for role, before in roles.items():
            after: Mapping[str, Any] | None = new.get(table, {}).get(role)
            where = f"{table}, {role}"
            if after is None:
                found.append(f"{where}: no row is compared any more")
                continue
            found += _worse(where, before["rows"], before["mae"], after["rows"], after["mae"])
            for name, (rows, mae, _) in before["classes"].items():
                now = after["classes"].get(name, [0, 0.0, 0.0])
                found += _worse(f"{where}, {name}", rows, mae, now[0], now[1])
    return found


def _worse(where: str, rows: int, mae: float, rows_now: int, mae_now: float) -> list[str]:
    if rows_now < rows:
        return [f"{where}: {rows_now} rows compared, were {rows}"]
    return [f"{where}: mean error {mae_now:.2%}, was {mae:.2%}"] if mae_now > mae + _SLACK else []
