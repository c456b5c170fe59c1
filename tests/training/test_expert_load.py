"""Loads of experts, and the tokens that find no room."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import PlanError
from podsim.questions.train.predict import predict
from podsim.training.expert_load import dropped_share, expert_loads

MIXTRAL = {"on": "dgx-h100:8", "gpus": 64, "ep": 8, "zero": 1, "batch": 64, "sequence": 4096}


@pytest.mark.parametrize(
    ("imbalance", "experts"), [(1.0, 8), (1.5, 2), (1.1, 8), (1.9, 64), (8.0, 8), (7.9, 8)]
)
def test_loads_have_their_mean_and_their_largest(imbalance: float, experts: int) -> None:
    loads = expert_loads(imbalance, experts)
    assert loads.mean() == pytest.approx(1.0)
    assert loads.max() == loads[0] == pytest.approx(imbalance)
    assert np.all(np.diff(loads) <= 1e-12)


def test_drops() -> None:
    assert dropped_share(0.0, 2.0, 8) == 0.0
    assert dropped_share(2.0, 2.0, 8) == pytest.approx(0.0, abs=1e-9)
    assert dropped_share(1.0, 8.0, 8) == pytest.approx(7 / 8)
    assert dropped_share(1.25, 1.5, 8) > dropped_share(1.25, 1.3, 8) > 0


def test_predictions_compute_the_room_of_experts() -> None:
    plain, even, padded = (
        predict("mixtral-8x7b", **MIXTRAL, **more)
        for more in ({}, {"imbalance": 1.0}, {"capacity_factor": 2.0, "imbalance": 1.5})
    )
    assert even.step_time < plain.step_time < padded.step_time
    assert padded.dropped == pytest.approx(0.0)
    assert plain.dropped is None
    assert "capacity_factor" not in plain.plan
    assert padded.plan["capacity_factor"] == 2.0
    assert padded.memory > plain.memory


@pytest.mark.parametrize(
    "wrong", [{"capacity_factor": float("nan")}, {"capacity_factor": 9.0}, {"imbalance": 0.5}]
)
def test_loads_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match=next(iter(wrong))):
        predict("mixtral-8x7b", **MIXTRAL, **wrong)
    with pytest.raises(PlanError, match="of experts"):
        predict("gpt2", on="dgx-h100:1", imbalance=2.0)
