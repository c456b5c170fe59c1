"""When played workers reach a loss: rounds in step, more of them for staleness, at the played speed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from podsim.answers.exchanged import ExchangeRun, LossTime
from podsim.answers.saved_run import read_trained
from podsim.errors import PodsimError
from podsim.learning.loss_catalog import OWN, find_law
from podsim.learning.staleness import LossCurve, curve_of, own_curve, staleness_law
from podsim.options.step_options import WorkersOptions
from podsim.units import format_quantity
from podsim.workload.catalog import network_size

_IN_STEP = ("bsp", "ps")


class Target(NamedTuple):
    """A loss, and the rounds in which replicas in step reach it."""

    loss: float
    rounds: float
    source: str


def read_target(options: WorkersOptions, tokens: float | None) -> Target | None:
    """The target of the options; None if there is none. `tokens` are those of a round of a model's plan.

    The rounds are those of a recorded run, of a model by podsim's law of the loss, or of podsim's own small run. Raises
    PodsimError for a loss that is out of reach, and LabError for a file that holds no run.
    """
    loss = options.to_loss
    if loss is None:
        return None
    if options.curve is None and options.model and tokens is not None:
        return _by_law(options, loss, tokens)
    curve = own_curve() if options.curve is None else _recorded(options.curve)
    return Target(loss, curve.steps_to(loss), f"by {curve.name}")


def _by_law(options: WorkersOptions, loss: float, tokens: float) -> Target:
    """The rounds of a model by podsim's law of the loss."""
    law = find_law(OWN)
    name, parameters, _ = network_size(options.model, law.counts)
    needed = law.tokens_for(loss, parameters)
    if not math.isfinite(needed):
        raise PodsimError(
            f"to_loss={loss:g}: no number of tokens brings {name} there by podsim's law; podsim scale loss {name} says "
            "how far it comes"
        )
    count = format_quantity(needed, "", digits=3)
    source = f"of {tokens:,.0f} tokens: {count} tokens by the law of podsim scale loss"
    return Target(loss, max(1.0, needed / tokens), source)


def _recorded(path: Path) -> LossCurve:
    """The curve of a run of `train --save` whose replicas were in step."""
    run = read_trained(path)
    if run.exchange not in _IN_STEP:
        raise PodsimError(
            f"curve={path.name}: a run of exchange {run.exchange}; a curve is of replicas in step (bsp or ps)"
        )
    return curve_of(path.name, [row.step + 1.0 for row in run.rows], [row.loss for row in run.rows])


def loss_time(run: ExchangeRun, target: Target) -> LossTime:
    """The time in which a run's workers reach a loss. A round is a step of all workers together."""
    law = staleness_law()
    growth, error = 1.0, 0.0
    if run.exchange not in (*_IN_STEP, *law.weights) and run.bound != 0:
        growth, error = law.growth(run.workers, run.staleness), law.error["server"]
    if run.every > 1:
        weights = run.exchange if run.exchange in law.weights else "local"
        growth *= law.weights_growth(weights, run.workers, run.every)
        error = max(error, law.error[weights])
    return LossTime(
        loss=target.loss, source=target.source, in_step=target.rounds, growth=growth, error=error,
        seconds=target.rounds * growth / run.steps_per_second,
    )  # fmt: skip
