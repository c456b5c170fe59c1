"""Staleness: the law against podsim's own runs, left out in turn, and the exchange that reaches a loss first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podsim import PodsimError, scale_loss, workers
from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.learning.staleness import curve_of, measured_growth, own_curve, staleness_law

CASE = {"compute": 0.2, "gradients": "500MB", "workers": 4, "bandwidth": "25GB/s", "steps": 96}


def test_the_law_is_near_runs_that_it_did_not_see() -> None:
    """Fitted to 2 and 4 workers, it gives the growth of 8."""
    growth = {run: value for run, value in measured_growth().items() if run.exchange == "server"}
    few = {run: value for run, value in growth.items() if run.workers < 8}
    matrix = np.array([[math.log1p(run.staleness), math.log(run.workers)] for run in few])
    constants = np.linalg.lstsq(matrix, np.log(list(few.values())), rcond=None)[0]
    errors = [
        (1 + run.staleness) ** constants[0] * run.workers ** constants[1] / value - 1
        for run, value in growth.items()
        if run.workers == 8
    ]
    assert np.abs(errors).mean() < 0.08
    assert staleness_law().error["server"] < 0.03
    assert staleness_law().error["local"] < 0.10


def test_staler_gradients_need_more_rounds() -> None:
    law = staleness_law()
    assert law.growth(1, 0.0) == 1.0
    assert 1 < law.growth(8, 1.0) < law.growth(8, 7.0) < law.growth(64, 7.0)
    assert 1 <= law.weights_growth("local", 4, 4) < law.weights_growth("local", 4, 32)
    assert law.weights_growth("diloco", 4, 500) == 1.0


def test_a_curve() -> None:
    steps = np.arange(1, 201)
    curve = curve_of("a run", steps.tolist(), (2 + steps**-0.5 + 0.01 * np.sin(steps * 9.0)).tolist())
    assert curve.steps_to(2.1) == pytest.approx(100, rel=0.15)
    with pytest.raises(PodsimError, match="ends at"):
        curve.steps_to(1.9)
    with pytest.raises(PodsimError, match="ends at"):
        curve.steps_to(math.nan)


@pytest.mark.parametrize(("count", "first", "loss"), [(39, 1.0, 39.0), (40, 1.5, 39.5), (59, 1.5, 58.5)])
def test_a_curve_is_the_mean_of_a_twentieth_of_its_losses(count: int, first: float, loss: float) -> None:
    curve = curve_of("a run", range(1, count + 1), range(count, 0, -1))
    assert (curve.steps[0], curve.losses[0]) == (first, loss)


def first(slow: float) -> ExchangeRun:
    answer = workers(compare=True, to_loss=1.2, slow={0: slow}, **CASE)
    assert isinstance(answer, Tradeoff)
    assert answer.first is not None
    return answer.first


def test_who_reaches_a_loss_first() -> None:
    """All in step while they are equal; nobody waits for a worker that is ten times slower."""
    assert first(1.0).exchange == "bsp"
    assert first(10.0).exchange == "async"
    run = workers(exchange="bsp", to_loss=1.2, **CASE)
    assert isinstance(run, ExchangeRun)
    assert run.to_loss is not None
    assert run.to_loss.growth == 1.0
    assert run.to_loss.seconds == pytest.approx(own_curve().steps_to(1.2) / run.steps_per_second)


def test_a_model_reaches_a_loss_by_its_law() -> None:
    given = {"model": "gpt2", "on": "dgx-a100:1", "batch": 64, "micro_batch": 8, "steps": 16}
    run = workers(to_loss=3.5, **given)
    assert isinstance(run, ExchangeRun)
    assert run.to_loss is not None
    tokens = run.to_loss.in_step * 64 * 1024
    assert scale_loss("gpt2", tokens=tokens).loss == pytest.approx(3.5, rel=1e-3)
    with pytest.raises(PodsimError, match="no number of tokens"):
        workers(to_loss=1.0, **given)


def test_weights_are_exchanged_less_often() -> None:
    run = workers(exchange="diloco", every=8, weights="1GB", **CASE)
    each, local = workers(exchange="bsp", **CASE), workers(exchange="local", every=8, **CASE)
    assert all(isinstance(answer, ExchangeRun) for answer in (run, each, local))
    assert run.moving == pytest.approx(2 * local.moving, rel=0.1)  # type: ignore[union-attr]
    assert local.steps_per_second > each.steps_per_second  # type: ignore[union-attr]
    for given, why in (({"exchange": "local"}, "needs every"), ({"curve": "x.jsonl"}, "give to_loss")):
        with pytest.raises(PodsimError, match=why):
            workers(**CASE | given)  # type: ignore[arg-type]
    with pytest.raises(PodsimError, match="ends at"):
        workers(to_loss=0.5, **CASE)
