"""The best plans of a search, ranked, each with its reason and its whole run: days with failures, energy, money."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import isclose
from typing import Any

from podsim.accuracy.measured_reach import calibrated_software
from podsim.accuracy.optimism import optimism_of
from podsim.accuracy.own_step import own_correction, read_measured
from podsim.accuracy.stated_prediction import changed, describe, with_software_ranges
from podsim.answers.prediction import ParetoPoint, PlanResult, Prediction, Ranked
from podsim.errors import NoFitError, PlanError
from podsim.fleet.power_cost import with_expense
from podsim.options.plan_options import SearchOptions
from podsim.options.question import Progress
from podsim.runs.plan_trade import weighed_plans
from podsim.runs.search_case import TRADES, Case, read_case
from podsim.simulation.refine import refine_ranking
from podsim.storage.long_runs import read_length, with_run
from podsim.training.plan import Plan, plan_command
from podsim.training.plan_values import FACTOR_FIELDS
from podsim.training.predict import predict_plans
from podsim.training.search import SearchResult
from podsim.training.search_limits import limit_words, read_limits
from podsim.training.search_order import (
    fastest_plans,
    first_of_each_layout,
    no_plan_fits,
    ranking_reason,
    tight_words,
    unusual_notes,
)
from podsim.training.weight_streaming import streamed_plans

_ORDERS: dict[str, Callable[[Prediction], tuple[float, float]]] = {
    "time": lambda plan: (plan.step_time, plan.memory),
    "memory": lambda plan: (plan.memory, plan.step_time),
}


def find_plans(options: SearchOptions, progress: Progress | None = None) -> tuple[Case, PlanResult]:
    """What was searched, and its best plans with their reasons; raises what `podsim.plan` raises.

    `progress` is called with (evaluated, all) combinations; Ctrl-C gives the best so far.
    """
    case, notes = read_case(options)
    if options.measured:
        case = _corrected_case(case, progress)
    if case.cluster.gpu.streams_weights:
        result = _streamed(case)
    else:
        result = (weighed_plans if options.objective in TRADES else _searched)(case, progress)
    return case, replace(result, arguments=_arguments(case), notes=(*notes, *result.notes))


def with_whole_runs(case: Case, result: PlanResult) -> PlanResult:
    """The plans with their commands, the days of their runs with failures, their energy and their money."""
    options, length = case.options, read_length(case.options, case.model)
    full = []
    for ranked in result.ranked:
        laid = Plan(**dict(ranked.prediction.plan))  # type: ignore[arg-type]
        prediction = changed(ranked.prediction, options, laid)
        prediction = replace(prediction, command=plan_command(options, laid, case.cluster))
        part = case.cluster.subset(prediction.gpus)
        prediction = with_run(prediction, case.model, part, laid, length)
        if options.objective not in TRADES:  # there, energy and money are those of a step
            prediction = with_expense(
                prediction, part, price=str(options.price), pue=options.pue, carbon=options.carbon
            )
        full.append(replace(ranked, prediction=prediction))
    return replace(result, ranked=tuple(full))


def _corrected_case(case: Case, progress: Progress | None) -> Case:
    """The case with the software that explains a measured step best, and with the correction by that step."""
    options, cluster = case.options, case.cluster
    seconds, fields = read_measured(options.measured)
    result = case.search(progress, fields=fields)
    if result.order.size == 0:
        raise NoFitError([no_plan_fits(result, cluster, cluster.gpus)])
    plan = result.plan(int(fastest_plans(result)[0]))
    names = {case.fixed.software}
    if not options.software:
        names |= set(calibrated_software(cluster.gpu.architecture))
    correction = own_correction(case.model, cluster, plan, seconds, sorted(names))
    return replace(case, fixed=case.fixed.having({"software": correction.software}), correction=correction)


def _arguments(case: Case) -> dict[str, Any]:
    """The content of an experiment file: the options, and the values that followed from them."""
    options, fixed = case.options, case.fixed
    asked = {
        name: value
        for name, value in (
            ("tokens", options.tokens),
            ("simulate", options.simulate),
            ("train", "" if options.train == "full" else options.train),
            ("measured", options.measured),
            ("price", options.price),
            ("days", options.days),
        )
        if value
    } | {name: value for name in ("pue", "headroom") if (value := getattr(options, name)) is not None}
    return {
        "model": str(options.model), "on": str(options.on), "gpus": case.cluster.gpus,
        "batch": int(fixed.global_batch), "sequence": case.model.sequence, "precision": fixed.precision,
        "optimizer_precision": options.optimizer_precision, "software": fixed.software,
        **{name: value for name in FACTOR_FIELDS if (value := getattr(options, name))},
        "objective": options.objective, "top": options.top, "limit": limit_words(options.limit),
        "overrides": dict(options.overrides or {}), **asked,
    }  # fmt: skip


def _searched(case: Case, progress: Progress | None) -> PlanResult:
    """The result of a search by time or memory."""
    cluster, started = case.cluster, time.perf_counter()
    result = case.search(progress)
    taken = time.perf_counter() - started
    if result.order.size == 0:
        raise NoFitError([no_plan_fits(result, cluster, cluster.gpus)])
    seconds = result.seconds_of(result.pareto) * (case.correction.factor if case.correction else 1.0)
    return PlanResult(
        **case.described, ranked=_ranking(case, result),
        pareto=tuple(
            ParetoPoint(step_time=step, memory=result.memory(i), plan=result.plan(i).describe())
            for i, step in zip(result.pareto.tolist(), seconds.tolist(), strict=True)
        ),
        evaluated=result.evaluated, fitting=result.fitting, cut=result.cut, seconds=taken,
        complete=result.complete,
        optimism=optimism_of(result) if case.options.objective == "time" and not case.correction else None,
        notes=unusual_notes(result, case.model, cluster) if case.options.objective == "time" else (),
    )  # fmt: skip


def _streamed(case: Case) -> PlanResult:
    """The result of a search on wafers: data parallel over all systems, with every micro-batch and recomputation."""
    model, cluster, started = case.model, case.cluster, time.perf_counter()
    if case.options.objective in TRADES:
        raise PlanError(
            [
                f"objective={case.options.objective}: wafers are searched by time or memory; every plan takes all systems"
            ]
        )
    plans = streamed_plans(model, cluster, case.fixed, read_limits(case.options.limit, cluster.gpus))
    law = [describe(model, cluster, plan, default_batch=case.default_batch) for plan in plans]
    order = sorted((plan for plan in law if plan.fits), key=_ORDERS[case.options.objective])
    if not order:
        least = min(law, key=lambda plan: plan.memory)
        raise NoFitError(
            [
                f"{least.memory / 1e9:.1f} GB at least on a wafer of {least.memory_limit / 1e9:.1f} GB: take more systems"
            ]
        )
    front = [plan for at, plan in enumerate(order) if all(plan.memory < best.memory for best in order[:at])]
    ranked = tuple(
        Ranked(rank=index + 1, prediction=plan, reason=ranking_reason(plan, order[0], index))
        for index, plan in enumerate(order[: case.options.top])
    )
    return PlanResult(
        **case.described, ranked=ranked,
        pareto=tuple(ParetoPoint(step_time=e.step_time, memory=e.memory, plan=e.plan) for e in front),
        evaluated=len(law), fitting=len(order), cut={}, seconds=time.perf_counter() - started, complete=True,
    )  # fmt: skip


def _ranking(case: Case, result: SearchResult) -> tuple[Ranked, ...]:
    """The best plan of each layout, in order, predicted in full; the prediction must say what the search said.

    A tight plan that is faster than the first is the last of the ranking.
    """
    model, cluster, options = case.model, case.cluster, case.options
    order = fastest_plans(result) if options.objective == "time" else result.pareto[::-1]
    predictions: list[Prediction] = []
    positions = first_of_each_layout(result, order, options.top)
    fastest = int(result.order[0])
    if (
        options.objective == "time"
        and result.memory(fastest) > result.roomy_bytes
        and fastest != positions[0]
    ):
        positions = [*positions[: max(options.top - 1, 1)], fastest][: options.top]
    plans = [result.plan(position) for position in positions]
    laws = predict_plans([(model, cluster, plan) for plan in plans])
    for position, plan, law in zip(positions, plans, laws, strict=True):
        prediction = describe(
            model, cluster, plan, detail="" if predictions else options.detail,
            default_batch=case.default_batch, correction=case.correction, law=law,
        )  # fmt: skip
        assert isclose(prediction.law_time, result.seconds(position), rel_tol=1e-6), (
            prediction.plan,
            result.seconds(position),
        )
        assert isclose(prediction.memory, result.memory(position), rel_tol=1e-6), (
            prediction.plan,
            result.memory(position),
        )
        predictions.append(prediction)
    predictions = with_software_ranges(model, cluster, list(zip(plans, predictions, strict=True)))
    ranked = tuple(
        Ranked(
            rank=index + 1,
            prediction=prediction,
            reason=tight_words(prediction, result) + ranking_reason(prediction, predictions[0], index),
            is_tight=prediction.memory > result.roomy_bytes,
        )
        for index, prediction in enumerate(predictions)
    )
    if not options.simulate:
        return ranked
    return refine_ranking(model, cluster, ranked, plans)
