"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from dataclasses import replace

from podsim.accuracy.assumptions import assumptions, changed, warnings
from podsim.accuracy.bands import band_of
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import PredictOptions
from podsim.options.question import question
from podsim.results.prediction import Prediction
from podsim.storage.long_runs import Job, read_tokens, training_time
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan, read_plan
from podsim.training.predict import gains, predict_plan
from podsim.verbs.power import expense_of
from podsim.workload.model import Model


@question(PredictOptions)
def predict(options: PredictOptions) -> Prediction:
    """Predict one plan of a model on a cluster.

    `gpus` is the part of the cluster that the job gets: what the degrees need when dp is given, else by default all.
    With a price, a PUE or carbon dioxide, the prediction has energy and money, too: of a step, or of the tokens' run.
    Raises PodsimError for anything unusable.
    """
    setting = read_plan(options)
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    prediction = describe(
        setting.model,
        setting.cluster,
        setting.plan,
        detail=options.detail,
        default_batch=setting.default_batch,
        tokens=tokens,
    )
    prediction = changed(prediction, options.overrides)
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
) -> Prediction:
    """The prediction of a legal plan with what makes it believable: error band, gains, assumptions, warnings, ops.

    With a number of tokens, also the days to train them, where the plan fits.
    """
    if detail not in ("", "ops"):
        raise PodsimError(f"detail={detail!r} may be ops")
    prediction = predict_plan(model, cluster, plan)
    band, no_band = band_of(model, cluster, plan, prediction)
    job = Job(model=model, cluster=cluster, plan=plan, prediction=prediction)
    return replace(
        prediction,
        band=band,
        band_reason=no_band,
        gains=gains(model, cluster, plan),
        assumptions=assumptions(model, cluster, plan, default_batch=default_batch),
        warnings=warnings(prediction, cluster, plan),
        ops=op_reports(model, cluster, plan) if detail == "ops" else (),
        training=training_time(job, tokens) if tokens is not None and prediction.fits else None,
    )
