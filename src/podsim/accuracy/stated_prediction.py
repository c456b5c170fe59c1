"""A prediction as it is stated: the law, with its band, the runs like it, assumptions, warnings and ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from podsim.accuracy.bands import operand_bits, residuals, unmeasured_band
from podsim.accuracy.measured_reach import calibrated_software, nearest_run, stated_band
from podsim.accuracy.measured_runs import MEMORY_ERROR
from podsim.accuracy.unusual_plans import unusual_choices
from podsim.answers.answer import call
from podsim.answers.prediction import Correction, FastestRun, OpReport, Prediction
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.memo import Later
from podsim.options.plan_options import PredictOptions, SearchOptions
from podsim.schedules.entries import SCHEDULES
from podsim.training.abilities import ABILITIES, lacking_titles
from podsim.training.expert_load import dropped_share
from podsim.training.job_inputs import read_inputs
from podsim.training.plan import Plan
from podsim.training.predict import law_seconds, predict_plan
from podsim.training.software import Software, load_software
from podsim.units import format_quantity
from podsim.workload.model import Model


def describe(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    *,
    detail: str = "",
    default_batch: bool = False,
    correction: Correction | None = None,
    law: Prediction | None = None,
) -> Prediction:
    """The prediction of a legal plan with what makes it believable: error band, gains, assumptions, warnings, ops.

    `law`: what `predict_plans` says of one of several plans, whose software ranges `with_software_ranges` adds.
    """
    if detail not in ("", "ops"):
        raise PodsimError(f"detail={detail!r} may be ops")
    if cluster.gpu.streams_weights:
        from podsim.training.weight_streaming import streamed_prediction  # wafers

        streamed = streamed_prediction(model, cluster, plan)
        band = streamed.band and unmeasured_band(streamed.band)
        return replace(streamed, band=band, warnings=(*model.doubts, *streamed.warnings))
    prediction = law or predict_plan(model, cluster, plan)
    if correction is None:
        band, faster_than = stated_band(model, cluster, plan, prediction.step_time)
        prediction = replace(prediction, faster_than=faster_than, band=band)
    else:
        from podsim.accuracy.own_step import corrected  # by a step that the user measured

        prediction = corrected(prediction, correction, cluster.gpu.architecture)
    capacity = plan.capacity_factor
    if capacity:
        imbalance = plan.imbalance or load_software(plan.software, cluster.gpu).expert_imbalance
        experts = max(block.experts for block in model.layers)
        prediction = replace(prediction, dropped=dropped_share(capacity, imbalance, experts))
    stated = replace(
        prediction,
        nearest=nearest_run(model, cluster, plan),
        assumptions=assumptions(model, cluster, plan, default_batch=default_batch),
        warnings=(
            *model.doubts,
            *unusual_choices(model, cluster, plan, prediction),
            *warnings(model, prediction, cluster, plan),
        ),
        ops=_reports(model, cluster, plan) if detail == "ops" else (),
    )
    return with_software_ranges(model, cluster, [(plan, stated)])[0] if law is None else stated


def with_software_ranges(
    model: Model, cluster: Cluster, stated: Sequence[tuple[Plan, Prediction]]
) -> list[Prediction]:
    """The predictions of plans; those that beat every measured run with the seconds under each calibrated software.

    These are worked out, of all plans at once, when somebody looks at one of them.
    """
    faster = [plan for plan, prediction in stated if prediction.faster_than]

    @cache
    def ranges() -> list[dict[str, float]]:
        names = calibrated_software(cluster.gpu.architecture)
        columns = [
            law_seconds(model, cluster, [plan.having({"software": name}) for plan in faster])
            for name in names
        ]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    laters = (Later(partial(lambda at: ranges()[at], at)) for at in range(len(faster)))
    return [
        replace(prediction, software_range=next(laters)) if prediction.faster_than else prediction
        for _, prediction in stated
    ]


def _reports(model: Model, cluster: Cluster, plan: Plan) -> tuple[OpReport, ...]:
    """The ops of a step."""
    from podsim.training.op_reports import op_reports

    return op_reports(model, cluster, plan)


def assumptions(model: Model, cluster: Cluster, plan: Plan, *, default_batch: bool) -> tuple[str, ...]:
    """Sentences, the ones that matter most first."""
    software = load_software(plan.software, cluster.gpu, plan.precision)
    length = plan.length(model)
    said = [
        f"software: {software.title}; source: {software.source}" + _lacking(software),
        f"a step trains {plan.global_batch} sequences of {length} tokens"
        + (" (default: about four million tokens; --batch changes it)" if default_batch else ""),
        f"Adam with {plan.optimizer_precision} moments; weights and activations in {plan.precision}, "
        f"gradients kept at {software.gradient_memory:g} B and reduced at {software.gradient_bytes:g} B per parameter",
        f"memory floor of {format_quantity(software.memory_floor, 'B')} for context, libraries and communicators"
        + (
            f", and {format_quantity(software.reserved, 'B')} that the allocator holds beyond what is in use"
            if software.reserved
            else ""
        ),
        "GPUs of a job fill whole nodes, tensor-parallel groups first; no other job shares the fabric; "
        "data loading keeps up; nothing fails",
    ]
    if model.has_experts:
        imbalance = plan.imbalance or software.expert_imbalance
        said.append(f"the busiest expert rank gets {imbalance:g} times the mean number of tokens")
        if plan.capacity_factor:
            said.append(
                f"every expert computes room for {plan.capacity_factor:g} times the mean; what exceeds it is dropped, "
                "where loads fall exponentially from the busiest expert"
            )
    said += _of_schedule(plan)
    if cluster.gpu.kernels == "":
        said.append(
            f"no kernel of {cluster.gpu.name} was measured: its speed is scaled from the nearest GPU with data"
        )
    return tuple(said)


def changed(prediction: Prediction, options: PredictOptions | SearchOptions, plan: Plan) -> Prediction:
    """The prediction with what the user changed of model and cluster, and the step of the plan without that."""
    if not options.overrides:
        return prediction
    said = "changed: " + ", ".join(f"{key} = {value}" for key, value in options.overrides.items())
    try:
        model, cluster, _, _ = read_inputs(
            options.model, options.on, prediction.gpus, options.sequence, None, options.train
        )
        has_law = not cluster.gpu.streams_weights
        base = law_seconds(model, cluster, [plan.check(model, cluster)])[0] if has_law else None
    except PodsimError:  # the plan needs the change
        base = None
    if base is not None:
        base *= prediction.step_time / prediction.law_time
    return replace(prediction, unchanged_time=base, assumptions=(said, *prediction.assumptions))


def _lacking(software: Software) -> str:
    """What a search leaves out, because the framework has none of it."""
    lacks = [ABILITIES[name].title for name in software.lacks]
    return f"; it has no {', '.join(lacks)} (a search leaves these out)" if lacks else ""


def _of_schedule(plan: Plan) -> list[str]:
    """What a schedule brings that others do not."""
    name = str(plan.describe()["schedule"])
    said = []
    if not SCHEDULES[name].flush:
        said.append(
            f"{name} never drains the pipeline: gradients are applied to weights newer than made them"
        )
    if SCHEDULES[name].placement == "two ways":
        said.append(f"{name} trains each part of the model on two ranks of a pipeline")
    if name.startswith(("zb", "dualpipe")):
        said.append(
            "activations are kept until the gradient of the weights is made, not only that of the input"
        )
    return said


_UNEVEN = 3.0
"""factor between the memory of two stages from which the answer says so"""


def _has_runs(architecture: str, precision: str) -> bool:
    """Whether a run on a GPU family in operands of this width was measured."""
    wanted = (architecture.lower(), operand_bits(precision))
    return any((row.features.architecture, row.features.bits) == wanted for row in residuals())


def _beyond(run: FastestRun) -> str:
    """That a plan would be faster than the fastest comparable run."""
    return (
        f"faster than any comparable measured run: MFU {run.ratio * run.utilisation:.1%} by 6 x parameters; row "
        f"{run.id} reached {run.utilisation:.1%}, the best of {run.rows} ({run.basis})"
    )


def warnings(model: Model, prediction: Prediction, cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """What a reader should doubt."""
    software = load_software(plan.software, cluster.gpu, plan.precision)
    said = [*cluster.remarks]
    if prediction.correction and prediction.correction.changes:
        said.append(prediction.correction.changes)
    said += [
        f"{software.title} has no {title}: predicted as if it had" for title in lacking_titles(plan, software)
    ]
    if not _has_runs(cluster.gpu.architecture, plan.precision):
        family, precision = cluster.gpu.architecture, plan.precision
        captured = call("accuracy.bands_networks:runs_of_network", model.parameters, family, precision)
        nothing = f"not validated: no measured run on {family} in {precision}"
        said.append(captured or nothing)
    if prediction.faster_than is not None:
        said.append(_beyond(prediction.faster_than))
    most, least = (choose(stage.total for stage in prediction.stages) for choose in (max, min))
    if most > _UNEVEN * least:
        said.append(
            f"the fullest stage needs {most / least:.0f} times the memory of the emptiest: "
            f"{format_quantity(most, 'B')} and {format_quantity(least, 'B')}"
        )
    if prediction.fits and prediction.memory * (1 + MEMORY_ERROR) > prediction.memory_limit:
        left = prediction.memory_limit / prediction.memory - 1
        said.append(
            f"tight: it may fail, as one run in five needs {MEMORY_ERROR:.0%} more memory; {left:.1%} is left"
        )
    return tuple(said)
