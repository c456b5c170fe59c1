"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from podsim.accuracy.assumptions import assumptions, changed, warnings
from podsim.accuracy.bands import band_of
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.results.prediction import Prediction
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan
from podsim.training.plan_inputs import read_plan
from podsim.training.predict import gains, predict_plan
from podsim.verbs.power import expense_of
from podsim.workload.graph import Model


def predict(
    model: str | Path,
    *,
    on: str | Path,
    gpus: int | None = None,
    batch: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    cp: int = 1,
    ep: int = 1,
    virtual_stages: int = 1,
    micro_batch: int = 1,
    schedule: str | None = None,
    sequence_parallel: bool = False,
    zero: int = 0,
    shard: int = 0,
    recompute: str = "none",
    recompute_layers: int = 0,
    flash: bool | None = None,
    overlap_grad: bool | None = None,
    overlap_param: bool | None = None,
    overlap_tp: bool = False,
    precision: str | None = None,
    optimizer_precision: str = "fp32",
    software: str = "megatron-core",
    sequence: int | None = None,
    tokens: str | float | None = None,
    overrides: Mapping[str, str] | None = None,
    detail: str = "",
    price: str | float = "",
    pue: float | None = None,
    carbon: float | None = None,
) -> Prediction:
    """Predict one plan of a model on a cluster.

    `model` is a catalog name, a config.json or its folder; `on` a cluster (`dgx-a100-80gb:64`, `selene`,
    `superpod-a100:2su`, a TOML file).  `gpus` is the part of it that the job gets (default: what the degrees need
    when dp is given, else all).  `batch` counts sequences of a step (default: about four million tokens).
    `tokens` ("300G") adds the days to train so many, with and without failures (`podsim goodput` says more of them).
    `detail="ops"` adds every op with its share of the speed of light.  A `price` (a name that `podsim cost` lists, or
    USD for a GPU and an hour), the `pue` of the site or the `carbon` of its electricity (kg for a kWh) add energy,
    carbon dioxide and money, of a step or of the tokens' run.  Raises PodsimError for anything unusable.
    """
    from podsim.verbs.long_runs import read_tokens

    found = read_plan(
        model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software, sequence=sequence, overrides=overrides,
    )  # fmt: skip
    wanted = None if tokens is None else read_tokens(tokens)
    told = describe(
        found.model,
        found.cluster,
        found.plan,
        detail=detail,
        default_batch=found.default_batch,
        tokens=wanted,
    )
    told = changed(told, overrides)
    price = str(price)
    if not price and pue is None and carbon is None:
        return told

    part = found.cluster.subset(told.gpus)
    return replace(told, expense=expense_of(told, part, price=price, tokens=wanted, pue=pue, carbon=carbon))


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
    from podsim.verbs.long_runs import Job, training_time

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
