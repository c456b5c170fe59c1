from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Recompute
from podsim.training.predict import predict_plan
from podsim.training.search import SearchResult, search
from podsim.training.search_limits import Space
from podsim.training.search_order import fastest_plans, first_of_each_layout
from podsim.training.software import load_software, usable_bytes
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

FIXED = Plan(global_batch=16)
SMALL = {
    "cp": (1,),
    "recompute_layers": (1,),
    "shard": (0,),
    "overlap_tp": (False,),
    "flash": (True,),
    "virtual_stages": (1, 2),
    "zero": (0, 1, 3),
}


def test_it_finds_what_brute_force_finds(gpt22: Model, node: Cluster) -> None:
    """Every combination of the small space, checked one by one and costed as it is."""
    found = search(gpt22, node, FIXED, wanted={**SMALL, "micro_batch": (1, 16)}, every=True)
    plans = []
    for tp, pp, v, m, sp, zero, (r, k), schedule, grad, param in itertools.product(
        [1, 2, 4, 8], [1, 2, 4, 8], [1, 2], [1, 16], [False, True], [0, 1, 3],
        [(0, 0), (1, 0), (2, 0), (2, 1)], [0, 1, 2], [False, True], [False, True],
    ):  # fmt: skip
        if 8 % (tp * pp):
            continue
        dp = 8 // (tp * pp)
        plan = Plan(
            tp=tp, pp=pp, dp=dp, virtual_stages=v, micro_batch=m, global_batch=16, sequence_parallel=sp, zero=zero,
            recompute=r, recompute_layers=k, schedule=schedule, overlap_grad=grad, overlap_param=param,
        )  # fmt: skip
        pointless = (dp == 1 and zero) or (pp == 1 and schedule != 1)
        if not pointless and not plan.problems(gpt22, node):
            plans.append(plan)
    varied = (
        "tp", "pp", "dp", "virtual_stages", "micro_batch", "sequence_parallel", "zero", "recompute", "recompute_layers",
        "schedule", "overlap_grad", "overlap_param",
    )  # fmt: skip
    columns: dict[str, Any] = {name: np.array([getattr(plan, name) for plan in plans]) for name in varied}
    cost = step_cost(gpt22, node, replace(FIXED, **columns))
    times = list(zip(cost.seconds.tolist(), cost.memory.tolist(), strict=True))
    room = usable_bytes(node.gpu, load_software(FIXED.software))
    fitting = [time for time, memory in times if memory <= room]
    assert found.order.size > 0
    assert found.seconds(found.order[0]) == pytest.approx(min(fitting), rel=1e-9)
    assert found.evaluated <= len(times)
    distinct = {(round(t, 9), round(m)) for t, m in times if m <= room}
    finite = np.isfinite(found.step_seconds)
    memory = np.broadcast_to(found.memory_bytes, finite.shape)[finite].tolist()
    times_found = found.step_seconds[finite].tolist()
    seen = {(round(t, 9), round(m)) for t, m in zip(times_found, memory, strict=True)}
    assert seen == distinct


def test_every_plan_found_is_legal_and_costs_what_predict_says(gpt3: Model, selene: Cluster) -> None:
    found = search(gpt3, selene.subset(64), Plan(global_batch=96))
    generator = np.random.default_rng(0)
    for position in generator.choice(found.order, 40):
        plan = found.plan(position)
        assert plan.problems(gpt3, selene) == []
        assert plan.gpus == 64
        one = predict_plan(gpt3, selene, plan)
        assert one.step_time == pytest.approx(found.seconds(position), rel=1e-9)
        assert one.memory == pytest.approx(found.memory(position), rel=1e-9)


def test_the_front_is_a_front(gpt3: Model, selene: Cluster) -> None:
    found = search(gpt3, selene.subset(64), Plan(global_batch=96))
    seconds = [found.seconds(i) for i in found.pareto]
    memory = [found.memory(i) for i in found.pareto]
    assert seconds == sorted(seconds)
    assert memory == sorted(memory, reverse=True)
    assert found.pareto[0] == found.order[0]
    assert memory[-1] == min(found.memory(i) for i in found.order)


def test_nothing_legal_says_why(gpt3: Model, selene: Cluster) -> None:
    with pytest.raises(PlanError, match=r"no plan on 808 GPUs.* cut by rule: \w.* \([\d,]+\)\. A number"):
        search(gpt3, selene.subset(808), Plan(global_batch=1))


def test_interruption_gives_the_best_so_far(gpt3: Model, selene: Cluster) -> None:
    def stop(done: int, whole: int) -> None:
        if done > whole // 2:
            raise KeyboardInterrupt

    found = search(gpt3, selene.subset(64), Plan(global_batch=96), progress=stop)
    assert not found.complete
    assert found.order.size > 0
    assert np.isfinite(found.seconds(found.order[0]))


@pytest.mark.parametrize("software", ["megatron-core", "torchtitan-2024"])
def test_all_plans_cost_what_a_step_costs(node: Cluster, software: str) -> None:
    """Layouts worked out once for all ways to divide them, against plans costed as they are; ties in their order."""
    schedules = ("1f1b", "gpipe", "interleaved", "zb-v", "dualpipe")
    wanted = {
        "micro_batch": (1, 2), "flash": (True,), "shard": (0, 2, 4), "recompute": (0, 2), "recompute_layers": (2,),
        "schedule": tuple(SCHEDULE_CODES[name] for name in schedules),
    }  # fmt: skip
    model, fixed = load_model("mixtral-8x7b"), Plan(global_batch=16, software=software)
    roomy = replace(node.gpu, memory=1e13)  # so that all plans fit
    node = replace(node, system=replace(node.system, gpu=roomy))
    found = search(model, node, fixed, wanted=wanted, every=True)
    for (grad, param), seconds in zip(found.flags.tolist(), found.step_seconds, strict=True):
        alone = step_cost(
            model, node, found.combinations.having({"overlap_grad": grad, "overlap_param": param})
        )
        tried = np.isfinite(seconds)
        assert tried.any()
        np.testing.assert_allclose(seconds[tried], alone.seconds[tried], rtol=1e-12)
        np.testing.assert_allclose(found.memory_bytes, alone.memory, rtol=1e-12)
    seconds = found.seconds_of(found.order)
    assert (np.diff(seconds) >= 0).all()
    assert (np.diff(found.order)[np.diff(seconds) == 0] > 0).all()


def test_threads_find_what_one_thread_finds(gpt22: Model, node: Cluster) -> None:
    one, two = (search(gpt22, node, FIXED, jobs=jobs) for jobs in (1, 2))
    assert np.array_equal(one.order, two.order)
    assert np.array_equal(one.step_seconds, two.step_seconds)
    assert (one.evaluated, one.pareto.tolist()) == (two.evaluated, two.pareto.tolist())


@pytest.mark.parametrize(
    ("name", "gpus", "batch", "software", "wanted"),
    [
        ("gpt-22b", 8, 16, "megatron-core", {}),
        ("gpt-22b", 16, 48, "torchtitan-2024", {}),
        ("gpt3-175b", 64, 96, "megatron-2021", {}),
        ("mixtral-8x7b", 32, 64, "megatron-core", {"cp": (1, 2), "micro_batch": (1, 2, 4)}),
        ("llama-3.1-8b", 16, 32, "megatron-deepspeed", {}),
        ("gpt-22b", 16, 32, "megatron-core", {"schedule": (SCHEDULE_CODES["zb-v"], SCHEDULE_CODES["dualpipe"])}),
    ],
)  # fmt: skip
def test_what_gets_no_time_can_win_nothing(
    selene: Cluster, name: str, gpus: int, batch: int, software: str, wanted: Space
) -> None:
    """Over the whole space: the front, the counts, and the fastest of all degrees are those of timing every plan."""
    model, part = load_model(name), selene.subset(gpus)
    fixed = Plan(global_batch=batch, software=software)
    every = search(model, part, fixed, wanted=wanted, every=True)
    for headroom in (0.0, 0.08, 0.5):
        some = search(model, part, fixed, wanted=wanted, headroom=headroom)
        _check_contenders(some, replace(every, roomy_bytes=some.roomy_bytes))


def _check_contenders(some: SearchResult, every: SearchResult) -> None:
    """The front, the counts, and the fastest of all degrees are those of a search that times every plan."""
    assert (some.evaluated, some.fitting) == (every.evaluated, every.fitting)
    assert every.fitting == every.order.size > 0

    def plans(found: SearchResult, positions: Iterable[int]) -> list[tuple[Plan, float, float]]:
        return [(found.plan(at), found.seconds(at), found.memory(at)) for at in positions]

    assert plans(some, some.pareto) == plans(every, every.pareto)
    some_best, every_best = (
        plans(found, first_of_each_layout(found, fastest_plans(found), 10_000)) for found in (some, every)
    )
    assert some_best[: len(every_best)] == every_best  # of all plans, the fastest 100,000 are looked at


def test_where_nothing_fits_the_lightest_plan_is_given(gpt3: Model, node: Cluster) -> None:
    """Of 175 thousand million parameters on eight GPUs, one replica holds the least: all are counted."""
    wanted = {"micro_batch": (1, 2), "flash": (True,), "recompute_layers": (1,)}
    found = search(gpt3, node, FIXED, wanted=wanted)
    assert (found.order.size, found.fitting, found.memory_bytes.size) == (0, 0, 1)
    assert found.evaluated > 100
    lightest = found.combinations.take(0)
    assert found.memory(0) == pytest.approx(predict_plan(gpt3, node, lightest).memory, rel=1e-12)
    assert int(lightest.recompute) == Recompute.FULL
    assert (lightest.dp, lightest.micro_batch) == (1, 1)


def test_plans_with_headroom_come_first(gpt22: Model, node: Cluster) -> None:
    free = search(gpt22, node, FIXED)
    middle = float(np.median([free.memory(position) for position in free.order]))
    roomy = search(gpt22, node, FIXED, headroom=free.roomy_bytes / middle - 1)
    order = fastest_plans(roomy)
    memory, seconds = np.array([roomy.memory(position) for position in order]), roomy.seconds_of(order)
    is_tight = memory > roomy.roomy_bytes
    first = int(is_tight.argmax())
    assert 0 < first < is_tight.size
    assert is_tight[first:].all()
    assert (np.diff(seconds[:first]) >= -1e-9).all()
    assert (np.diff(seconds[first:]) >= -1e-9).all()
    assert (free.fitting, free.evaluated) == (roomy.fitting, roomy.evaluated)
    assert [free.plan(at) for at in free.pareto] == [roomy.plan(at) for at in roomy.pareto]
    assert roomy.roomy_bytes == pytest.approx(middle)
    assert roomy.memory(order[0]) <= middle < free.memory(fastest_plans(free)[0])
