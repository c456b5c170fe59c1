"""Plans by cost or energy of a step, over numbers of GPUs; fronts of time against both.

Fewer GPUs take longer and communicate less: the whole job's GPUs are tried, and halved as often as some plan fits. Of
each number every plan is weighed that could draw less energy than the fastest one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from podsim.accuracy.stated_prediction import describe
from podsim.answers.expense import Offer
from podsim.answers.prediction import PlanResult, Prediction, Ranked
from podsim.errors import NoFitError, PlanError
from podsim.fleet.plan_lots import PlanLot, gpu_counts, lot_table, make_lot, make_trade
from podsim.fleet.power_cost import expense_of
from podsim.fleet.price_offers import price_offer
from podsim.fleet.site import read_site
from podsim.options.question import Progress
from podsim.runs.search_case import Case


def weighed_plans(case: Case, progress: Progress | None) -> PlanResult:
    """The best plans by cost or energy, each layout once, and the fronts; NoFitError where no plan fits on any number."""
    started = time.perf_counter()
    model, cluster, options = case.model, case.cluster, case.options
    gpus = cluster.gpus
    site = read_site(options.pue, None, None)
    offer = price_offer(str(options.price), cluster, site, objective=options.objective)
    lots, refused, found_all = [], [], []
    for count in gpu_counts(cluster, gpus):
        part = cluster.subset(count)
        try:
            result = case.search(progress, cluster=part, every=True)
        except PlanError as error:
            refused += list(error.problems)
            continue
        found_all.append(result)
        if result.order.size == 0:
            break  # fewer GPUs have less memory
        lots.append(make_lot(model, part, result, site.pue))
        if not result.complete:
            break
    if not lots:
        raise NoFitError([f"no plan on {gpus} GPUs or fewer fits the memory or is legal", *refused[:3]])
    trade, cut = make_trade(lots, offer), Counter[str]()
    for result in found_all:
        cut.update(result.cut)
    return PlanResult(
        **case.described, ranked=_ranked(case, lots, offer), pareto=(), trade=trade,
        evaluated=sum(result.evaluated for result in found_all), fitting=sum(result.fitting for result in found_all),
        cut=cut, seconds=time.perf_counter() - started,
        complete=all(result.complete for result in found_all),
    )  # fmt: skip


def _ranked(case: Case, lots: list[PlanLot], offer: Offer | None) -> tuple[Ranked, ...]:
    """The best plan of each layout by the objective, predicted in full with its expense."""
    options = case.options
    seconds, energy, cost, which, position = lot_table(lots, offer)
    wanted = cost if options.objective == "cost" else energy
    seen: dict[tuple[int, ...], int] = {}
    tight = np.concatenate([lot.is_tight for lot in lots])
    for i in np.lexsort((seconds, wanted, tight)).tolist():
        plan = lots[which[i]].plans.take(int(position[i]))
        seen.setdefault(tuple(int(getattr(plan, name)) for name in ("tp", "pp", "cp", "ep", "dp")), i)
        if len(seen) == options.top:
            break
    ranked: list[Ranked] = []
    for i in seen.values():
        lot = lots[which[i]]
        prediction = describe(
            case.model, lot.cluster, lot.plans.take(int(position[i])), default_batch=case.default_batch,
            detail="" if ranked else options.detail,
        )  # fmt: skip
        assert np.isclose(prediction.step_time, seconds[i], rtol=1e-6), (prediction.plan, seconds[i])
        expense = expense_of(prediction, lot.cluster, price=str(options.price), pue=options.pue)
        prediction = replace(prediction, expense=expense)
        ranked.append(
            Ranked(
                rank=len(ranked) + 1,
                prediction=prediction,
                reason="tight: " * bool(tight[i])
                + _reason(prediction, ranked[0].prediction if ranked else None),
                is_tight=bool(tight[i]),
            )
        )
    return tuple(ranked)


def _reason(prediction: Prediction, best: Prediction | None) -> str:
    """Energy and cost of a step, and how they stand to the first plan's."""
    expense: Any = prediction.expense
    money = f", {expense.low:,.4g} USD" if expense.offer else ""
    expenses = f"{prediction.gpus} GPUs, {expense.energy / 3.6e6:,.4g} kWh{money} a step"
    if best is None:
        return f"{expenses}; {prediction.bottleneck}"
    first: Any = best.expense
    slower, more = prediction.step_time / best.step_time - 1, expense.energy / first.energy - 1
    dearer = f", {expense.low / first.low - 1:+.1%} cost" if expense.offer else ""
    return f"{expenses}: {slower:+.1%} time, {more:+.1%} energy{dearer}"
