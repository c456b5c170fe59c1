"""Records of every prediction, so that a change of the code shows zero difference and a loss of accuracy is seen.

`recorded_predictions` holds each prediction of the packaged tables to twelve digits, `recorded_accuracy` the figures of
each table, role and class of rows. scripts/record.py writes both, and the tests compare the code with them.
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
"""share. The growth of an error that does not count as a loss yet."""


def recorded_predictions() -> Predictions:
    """Table -> id -> prediction, for every table once; products by the packaged constants, without scipy."""
    predictions: Predictions = {}
    for slug in TABLES:
        rows = load(slug)
        if named_table(slug).overlaps and rows.what == load(named_table(slug).of).what:
            continue  # its rows are another table's too
        priced = price(rows, cross_validate=False)
        if priced.predictions:
            predictions[slug] = {id: float(f"{value:.12g}") for id, value in priced.predictions.items()}
    return predictions


def differences(old: Predictions, new: Predictions, *, relative: float = 1e-9) -> list[str]:
    """Texts of predictions that moved by more than a relative difference, are new or are gone, the largest move first."""
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
