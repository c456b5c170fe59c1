"""Losses of runs, each by a law fitted to the calibrate rows of its setting: tokenizer, data, recipe.

No law sees a test row: those of the packaged tables have more compute than any calibrate row of their setting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows, load
from podsim.errors import PodsimError
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
        laws[setting] = _law(setting, given or _calibrate(setting, packaged))
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


def _calibrate(setting: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.role == "calibrate" and row.text("setting") == setting]


def _law(setting: str, rows: Sequence[Row]) -> LossLaw | str:
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
