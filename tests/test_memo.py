"""Hashes and tables that are computed once."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.memo import Memo, hashed_once
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.predict import RESOURCES, predict_plan, speed_up
from podsim.workload.catalog import load_model


@hashed_once
@dataclass(frozen=True)
class _Pair:
    first: int
    second: str


def test_a_kept_hash_is_that_of_equal_values_and_stays_out_of_pickles() -> None:
    pair = _Pair(1, "a")
    assert hash(pair) == hash(_Pair(1, "a"))
    assert pair.__dict__.keys() > {"first", "second"}
    copy = pickle.loads(pickle.dumps(pair))
    assert copy == pair
    assert copy.__dict__.keys() == {"first", "second"}


def test_a_memo_forgets_its_oldest_value_and_protects_arrays() -> None:
    memo: Memo[np.ndarray] = Memo(2)
    made = []
    for key in (1, 1, 2, 3, 1):
        memo.of(key, lambda key=key: made.append(key) or np.zeros(key))
    assert made == [1, 2, 3, 1]
    with pytest.raises(ValueError, match="read-only"):
        memo.of(1, lambda: np.zeros(1))[0] = 1.0


@pytest.mark.parametrize(
    ("model", "on", "plan"),
    [
        ("gpt3-175b", "selene:64", Plan(tp=8, pp=8, dp=8, global_batch=64, zero=1, sequence_parallel=True)),
        ("mixtral-8x7b", "dgx-h100:2", Plan(tp=2, ep=8, dp=8, global_batch=16, zero=3)),
        ("llama-2-7b", "dgx-a100-80gb:1", Plan(pp=4, dp=2, global_batch=32, schedule="dualpipe")),
    ],
)
def test_one_plan_on_several_clusters_costs_what_it_costs_on_each(model: str, on: str, plan: Plan) -> None:
    network, cluster = load_model(model), load_cluster(on)
    faster = [speed_up(cluster, name, 1.1) for name in RESOURCES]
    alone = [step_cost(network, each, plan).seconds[0] for each in (cluster, *faster)]
    prediction = predict_plan(network, cluster, plan)
    assert prediction.step_time == pytest.approx(alone[0], rel=1e-12)
    assert prediction.gains == pytest.approx(
        dict(zip(RESOURCES, alone[0] / np.array(alone[1:]) - 1, strict=True))
    )
