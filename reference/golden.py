"""Records of every prediction, so that a change of the code shows zero difference and a loss of accuracy is seen.

`recorded_predictions` holds each prediction of the packaged tables to twelve digits, `recorded_accuracy` the figures of
each table, role and class of rows. scripts/record.py writes both, and the tests compare the code with them.
"""

from __future__ import annotations

from podsim.accuracy.bars import losses, recorded_accuracy
from podsim.accuracy.pricing import price
from podsim.accuracy.tables import TABLES, load, named_table

__all__ = ["Predictions", "differences", "losses", "recorded_accuracy", "recorded_predictions"]

Predictions = dict[str, dict[str, float]]
_MOST = 1500
"""rows of a table that are kept, about; of larger tables every n-th one"""


def recorded_predictions() -> Predictions:
    """Table -> id -> prediction, for every table once; products by the packaged constants, without scipy."""
    predictions: Predictions = {}
    for slug in TABLES:
        rows = load(slug)
        if named_table(slug).overlaps and rows.what == load(named_table(slug).of).what:
            continue  # its rows are another table's too
        priced = price(rows, cross_validate=False)
        kept = list(priced.predictions.items())[:: 1 + len(priced.predictions) // _MOST]
        if kept:
            predictions[slug] = {id: float(f"{value:.12g}") for id, value in kept}
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
