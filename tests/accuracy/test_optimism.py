"""What the law's errors give to the plan that it ranks first."""

from __future__ import annotations

from itertools import combinations
from math import exp, log, log2, pi, sqrt

import numpy as np
import pytest

import podsim
from podsim.accuracy.bands import residuals
from podsim.accuracy.optimism import DEGREES, error_growth, mean_optimism

ALONE = np.ones((1, len(DEGREES)))


def _plans(*tensor_degrees: int) -> np.ndarray:
    plans = np.repeat(ALONE, len(tensor_degrees), axis=0)
    plans[:, 0] = tensor_degrees
    return plans


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("apart", [2, 16])
def test_optimism_of_two_plans_is_that_of_the_normal_distribution(gap: float, apart: int) -> None:
    spread = sqrt(error_growth() * log2(apart))
    wins = spread * exp(-((gap / spread) ** 2) / 2) / sqrt(2 * pi)
    share = mean_optimism(np.array([10.0, 10.0 * exp(gap)]), _plans(1, apart))
    assert log(1 + share) == pytest.approx(wins, abs=0.15 * spread / sqrt(2 * pi))


def test_a_plan_that_nothing_comes_near_has_no_optimism() -> None:
    assert mean_optimism(np.array([10.0, 30.0, 90.0]), _plans(1, 2, 4)) == pytest.approx(0.0, abs=1e-9)


def test_plans_of_the_same_degrees_share_their_error() -> None:
    assert mean_optimism(np.array([10.0, 10.0, 10.0]), _plans(4, 4, 4)) == 0.0


def test_more_near_plans_make_more_optimism() -> None:
    few = mean_optimism(np.full(2, 10.0), _plans(1, 2))
    assert mean_optimism(np.full(8, 10.0), _plans(*(1 << i for i in range(8)))) > 1.5 * few > 0


def test_errors_grow_as_the_differences_within_calibrate_sweeps_do() -> None:
    sweeps: dict[tuple[object, ...], list[tuple[float, list[float]]]] = {}
    for row in residuals():
        if row.role == "calibrate":
            own = (row.source, row.software, row.features.gpu, row.features.precision)
            key = (*own, row.parameters, row.gpus, row.sequence, row.global_batch)
            places = [log2(each) for each in (row.tp, row.pp, row.cp, row.ep, row.micro_batch)]
            sweeps.setdefault(key, []).append((row.log_ratio, places))
    squares = doublings = 0.0
    for rows in sweeps.values():
        for (error, places), (other, others) in combinations(rows, 2):
            apart = sum(abs(a - b) for a, b in zip(places, others, strict=True))
            squares += (error - other) ** 2 * (apart > 0) / 2 / len(rows)
            doublings += apart / len(rows)
    assert error_growth() == pytest.approx(squares / doublings)


def test_a_ranking_by_time_says_its_optimism_beside_the_time_of_the_law() -> None:
    job = {"model": "gpt2", "on": "dgx-a100:1", "top": 2}
    fast, small = podsim.plan(**job), podsim.plan(**job, objective="memory")
    said, best = fast.optimism, fast.ranked[0].prediction
    assert said is not None
    assert said.step_time == pytest.approx(best.step_time * (1 + said.share))
    assert 0 < said.share < 0.3
    assert said.basis in str(podsim.plan(**job).optimism)
    assert best.step_time == podsim.predict("gpt2", on="dgx-a100:1", **_fields(best.plan)).step_time
    assert small.optimism is None


def _fields(plan: object) -> dict[str, object]:
    dropped = ("global_batch", "sequence", "software", "precision", "flash")
    return {name: value for name, value in dict(plan).items() if name not in dropped}  # type: ignore[call-overload]
