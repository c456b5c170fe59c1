"""The prediction of a plan with what makes it believable: error band, gains, assumptions, warnings, ops."""

from __future__ import annotations

from dataclasses import replace

from podsim.accuracy.assumptions import assumptions, warnings
from podsim.accuracy.bands import band_of
from podsim.accuracy.measured_reach import (
    calibrated_software,
    measured_reach,
    nearest_run,
    stated_band,
    within_reach,
)
from podsim.answers.prediction import Correction, OpReport, Prediction
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.expert_load import dropped_share
from podsim.training.plan import Plan
from podsim.training.predict import law_seconds, predict_with_gains
from podsim.training.software import load_software
from podsim.workload.model import Model


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
        from podsim.training.weight_streaming import streamed_prediction  # wafers

        streamed = streamed_prediction(model, cluster, plan)
        return replace(streamed, warnings=(*model.doubts, *streamed.warnings))
    law, gains = predict_with_gains(model, cluster, plan)
    band, no_band = band_of(model, cluster, plan, law)
    if correction is None:
        prediction = within_reach(law, measured_reach(model, cluster, plan))
        prediction = replace(prediction, band=stated_band(band, prediction), band_reason=no_band)
    else:
        from podsim.accuracy.own_step import corrected  # by a step that the user measured

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
        ops=_reports(model, cluster, plan) if detail == "ops" else (),
    )


def _software_range(model: Model, cluster: Cluster, plan: Plan) -> dict[str, float]:
    """Seconds of a plan's step under each software that was calibrated on the GPU's family."""
    names = calibrated_software(cluster.gpu.architecture)
    return {name: law_seconds(model, cluster, plan.having({"software": name})) for name in names}


def _reports(model: Model, cluster: Cluster, plan: Plan) -> tuple[OpReport, ...]:
    """The ops of a step."""
    from podsim.training.op_reports import op_reports

    return op_reports(model, cluster, plan)
