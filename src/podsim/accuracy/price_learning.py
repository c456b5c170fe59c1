"""Predictions of what networks learn: losses of runs, steps to a target by batch, results in a number format.

A law of losses is fitted to the calibrate rows of a setting: tokenizer, data, recipe. No law sees a test row: those of
the packaged tables have more compute than any calibrate row of their setting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows, load
from podsim.answers.number_formats import FormatAccuracy
from podsim.errors import PodsimError
from podsim.learning.batch_critical import BatchLaw, fit_batch_law
from podsim.learning.format_accuracy import all_accuracy
from podsim.learning.loss_fit import fit_law
from podsim.learning.loss_law import LossLaw
from podsim.learning.loss_runs import Runs

_UNTOLD = "outside 5 to 1,000 tokens a parameter, where the learning rate's schedule rules the loss"


def price_losses(rows: Rows) -> Priced:
    """Predicted losses (nats) of rows of the kind "losses"; sources and their settings count alike in means.

    Bands are of the scatter of a setting's runs and of the distance to them, without bootstraps.
    """
    own = [row for row in rows if row.role == "calibrate"]
    known = {setting: _calibrate(setting, own) for setting in {row.text("setting") for row in rows}}
    packaged = list(load("losses"))
    laws: dict[str, LossLaw | str] = {}
    for setting, given in known.items():
        laws[setting] = _loss_law(setting, given or _calibrate(setting, packaged))
    predictions, reasons, bands = {}, {}, {}
    for row in rows:
        law = laws[row.text("setting")]
        parameters, tokens = row.number("parameters"), row.number("tokens")
        if reason := row.fields.get("reason"):
            reasons[row.id] = reason
        elif isinstance(law, str) or not parameters or not tokens:
            reasons[row.id] = law if isinstance(law, str) else "parameters or tokens are not given"
        elif not _runs([row]).is_sane[0]:
            reasons[row.id] = _UNTOLD
        else:
            predictions[row.id] = float(law.loss(parameters, tokens))
            band = law.band(parameters, tokens)
            bands[row.id] = float(band.low), float(band.high)
    return Priced(predictions=predictions, reasons=reasons, weights=_weights(rows, predictions), bands=bands)


def _calibrate(setting: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.role == "calibrate" and row.text("setting") == setting)


@lru_cache(maxsize=64)
def _loss_law(setting: str, rows: tuple[Row, ...]) -> LossLaw | str:
    """The law of a setting, or why there is none."""
    runs = _runs(rows) if rows else None
    if runs is None or not runs.is_sane.any():
        return "its setting has no row to fit; `podsim scale fit` fits a file of runs"
    try:
        return fit_law(runs.where(runs.is_sane).best(), name=setting, bootstraps=0)
    except PodsimError as problem:
        return str(problem)


def _runs(rows: Sequence[Row]) -> Runs:
    columns = [[row.number(name) or np.nan for row in rows] for name in ("parameters", "tokens", "loss")]
    parameters, tokens, loss = np.array(columns)
    return Runs(parameters=parameters, tokens=tokens, loss=loss)


def _weights(rows: Rows, predictions: dict[str, float]) -> dict[str, float]:
    """Weights with which the settings of a source, and sources, count alike within a role."""
    priced = [row for row in rows if row.id in predictions]
    runs = Counter((row.role, row.text("setting")) for row in priced)
    settings = Counter(
        (role, source)
        for role, source, _ in {(row.role, _source(row), row.text("setting")) for row in priced}
    )
    return {
        row.id: 1.0 / runs[row.role, row.text("setting")] / settings[row.role, _source(row)] for row in priced
    }


def _source(row: Row) -> str:
    """The first part of the tables that holds a row: its source."""
    return row.fields.get("tables", "").partition(" ")[0]


def price_batches(rows: Rows) -> Priced:
    """Predicted steps of rows of the kind "batch-steps"; a law is fitted to own rows, or to packaged ones of its name."""
    predictions, reasons = {}, {}
    laws = {key: _batch_law(key, rows) for key in set(map(_name_and_target, rows))}
    for row in rows:
        law, batch = laws[_name_and_target(row)], row.number("batch")
        if isinstance(law, str):
            reasons[row.id] = row.fields.get("reason") or law
        elif not batch:
            reasons[row.id] = row.fields.get("reason") or "batch is not given"
        else:
            predictions[row.id] = law.steps(batch)
    return Priced(predictions=predictions, reasons=reasons)


def _name_and_target(row: Row) -> tuple[str, str]:
    """The name and the target that rows of one law share."""
    return row.text("name"), row.text("metric")


def _batch_law(key: tuple[str, str], rows: Iterable[Row]) -> BatchLaw | str:
    """The law of a name and target, or why there is none."""
    for table in (rows, load("batch-steps")):
        pairs = [
            (row.number("batch") or 0.0, row.number("steps") or 0.0)
            for row in table
            if _name_and_target(row) == key
            and row.role == "calibrate"
            and row.text("steps")
            and row.text("batch")
        ]
        if pairs:
            batches, steps = zip(*pairs, strict=True)
            try:
                return fit_batch_law(batches, steps)
            except PodsimError as problem:
                return str(problem)
    return "no row marked calibrate states the steps of its name and target"


def price_formats(rows: Rows) -> Priced:
    """Predicted results of rows of the kind "formats", in the row's own metric.

    value = baseline (1 -/+ median change) of the largest group of changes to the format: of the same phase and baseline,
    or of the same phase, or of any. The band is the change that nine of ten stay below, either way.
    """
    predictions, reasons, bands = {}, {}, {}
    for row in rows:
        group, baseline = _nearest(row), row.number("baseline")
        if reason := row.fields.get("reason"):
            reasons[row.id] = reason
        elif group is None or not baseline:
            reasons[row.id] = (
                "the result that it is against is not given"
                if group
                else f"no change to {row.text('format')} is published"
            )
        else:
            sign = 1.0 if row.text("is_lower_better") == "1" else -1.0
            predictions[row.id] = baseline * (1.0 + sign * group.median)
            bands[row.id] = (baseline * (1.0 - group.p90), baseline * (1.0 + group.p90))
    return Priced(predictions=predictions, reasons=reasons, bands=bands)


def _nearest(row: Row) -> FormatAccuracy | None:
    """The published changes that are most like those of a row."""
    groups = [group for group in all_accuracy("calibrate") if group.format == row.text("format")]
    phase, baseline = row.text("phase"), row.text("baseline_format")
    return max(
        groups,
        key=lambda group: (group.phase == phase, group.baseline == baseline, group.count),
        default=None,
    )
