"""`podsim scale fit`: a law of the loss from finished runs, with its band and a check on the largest of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from podsim.answers.losses import LossPoint
from podsim.answers.quantiles import quantile
from podsim.answers.scaling_answers import ConstantRange, FittedRun, ScaleFit
from podsim.errors import PodsimError, raise_all
from podsim.learning.loss_advice import advised, loss_points
from podsim.learning.loss_catalog import find_law, write_law
from podsim.learning.loss_choice import choose_form, hold_out
from podsim.learning.loss_fit import fit_law, fit_offset
from podsim.learning.loss_law import NAMES, LossLaw, constants_of
from podsim.learning.loss_runs import Runs
from podsim.learning.loss_table import RunTable, mixed_lines, read_runs
from podsim.learning.loss_tuning import tune
from podsim.options.output_options import PlotOutput
from podsim.options.question import question, wrong_choices
from podsim.options.scale_options import ScaleFitOptions
from podsim.units import MOST, parse_quantity

_ALONG, _LINES = 41, 4
"""The number of points of a curve, and of curves."""
FITTED, UNDERTRAINED, OVERTRAINED, WORSE = "fitted", "undertrained", "overtrained", "tuned worse"


@question(
    ScaleFitOptions,
    output=PlotOutput,
    activity="fitting the law",
)
def scale_fit(options: ScaleFitOptions) -> ScaleFit:
    """Fit a law of the loss to finished runs: constants, band, error, and the best size for their compute.

    Of several runs of one size and length, as in a grid of learning rates, the best counts. Runs outside `ratio` tokens a
    parameter are left out, with a remark. With `shape` one offset is fitted to a known law. Raises PodsimError for runs
    that cannot tell the constants, and TableError for a file that cannot be read, or whose losses are of several kinds.
    """
    options = replace(
        options, file=Path(options.file), save=None if options.save is None else Path(options.save)
    )
    _check(options)
    names = {"parameters": options.params, "tokens": options.tokens, "loss": options.loss}
    table = read_runs(
        options.file, {key: name for key, name in names.items() if name}, only=options.only, unit=options.unit
    )
    uses = _uses(table.runs, options.ratio)
    runs = table.runs.where(uses == FITTED)
    if not len(runs):
        raise PodsimError(
            f"{table.name}: none of {len(table.runs)} runs has {options.ratio} tokens a parameter, "
            f"they have {table.runs.ratio.min():.3g} to {table.runs.ratio.max():.3g}; change --ratio LOW:HIGH"
        )
    form, errors = options.form, dict[str, float]()
    if not options.shape and options.form == "auto":
        form, held = choose_form(runs)
        errors = dict(held)
    law = (
        fit_offset(find_law(options.shape), runs, name=table.name)
        if options.shape
        else fit_law(runs, name=table.name, form=form, bootstraps=options.bootstraps)
    )
    law = replace(law, source=f"fitted to {len(runs)} runs of {table.name}")
    if mixed := mixed_lines(table, law.loss(table.runs.parameters, table.runs.tokens, table.runs.unique)):
        raise PodsimError(mixed)
    answer = _answer(table, uses, law, errors)
    tried = table.runs.where((uses == FITTED) | (uses == WORSE))
    answer = replace(answer, tuning=tune(tried))
    if not options.shape and options.hold_out:
        checked = hold_out(runs, form, share=options.hold_out, bootstraps=min(options.bootstraps, 60))
        answer = replace(answer, held_out=checked)
    if options.save is not None:
        write_law(options.save, law)
    return answer


def _check(options: ScaleFitOptions) -> None:
    """Raise PodsimError with all that is wrong with the numbers."""
    wrong = wrong_choices(options, "form")
    if not 0 <= options.hold_out <= 0.6:
        wrong.append(f"hold_out={options.hold_out}: a share between 0 and 0.6 of the runs, 0 for no check")
    if not 0 <= options.bootstraps <= 5000:
        wrong.append(f"bootstraps={options.bootstraps}: between 0 and 5000")
    if options.save is not None and options.save.suffix != ".json":
        wrong.append(f"save={str(options.save)[-60:]}: give a name that ends in .json")
    if options.shape and options.form != "auto":
        wrong.append("shape has a form of its own; leave form out")
    raise_all(wrong)


def _ratio(text: str) -> tuple[float, float]:
    """The fewest and the most tokens a parameter."""
    low, colon, high = text.partition(":")
    try:
        ends = (parse_quantity(low or "0"), parse_quantity(high or MOST))
    except PodsimError:
        ends = (1.0, 0.0)
    if not colon or not 0 <= ends[0] < ends[1]:
        raise PodsimError(f"ratio={text[:40]!r}: expected tokens a parameter LOW:HIGH, such as 5:1000")
    return ends


def _uses(runs: Runs, ratio: str) -> np.ndarray:
    """What each run is used for."""
    low, high = _ratio(ratio)
    uses = np.full(len(runs), FITTED, dtype=object)
    uses[runs.ratio < low * 0.999] = UNDERTRAINED
    uses[runs.ratio > high * 1.001] = OVERTRAINED
    fit = np.flatnonzero(uses == FITTED)
    uses[np.setdiff1d(fit, fit[runs.where(fit).best_indices()])] = WORSE
    return uses


def _answer(table: RunTable, uses: np.ndarray, law: LossLaw, errors: dict[str, float]) -> ScaleFit:
    """The answer, with what the law says of each run."""
    runs = table.runs
    band = law.band(runs.parameters, runs.tokens, runs.unique)
    rows = tuple(
        FittedRun(line=line, parameters=size, tokens=tokens, loss=loss, predicted=middle, low=low, high=high, use=use)
        for line, size, tokens, loss, middle, low, high, use in zip(
            table.lines, runs.parameters.tolist(), runs.tokens.tolist(), runs.loss.tolist(), band.loss.tolist(),
            band.low.tolist(), band.high.tolist(), uses.tolist(), strict=True,
        )
    )  # fmt: skip
    fitted = [row for row in rows if row.use == FITTED]
    most = max(6 * row.parameters * row.tokens for row in fitted)
    return ScaleFit(
        file=table.name, law=law, unit=table.unit, constants=_constants(law), rows=rows,
        error=float(np.mean([abs(row.error) for row in fitted])), held_out=None, forms=errors,
        advice=tuple(advised(law, most * factor) for factor in (1, 10, 100)), curves=_curves(law),
        notes=(*table.notes, *_left_out(rows), *_columns(table)),
    )  # fmt: skip


def _curves(law: LossLaw) -> tuple[LossPoint, ...]:
    """The law over its fitted range."""
    assert law.fitted is not None
    sizes, tokens = np.geomspace(*law.fitted.parameters, _ALONG), np.geomspace(*law.fitted.tokens, _LINES)
    return loss_points(law, np.tile(sizes, _LINES), np.repeat(tokens, _ALONG))


def _constants(law: LossLaw) -> tuple[ConstantRange, ...]:
    """The constants with the ranges of their bootstraps."""
    drawn = [constants_of(np.array(draw)) for draw in law.draws] or [dict(law.constants)]
    return tuple(
        ConstantRange(
            name=name, value=law.constants[name], low=quantile(values, 0.1), high=quantile(values, 0.9)
        )
        for name in NAMES
        for values in [[constants[name] for constants in drawn]]
    )


def _left_out(rows: tuple[FittedRun, ...]) -> list[str]:
    """What is said of runs that are not fitted."""
    counts = Counter(row.use for row in rows)
    reasons = {
        UNDERTRAINED: "have too few tokens a parameter (undertrained): the learning rate's schedule rules their loss",
        OVERTRAINED: "have more tokens a parameter than the law is fitted to",
        WORSE: "repeat a size and length with a higher loss: only the best of each is fitted",
    }
    return [f"{counts[use]} of {len(rows)} runs {text}" for use, text in reasons.items() if counts[use]]


def _columns(table: RunTable) -> list[str]:
    """The columns that were read."""
    said = ", ".join(f"{quantity} = {column}" for quantity, column in table.columns.items())
    unit = (
        ""
        if table.unit == "nats"
        else f"; losses in {table.unit}, shown in nats (1 bit = {math.log(2):.3f} nats)"
    )
    return [f"columns: {said}{unit}"]
