"""The plan of a training run: legal by the rules of all plans, with what the user left open filled in."""

from __future__ import annotations

import math
from typing import Any

from podsim.errors import PlanError, PodsimError, raise_all
from podsim.lab.training.gpt import gpt_problems
from podsim.options.plan_options import PlanOptions
from podsim.training.job_inputs import split_overrides
from podsim.training.plan import Plan, read_plan
from podsim.workload.catalog import load_specification
from podsim.workload.specification import Transformer, resolve

_STAND_IN = "dgx-a100"
"""whose GPUs a plan is checked on: the rules of a layout are the same everywhere"""


def gpt_plan(model: str, given: dict[str, Any], ranks: int | None) -> tuple[Plan, Transformer]:
    """The plan of a GPT, legal by the rules of all plans, and the network."""
    changes, others = split_overrides(given.get("overrides"))
    if others:
        raise PodsimError(
            f"--set {', '.join(others)}: training for real takes fields of the model, model.layers=4"
        )
    if given.get("sequence") is not None:
        changes["sequence"] = str(given["sequence"])
    network = resolve(load_specification(model, changes))
    raise_all(gpt_problems(network), PlanError)
    degrees = [int(given.get(name) or 1) for name in ("tp", "pp", "dp")]
    count = ranks or max(1, math.prod(degrees))
    options = given | {"gpus": count}
    if options["micro_batch"] is None:
        options["micro_batch"] = 1
    on = f"{_STAND_IN}:{-(-count // 8)}"
    setting = read_plan(PlanOptions(model=model, on=on, precision="fp32", **options))
    if int(setting.plan.gpus) != count:
        raise PlanError([f"tp x pp x dp = {setting.plan.gpus}, and there are {count} ranks"])
    return setting.plan, network


def residual_plan(given: dict[str, Any], ranks: int | None) -> Plan:
    """The plan of a residual network: data parallel, whole or divided by ZeRO."""
    alone = {name: given.get(name) or 1 for name in ("tp", "pp", "ep", "virtual_stages")}
    wrong = [f"{name}={value}" for name, value in alone.items() if value != 1]
    wrong += [f"{name}={given[name]}" for name in ("schedule", "sequence", "overrides") if given.get(name)]
    wrong += ["capacity_factor"] if given.get("capacity_factor") else []
    wrong += ["sequence_parallel"] if given.get("sequence_parallel") else []
    wrong += ["recompute"] if given.get("recompute", "none") != "none" else []
    if wrong:
        raise PlanError(
            [f"{', '.join(wrong)}: a residual network is trained data parallel only: dp, zero, shard"]
        )
    dp, batch = int(given.get("dp") or ranks or 1), int(given["batch"])
    if ranks is not None and dp != ranks:
        raise PlanError([f"dp={dp}, and there are {ranks} ranks"])
    micro = int(given.get("micro_batch") or max(1, batch // max(dp, 1)))
    zero, shard = int(given.get("zero") or 0), int(given.get("shard") or 0)
    problems = (
        []
        if dp >= 1 and batch >= 1 and micro >= 1
        else ["dp, batch and micro_batch are whole numbers from 1"]
    )
    if not problems and batch % (dp * micro):
        problems.append(f"batch={batch} is not a multiple of dp x micro_batch = {dp} x {micro}")
    problems += [f"zero={zero}; zero may be 0, 1, 2, 3"] if zero not in (0, 1, 2, 3) else []
    if shard and (zero == 0 or not 0 < shard <= dp or dp % shard):
        problems.append(f"shard={shard} with zero={zero}; it needs zero of 1 or more and must divide dp={dp}")
    raise_all(problems, PlanError)
    overlap = given.get("overlap_grad")
    return Plan(
        dp=dp, global_batch=batch, micro_batch=micro, zero=zero, shard=shard, precision="fp32",
        overlap_grad=True if overlap is None else overlap,
    )  # fmt: skip
