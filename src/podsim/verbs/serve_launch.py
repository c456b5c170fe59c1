"""`podsim serve --launch`: the files that start an answer's way to serve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.options.serving_options import ServeOptions
from podsim.results.best_serving import BestServing
from podsim.results.served import Served
from podsim.serving.deployments.deployment import Deployment
from podsim.serving.deployments.deployments import read_targets, write_deployment
from podsim.serving.language_setup import model_keys
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.catalog import load_model

_TARGET = {"tensorrt-llm": "trtllm"}
"""engine -> the target that is written where the user names none"""


def write_files(answer: BestServing | Served, options: ServeOptions) -> tuple[str, ...]:
    """Lines that name the files that start an answer, which are written, and what to know before they are started.

    Raises PodsimError where a target cannot run its plan, or the answer has none.
    """
    way = answer.best if isinstance(answer, BestServing) else answer
    plan: Mapping[str, Any] | None = getattr(way, "plan", None)
    if not plan:
        why = (
            "no way keeps the limits"
            if isinstance(answer, BestServing)
            else "this answer has no plan of servers"
        )
        raise PodsimError(f"--launch and --save: {why}, so nothing is written")
    prefill = getattr(way, "prefill", None)
    model = load_model(options.model, model_keys(options.overrides))
    longest = answer.longest if isinstance(answer, BestServing) else answer.tokens + answer.output
    deployment = Deployment(
        model=model, cluster=read_serving_cluster(options.on, options.overrides), plan=ServingPlan(**dict(plan)),
        prefill=ServingPlan(**dict(prefill)) if prefill else None, longest=longest,
        names={"model": str(options.model), "on": str(options.on)},
    )  # fmt: skip
    targets = read_targets(options.launch) or (_TARGET.get(deployment.plan.engine, deployment.plan.engine),)
    directory = Path(options.save or deployment.name)
    paths, notes = write_deployment(deployment, targets, directory)
    return (f"written: {', '.join(paths)}", *notes)
