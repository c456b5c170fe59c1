"""The job that checkpoints and failures are asked of: the plan of a file, or the best plan of a search."""

from __future__ import annotations

from typing import Any

from podsim.accuracy.stated_prediction import describe
from podsim.errors import NoFitError, PodsimError
from podsim.launching.plan_file import with_plan
from podsim.options.fleet_options import SavedJobOptions
from podsim.options.plan_options import PlanOptions, SearchOptions
from podsim.options.question import values_of
from podsim.runs.best_plans import find_plans
from podsim.storage.long_runs import Job
from podsim.training.job_inputs import read_inputs
from podsim.training.plan import Plan, read_plan


def best_job(options: SavedJobOptions) -> Job:
    """The plan of the file `plan`, or the fastest that fits within the limits; raises what `podsim plan` raises."""
    if options.plan:
        if options.limit:
            raise PodsimError("limit restricts a search, and plan names a file with a plan; give one of them")
        return _filed_job(options)
    asked = SearchOptions(**values_of(options, SavedJobOptions, SearchOptions), top=1)
    result = find_plans(asked)[1]
    network, cluster, *_ = read_inputs(
        options.model, options.on, result.gpus, options.sequence, options.overrides, options.train
    )
    prediction = result.ranked[0].prediction
    plan: Any = dict(prediction.plan)
    return Job(model=network, cluster=cluster, plan=Plan(**plan), prediction=prediction)


def check_job(options: SavedJobOptions) -> None:
    """Raise what reading the names of a job raises, without a search."""
    read_inputs(options.model, options.on, options.gpus, options.sequence, options.overrides, options.train)


def _filed_job(options: SavedJobOptions) -> Job:
    """The plan of the file `plan`, with what the options change of it; NoFitError if it does not fit."""
    said = {name: value for name, value in values_of(options, SavedJobOptions, PlanOptions).items() if value}
    setting = read_plan(PlanOptions(**with_plan(PlanOptions, {**said, "plan": options.plan})))
    prediction = describe(setting.model, setting.cluster, setting.plan, default_batch=setting.default_batch)
    if not prediction.fits:
        need, room = prediction.memory / 1e9, prediction.memory_limit / 1e9
        raise NoFitError([f"the plan needs {need:.1f} GB on its fullest stage, a GPU has {room:.1f} GB"])
    part = setting.cluster.subset(prediction.gpus)
    return Job(model=setting.model, cluster=part, plan=setting.plan, prediction=prediction)
