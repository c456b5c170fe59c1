"""The accuracy of predictions: comparisons with measured rows, errors, ranks within sweeps, regret, skill.

A comparison accounts for every row of its table. Errors are relative, predicted / measured - 1, so a change of units
changes nothing. Means weigh rows as the pricing says, so that no cluster of many rows leads. Rows of different roles
are never in one figure: `score` refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from podsim.accuracy.rankings import group_ranks, regrets, sweep_tau
from podsim.accuracy.tables import Row, Rows, find_kind, measurement
from podsim.answers.comparison import (
    BROKEN,
    QUANTITIES,
    ROLES,
    ClassScore,
    ComparedRow,
    Comparison,
    Measurement,
    Score,
)
from podsim.answers.quantiles import quantile
from podsim.axes import Floats
from podsim.errors import TableError


@dataclass(frozen=True, kw_only=True)
class Priced:
    """Predictions for the rows of a table; every row has a prediction or a reason."""

    predictions: Mapping[str, float]
    """SI. The predictions of the requested quantity, by id."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reasons for missing predictions, by id."""
    ideals: Mapping[str, float] = field(default_factory=dict)
    """SI. The values at full peak, by id, where that has a meaning; they give the skill."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """The remarks for readers, by id."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The class in the breakdown, by id; empty uses the columns of the table."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """factor. The weight in mean errors, by id; 1 for others."""
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """SI. The ends of the error band, by id, in the requested quantity; rows without one have none."""


def relative_errors(predicted: ArrayLike, measured: ArrayLike) -> Floats:
    """predicted / measured - 1 of each row; TableError unless all are finite and positive, and their numbers agree."""
    p, m = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    if p.shape != m.shape or p.ndim != 1:
        raise TableError(f"{p.shape} predictions do not pair with {m.shape} measurements")
    if not (np.all(np.isfinite(p) & (p > 0)) and np.all(np.isfinite(m) & (m > 0))):
        raise TableError("predictions and measurements must be finite and greater than 0")
    with np.errstate(over="ignore"):
        errors = p / m - 1.0
    if not np.all(np.isfinite(errors)):
        raise TableError(
            f"a measurement of {m.min():g} is no measurement beside a prediction of {p[m.argmin()]:g}"
        )
    return np.asarray(errors)


def mean_absolute_error(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Mean of |predicted / measured - 1|; raises TableError on no rows."""
    errors = relative_errors(predicted, measured)
    if errors.size == 0:
        raise TableError("no rows to score")
    return float(np.abs(errors).mean())


def best_constant(ideal: ArrayLike, measured: ArrayLike) -> float:
    """The factor k for which k x ideal has the least mean absolute relative error.

    `ideal` is the value at full peak; for times 1/k, for rates k is the efficiency ("MFU"). Exact: the error
    is sum |k r - 1| with r = ideal / measured, least at the median of 1/r weighted by r.
    """
    relative_errors(ideal, measured)
    i, m = np.asarray(ideal, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    if i.size == 0:
        raise TableError("no rows to choose a constant on")
    order = np.argsort(m / i, kind="stable")
    weights = np.cumsum((i / m)[order])
    middle = int(np.searchsorted(weights, weights[-1] / 2))
    return float((m / i)[order][middle])


def skill(predicted: ArrayLike, measured: ArrayLike, ideal: ArrayLike, constant: float) -> float | None:
    """1 - MAE / MAE of constant x ideal; 1 is perfect, 0 no better than that; None if that is exact."""
    guess = mean_absolute_error(constant * np.asarray(ideal, dtype=np.float64), measured)
    return None if guess == 0 else 1.0 - mean_absolute_error(predicted, measured) / guess


def _ideals(rows: Sequence[ComparedRow]) -> list[float] | None:
    """Ideals of the rows; None unless each has one."""
    ideals = [row.ideal for row in rows if row.ideal is not None]
    return ideals if rows and len(ideals) == len(rows) else None


def _classes(rows: Sequence[ComparedRow]) -> tuple[ClassScore, ...]:
    """Errors by class, largest class first; rows without a class are left to the totals."""
    groups: dict[str, list[ComparedRow]] = {}
    for row in rows:
        if row.group:
            groups.setdefault(row.group, []).append(row)
    scores = []
    for name, members in groups.items():
        errors = np.array([row.error for row in members])
        worst = int(np.argmax(np.abs(errors)))
        mae, bias = float(np.abs(errors).mean()), float(errors.mean())
        scores.append(
            ClassScore(
                name=name,
                rows=len(members),
                mae=mae,
                bias=bias,
                worst_id=members[worst].id,
                worst_error=float(errors[worst]),
            )
        )
    return tuple(sorted(scores, key=lambda s: (-s.rows, s.name)))


def score(comparison: Comparison, *, role: str, constant: float | None = None, basis: str = "") -> Score:
    """The score of a comparison whose rows all have the given role.

    Raises TableError on no rows, or on a row of another role: narrow the comparison with `only(role)` first.
    `constant` (of `best_constant`, on the rows that `basis` names) gives the skill where each row has an
    ideal; without it the constant is chosen on the rows themselves, which flatters the constant.
    """
    rows = comparison.rows
    others = sorted({row.role for row in rows} - {role})
    if others:
        raise TableError(
            f"{comparison.table}: rows of role {', '.join(others)} in a score of role {role!r}; "
            f"roles are never mixed: use comparison.only({role!r})"
        )
    predicted, measured = [row.predicted for row in rows], [row.measured for row in rows]
    weights = np.array([row.weight for row in rows])
    mean_absolute_error(predicted, measured)
    errors, sweeps = relative_errors(predicted, measured), [row.sweep for row in rows]
    size = np.abs(errors)
    worst = int(np.argmax(size))
    more_is_better = QUANTITIES[comparison.what][1]
    lost = list(regrets(predicted, measured, sweeps, more_is_better=more_is_better).values())
    ideals = _ideals(rows)
    if ideals is not None and constant is None:
        constant, basis = best_constant(ideals, measured), "the scored rows themselves"
    return Score(
        role=role,
        rows=len(rows),
        mae=float(np.average(size, weights=weights)),
        median=float(np.median(size)),
        bias=float(np.average(errors, weights=weights)),
        p95=quantile(size, 0.95),
        worst_id=rows[worst].id,
        worst_error=float(errors[worst]),
        classes=_classes(rows),
        sweeps=len(lost),
        tau=sweep_tau(predicted, measured, sweeps),
        regret=float(np.mean(lost)) if lost else None,
        worst_regret=max(lost) if lost else None,
        ranks=group_ranks(rows, more_is_better=more_is_better),
        skill=skill(predicted, measured, ideals, constant) if ideals is not None and constant else None,
        skill_basis=basis if ideals is not None else "",
    )


def assess(comparison: Comparison) -> Comparison:
    """The comparison with one score for each role present.

    The constant of the skill is the best on the calibrate rows where each has an ideal, else on the scored
    rows.
    """
    fitted = comparison.only(ROLES[0]).rows
    ideals = _ideals(fitted)
    constant = None if ideals is None else best_constant(ideals, [row.measured for row in fitted])
    basis = "" if constant is None else "calibrate rows"
    scores = [score(comparison.only(r), role=r, constant=constant, basis=basis) for r in comparison.roles]
    return replace(comparison, scores=tuple(scores))


def compare(rows: Rows, priced: Priced) -> Comparison:
    """Comparison, with scores, of predictions against the rows of a table in its own quantity.

    Each row must have a prediction or a reason: no row is left out silently. Rows that do not hold the quantity, or
    that may not be validated against (not measured, source unknown), need neither: they are listed with that reason,
    predicted or not. Raises TableError with every row that is unaccounted for.
    """
    measurements = {row.id: measurement(row, rows.what) for row in rows}
    unfit = {row.id: why for row in rows if (why := _unfit_reason(row, measurements[row.id], rows.what))}
    _check_ids(rows, priced.predictions, priced.reasons, unfit)
    reasons, plan = unfit | dict(priced.reasons), find_kind(rows.kind).plan
    compared: list[ComparedRow] = []
    for row in rows:
        measured = measurements[row.id]
        if row.id in reasons or measured is None:
            continue
        low, high = priced.bands.get(row.id, (None, None))
        compared.append(
            ComparedRow(
                id=row.id,
                role=row.role,
                table=rows.name,
                predicted=priced.predictions[row.id],
                measured=measured.value,
                note=priced.notes.get(row.id, ""),
                group=priced.groups[row.id] if row.id in priced.groups else row.label(rows.classes),
                sweep=row.label(rows.sweep),
                plan=row.label(plan),
                ideal=priced.ideals.get(row.id),
                weight=priced.weights.get(row.id, 1.0),
                low=low,
                high=high,
            )
        )
    result = Comparison(
        table=rows.name,
        title=rows.title,
        what=rows.what,
        rows=tuple(compared),
        not_expressed=tuple((row.id, reasons[row.id]) for row in rows if row.id in reasons),
        left_out={row.id: (row.role, _value(measurements[row.id])) for row in rows if row.id in reasons},
        sources=rows.sources,
        remarks=rows.remarks,
    )
    return assess(result)


def _value(measured: Measurement | None) -> float | None:
    return None if measured is None else measured.value


def _unfit_reason(row: Row, measured: Measurement | None, what: str) -> str:
    """The reason why a row cannot be compared in this quantity; "" if it can."""
    if measured is None:
        return f"the source gives no {what}"
    if row.role == BROKEN:
        return "the machine is broken or off its fabric's rate: never a target"
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
