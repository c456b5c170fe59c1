"""The best way to serve a load within limits of latency: thousands of candidates priced, the best 20 simulated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from podsim.answers.best_serving import BestServing, FrontPoint, ServingWay
from podsim.answers.expense import Offer
from podsim.errors import NoFitError, PlanError, raise_all
from podsim.hardware.cluster import Cluster
from podsim.serving.best_layouts import Choices, Layout, fitting_layouts, plans_of
from podsim.serving.best_search import (
    Candidates,
    Objective,
    best_rows,
    fewest_gpus,
    front_points,
    joined,
    one_pool,
    pinned,
    split_pools,
    way_of,
)
from podsim.serving.best_simulated import Outcome, estimate_of, pool_of, sampled, simulate_way
from podsim.serving.best_words import brief_words, short_words, way_words
from podsim.serving.load.request_table import RequestTable
from podsim.serving.measured_points import PredictedServer, bands_of, measured_points
from podsim.serving.plan_rules import check_plan
from podsim.serving.serving_limits import least_by_layouts, least_latencies, shortage
from podsim.serving.serving_plan import WEIGHT_FORMATS, ServingPlan
from podsim.serving.steady_load import Workload
from podsim.units import format_quantity
from podsim.workload.model import Model

SIMULATED = 20
"""candidates that are simulated"""
HOUR = 3600.0
_DEGREES = {"tensor": "tp", "pipeline": "pp", "expert": "ep", "data_attention": "attention_dp"}


@dataclass(frozen=True, kw_only=True)
class ServingCase:
    """What is searched."""

    model: Model
    cluster: Cluster
    load: Workload
    requests: RequestTable
    objective: Objective
    choices: Choices
    offer: Offer | None
    """The price of a GPU."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Search:
    """The candidates of a case in closed form."""

    layouts: list[Layout]
    candidates: Candidates
    fewest: int
    """count. The fewest GPUs that keep the objective; 0 if none do."""
    notes: tuple[str, ...]


def search_best(case: ServingCase) -> BestServing:
    """The best ways to serve a case.

    Raises NoFitError for a model that fits in no way, and for limits below what is physically possible.
    """
    started = time.perf_counter()
    search = _priced(case, case.choices)
    least = _checked_limits(case, search.layouts)
    rows = best_rows(search.candidates, case.objective, case.cluster.gpus, SIMULATED)
    ways = _ranked(case, [_way(case, search, row) for row in rows])
    fewest = search.fewest
    if kept := [way.gpus for way in ways if way.keeps]:
        fewest = min([*kept, *([fewest] if fewest else [])])
    return BestServing(
        model=case.model.name, cluster=case.cluster.name, gpus=case.cluster.gpus, rate=case.load.rate,
        input_tokens=case.load.input_tokens, output_tokens=case.load.output_tokens, source=case.requests.source,
        first_limit=_finite(case.objective.first), each_limit=_finite(case.objective.each),
        percentile=case.objective.percentile, ways=ways, front=_front(case, search.layouts), fewest=fewest,
        candidates=len(search.candidates), simulated=len(rows), requests=len(case.requests), least=least,
        price=case.offer.words if case.offer else "", other_format=_other_format(case, fewest),
        notes=(*case.notes, *search.notes, *([case.offer.origin] if case.offer else [])),
        measured=measured_points(PredictedServer(
            case.model.name, case.cluster.gpu.name, ways[0].plan, case.load.input_tokens, case.load.output_tokens,
            ways[0].tokens_per_user,
        )) if ways else (),
        bands=bands_of(ways[0].plan, is_split=ways[0].prefill is not None) if ways else {},
        longest=int((case.requests.input_tokens + case.requests.output_tokens).max()),
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def _finite(limit: float) -> float | None:
    return limit if np.isfinite(limit) else None


def _priced(case: ServingCase, choices: Choices) -> _Search:
    """All candidates of some choices. Raises NoFitError where no layout fits."""
    plans = list(plans_of(case.model, case.cluster, choices))
    if not plans:
        raise _no_plan(case, choices)
    layouts, reasons = fitting_layouts(case.model, case.cluster, plans, case.load)
    if not layouts:
        if not any("before any sequence" in reason or "hold no sequence" in reason for reason in reasons):
            raise PlanError(list(dict.fromkeys(reasons))[:3])
        raise shortage(case.model, case.cluster, choices, WEIGHT_FORMATS)
    together, beyond = one_pool(layouts, case.load, case.objective, case.cluster.gpus)
    link = _link_rate(case.cluster)
    split = (
        split_pools(layouts, case.load, case.objective, case.cluster.gpus, link)
        if choices.is_split and case.cluster.gpu.fraction == 1
        else None
    )
    candidates = pinned(joined([together, *([] if split is None else [split])]), choices.pins)
    count = len(layouts) + len(reasons)
    few = [count for count in (fewest_gpus(candidates, case.objective), beyond) if count]
    fewest = min(few, default=0)
    notes = (f"{len(reasons)} of {count} layouts do not fit or cannot run",) if reasons else ()
    return _Search(layouts=layouts, candidates=candidates, notes=notes, fewest=fewest)


def _no_plan(case: ServingCase, choices: Choices) -> PlanError:
    """Why no layout has the user's degrees."""
    degrees: dict[str, Any] = {name: value for name, value in choices.pins.items() if name in _DEGREES}
    plan = replace(ServingPlan(engine=choices.engines[0]), **{"tensor": degrees.get("expert", 1), **degrees})
    try:
        check_plan(case.model, case.cluster, plan)
    except PlanError as problem:
        return problem
    words = ", ".join(f"{_DEGREES[name]}={value}" for name, value in degrees.items())
    return PlanError(
        [f"{words}: the search tries powers of two, and experts over all GPUs of a stage or one"]
    )


def _link_rate(cluster: Cluster) -> float:
    """B/s. The bandwidth of a GPU to others: inside a node, or to other nodes where there are several."""
    inside = cluster.nvlink.bandwidth
    return inside if cluster.nodes == 1 else min(inside, cluster.node_bandwidth / cluster.gpus_per_node)


def _checked_limits(case: ServingCase, layouts: Sequence[Layout]) -> dict[str, float]:
    """s. The least possible latencies. Raises NoFitError where a limit lies below them."""
    drafted = max(layout.plan.draft_tokens for layout in layouts)
    formats = [layout.plan.precision for layout in layouts]
    bounds = [
        least_latencies(case.model, case.cluster, name, case.load, drafted) for name in dict.fromkeys(formats)
    ]
    first, each = min(bounds, key=lambda least: least.first), min(bounds, key=lambda least: least.each)
    reached = least_by_layouts(layouts, case.load)
    problems = [
        f"--{name} {format_quantity(limit, 's')} is below the roofline: {law} take {format_quantity(least, 's')}"
        f" (the fastest layout: {format_quantity(model, 's', digits=3)})"
        for name, limit, least, law, model in (
            ("ttft", case.objective.first, first.first, first.first_law, reached[0]),
            ("tpot", case.objective.each, each.each, each.each_law, reached[1]),
        )
        if limit < least
    ]
    raise_all(problems, NoFitError)
    return {"first": first.first, "each": each.each, "first_model": reached[0], "each_model": reached[1]}


def _way(case: ServingCase, search: _Search, row: int) -> ServingWay:
    """A candidate, simulated."""
    candidates, layouts = search.candidates, search.layouts
    way = way_of(layouts, candidates, row)
    reading = layouts[candidates.prefill[row]] if way.prefill is not None else None
    part, requests = sampled(way, case.requests)
    pool = pool_of(part, reading, layouts[candidates.layout[row]], case.cluster)
    outcome = simulate_way(pool, requests, case.objective)
    tokens = case.load.rate * case.load.output_tokens
    cost = None if case.offer is None else case.offer.low * way.gpus / tokens * 1e6
    return ServingWay(
        rank=0, plan=asdict(way.plan), prefill=None if way.prefill is None else asdict(way.prefill), gpus=way.gpus,
        words=way_words(way), brief=brief_words(way), first=outcome.first, each=outcome.each, end=outcome.end,
        met=outcome.met, keeps=_keeps(case, outcome), rate=outcome.rate, capacity=float(candidates.capacity[row]),
        tokens_per_gpu=tokens / way.gpus, tokens_per_user=1 / outcome.each["mean"], cost=cost, limits=outcome.limits,
        estimate=estimate_of(candidates, row),
    )  # fmt: skip


def _keeps(case: ServingCase, outcome: Outcome) -> bool:
    name = f"p{case.objective.percentile}"
    return bool(case.objective.pressure(np.array(outcome.first[name]), np.array(outcome.each[name])) <= 1)


def _ranked(case: ServingCase, ways: Sequence[ServingWay]) -> tuple[ServingWay, ...]:
    """Ways that keep the limits first, by GPUs and then by how far they stay from the limits."""
    name = f"p{case.objective.percentile}"

    def order(way: ServingWay) -> tuple[bool, float, float]:
        near = float(case.objective.pressure(np.array(way.first[name]), np.array(way.each[name])))
        return not way.keeps, way.gpus if way.keeps else 0.0, near

    return tuple(replace(way, rank=rank) for rank, way in enumerate(sorted(ways, key=order), 1))


def _front(case: ServingCase, layouts: Sequence[Layout]) -> tuple[FrontPoint, ...]:
    user, each, number, active = front_points(layouts, case.load)
    return tuple(
        FrontPoint(
            user=float(user[row]), gpu=float(each[row]), words=short_words(layouts[number[row]].plan),
            sequences=float(active[row]), gpus=layouts[number[row]].plan.gpus,
        )
        for row in range(len(user))
    )  # fmt: skip


def _other_format(case: ServingCase, fewest: int) -> str:
    """What weights of 8 bits would give, where those of the case have 16."""
    if any(weights not in ("fp16", "bf16") for weights, _ in case.choices.formats):
        return ""
    other = next((name for name in ("fp8", "int8") if name in case.cluster.gpu.peaks), "")
    if not other:
        return ""
    caches = ("fp16", "fp8") if other == "fp8" else ("fp16",)
    try:
        search = _priced(case, replace(case.choices, formats=tuple((other, cache) for cache in caches)))
    except PlanError:
        return ""
    gpus = search.fewest
    if not gpus or (fewest and gpus >= fewest):
        return ""
    than = f" instead of {fewest}" if fewest else ""
    return f"with {other} weights {gpus} GPU{'s' if gpus > 1 else ''}{than} would do (--precision {other})"
