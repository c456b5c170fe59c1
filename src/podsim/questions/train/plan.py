"""`podsim plan`: the best ways to train a model on a cluster, found among every legal plan, with the reason for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

from podsim.accuracy.assumptions import changed
from podsim.accuracy.measured_reach import calibrated_software, stated_seconds
from podsim.accuracy.own_step import own_correction, read_measured
from podsim.accuracy.stated_prediction import describe
from podsim.answers.minutes import TargetPlan
from podsim.answers.prediction import ParetoPoint, PlanResult, Prediction, Ranked
from podsim.errors import NoFitError, PlanError, PodsimError
from podsim.fleet.expense import with_expense
from podsim.launching.experiment_file import check_saving, read_experiment, save_plans, texts_of_tools
from podsim.launching.plan_command import plan_command
from podsim.launching.plan_file import with_plan
from podsim.options.fleet_options import SavedJobOptions
from podsim.options.plan_options import PlanOptions, ReplayOptions, SearchOptions, TargetOptions
from podsim.options.question import question, values_of, wrong_choices
from podsim.runs.plan_trade import Case, Progress, weigh
from podsim.simulation.refine import refine_ranking
from podsim.storage.long_runs import Job, read_tokens
from podsim.storage.run_length import read_length, with_run
from podsim.training.job_inputs import batch_of, read_inputs, refuse_tables
from podsim.training.plan import Plan, precision_of, read_plan, software_of
from podsim.training.search import SearchResult, search
from podsim.training.search_order import fastest_plans, first_of_each_layout, no_plan_fits, ranking_reason
from podsim.training.search_space import read_limits, spelled
from podsim.training.weight_streaming import streamed_plans

_TRADES = ("cost", "energy")
_ORDERS: dict[str, Callable[[Prediction], tuple[float, float]]] = {
    "time": lambda each: (each.step_time, each.memory),
    "memory": lambda each: (each.memory, each.step_time),
}


@question(SearchOptions)
def plan(options: SearchOptions, *, progress: Progress | None = None) -> PlanResult:
    """Search every legal plan of a model on a cluster; rank the best layouts, each with its reason.

    The ranking shows one plan for each layout (tp, pp, cp, ep, dp): the fastest, or with objective="memory" the one
    that needs least memory. By cost (of a step, at a price) and by energy, `gpus` and its halves are searched, and
    the fronts of time against both are given. A limit may be a list of values: {"tp": (4, 8)}; all other fields are
    searched. With `simulate`, the result also says where simulation and closed form disagree. `progress` is called
    with (evaluated, all) combinations; Ctrl-C gives the best so far. Raises NoFitError when no plan fits, saying by
    how much, PlanError when none is legal, and PodsimError for anything unusable.
    """
    if options.save is not None or options.launch:
        check_saving(options.save, options.launch)
    case, notes = read_case(options)
    options = case.options
    if options.measured:
        case = _corrected_case(case, progress)
    if case.cluster.gpu.streams_weights:
        result = _streamed(case)
    else:
        result = (_weighed if options.objective in _TRADES else _searched)(case, progress)
    result = replace(result, arguments=_arguments(case), notes=notes)
    result = replace(result, ranked=_whole_runs(case, result.ranked))
    if options.save is not None:
        save_plans(result, Path(options.save), texts_of_tools(case.model, case.cluster, options, result))
    return result


@question(TargetOptions)
def plan_or_target(options: TargetOptions, *, progress: Progress | None = None) -> PlanResult | TargetPlan:
    """The best plans, or with `to_target` the best batch and GPUs of a benchmark.

    Raises what `plan` raises.
    """
    refuse_tables(options, options.model)
    if options.to_target:
        from podsim.runs.plan_target import (
            plan_target,  # it costs networks of all kinds, which no other plan needs
        )

        return plan_target(options, progress)
    if options.round:
        raise PodsimError("round: a round of MLPerf Training goes with --to-target")
    return plan(**values_of(options, TargetOptions, SearchOptions), progress=progress)


def _whole_runs(case: Case, ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """The plans with their commands, the days of their runs with failures, their energy and their money."""
    options, length = case.options, read_length(case.options, case.model)
    full = []
    for each in ranked:
        prediction = changed(each.prediction, options.overrides)
        laid = Plan(**dict(prediction.plan))  # type: ignore[arg-type]
        prediction = replace(prediction, command=plan_command(options, laid, case.cluster))
        part = case.cluster.subset(prediction.gpus)
        prediction = with_run(prediction, case.model, part, laid, length)
        if options.objective not in _TRADES:  # there, energy and money are those of a step
            prediction = with_expense(
                prediction, part, price=str(options.price), pue=options.pue, carbon=options.carbon
            )
        full.append(replace(each, prediction=prediction))
    return tuple(full)


def read_case(options: SearchOptions) -> tuple[Case, tuple[str, ...]]:
    """What is searched, and what was taken where the user left it open: model, cluster, fields that no search chooses."""
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    options = replace(options, price=str(options.price), tokens=tokens)
    _check(options)
    network, cluster, count, notes = read_inputs(
        options.model, options.on, options.gpus, options.sequence, options.overrides, options.train
    )
    software = software_of(options.software, cluster.gpu)
    sequences, default = batch_of(options.batch, network.sequence, count)
    fixed = Plan(
        global_batch=sequences, precision=precision_of(options.precision, cluster),
        optimizer_precision=options.optimizer_precision, software=software, sequence=network.sequence,
        capacity_factor=options.capacity_factor, imbalance=options.imbalance,
        flash=cluster.gpu.has_fused_attention,
    ).check(network, cluster)  # fmt: skip
    case = Case(model=network, cluster=cluster, fixed=fixed, options=options, default_batch=default)
    return case, notes


def _corrected_case(case: Case, progress: Progress | None) -> Case:
    """The case with the software that explains a measured step best, and with the correction by that step."""
    options, cluster = case.options, case.cluster
    seconds, fields = read_measured(options.measured)
    wanted = read_limits({**(options.limit or {}), **fields}, cluster.gpus)
    result = search(
        case.model,
        cluster,
        case.fixed,
        gpus=cluster.gpus,
        wanted=wanted,
        progress=progress,
        jobs=options.jobs,
    )
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
    } | ({} if options.pue is None else {"pue": options.pue})
    return {
        "model": str(options.model), "on": str(options.on), "gpus": case.cluster.gpus,
        "batch": int(fixed.global_batch), "sequence": case.model.sequence, "precision": fixed.precision,
        "optimizer_precision": options.optimizer_precision, "software": fixed.software,
        **{name: value for name in ("capacity_factor", "imbalance") if (value := getattr(options, name))},
        "objective": options.objective, "top": options.top, "limit": spelled(options.limit),
        "overrides": dict(options.overrides or {}), **asked,
    }  # fmt: skip


@question(ReplayOptions)
def replay(options: ReplayOptions, *, progress: Progress | None = None) -> PlanResult:
    """Run the search of an experiment file that `plan` saved; raises what `plan` does."""
    return plan(
        **read_experiment(Path(options.experiment)),
        save=options.save,
        detail=options.detail,
        progress=progress,
    )


def _searched(case: Case, progress: Progress | None) -> PlanResult:
    """The result of a search by time or memory."""
    model, cluster, fixed = case.model, case.cluster, case.fixed
    gpus = cluster.gpus
    started = time.perf_counter()
    result = search(
        model,
        cluster,
        fixed,
        gpus=gpus,
        wanted=read_limits(case.options.limit, gpus),
        progress=progress,
        jobs=case.options.jobs,
    )
    taken = time.perf_counter() - started
    if result.order.size == 0:
        raise NoFitError([no_plan_fits(result, cluster, gpus)])
    law = result.seconds_of(result.pareto)
    own = case.correction
    stated = stated_seconds(model, cluster, fixed, law) if own is None else law * own.factor
    return PlanResult(
        model=model.name, cluster=cluster.name, gpus=gpus, batch=int(fixed.global_batch), sequence=model.sequence,
        ranked=_ranking(case, result),
        pareto=tuple(
            ParetoPoint(step_time=seconds, memory=result.memory(i), plan=result.plan(i).describe())
            for i, seconds in zip(result.pareto.tolist(), stated.tolist(), strict=True)
        ),
        evaluated=result.evaluated, fitting=result.fitting, cut=result.cut, seconds=taken,
        complete=result.complete, arguments={},
    )  # fmt: skip


def _streamed(case: Case) -> PlanResult:
    """The result of a search on wafers: data parallel over all systems, with every micro-batch and recomputation."""
    model, cluster, started = case.model, case.cluster, time.perf_counter()
    if case.options.objective in _TRADES:
        raise PlanError(
            [
                f"objective={case.options.objective}: wafers are searched by time or memory; every plan takes all systems"
            ]
        )
    plans = streamed_plans(model, cluster, case.fixed, read_limits(case.options.limit, cluster.gpus))
    law = [describe(model, cluster, plan, default_batch=case.default_batch) for plan in plans]
    order = sorted((each for each in law if each.fits), key=_ORDERS[case.options.objective])
    if not order:
        least = min(law, key=lambda each: each.memory)
        raise NoFitError(
            [
                f"{least.memory / 1e9:.1f} GB at least on a wafer of {least.memory_limit / 1e9:.1f} GB: take more systems"
            ]
        )
    front = [each for at, each in enumerate(order) if all(each.memory < best.memory for best in order[:at])]
    ranked = tuple(
        Ranked(rank=index + 1, prediction=each, reason=ranking_reason(each, order[0], index))
        for index, each in enumerate(order[: case.options.top])
    )
    return PlanResult(
        model=model.name, cluster=cluster.name, gpus=cluster.gpus, batch=int(case.fixed.global_batch),
        sequence=model.sequence, ranked=ranked,
        pareto=tuple(ParetoPoint(step_time=e.step_time, memory=e.memory, plan=e.plan) for e in front),
        evaluated=len(law), fitting=len(order), cut={}, seconds=time.perf_counter() - started, complete=True,
        arguments={},
    )  # fmt: skip


def _weighed(case: Case, progress: Progress | None) -> PlanResult:
    """The result of a search by cost or energy."""
    started = time.perf_counter()
    result = weigh(case, progress)
    return PlanResult(
        model=case.model.name, cluster=case.cluster.name, gpus=case.cluster.gpus,
        batch=int(case.fixed.global_batch), sequence=case.model.sequence, ranked=result.ranked, pareto=(),
        evaluated=result.evaluated, fitting=result.fitting, cut=result.cut, seconds=time.perf_counter() - started,
        complete=result.complete, arguments={},
        trade=result.trade,
    )  # fmt: skip


def _check(options: SearchOptions) -> None:
    """Raise PlanError with all that is wrong of the options that name no model and no cluster."""
    objective, top, price = options.objective, options.top, options.price
    problems = wrong_choices(options, "objective", "detail")
    if not isinstance(top, int) or not 1 <= top <= 1000:
        problems.append(f"top={top}: between 1 and 1000 plans can be shown")
    if not isinstance(options.jobs, int) or not 0 <= options.jobs <= 1024:
        problems.append(f"jobs={options.jobs}: a search has 1 to 1024 threads, or 0 for one a processor")
    if objective == "cost" and not price:
        problems.append(
            "objective=cost needs a price: a name that `podsim cost` lists, or USD for a GPU and an hour"
        )
    if objective in _TRADES and (options.simulate or options.measured):
        problems.append(f"simulate and measured go with objective time or memory, not with {objective}")
    if problems:
        raise PlanError(problems)


def _ranking(case: Case, result: SearchResult) -> tuple[Ranked, ...]:
    """The best plan of each layout, in order, predicted in full; the prediction must say what the search said."""
    model, cluster, options = case.model, case.cluster, case.options
    order = fastest_plans(result) if options.objective == "time" else result.pareto[::-1]
    predictions: list[Prediction] = []
    positions = first_of_each_layout(result, order.tolist(), options.top)
    for position in positions:
        prediction = describe(
            model, cluster, result.plan(position), detail="" if predictions else options.detail,
            default_batch=case.default_batch, correction=case.correction,
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
    ranked = tuple(
        Ranked(
            rank=index + 1, prediction=prediction, reason=ranking_reason(prediction, predictions[0], index)
        )
        for index, prediction in enumerate(predictions)
    )
    if not options.simulate:
        return ranked
    return refine_ranking(model, cluster, ranked, [result.plan(position) for position in positions])


def best_job(options: SavedJobOptions) -> Job:
    """The plan of the file `plan`, or the fastest that fits within the limits; raises what `podsim plan` raises."""
    if options.plan:
        if options.limit:
            raise PodsimError("limit restricts a search, and plan names a file with a plan; give one of them")
        return _filed_job(options)
    result = plan(**values_of(options, SavedJobOptions, SearchOptions), top=1)
    network, cluster, *_ = read_inputs(
        options.model, options.on, result.gpus, options.sequence, options.overrides, options.train
    )
    prediction = result.ranked[0].prediction
    return Job(model=network, cluster=cluster, plan=Plan(**dict(prediction.plan)), prediction=prediction)  # type: ignore[arg-type]


def _filed_job(options: SavedJobOptions) -> Job:
    """The plan of the file `plan`, with what the options change of it; NoFitError if it does not fit."""
    said = {name: value for name, value in values_of(options, SavedJobOptions, PlanOptions).items() if value}
    setting = read_plan(PlanOptions(**with_plan(PlanOptions, {**said, "plan": options.plan})))
    prediction = describe(setting.model, setting.cluster, setting.plan, default_batch=setting.default_batch)
    if not prediction.fits:
        need, room = prediction.memory / 1e9, prediction.memory_limit / 1e9
        raise NoFitError([f"the plan needs {need:.1f} GB on its fullest stage, a GPU has {room:.1f} GB"])
    part = setting.cluster.subset(prediction.gpus)
    return Job(model=setting.model, cluster=part, plan=setting.plan, prediction=prediction)
