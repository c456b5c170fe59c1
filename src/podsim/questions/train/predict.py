"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from dataclasses import replace

from podsim.accuracy.assumptions import assumptions, changed, warnings
from podsim.accuracy.bands import band_of
from podsim.accuracy.measured_reach import (
    calibrated_software,
    measured_reach,
    nearest_run,
    stated_band,
    within_reach,
)
from podsim.accuracy.own_step import corrected, own_correction, read_measured
from podsim.answers.prediction import Correction, Prediction
from podsim.errors import PodsimError
from podsim.fleet.expense import with_expense
from podsim.hardware.cluster import Cluster
from podsim.launching.plan_file import with_plan
from podsim.options.plan_options import PredictOptions
from podsim.options.question import question
from podsim.questions.train.sparse_step import with_sparsity
from podsim.questions.train.whole_run import plan_command, read_length, with_run
from podsim.training.expert_load import dropped_share
from podsim.training.job_inputs import refuse_tables
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan, read_plan
from podsim.training.predict import law_seconds, predict_with_gains
from podsim.training.software import load_software
from podsim.training.weight_streaming import streamed_prediction
from podsim.workload.model import Model


@question(PredictOptions, fill=with_plan)
def predict(options: PredictOptions) -> Prediction:
    """Predict one plan of a model on a cluster.

    `gpus` is the part of the cluster that the job gets: what the degrees need when dp is given, else by default all.
    A plan that fits has the days, the energy and the money of its run with failures: over the tokens asked for, else
    over 20 a parameter, at the price asked for, else at the market's.
    Raises PodsimError for anything unusable.
    """
    refuse_tables(options, options.model)
    setting = read_plan(options)
    length = read_length(options, setting.model)
    correction = None
    if options.measured:
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
    if options.sparse:
        prediction = with_sparsity(prediction, setting.model, setting.cluster, setting.plan)
    prediction = replace(
        changed(prediction, options.overrides), notes=setting.notes,
        command=plan_command(options, setting.plan, setting.cluster),
    )  # fmt: skip
    prediction = with_run(prediction, setting.model, setting.cluster, setting.plan, length)
    return with_expense(
        prediction, setting.cluster, price=str(options.price), pue=options.pue, carbon=options.carbon
    )


def describe(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    *,
    detail: str = "",
    default_batch: bool = False,
    correction: Correction | None = None,
) -> Prediction:
    """The prediction of a legal plan with what makes it believable: error band, gains, assumptions, warnings, ops.

    A correction by a measured step replaces the allowance for what no measured run reached.
    """
    if detail not in ("", "ops"):
        raise PodsimError(f"detail={detail!r} may be ops")
    if cluster.gpu.streams_weights:
        streamed = streamed_prediction(model, cluster, plan)
        return replace(streamed, warnings=(*model.doubts, *streamed.warnings))
    law, gains = predict_with_gains(model, cluster, plan)
    band, no_band = band_of(model, cluster, plan, law)
    if correction is None:
        prediction = within_reach(law, measured_reach(model, cluster, plan))
        prediction = replace(prediction, band=stated_band(band, prediction), band_reason=no_band)
    else:
        prediction = corrected(law, correction, cluster.gpu.architecture)
    capacity = plan.capacity_factor
    if capacity:
        imbalance = plan.imbalance or load_software(plan.software, cluster.gpu).expert_imbalance
        experts = max(block.experts for block in model.layers)
        prediction = replace(prediction, dropped=dropped_share(capacity, imbalance, experts))
    return replace(
        prediction,
        nearest=nearest_run(model, cluster, plan),
        software_range=_software_range(model, cluster, plan) if prediction.allowance else {},
        gains=gains,
        assumptions=assumptions(model, cluster, plan, default_batch=default_batch),
        warnings=(*model.doubts, *warnings(prediction, cluster, plan)),
        ops=op_reports(model, cluster, plan) if detail == "ops" else (),
    )


def _software_range(model: Model, cluster: Cluster, plan: Plan) -> dict[str, float]:
    """Seconds of a plan's step under each software that was calibrated on the GPU's family."""
    names = calibrated_software(cluster.gpu.architecture)
    return {name: law_seconds(model, cluster, plan.having({"software": name})) for name in names}
