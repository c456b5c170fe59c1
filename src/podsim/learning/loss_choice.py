"""How well a form of the law foretells larger runs than it was fitted to, and which form the runs ask for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsim.answers.losses import HeldOut
from podsim.answers.quantiles import quantile
from podsim.errors import PodsimError
from podsim.learning.loss_fit import FORMS, fit_law
from podsim.learning.loss_law import LossLaw
from podsim.learning.loss_runs import Runs

_CUTS = (0.8, 0.65)
"""share. The parts of compute from below that a form is fitted to, to foretell the rest."""
_MARGIN = 0.8
"""factor. The error, relative to that of the usual form, below which another form is taken."""
_USUAL = "coupled"


def hold_out(runs: Runs, form: str, *, share: float, bootstraps: int) -> HeldOut | None:
    """The errors on the top share of compute of a law fitted to the rest; None where too few runs would be left."""
    compute = runs.compute
    is_large = compute > quantile(compute, 1 - share)
    if not is_large.any():
        return None
    try:
        law = fit_law(runs.where(~is_large), name="held out", form=form, bootstraps=bootstraps)
    except PodsimError:
        return None
    return score(law, runs.where(is_large), share)


def score(law: LossLaw, runs: Runs, share: float = 1.0) -> HeldOut:
    """The errors of a law on runs that it was not fitted to."""
    band = law.band(runs.parameters, runs.tokens, runs.unique)
    inside = (runs.loss >= band.low) & (runs.loss <= band.high)
    error = np.abs(band.loss / runs.loss - 1)
    return HeldOut(share=share, runs=len(runs), error=float(error.mean()), covered=float(inside.mean()))


def choose_form(runs: Runs) -> tuple[str, Mapping[str, float]]:
    """(the form to take, the error of each form on runs of more compute than it was fitted to).

    The coupled form stays unless another is clearly better: it holds the others, and pulled towards usual constants it
    was the best on the held-out compute of nearly every calibrate source.
    """
    errors: dict[str, float] = {}
    for form in FORMS:
        scores = [hold_out(runs, form, share=1 - cut, bootstraps=0) for cut in _CUTS]
        known = [each.error for each in scores if each is not None]
        if known:
            errors[form] = float(np.mean(known))
    best = min(errors, key=lambda form: errors[form], default=_USUAL)
    is_better = _USUAL not in errors or errors[best] < _MARGIN * errors[_USUAL]
    return best if is_better else _USUAL, errors
