"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from podsim.accuracy.stated_prediction import changed, describe
from podsim.answers.answer import call
from podsim.answers.prediction import Prediction
from podsim.errors import PlanError
from podsim.fleet.power_cost import with_expense
from podsim.options.output_options import GlanceOutput
from podsim.options.plan_options import PredictOptions
from podsim.options.question import PLAN_FILE, question
from podsim.questions.registry import ask
from podsim.storage.long_runs import read_length, with_run
from podsim.training.job_inputs import refuse_tables
from podsim.training.plan import plan_command, read_plan

if TYPE_CHECKING:
    from podsim.answers.graphs import GraphCost


def _status(answer: Any) -> int:
    """1 if a plan, or a captured network, does not fit."""
    if isinstance(answer, Prediction):
        return int(not answer.fits)
    return int(not answer.memory.fits)


@question(
    PredictOptions,
    fill=PLAN_FILE,
    reads="training.plan:read_plan",
    output=GlanceOutput,
    compared="questions.train.study:compare_clusters",
    network="questions.train.predict:predicted_network",
    status=_status,
)
def predict(options: PredictOptions) -> Prediction:
    """Predict one plan of a model on a cluster.

    `gpus` is the part of the cluster that the job gets: what the degrees need when dp is given, else by default all.
    A plan that fits has the days, the energy and the money of its run with failures: over the tokens asked for, else
    over 20 a parameter, at the price asked for, else at the market's.
    Raises PodsimError for anything unusable.
    """
    refuse_tables(options, options.model)
    setting = read_plan(options)
    if setting.cluster.gpu.streams_weights:
        setting = call("training.weight_streaming:with_open_settings", setting, options)
    length = read_length(options, setting.model)
    correction = None
    if options.measured and options.runs:
        raise PlanError(
            ["measured and runs: one of them corrects a prediction; add the step as a row of runs"]
        )
    if options.measured:
        from podsim.accuracy.own_step import own_correction, read_measured

        seconds, _ = read_measured(options.measured)
        correction = own_correction(
            setting.model, setting.cluster, setting.plan, seconds, [setting.plan.software]
        )
    prediction = describe(
        setting.model,
        setting.cluster,
        setting.plan,
        detail=options.detail,
        default_batch=setting.default_batch,
        correction=correction,
    )
    if options.runs:
        from podsim.accuracy.own_runs import with_runs

        prediction = with_runs(prediction, options.runs)
    if options.sparse:
        from podsim.training.sparse_step import with_sparsity

        prediction = with_sparsity(prediction, setting.model, setting.cluster, setting.plan)
    prediction = replace(
        changed(prediction, options, setting.plan), notes=setting.notes,
        command=plan_command(options, setting.plan, setting.cluster),
    )  # fmt: skip
    prediction = with_run(prediction, setting.model, setting.cluster, setting.plan, length)
    return with_expense(
        prediction, setting.cluster, price=str(options.price), pue=options.pue, carbon=options.carbon
    )


def predicted_network(options: Mapping[str, Any]) -> GraphCost:
    """The training step of a captured network, replicated over the GPUs. Raises what `podsim.graph` raises."""
    from podsim.graphs.replicated_network import (
        graph_options,  # no other plan needs networks and their tables
    )

    cost: GraphCost = ask("graph", **graph_options(options))
    return cost
