"""Experts divided over ranks train as those of one process."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.answers.trained import MeasuredTraining
from podsim.errors import PlanError
from podsim.questions.learn.train import train

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]


def run(**given: Any) -> MeasuredTraining:
    mixture = {"model.layers": "1", "model.experts": "4", "model.top_k": "2"}
    measured = train(
        "gpt-tiny", steps=3, sequence=16, backend="gloo", timeout=120.0, overrides=mixture, **given
    )
    assert measured is not None
    return measured


def test_losses_are_those_of_one_process() -> None:
    alone, divided = run(dp=1, capacity_factor=1.0), run(dp=4, ep=2, capacity_factor=1.0)
    assert [row.loss for row in divided.rows] == pytest.approx([row.loss for row in alone.rows], rel=1e-6)
    for measured in (alone, divided):
        assert 0 < measured.routing["dropped"] < 0.5
        assert 1 < measured.routing["imbalance"] < 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dp": 2, "ep": 2, "zero": 1}, "zero"),
        ({"dp": 3, "ep": 3}, "does not divide experts"),
        ({"tp": 2}, "--ep"),
    ],
)
def test_layouts_that_cannot_be(given: dict[str, int], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        run(**given)
