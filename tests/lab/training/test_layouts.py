"""Every layout gives the loss curve of one process; gradients that come late give another."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from podsim.answers.trained import MeasuredTraining
from podsim.errors import PlanError
from podsim.questions.learn.train import train

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

TOLERANCE = 1e-4
"""share by which losses of two layouts may differ: sums in float32 in another order, step after step"""
STEPS = 3
SHORT = {
    "steps": STEPS,
    "sequence": 16,
    "backend": "gloo",
    "timeout": 120.0,
    "overrides": {"model.layers": "2"},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "data, the library": {"dp": 4},
    "data, a ring beside the backward pass": {"dp": 4, "all_reduce": "ring"},
    "data, a ring after it": {"dp": 2, "all_reduce": "ring", "overlap_grad": False},
    "tensor": {"tp": 4, "micro_batch": 8},
    "tensor and sequence": {"tp": 2, "sequence_parallel": True, "micro_batch": 8},
    "pipeline": {"pp": 4, "micro_batch": 4},
    "2 x 2 x 2, a table": {
        "dp": 2,
        "tp": 2,
        "pp": 2,
        "all_reduce": "ring",
        "sequence_parallel": True,
        "micro_batch": 2,
    },
    "2 x 2, ZeRO 1": {"dp": 2, "tp": 2, "zero": 1, "micro_batch": 2},
    "2 x 2 x 2, FSDP": {"dp": 2, "tp": 2, "pp": 2, "zero": 3, "micro_batch": 2},
    "ZeRO 1": {"dp": 2, "zero": 1},
    "ZeRO 1 and a pipeline": {"dp": 2, "pp": 2, "zero": 1},
    "ZeRO 2": {"dp": 2, "zero": 2, "micro_batch": 2},
    "ZeRO 3": {"dp": 2, "zero": 3},
    "ZeRO 3 in groups of two": {"dp": 4, "zero": 3, "shard": 2},
    "recomputed": {"dp": 2, "recompute": "full"},
}
SCHEDULES = {
    "gpipe": 1, "interleaved": 2, "zb-h1": 1, "zb-h2": 1, "zb-v": 2, "dualpipe-v": 2, "breadth-first": 2,
}  # fmt: skip


def run(model: str = "gpt-tiny", **given: Any) -> MeasuredTraining:
    found = train(model, **(SHORT | given))
    assert found is not None
    return found


def losses(found: MeasuredTraining) -> list[float]:
    return [row.loss for row in found.rows]


@cache
def alone(layers: int = 2) -> list[float]:
    return losses(run(overrides={"model.layers": str(layers)}))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_gives_the_losses_of_one_process(layout: dict[str, Any]) -> None:
    layers = max(2, layout.get("pp", 1))
    found = run(**layout, overrides={"model.layers": str(layers)})
    assert losses(found) == pytest.approx(alone(layers), rel=TOLERANCE)
    assert found.ranks == len(found.hosts) == found.plan["tp"] * found.plan["pp"] * found.plan["dp"]  # type: ignore[operator]
    assert found.step_time > 0
    assert 0 < found.cpu <= 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_the_losses_of_one_process(name: str) -> None:
    four = {"model.layers": "4"}
    found = run(pp=2, schedule=name, virtual_stages=SCHEDULES[name], micro_batch=4, overrides=four)
    assert losses(found) == pytest.approx(alone(4), rel=TOLERANCE)
    assert found.plan["schedule"] == name


def test_losses_fall_and_another_seed_gives_others() -> None:
    long = losses(run(steps=12))
    assert long[:STEPS] == alone()
    assert long[-1] < 0.95 * long[0]
    assert losses(run(seed=1)) != pytest.approx(alone(), rel=TOLERANCE)


def test_a_network_of_other_parts() -> None:
    """Rotary positions, gates, RMSNorm, shared key heads, a tied head: the same losses divided as whole."""
    changes = {
        "model.position": "rope", "model.gated": "true", "model.activation": "silu", "model.norm": "rmsnorm",
        "model.kv_heads": "2", "model.layers": "1",
    }  # fmt: skip
    whole, divided = run(overrides=changes), run(overrides=changes, tp=2, dp=2, micro_batch=4)
    assert losses(divided) == pytest.approx(losses(whole), rel=TOLERANCE)
    assert dict(whole.changes) == changes
    assert losses(run(overrides=changes | {"model.tied": "true"}, dp=2, zero=3)) != losses(whole)


def test_a_residual_network() -> None:
    given = {"sequence": None, "overrides": None, "batch": 8, "image": 16}
    whole = run("resnet-8", **given)
    for layout in ({"dp": 4}, {"dp": 2, "zero": 3}, {"dp": 2, "zero": 1, "micro_batch": 2}):
        assert losses(run("resnet-8", **given, **layout)) == pytest.approx(losses(whole), rel=TOLERANCE)


def test_a_server_in_step_is_an_all_reduce() -> None:
    found = run(dp=4, exchange="ps")
    assert losses(found) == pytest.approx(alone(), rel=TOLERANCE)
    assert dict(found.late) == {"0": 4 * STEPS}


def test_gradients_that_come_late_give_another_curve() -> None:
    found = run(dp=4, exchange="async", slow={1: 3.0}, steps=5)
    assert found.rows[0].loss == pytest.approx(alone()[0], rel=TOLERANCE)
    assert losses(found)[1:STEPS] != pytest.approx(alone()[1:], rel=TOLERANCE)
    assert sum(found.late.values()) == 4 * 5
    assert max(map(int, found.late)) > 0


@pytest.mark.parametrize("bound", [0, 2])
def test_bounded_staleness_is_bounded(bound: int) -> None:
    """Within `bound` steps of the slowest, no gradient can be later than what the others sent in that time."""
    found = run(dp=3, batch=12, exchange="ssp", staleness=bound, slow={0: 4.0}, steps=6)
    assert sum(found.late.values()) == 3 * 6
    assert max(map(int, found.late)) <= 2 * (2 * bound + 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tp": 3}, "tp=3 does not divide heads=8"),
        ({"tp": 2, "pp": 2, "ranks": 6}, "does not divide 6"),
        ({"dp": 3}, "not a multiple of dp x micro_batch"),
        ({"pp": 16, "micro_batch": 1}, "is more than layers=2"),
        ({"pp": 2, "schedule": "dualpipe", "micro_batch": 1}, "several ranks"),
        ({"pp": 2, "schedule": "pipedream"}, "asynchronous"),
        ({"pp": 2, "dp": 2, "schedule": "zb-h1", "zero": 3}, "splits them"),
        ({"tp": 2, "all_reduce": "ring"}, "gradients meet in an all-reduce"),
        ({"recompute": "selective"}, "take none or full"),
        ({"tp": 2, "overrides": {"model.tied": "true"}}, "--set model.tied=false"),
        ({"overrides": {"model.dropout": "true"}}, "--set model.dropout=false"),
        ({"tp": 2, "overrides": {"model.experts": "4", "model.top_k": "2"}}, "experts"),
        ({"exchange": "ssp"}, "--staleness"),
        ({"exchange": "async", "tp": 2}, "replicas are whole"),
        ({"dp": 2, "slow": {2: 2.0}}, "replicas are 0 to 1"),
    ],
)  # fmt: skip
def test_plans_that_cannot_be_run(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        run(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"tp": 2}, "data parallel only"), ({"dp": 3}, "multiple"), ({"dp": 2, "zero": 4}, "zero may be")],
)
def test_a_residual_network_is_data_parallel(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        run("resnet-20", sequence=None, overrides=None, **given)
