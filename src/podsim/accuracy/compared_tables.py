"""Holds predictions against a table of measurements, and accounts for every one of its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from podsim.accuracy.measured_tables import Row, Rows
from podsim.accuracy.measurements import measurement
from podsim.accuracy.score import assess
from podsim.errors import TableError
from podsim.results.comparison import ComparedRow, Comparison, Measurement


def compare(
    rows: Rows,
    predictions: Mapping[str, float],
    *,
    not_expressed: Mapping[str, str] | None = None,
    what: str = "",
    ideals: Mapping[str, float] | None = None,
    notes: Mapping[str, str] | None = None,
    classes: Sequence[str] | None = None,
    sweep: Sequence[str] | None = None,
) -> Comparison:
    """Comparison, with scores, of predictions (id -> value in SI) against the rows of a table.

    Each row must have a prediction or a reason in `not_expressed` (id -> text): nothing is left out in
    silence. Rows that do not hold the quantity, or that may not be validated against (not measured, source
    unknown), need neither: they are listed with that reason, predicted or not. `ideals` (id -> value at full
    peak) gives the skill; `classes` and `sweep` are columns, by default those of the table. Raises TableError
    with every row that is unaccounted for.
    """
    what, given = what or rows.what, dict(not_expressed or {})
    found = {row.id: measurement(row, what) for row in rows}
    unfit = {row.id: why for row in rows if (why := _unfit(row, found[row.id], what))}
    _check_ids(rows, predictions, given, unfit)
    reasons = unfit | given
    classes = rows.classes if classes is None else classes
    sweep = rows.sweep if sweep is None else sweep
    compared: list[ComparedRow] = []
    for row in rows:
        measured = found[row.id]
        if row.id in reasons or measured is None:
            continue
        compared.append(
            ComparedRow(
                id=row.id,
                role=row.role,
                table=rows.name,
                predicted=predictions[row.id],
                measured=measured.value,
                note=(notes or {}).get(row.id, ""),
                group=row.label(classes),
                sweep=row.label(sweep) if sweep else "",
                ideal=(ideals or {}).get(row.id),
            )
        )
    result = Comparison(
        table=rows.name,
        title=rows.title,
        what=what,
        rows=tuple(compared),
        not_expressed=tuple((row.id, reasons[row.id]) for row in rows if row.id in reasons),
        sources=rows.sources,
    )
    return assess(result)


def _unfit(row: Row, measured: Measurement | None, what: str) -> str:
    """Why a row cannot be held against a prediction of this quantity; "" if it can."""
    if measured is None:
        return f"the source gives no {what}"
    if not row.validates:
        return f"not a validation target (confirmed: {row.confirmed}; source: {row.source[:80]})"
    return ""


def _check_ids(
    rows: Rows, predictions: Mapping[str, float], reasons: Mapping[str, str], unfit: Mapping[str, str]
) -> None:
    """Raise TableError for rows with neither a prediction nor a reason, or both, and for unknown rows."""
    known = {row.id for row in rows}
    both = [id for id in predictions if id in reasons]
    stray = [id for id in (*predictions, *reasons) if id not in known]
    accounted = {*predictions, *reasons, *unfit}
    neither = [row.id for row in rows if row.id not in accounted]
    silent = [id for id, reason in reasons.items() if not reason.strip()]
    wrong = [id for id, value in predictions.items() if not (math.isfinite(value) and value > 0)]
    problems = [
        f"{text}: {', '.join(ids[:8])}{', …' if len(ids) > 8 else ''} ({len(ids)})"
        for text, ids in (
            ("rows with neither a prediction nor a reason", neither),
            ("rows with a prediction and a reason against one", both),
            ("ids that the table does not have", stray),
            ("rows left out without a reason", silent),
            ("predictions that are not finite and greater than 0", wrong),
        )
        if ids
    ]
    if problems:
        raise TableError(f"{rows.name}: {'; '.join(problems)}")
