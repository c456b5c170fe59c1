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
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.launching.plan_file import with_plan
from podsim.options.plan_options import PredictOptions
from podsim.options.question import question
from podsim.results.prediction import Correction, Prediction
from podsim.storage.long_runs import Job, read_tokens, training_time
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan, read_plan
from podsim.training.predict import law_seconds, predict_with_gains
from podsim.verbs.power import expense_of
from podsim.workload.model import Model


@question(PredictOptions, fill=with_plan)
def predict(options: PredictOptions) -> Prediction:
    """Predict one plan of a model on a cluster.

    `gpus` is the part of the cluster that the job gets: what the degrees need when dp is given, else by default all.
    With a price, a PUE or carbon dioxide, the prediction has energy and money, too: of a step, or of the tokens' run.
    Raises PodsimError for anything unusable.
    """
    setting = read_plan(options)
    tokens = None if options.tokens is None else read_tokens(options.tokens)
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
        tokens=tokens,
        correction=correction,
    )
    prediction = replace(changed(prediction, options.overrides), notes=setting.notes)
    price, pue, carbon = str(options.price), options.pue, options.carbon
    if not price and pue is None and carbon is None:
        return prediction
    part = setting.cluster.subset(prediction.gpus)
    expense = expense_of(prediction, part, price=price, tokens=tokens, pue=pue, carbon=carbon)
    return replace(prediction, expense=expense)


def describe(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    *,
    detail: str = "",
    default_batch: bool = False,
    tokens: float | None = None,
    correction: Correction | None = None,
) -> Prediction:
    """The prediction of a legal plan with what makes it believable: error band, gains, assumptions, warnings, ops.

    With a number of tokens, also the days to train them, where the plan fits. A correction by a measured step replaces
    the allowance for what no measured run reached.
    """
    if detail not in ("", "ops"):
        raise PodsimError(f"detail={detail!r} may be ops")
    law, gains = predict_with_gains(model, cluster, plan)
    band, no_band = band_of(model, cluster, plan, law)
    if correction is None:
        prediction = within_reach(law, measured_reach(model, cluster, plan))
        prediction = replace(prediction, band=stated_band(band, prediction), band_reason=no_band)
    else:
        prediction = corrected(law, correction, cluster.gpu.architecture)
    job = Job(model=model, cluster=cluster, plan=plan, prediction=prediction)
    return replace(
        prediction,
        nearest=nearest_run(model, cluster, plan),
        software_range=_software_range(model, cluster, plan) if prediction.allowance else {},
        gains=gains,
        assumptions=assumptions(model, cluster, plan, default_batch=default_batch),
        warnings=warnings(prediction, cluster, plan),
        ops=op_reports(model, cluster, plan) if detail == "ops" else (),
        training=training_time(job, tokens) if tokens is not None and prediction.fits else None,
    )


def _software_range(model: Model, cluster: Cluster, plan: Plan) -> dict[str, float]:
    """Seconds of a plan's step under each software that was calibrated on the GPU's family."""
    names = calibrated_software(cluster.gpu.architecture)
    return {name: law_seconds(model, cluster, plan.having({"software": name})) for name in names}
