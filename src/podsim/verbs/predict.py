"""`podsim predict`: the step time and memory of one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from podsim.errors import PlanError

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.prediction import Prediction
    from podsim.training.plan import Plan
    from podsim.workload.graph import Model

__all__ = ["arrange", "describe", "predict"]


def predict(
    model: str,
    *,
    on: str,
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
    overrides: Mapping[str, str] | None = None,
    detail: str = "",
    price: str = "",
    tokens: float | None = None,
    pue: float | None = None,
    carbon: float | None = None,
) -> Prediction:
    """Predict one plan of a model on a cluster.

    `model` is a catalog name, a config.json or its folder; `on` a cluster (`dgx-a100-80gb:64`, `selene`,
    `superpod-a100:2su`, a TOML file).  `gpus` is the part of it that the job gets (default: what the degrees need
    when dp is given, else all).  `batch` counts sequences of a step (default: about four million tokens).
    `detail="ops"` adds every op with its share of the speed of light.  With a `price` (a name that `podsim cost` lists,
    or USD for a GPU and an hour) or the `tokens` of a run come energy, carbon dioxide and money.
    Raises PodsimError for anything unusable.
    """
    from podsim.verbs.inputs import batch_of, read_inputs

    if dp is not None and gpus is None:
        gpus = tp * pp * dp * cp
    network, cluster, count = read_inputs(model, on, gpus, sequence, overrides)
    sequences, default = batch_of(batch, network.sequence)
    plan = arrange(
        network, cluster, count, sequences=sequences, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software,
    )  # fmt: skip
    found = describe(network, cluster, plan, detail=detail, default_batch=default)
    if not price and tokens is None and pue is None and carbon is None:
        return found
    from podsim.verbs.power import expense_of

    part = cluster.subset(found.gpus)
    return replace(found, expense=expense_of(found, part, price=price, tokens=tokens, pue=pue, carbon=carbon))


def arrange(
    network: Model,
    cluster: Cluster,
    count: int,
    *,
    sequences: int,
    software: str,
    tp: int,
    pp: int,
    dp: int | None,
    cp: int,
    virtual_stages: int,
    schedule: str | None,
    flash: bool | None,
    overlap_grad: bool | None,
    overlap_param: bool | None,
    precision: str | None,
    **fields: Any,
) -> Plan:
    """The legal plan of `count` GPUs that a user's wishes come to; PlanError with every rule that they break.

    What is None follows: dp takes the GPUs that are left, overlaps are what the framework era can.
    """
    from podsim.training.plan import Plan
    from podsim.training.software import load_software
    from podsim.verbs.inputs import precision_of

    era = load_software(software, cluster.gpu)
    degrees = tp * pp * cp
    divided = degrees >= 1 and count % degrees == 0
    left = (count // degrees if divided else 1) if dp is None else dp
    plan = Plan(
        tp=tp, pp=pp, virtual_stages=virtual_stages, dp=left, cp=cp, global_batch=sequences,
        schedule=schedule or ("interleaved" if virtual_stages > 1 else "1f1b"),
        flash=cluster.gpu.compute_capability >= 7.5 if flash is None else flash,
        overlap_grad="overlap_grad" in era.can_overlap if overlap_grad is None else overlap_grad,
        overlap_param="overlap_param" in era.can_overlap if overlap_param is None else overlap_param,
        precision=precision_of(precision, cluster), software=software, sequence=network.sequence, **fields,
    )  # fmt: skip
    problems = plan.problems(network, cluster)
    if dp is None and not divided:
        problems = [
            f"tp x pp x cp = {tp} x {pp} x {cp} does not divide {count} GPUs; give dp, or degrees that do",
            *(problem for problem in problems if "dp" not in problem),
        ]
    if problems:
        raise PlanError(problems)
    return plan


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
