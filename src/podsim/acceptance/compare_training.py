"""A training run against its prediction: the same plan of the same network, on the cluster that it ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.acceptance.comparable import COMPARABLE, OTHERS_MOST
from podsim.acceptance.compare_exchange import ExchangeTimes, exchange_times
from podsim.errors import LabError
from podsim.options.plan_options import PlanOptions
from podsim.results.trained import ComparedTraining, MeasuredTraining
from podsim.training.plan import read_plan
from podsim.training.predict import predict_plan

_PLAN = (
    "tp", "pp", "dp", "virtual_stages", "micro_batch", "schedule", "sequence_parallel", "zero", "shard", "recompute",
    "overlap_grad", "overlap_param", "precision", "sequence",
)  # fmt: skip
"""fields of a plan that `predict` takes by the same names"""


def compare_training(
    run: MeasuredTraining, name: str, on: str, overrides: Mapping[str, str] | None
) -> ComparedTraining:
    """The median step of a run against the prediction of its plan on a cluster.

    A run with a parameter server, or of weights that are exchanged after some steps, is compared as it is played.
    Raises LabError for a run that no prediction is of: without a cluster, or of a residual network.
    """
    if not on:
        raise LabError(f"{name} says nothing of its machine; name it with --on: --on host.toml")
    if not run.sequence:
        raise LabError(f"{name}: {run.model}, a residual network, is not what podsim predict knows; a GPT is")
    plan: dict[str, Any] = {field: run.plan[field] for field in _PLAN if field in run.plan}
    given = {**run.changes, **(overrides or {})}
    setting = read_plan(
        PlanOptions(
            model=run.model, on=on, gpus=run.ranks, batch=int(run.plan["global_batch"]), overrides=given or None,
            train=run.train, **plan
        )
    )  # fmt: skip
    prediction = predict_plan(setting.model, setting.cluster, setting.plan)
    times = ExchangeTimes(run.step_time, prediction.step_time, None, None)
    if run.exchange != "bsp":
        times = exchange_times(run, setting.model, setting.cluster, prediction)
    measured = times.measured
    busy = run.backend == "gloo" and run.others > OTHERS_MOST
    return ComparedTraining(
        run=name, model=run.model, cluster=prediction.cluster, plan=run.plan, measured=measured,
        predicted=times.predicted, late_measured=times.late_measured, late_predicted=times.late_predicted,
        difference=times.predicted / measured - 1.0, parts=prediction.parts, cpu=run.cpu, others=run.others,
        verdict="busy with other programs, not comparable" if busy else COMPARABLE,
    )  # fmt: skip
