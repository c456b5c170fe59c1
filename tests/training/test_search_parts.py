"""Parts of a search by hand: its limits, the bounds of its plans, and the words for their order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.answers.prediction import PARTS
from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.contenders import Contenders, least_layout_seconds, runs_of_degrees
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES
from podsim.training.predict import predict_plan
from podsim.training.search import search
from podsim.training.search_limits import read_limits
from podsim.training.search_order import ranking_reason
from podsim.training.software import load_software
from podsim.workload.model import Model


@pytest.mark.parametrize(("limit", "space"), [
    ({"overlap_tp": "true,no"}, (True, False)), ({"overlap_tp": "YES, off"}, (True, False)),
    ({"overlap_tp": ["on", 0]}, (True, False)), ({"overlap_tp": "false,1"}, (False, True)),
    ({"tp": [1, "8", 8]}, (1, 8)), ({"zero": "0,3"}, (0, 3)), ({"schedule": "gpipe"}, (SCHEDULE_CODES["gpipe"],)),
])  # fmt: skip
def test_limits_as_users_write_them(limit: dict[str, Any], space: tuple[int, ...]) -> None:
    assert read_limits(limit, 8) == {next(iter(limit)): space}


@pytest.mark.parametrize(("limit", "said"), [
    ({"tp": "9"}, "limit tp=9: tp may be whole numbers from 1 to 8"),
    ({"tp": ""}, "limit tp=nothing: tp may be whole numbers from 1 to 8"),
    ({"tp": []}, "limit tp=nothing: tp may be whole numbers from 1 to 8"),
    ({"zero": "4"}, "limit zero=4: zero may be whole numbers from 0 to 3"),
    ({"overlap_tp": "maybe"}, "limit overlap_tp=maybe: overlap_tp may be true, false"),
    ({"recompute": "some"}, "limit recompute=some: recompute may be none, selective, full"),
    ({"speed": 1}, "unknown field of a plan 'speed'"),
])  # fmt: skip
def test_limits_that_cannot_be(limit: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_limits(limit, 8)
    assert said in str(caught.value)


def test_shards_that_do_not_divide_the_replicas_are_left_out(gpt22: Model, node: Cluster) -> None:
    found = search(
        gpt22, node, Plan(global_batch=8), wanted={"shard": (3, 4), "dp": (8,), "zero": (3,)}, every=True
    )
    assert found.evaluated > 0
    assert np.unique(found.combinations.shard).tolist() == [4]


def test_pairs_of_passes_cost_in_a_search_what_they_cost_alone(gpt22: Model, node: Cluster) -> None:
    wanted = {"schedule": (SCHEDULE_CODES["dualpipe"],), "tp": (2,), "pp": (2,), "micro_batch": (1,)}
    found = search(gpt22, node, Plan(global_batch=16), wanted=wanted, every=True)
    assert found.evaluated > 0
    for position in found.order[:3]:
        alone = predict_plan(gpt22, node, found.plan(position)).step_time
        assert found.seconds(position) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(("schedule", "send", "seconds"), [
    ("1f1b", 1.0, 7.2), ("1f1b", 2.0, 12.0), ("gpipe", 1.0, 12.0), ("breadth-first", 1.0, 12.0)
])  # fmt: skip
def test_the_least_time_of_a_layout_by_hand(schedule: str, send: float, seconds: float) -> None:
    """Three micro-batches of two chunks, charged 0.1 s a send: a stage works 3 x 2 + 12 x 0.1 s, the path is 5 s.

    A link carries six sends, or twelve where all go forward before any goes back.
    """
    sends = SimpleNamespace(near_seconds=np.array([send / 2]), further_seconds=np.array([send / 2]))
    layout: Any = SimpleNamespace(
        plan=Plan(schedule=schedule).arrays(), sends=sends, passes=SimpleNamespace(exchanges=None),
        micro_batches=np.array([3.0]), chunks=np.array([2.0]), charge_seconds=np.array([0.1]),
        stage_seconds=np.array([[1.0], [2.0]]), path_seconds=np.array([[5.0], [4.0]]),
    )  # fmt: skip
    software = load_software("megatron-core")
    assert least_layout_seconds(layout, software, 1.0) == pytest.approx([seconds + software.host_step])
    assert least_layout_seconds(layout, software, 0.5).tolist() == [0.0]


@pytest.mark.parametrize(("least", "memory", "kept"), [
    (1.0 + 5e-7, 2.0, True),  # as fast as can be told
    (1.0 + 5e-6, 2.0, False),
    (1.5, 0.5, True),  # may be on the front
    (np.inf, 0.5, False),  # does not fit
])  # fmt: skip
def test_a_plan_gets_a_time_if_it_may_win(least: float, memory: float, kept: bool) -> None:
    """Against one of the same degrees that takes 1 s and has 1 B, and one with less memory that takes 2 s."""
    runs, degrees = runs_of_degrees(Plan(tp=np.ones(3, int)).arrays())
    known = Contenders(
        runs=runs,
        degrees=degrees,
        least_seconds=np.array([1.0, 2.0, least]),
        memory_bytes=np.array([1, 0.1, memory]),
    )
    timed = known.after(np.array([0, 1]), np.array([1.0, 2.0]))
    assert (2 in timed) == kept


@pytest.mark.parametrize(("times", "memory", "said"), [
    ({}, 1.0, "the same time and the same memory as the first"),
    ({}, 1.25, "the same time and +25% memory as the first"),
    ({"dp": 1.0049}, 1.0049, "the same time and the same memory as the first"),
    ({"dp": 1.0051}, 1.0051, f"+0.1% time (+0.1% {PARTS['dp']}), +1% memory"),
    ({"dp": 2.0}, 1.0, f"+10.0% time (+10.0% {PARTS['dp']}), the same memory"),
    ({"dp": 2.0, "bubble": 8.0}, 0.9, f"the same time (+10.0% {PARTS['dp']}, -10.0% {PARTS['bubble']}), -10% memory"),
])  # fmt: skip
def test_what_a_plan_has_against_the_first(times: dict[str, float], memory: float, said: str) -> None:
    """The first takes 1 s of data-parallel exchanges and 9 s of bubble."""
    first: Any = {"dp": 1.0, "bubble": 9.0}
    best, other = (
        SimpleNamespace(parts=parts, step_time=sum(parts.values()), memory=size, bottleneck="network")
        for parts, size in ((first, 1.0), (first | times, memory))
    )
    assert ranking_reason(other, best, 1) == said
    assert ranking_reason(best, best, 0) == "network"
