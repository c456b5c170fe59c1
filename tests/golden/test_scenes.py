"""Many plans of random models on random clusters cost what they cost when they were recorded, and break the same rules.

The questions were drawn at random, once, by `random_plans`. A change that means to move the numbers runs
`PODSIM_REFRESH=1 python -m pytest tests/golden/test_scenes.py`, and says so.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_plans import model_of
from recorded_values import check, sums

from podsim.hardware.cluster import Cluster, load_cluster
from podsim.training.batch import step_cost
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS
from podsim.training.predict import predict_with_gains
from podsim.training.rules import facts, violations
from podsim.training.search import search
from podsim.workload.model import Model
from podsim.workload.specification import Transformer

FILE = Path(__file__).with_name("scenes.json.gz")
COUNT = 90


@cache
def questions() -> list[dict[str, Any]]:
    return list(json.loads(gzip.decompress(FILE.with_name("scene_questions.json.gz").read_bytes())))


@cache
def scene(index: int) -> tuple[Model, Cluster, Plan]:
    """A model, a cluster and plans, of which some break rules."""
    asked = questions()[index]
    spec = {key: tuple(value) if isinstance(value, list) else value for key, value in asked["spec"].items()}
    columns = {name: np.array(asked["columns"][name]) for name in ARRAY_FIELDS if name in asked["columns"]}
    model = model_of(Transformer(**spec), asked["train"])
    return (
        model,
        load_cluster(asked["on"], asked["overrides"], asked["gpus"]),
        Plan(**asked["fixed"], **columns),
    )


def legal(index: int) -> Plan:
    plans = scene(index)[2]
    return plans.take(np.arange(questions()[index]["legal"])).wide()


@pytest.mark.parametrize("index", range(COUNT))
def test_plans_cost_what_they_cost(index: int) -> None:
    model, cluster, plans = scene(index)
    known = facts(model, cluster, plans.length(model))
    cost = step_cost(model, cluster, legal(index))
    told = {name: sums(each) for name, each in violations(plans, known).items()}
    told |= {"seconds": sums(cost.seconds), "memory": sums(cost.memory)}
    told |= {f"parts {row}": sums(each) for row, each in enumerate(cost.parts)}
    told |= {f"kinds {row}": sums(each) for row, each in enumerate(cost.kinds)}
    check(FILE, f"cost {index}", told)


@pytest.mark.parametrize("index", range(0, COUNT, 2))
def test_one_plan_is_told_in_full(index: int) -> None:
    model, cluster, _ = scene(index)
    plan = legal(index).take(index % questions()[index]["legal"])
    told, gains = predict_with_gains(model, cluster, plan)
    ops = op_reports(model, cluster, plan)
    numbers = {name: sums(value) for name, value in vars(told).items() if isinstance(value, (int, float))}
    numbers |= {"gains": sums(list(gains.values()))}
    numbers |= {f"stage {s.first} {s.count}": sums(list(s.kinds.values())) for s in told.stages}
    for name in vars(ops[0]):
        values = [getattr(op, name) for op in ops]
        if all(isinstance(value, (int, float)) for value in values):
            numbers[f"op {name}"] = sums(values)
        elif all(isinstance(value, dict) for value in values):
            numbers[f"op {name}"] = sums([number for value in values for number in value.values()])
    check(FILE, f"told {index}", numbers)


SMALL = [index for index in range(COUNT) if questions()[index]["gpus"] <= 16]


@pytest.mark.parametrize("index", SMALL)
def test_a_search_finds_what_it_found(index: int) -> None:
    model, cluster, _ = scene(index)
    fixed = Plan(**questions()[index]["fixed"], global_batch=16)
    wanted = {
        "schedule": (1, 2, 0, 3), "micro_batch": (1, 2), "virtual_stages": (1, 2), "recompute": (index % 3,),
        "flash": (cluster.gpu.has_fused_attention,), "recompute_layers": (0,), "cp": (1, 2),
    }  # fmt: skip
    found = search(model, cluster, fixed, wanted=wanted, every=index % 2 == 0)
    told = {name: sums(value) for name, value in sorted(found.cut.items())}
    told |= {
        name: sums(getattr(found, name)) for name in ("step_seconds", "memory_bytes", "evaluated", "fitting")
    }
    told |= {"order": sums(found.seconds_of(found.order)), "front": sums(found.seconds_of(found.pareto))}
    told |= {
        "fields": sums(
            [np.broadcast_to(getattr(found.combinations, n), found.memory_bytes.shape) for n in ARRAY_FIELDS]
        )
    }
    check(FILE, f"search {index}", told)
