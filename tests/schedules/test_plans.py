"""Plans with any schedule: their memory is what a table holds, their rules are the entry's, and searches obey."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.questions.train.plan import plan as plan_verb
from podsim.questions.train.predict import predict as predict_verb
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.held import held
from podsim.schedules.held import weight_copies as table_copies
from podsim.training.memory import KINDS
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Schedule
from podsim.training.predict import predict_plan
from podsim.training.rules import RULES, facts
from podsim.training.schedule_sizes import micro_batches_in_flight, weight_copies
from podsim.training.search import search
from podsim.workload.model import Model

GRID = [(p, v, m) for p in (1, 2, 3, 4, 6, 8) for v in (1, 2, 3) for m in (1, 2, 3, 4, 6, 8, 12, 16, 24)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_micro_batches_in_flight_are_what_the_table_holds(name: str) -> None:
    """All sizes in one array plan, every rank, against the tables one by one."""
    entry = SCHEDULES[name]
    sizes = [s for s in GRID if not entry.problems(*s) and (entry.flush or s[2] >= 2 * s[0])]
    p, v, m = (np.array(column) for column in zip(*sizes, strict=True))
    many = Plan(pp=p, virtual_stages=v, global_batch=m, schedule=np.full(len(p), SCHEDULE_CODES[name]))
    all_ranks = np.minimum(np.arange(8)[:, None], p - 1)
    in_flight = micro_batches_in_flight(many, all_ranks) * v
    homes, versions = weight_copies(many, all_ranks) or (1.0, 1.0)
    for column, size in enumerate(sizes):
        table = build(name, *size)
        ranks = all_ranks[:, column]
        assert in_flight[:, column] == pytest.approx(held(table)[ranks]), size
        copies = np.broadcast_to(homes * versions, all_ranks.shape)[:, column]
        assert copies == pytest.approx(table_copies(table)[ranks]), size


def test_mixed_schedules_in_one_array() -> None:
    names = list(SCHEDULES)
    codes = np.array([SCHEDULE_CODES[name] for name in names])
    chunks = np.array([2 if SCHEDULES[name].problems(4, 1, 8) else 1 for name in names])
    many = Plan(pp=4, virtual_stages=chunks, global_batch=8, schedule=codes)
    found = micro_batches_in_flight(many, np.zeros((1, len(names))))[0]
    for name, v, value in zip(names, chunks.tolist(), found.tolist(), strict=True):
        assert value == held(build(name, 4, v, 8))[0] / v, name


def test_dualpipe_needs_twice_the_parameters(gpt22: Model, node: Cluster) -> None:
    """Of the mean of two parts: the fullest rank has the first and the last, so not quite twice the fuller of them."""
    shared = {"tp": 2, "pp": 4, "global_batch": 8, "sequence_parallel": True}
    plain, double = (predict_plan(gpt22, node, Plan(**shared, schedule=s)) for s in ("1f1b", "dualpipe"))  # type: ignore[arg-type]
    for kind in ("weights", "gradients", "optimizer"):
        assert kind in KINDS
        assert double.memory_kinds[kind] == pytest.approx(2 * plain.memory_kinds[kind], rel=0.05)


def test_pipedream_stashes_weights_only(gpt22: Model, node: Cluster) -> None:
    shared = {"tp": 2, "pp": 4, "global_batch": 8, "sequence_parallel": True}
    one, stash, two = (
        predict_plan(gpt22, node, Plan(**shared, schedule=s)).memory_kinds  # type: ignore[arg-type]
        for s in ("1f1b", "pipedream", "pipedream-2bw")
    )
    assert stash["weights"] == pytest.approx(4 * one["weights"])
    assert two["weights"] == pytest.approx(2 * one["weights"])
    assert stash["optimizer"] == two["optimizer"] == one["optimizer"]
    assert stash["activations"] == one["activations"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schedule": "zb-v"}, "virtual_stages of 2, one on the way down"),
        ({"schedule": "zb-v", "virtual_stages": 2}, "pp of 2 or more"),
        ({"schedule": "dualpipe", "pp": 3}, "an even pp"),
        ({"schedule": "dualpipe", "pp": 2, "global_batch": 3}, "an even number of micro-batches"),
        ({"schedule": "dualpipe", "pp": 8, "global_batch": 12}, "2 x pp micro-batches or more"),
        (
            {"schedule": "dualpipe-v", "pp": 8, "virtual_stages": 2, "global_batch": 12},
            "2 x pp micro-batches",
        ),
        ({"schedule": "pipedream-2bw", "pp": 8, "global_batch": 12}, "in a multiple of pp"),
        ({"schedule": "pipedream", "pp": 8, "zero": 3}, "zero may be 0, 1"),
        ({"schedule": "zb-h1", "virtual_stages": 4}, "virtual_stages of 1"),
    ],
)
def test_rules_of_sizes(gpt3: Model, selene: Cluster, change: dict[str, object], said: str) -> None:
    found = Plan(**{"global_batch": 64, **change}).problems(gpt3, selene)  # type: ignore[arg-type]
    assert any(said in text for text in found), found


def test_rules_of_arrays_are_those_of_tables(gpt3: Model, selene: Cluster) -> None:
    sizes = np.array(GRID)
    for name, entry in SCHEDULES.items():
        many = Plan(
            pp=sizes[:, 0],
            virtual_stages=sizes[:, 1],
            global_batch=sizes[:, 2],
            schedule=SCHEDULE_CODES[name],
        )
        known = facts(gpt3, selene, 2048)
        wrong = np.zeros(len(sizes), bool)
        for rule, violated, _ in RULES:
            if rule in ("virtual stages", "schedule's pipeline", "schedule's batches"):
                wrong |= np.asarray(violated(many, known), bool)
        assert wrong.tolist() == [bool(entry.problems(*size)) for size in GRID], name


def test_searches_try_others_only_when_asked(gpt22: Model, node: Cluster) -> None:
    fixed = Plan(global_batch=16)
    usual = search(gpt22, node, fixed)
    assert set(np.unique(usual.combinations.schedule)) <= {
        Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED,
    }  # fmt: skip
    wanted = {"schedule": (Schedule.ZB_V, Schedule.DUALPIPE), "tp": (1, 2)}
    roomy = replace(node, system=replace(node.system, gpu=replace(node.gpu, memory=1e12)))
    asked = search(gpt22, roomy, fixed, wanted=wanted, every=True)
    assert set(np.unique(asked.combinations.schedule)) == {Schedule.ZB_V, Schedule.DUALPIPE}
    known = facts(gpt22, node, 2048)
    for name, violated, _ in RULES:
        assert not np.any(violated(asked.combinations, known)), name


def test_limits_name_schedules() -> None:
    found = plan_verb(
        "gpt-22b", on="dgx-a100-80gb:1", batch=16, limit={"schedule": "zb-h1", "pp": "4"}, top=1
    )
    assert found.ranked[0].prediction.plan["schedule"] == "zb-h1"
    with pytest.raises(
        PlanError, match=r"schedule may be gpipe, 1f1b, interleaved, zb-h1, .*, pipedream-2bw"
    ):
        plan_verb("gpt-22b", on="dgx-a100-80gb:1", limit={"schedule": "zb-x"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipedream", "never drains"),
        ("dualpipe", "on two ranks of a pipeline"),
        ("zb-h1", "kept until the gradient"),
    ],
)
def test_predictions_say_what_a_schedule_brings(name: str, said: str) -> None:
    found = predict_verb("gpt-22b", on="dgx-a100-80gb:1", batch=16, tp=2, pp=4, schedule=name)
    assert any(said in sentence for sentence in found.assumptions)
    plain = predict_verb("gpt-22b", on="dgx-a100-80gb:1", batch=16, tp=2, pp=4)
    assert not any(said in sentence for sentence in plain.assumptions)
