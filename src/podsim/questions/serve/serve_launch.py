"""`podsim serve --launch`: the files that start an answer's way to serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.answers.best_serving import BestServing
from podsim.answers.served import Served
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError
from podsim.options.serving_options import ServeOptions
from podsim.serving.deployments.deployment import Deployment
from podsim.serving.deployments.deployments import read_targets, write_deployment
from podsim.serving.language_engines import engine_family
from podsim.serving.language_setup import is_language_engine, model_keys, prefill_plan, read_language_setup
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.catalog import load_model

_TARGET = {"tensorrt-llm": "trtllm"}
"""engine -> the target that is written where the user names none, if it has another name"""


def with_files(
    answer: Served | ServedLoad | BestServing, options: ServeOptions
) -> Served | ServedLoad | BestServing:
    """An answer, with the files that start it written and named among its notes.

    Raises PodsimError where a target cannot run its plan, or the answer has none.
    """
    plan, prefill = _best_plans(answer) if isinstance(answer, BestServing) else _own_plans(options)
    plan = replace(plan, engine=engine_family(plan.engine))
    prefill = replace(prefill, engine=plan.engine) if prefill else None
    deployment = Deployment(
        model=load_model(options.model, model_keys(options.overrides)), plan=plan, prefill=prefill,
        cluster=read_serving_cluster(options.on, options.overrides), longest=_longest(answer),
        names={"model": str(options.model), "on": str(options.on)},
    )  # fmt: skip
    targets = read_targets(options.launch) or (_TARGET.get(plan.engine, plan.engine),)
    paths, notes = write_deployment(deployment, targets, Path(options.save or deployment.name))
    lines = (f"written: {', '.join(paths)}", *notes)
    if isinstance(answer, BestServing):
        return replace(answer, notes=(*answer.notes, *lines))
    return replace(answer, assumptions=(*answer.assumptions, *lines))


def _longest(answer: Served | ServedLoad | BestServing) -> int:
    """count. The most tokens of a sequence; 0 where the answer does not say."""
    return answer.tokens + answer.output if isinstance(answer, Served) else getattr(answer, "longest", 0)


def _best_plans(answer: BestServing) -> tuple[ServingPlan, ServingPlan | None]:
    """The plan of the best way, and that of its pool for prompts."""
    if answer.best is None:
        raise PodsimError("--launch and --save: no way keeps the limits, so nothing is written")
    plan: dict[str, Any] = dict(answer.best.plan)
    prefill: dict[str, Any] = dict(answer.best.prefill or {})
    return ServingPlan(**plan), ServingPlan(**prefill) if prefill else None


def _own_plans(options: ServeOptions) -> tuple[ServingPlan, ServingPlan | None]:
    """The plan that the user's options give, and that of a pool for prompts."""
    if not is_language_engine(options.engine):
        raise PodsimError(f"--launch and --save: {options.engine} starts no server of language models")
    plan = read_language_setup(options).plan
    first, mark, last = options.disaggregate.partition(":")
    if not (mark and first.isdecimal() and last.isdecimal()):
        return plan, None
    return replace(plan, replicas=int(last)), replace(
        prefill_plan(plan, options.prefill_tp), replicas=int(first)
    )
