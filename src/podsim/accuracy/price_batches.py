"""Steps to a target by batch, each by the law of the runs of its table that are marked calibrate."""

from __future__ import annotations

from collections.abc import Iterable

from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows, load
from podsim.errors import PodsimError
from podsim.learning.batch_critical import BatchLaw, fit_batch_law


def price_batches(rows: Rows) -> Priced:
    """Predicted steps of rows of the kind "batch-steps"; a law is fitted to own rows, or to packaged ones of its name."""
    predictions, reasons = {}, {}
    for key in dict.fromkeys(map(_key, rows)):
        law = _law(key, rows)
        for row in rows:
            if _key(row) == key:
                batch = row.number("batch")
                if isinstance(law, str) or not batch:
                    reasons[row.id] = row.fields.get("reason") or (
                        law if isinstance(law, str) else "batch is not given"
                    )
                else:
                    predictions[row.id] = law.steps(batch)
    return Priced(predictions=predictions, reasons=reasons)


def _key(row: Row) -> tuple[str, str]:
    """The name and the target that rows of one law share."""
    return row.text("name"), row.text("metric")


def _law(key: tuple[str, str], rows: Iterable[Row]) -> BatchLaw | str:
    """The law of a name and target, or why there is none."""
    for table in (rows, load("batch-steps")):
        pairs = [
            (row.number("batch") or 0.0, row.number("steps") or 0.0)
            for row in table
            if _key(row) == key and row.role == "calibrate" and row.text("steps") and row.text("batch")
        ]
        if pairs:
            batches, steps = zip(*pairs, strict=True)
            try:
                return fit_batch_law(batches, steps)
            except PodsimError as problem:
                return str(problem)
    return "no row marked calibrate states the steps of its name and target"
