"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from podsim.verbs.plans import read_plan

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.prediction import Prediction

    found = read_plan(
        model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software, sequence=sequence, overrides=overrides,
    )  # fmt: skip
    return describe(found.model, found.cluster, found.plan, detail=detail, default_batch=found.default_batch)


def describe(
    model: Model, cluster: Cluster, plan: Plan, *, detail: str = "", default_batch: bool = False
) -> Prediction:
    """The prediction of a legal plan with what makes it believable: error band, gains, assumptions, warnings, ops."""
    from podsim.errors import PodsimError
    from podsim.training.predict import gains, predict_plan
    from podsim.verbs.assumptions import assumptions, warnings
    from podsim.verbs.bands import band_of
    from podsim.verbs.ops import op_reports

    if detail not in ("", "ops"):
        raise PodsimError(f"detail={detail!r} may be ops")
    prediction = predict_plan(model, cluster, plan)
    band, no_band = band_of(model, cluster, plan, prediction)
    return replace(
        prediction,
        band=band,
        band_reason=no_band,
        gains=gains(model, cluster, plan),
        assumptions=assumptions(model, cluster, plan, default_batch=default_batch),
        warnings=warnings(prediction, cluster, plan),
        ops=op_reports(model, cluster, plan) if detail == "ops" else (),
    )
