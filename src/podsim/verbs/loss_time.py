"""When played workers reach a loss: rounds in step from a curve, more of them for staleness, at the played speed."""

from __future__ import annotations

from pathlib import Path

from podsim.errors import PodsimError
from podsim.learning.staleness import LossCurve, curve_of, own_curve, staleness_law
from podsim.results.exchanged import ExchangeRun, LossTime
from podsim.verbs.train import read_trained

_IN_STEP = ("bsp", "ps")


def read_curve(path: Path | None) -> LossCurve:
    """The curve of a run of `train --save` whose replicas were in step; without one podsim's own.

    Raises PodsimError for a run that was not in step, and LabError for a file that is none.
    """
    if path is None:
        return own_curve()
    run = read_trained(path)
    if run.exchange not in _IN_STEP:
        raise PodsimError(
            f"curve={path.name}: a run of exchange {run.exchange}; a curve is of replicas in step (bsp or ps)"
        )
    return curve_of(path.name, [row.step + 1.0 for row in run.rows], [row.loss for row in run.rows])


def loss_time(run: ExchangeRun, loss: float, curve: LossCurve) -> LossTime:
    """The time in which a run's workers reach a loss. A round of the curve is a step of all workers together."""
    law, in_step = staleness_law(), curve.steps_to(loss)
    growth, error = 1.0, 0.0
    if run.exchange not in (*_IN_STEP, *law.weights) and run.bound != 0:
        growth, error = law.growth(run.workers, run.staleness), law.error["server"]
    if run.every > 1:
        weights = run.exchange if run.exchange in law.weights else "local"
        growth *= law.weights_growth(weights, run.workers, run.every)
        error = max(error, law.error[weights])
    return LossTime(
        loss=loss, curve=curve.name, in_step=in_step, growth=growth, error=error,
        seconds=in_step * growth / run.steps_per_second,
    )  # fmt: skip
