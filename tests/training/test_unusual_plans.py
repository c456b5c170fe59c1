"""What hardly any published run has is said of the first plan, with its gain over the best plan without it."""

from typing import Any

import pytest

import podsim
from podsim.answers.prediction import PlanResult

SMALL: dict[str, Any] = {"model": "llama-3.1-8b", "on": "dgx-h100", "gpus": 64}
LARGE: dict[str, Any] = {
    "model": "llama-3.1-405b", "on": "grand-teton-h100", "gpus": 16384, "batch": 2048, "software": "meta-2024",
}  # fmt: skip


def search(**job: Any) -> PlanResult:
    result = podsim.plan(**job)
    assert isinstance(result, PlanResult)
    return result


def doubts(result: PlanResult) -> list[str]:
    return [note for note in result.notes if note.startswith("unlike published runs")]


def test_the_gain_of_tensor_parallelism_beyond_a_node_is_that_over_a_search_within_it() -> None:
    free, within = search(**LARGE), search(**LARGE, limit={"tp": [1, 2, 4, 8]})
    times = [result.ranked[0].prediction.step_time for result in (free, within)]
    assert doubts(free) == [
        "unlike published runs, tp=16 leaves the node of 8 GPUs; "
        f"the best plan without takes {times[1] / times[0] - 1:+.1%} time"
    ]
    assert not doubts(within)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (SMALL | {"limit": {"tp": [16]}}, "tp=16 leaves the node of 8 GPUs"),
        (SMALL | {"sequence": 4096, "limit": {"cp": [2]}}, "cp=2 divides sequences of 4,096 tokens"),
    ],
)
def test_where_all_plans_have_it_no_other_comes_near(job: dict[str, Any], said: str) -> None:
    assert doubts(search(**job)) == [f"unlike published runs, {said}; no other plan comes near"]


def test_an_ordinary_plan_has_no_doubt() -> None:
    assert not doubts(search(**SMALL))
