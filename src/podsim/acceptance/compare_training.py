"""A training run against its prediction: the same plan of the same network, on the cluster that it ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.acceptance.comparable import OTHERS_MOST, verdict_of
from podsim.acceptance.compare_exchange import ExchangeTimes, emulated_exchange, exchange_times
from podsim.acceptance.emulated_steps import emulated_step
from podsim.answers.trained import ComparedTraining, MeasuredTraining
from podsim.errors import LabError
from podsim.options.plan_options import PlanOptions
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
    """The median step of a run against the prediction of its plan: on its own emulated links, or on a cluster.

    A run with a parameter server, or of weights that are exchanged after some steps, is compared as it is played.
    Raises LabError for a run that no prediction is of: without a cluster, or of a residual network.
    """
    if run.emulated is not None:
        return _on_own_links(run, name, bool(on or overrides))
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
    return _compared(run, name, prediction.cluster, times, prediction.parts)


def _on_own_links(run: MeasuredTraining, name: str, is_named: bool) -> ComparedTraining:
    """A run on emulated links; LabError where a cluster was named, too."""
    made = run.emulated
    assert made is not None
    if is_named:
        raise LabError(f"{name} says which links it ran on; --on and --set are for runs on a real cluster")
    if not run.sequence:
        raise LabError(f"{name}: {run.model}, a residual network, is not played on links; a GPT is")
    links = f"its own links: {made.cluster} scaled by {made.scale:g}, {made.servers} x {made.local} ranks"
    if run.exchange != "bsp":
        times, parts = emulated_exchange(run), dict[str, float]()
    else:
        seconds, parts = emulated_step(run)
        times = ExchangeTimes(run.step_time, seconds, None, None)
    return _compared(run, name, links, times, parts)


def _compared(
    run: MeasuredTraining, name: str, cluster: str, times: ExchangeTimes, parts: Mapping[str, float]
) -> ComparedTraining:
    return ComparedTraining(
        run=name, model=run.model, cluster=cluster, plan=run.plan, measured=times.measured,
        predicted=times.predicted, late_measured=times.late_measured, late_predicted=times.late_predicted,
        difference=times.predicted / times.measured - 1.0, parts=parts, cpu=run.cpu, others=run.others,
        verdict=verdict_of({"busy with other programs": run.backend == "gloo" and run.others > OTHERS_MOST}),
    )  # fmt: skip
