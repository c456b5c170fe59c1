"""`podsim scale best`: the network that learns most on a machine in some days, its shape, its plan, its loss and
money.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from podsim.answers.prediction import Prediction
from podsim.answers.scaling_answers import DaysPoint, ScaleBest, SizePoint
from podsim.errors import NoFitError, PodsimError
from podsim.fleet.power_cost import with_expense
from podsim.hardware.cluster import load_cluster
from podsim.hardware.parts import matmul_peak
from podsim.learning.loss_advice import range_notes, repetition_notes
from podsim.learning.loss_catalog import find_law, named_laws
from podsim.learning.loss_law import FLOPS_PER_PARAMETER, LossLaw
from podsim.learning.loss_optimum import Budget, best_parameters
from podsim.options.output_options import PlotOutput
from podsim.options.question import Progress, question
from podsim.options.scale_options import ScaleBestOptions
from podsim.questions.registry import ask
from podsim.storage.long_runs import DAY, RunLength, read_days, with_run
from podsim.training.job_inputs import read_inputs
from podsim.training.plan import Plan, precision_of
from podsim.units import parse_count
from podsim.workload.catalog import network_size
from podsim.workload.generated_shape import Shape, catalog_shapes, shape_near

_UTILISATION = 0.5
"""share. The model FLOPs utilisation with which the size of a network is guessed before its plan is known."""
_POOR = 0.001
"""share. The loss above the best, for the compute that the plan gives, from which the size is chosen again."""
_CHOICES = 3
_SMALLER = 0.6
_SHRINKS = 6
_CURVE = np.geomspace(1 / 10, 10, 41)
_FRONT = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
_CURVES = (1 / 4, 1.0, 4.0)
_KNOWN = 5


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The question with its texts read."""

    options: ScaleBestOptions
    law: LossLaw
    seconds: float
    """s. The time of training, with failures."""
    inference: float
    """count. The tokens to infer."""
    unique: float | None
    """count. The tokens that differ."""

    def budget(self, flops: float) -> Budget:
        """The budget of so much compute."""
        return Budget(flops=flops, inference=self.inference, unique=self.unique)


@question(
    ScaleBestOptions,
    output=PlotOutput,
    progress="searching plans",
)
def scale_best(options: ScaleBestOptions, *, progress: Progress | None = None) -> ScaleBest:
    """The parameters and tokens with the least loss on a cluster in some days, and the plan that trains them.

    The law gives the size, a shape of about that size is taken from the catalog or generated, and the search of `podsim
    plan` finds the fastest plan, whose tokens in the days, failures included, give the loss. Inference tokens take
    their part of the same compute. Raises NoFitError where no network fits, and PodsimError for anything unusable.
    """
    asked = _asked(options)
    cluster = load_cluster(options.on, dict(options.overrides or {}), options.gpus)
    peak = cluster.gpus * matmul_peak(cluster.gpu, precision_of(None, cluster))
    guess = _UTILISATION * peak * asked.seconds
    shape, prediction, notes = _planned(asked, guess, progress)
    flops = _compute(shape, prediction)
    for _ in range(_CHOICES):
        if options.model or not _is_poor(asked, shape.parameters, flops):
            break
        shape, prediction, notes = _planned(asked, flops, progress)
        flops = _compute(shape, prediction)
    return _answer(asked, shape, prediction, flops, notes)


def _asked(options: ScaleBestOptions) -> _Asked:
    inference, unique = (
        None if value is None else parse_count(value, name)
        for name, value in (
            ("inference_tokens", options.inference_tokens),
            ("unique_tokens", options.unique_tokens),
        )
    )
    return _Asked(
        options=options, law=find_law(options.law), seconds=read_days(options.days), inference=inference or 0.0,
        unique=unique,
    )  # fmt: skip


def _compute(shape: Shape, prediction: Prediction) -> float:
    """FLOP. What the days give, by the tokens that the plan trains in them."""
    assert prediction.training is not None
    return FLOPS_PER_PARAMETER * shape.parameters * prediction.training.tokens


def _is_poor(asked: _Asked, parameters: float, flops: float) -> bool:
    """Whether another size would learn clearly more with the compute that the plan gives."""
    budget = asked.budget(flops)
    sizes = np.array([parameters, best_parameters(asked.law, budget)])
    reached, best = budget.loss(asked.law, sizes).tolist()
    return bool(reached > (1 + _POOR) * best)


def _planned(asked: _Asked, flops: float, progress: Progress | None) -> tuple[Shape, Prediction, list[str]]:
    """(shape, its fastest plan, remarks): the best size for the compute, or the largest tried that fits."""
    if asked.options.model:
        name, parameters, remarks = network_size(asked.options.model, asked.law.counts)
        known = next((shape for shape in catalog_shapes() if shape.model == name), None)
        shape = replace(known, parameters=parameters) if known else Shape(
            model=str(asked.options.model), overrides={}, parameters=parameters, layers=0, hidden=0, heads=0, kv_heads=0,
            ffn=0,
        )  # fmt: skip
        return shape, _plan(asked, shape, progress), remarks
    size = best_parameters(asked.law, asked.budget(flops))
    remarks = []
    for _ in range(_SHRINKS):
        shape = _counted(shape_near(size), asked.law)
        try:
            return shape, _plan(asked, shape, progress), remarks
        except NoFitError:
            remarks = [f"{size:.3g} parameters would be best and fit no plan: a smaller network is taken"]
            size *= _SMALLER
    raise NoFitError([f"no plan of {size / _SMALLER:.3g} parameters or more fits these GPUs"])


def _counted(shape: Shape, law: LossLaw) -> Shape:
    """The shape with the parameters that a law counts."""
    overrides = dict(shape.overrides)
    return replace(shape, parameters=network_size(shape.model, law.counts, overrides)[1])


def _plan(asked: _Asked, shape: Shape, progress: Progress | None) -> Prediction:
    """The fastest plan of a network, with the tokens of the days."""
    options = asked.options
    result = ask(
        "plan", shape.model, on=options.on, gpus=options.gpus, batch=options.batch, sequence=options.sequence,
        software=options.software, days=f"{asked.seconds / DAY}", price=options.price, top=1,
        overrides={**(options.overrides or {}), **shape.overrides}, progress=progress,
    )  # fmt: skip
    prediction: Prediction = result.ranked[0].prediction
    if prediction.training is None:
        raise PodsimError(f"{shape.model}: no days of a run are known on {options.on}")
    return prediction


def _answer(asked: _Asked, shape: Shape, prediction: Prediction, flops: float, notes: list[str]) -> ScaleBest:
    """The answer for a plan, and what other sizes and days would give."""
    law, size = asked.law, shape.parameters
    tokens = float(asked.budget(flops).tokens(np.array(size)))
    if tokens < 1:
        raise PodsimError(
            f"{asked.inference:.3g} tokens of inference take all the compute of {asked.seconds / DAY:g} days; "
            "ask for fewer"
        )
    prediction = _of_tokens(asked, shape, prediction, tokens)
    run = prediction.training
    assert run is not None
    band = law.band(size, tokens, asked.unique)
    money = prediction.expense.low if prediction.expense is not None and prediction.expense.low else None
    laws = named_laws()
    shapes = sorted(catalog_shapes(), key=lambda known: abs(log(known.parameters / size)))[:_KNOWN]
    days = asked.seconds / DAY
    repeats = [] if asked.unique is None else repetition_notes(law, tokens, asked.unique)
    return ScaleBest(
        cluster=prediction.cluster, gpus=prediction.gpus, law=law, model=shape.model, overrides=shape.overrides,
        shape={name: getattr(shape, name) for name in ("layers", "hidden", "heads", "kv_heads", "ffn")},
        parameters=size, tokens=tokens, loss=float(band.loss), low=float(band.low), high=float(band.high),
        seconds=run.expected, flops=FLOPS_PER_PARAMETER * size * tokens, inference=asked.inference, unique=asked.unique,
        prediction=prediction,
        curve=tuple(
            point for factor in _CURVES for point in _points(asked, flops * factor, days * factor, size * _CURVE)
        ),
        known=_points(asked, flops, days, [known.parameters for known in shapes], [known.model for known in shapes]),
        front=_front(asked, flops, money),
        rate={name: own.rate.value(size, tokens) for name, own in laws.items() if own.rate},
        batch={name: own.batch.value(size, tokens) for name, own in laws.items() if own.batch},
        command=_command(asked, shape), notes=(*notes, *repeats, *range_notes(law, size, tokens)),
    )  # fmt: skip


def _of_tokens(asked: _Asked, shape: Shape, prediction: Prediction, tokens: float) -> Prediction:
    """The prediction of the run of so many tokens."""
    options = asked.options
    network, cluster, *_ = read_inputs(
        shape.model,
        options.on,
        options.gpus,
        options.sequence,
        {**(options.overrides or {}), **shape.overrides},
    )
    laid = Plan(**dict(prediction.plan))  # type: ignore[arg-type]
    run = with_run(replace(prediction, notes=()), network, cluster, laid, RunLength(tokens))
    return with_expense(replace(run, expense=None), cluster, price=str(options.price))


def _points(
    asked: _Asked, flops: float, days: float, sizes: Any, names: Sequence[str] = ()
) -> tuple[SizePoint, ...]:
    """What networks of some sizes reach with the compute of some days; those that it does not suffice for are left
    out.
    """
    every = np.array(sizes, dtype=np.float64)
    tokens = asked.budget(flops).tokens(every)
    band = asked.law.band(every, np.maximum(tokens, 1.0), asked.unique)
    return tuple(
        SizePoint(
            days=days, parameters=float(every[index]), tokens=float(tokens[index]), loss=float(band.loss[index]),
            low=float(band.low[index]), high=float(band.high[index]), name=names[index] if names else "",
        )
        for index in range(len(every))
        if tokens[index] >= 1.0
    )  # fmt: skip


def _front(asked: _Asked, flops: float, money: float | None) -> tuple[DaysPoint, ...]:
    """The best network for some days, at the same utilisation and price."""
    points = []
    for factor in _FRONT:
        budget = asked.budget(flops * factor)
        try:
            size = best_parameters(asked.law, budget)
        except PodsimError:
            continue
        tokens = float(budget.tokens(np.array(size)))
        band = asked.law.band(size, tokens, asked.unique)
        points.append(DaysPoint(
            days=factor * asked.seconds / DAY, parameters=size, tokens=tokens, loss=float(band.loss), low=float(band.low),
            high=float(band.high), money=None if money is None else money * factor,
        ))  # fmt: skip
    return tuple(points)


def _command(asked: _Asked, shape: Shape) -> str:
    """The command that searches the plans of this network."""
    options = asked.options
    given = [("--gpus", options.gpus), ("--batch", options.batch), ("--sequence", options.sequence)]
    words = ["podsim", "plan", shape.model, "--on", str(options.on)]
    words += [word for flag, value in given if value is not None for word in (flag, str(value))]
    words += ["--days", f"{asked.seconds / DAY:g}"]
    changes = {**(options.overrides or {}), **shape.overrides}
    words += [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    return shlex.join(words)
