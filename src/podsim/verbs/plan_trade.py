"""Plans by cost or energy of a step, over numbers of GPUs; fronts of time against both.

Fewer GPUs take longer and communicate less: the whole job's GPUs are tried, and halved as often as some plan fits. Of
each number every plan is weighed that could draw less energy than the fastest one.

Axes: X parts of a step, P plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from podsim.errors import NoFitError, PlanError
from podsim.fleet.power import BUSY_PARTS, cluster_power
from podsim.fleet.power_cost import find_offer, read_site
from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import SearchOptions
from podsim.results.expense import Offer, Trade, TradePoint
from podsim.results.prediction import Prediction, Ranked
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.search import SearchResult, search
from podsim.training.search_limits import read_limits
from podsim.training.step import SPLIT
from podsim.verbs.power import expense_of
from podsim.verbs.predict import describe
from podsim.workload.graph import Model

_FRONT = 40
"""plans of a front that are told"""


Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The subject of a search: a model, its part of a cluster, the fixed fields of its plans, and the options."""

    model: Model
    cluster: Cluster
    fixed: Plan
    options: SearchOptions
    default_batch: bool


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Plans of every number of GPUs, weighed."""

    ranked: tuple[Ranked, ...]
    trade: Trade
    evaluated: int
    fitting: int
    cut: dict[str, int]
    complete: bool


@dataclass(frozen=True, kw_only=True)
class _Lot:
    """Plans on one number of GPUs."""

    cluster: Cluster
    plans: Plan
    seconds_P: Array
    energy_P: Array
    """J. The energy of a step at the meter."""


def counts(cluster: Cluster, gpus: int) -> list[int]:
    """Numbers of GPUs to try: all, and halves that are whole nodes or parts of one."""
    numbers = [gpus]
    while numbers[-1] % 2 == 0:
        half = numbers[-1] // 2
        if half > cluster.gpus_per_node and half % cluster.gpus_per_node:
            break
        numbers.append(half)
    return numbers


def weigh(case: Case, progress: Progress | None) -> Weighed:
    """The best plans by cost or energy, each layout once, and the fronts; NoFitError where no plan fits on any number."""
    model, cluster, options = case.model, case.cluster, case.options
    gpus = cluster.gpus
    site = read_site(options.pue, None, None)
    offer = find_offer(str(options.price), cluster, site) if options.price else None
    lots, refused, found_all = [], [], []
    for count in counts(cluster, gpus):
        part = cluster.subset(count)
        try:
            result = search(
                model,
                part,
                case.fixed,
                gpus=count,
                wanted=read_limits(options.limit, gpus),
                progress=progress,
            )
        except PlanError as error:
            refused += list(error.problems)
            continue
        found_all.append(result)
        if result.order.size == 0:
            break  # fewer GPUs have less memory
        lots.append(_lot(model, part, cluster, result, site.pue))
        if not result.complete:
            break
    if not lots:
        raise NoFitError([f"no plan on {gpus} GPUs or fewer fits the memory or is legal", *refused[:3]])
    trade = _trade(lots, offer)
    return Weighed(
        ranked=_ranked(case, lots, offer), trade=trade,
        evaluated=sum(result.evaluated for result in found_all), fitting=sum(f.order.size for f in found_all),
        cut=_summed(found_all), complete=all(result.complete for result in found_all),
    )  # fmt: skip


def _summed(results: list[SearchResult]) -> dict[str, int]:
    total: dict[str, int] = {}
    for result in results:
        for rule, number in result.cut.items():
            total[rule] = total.get(rule, 0) + number
    return total


def _lot(model: Model, cluster: Cluster, machine: Cluster, result: SearchResult, pue: float) -> _Lot:
    """Plans that may be the fastest or the leanest: a plan that takes longer than the fastest by more than the machine's
    draw can fall draws more energy."""
    least, most = (cluster_power(cluster, busy, within=machine) for busy in (0.0, 1.0))
    seconds = result.step_seconds.ravel()[result.order]
    near = result.order[: int(np.searchsorted(seconds, seconds[0] * most / least, side="right"))]
    flag, combination = np.divmod(near, result.memory_bytes.size)
    plans = result.combinations.take(combination).having(
        {"overlap_grad": result.flags[flag, 0], "overlap_param": result.flags[flag, 1]}
    )
    cost = step_cost(model, cluster, plans)
    busy_P = sum(cost.parts[SPLIT.index(name)] for name in BUSY_PARTS)
    energy_P = pue * (least * cost.seconds + (most - least) * busy_P)
    return _Lot(cluster=cluster, plans=plans.arrays(), seconds_P=cost.seconds, energy_P=np.asarray(energy_P))


def front(first: Array, second: Array) -> Array:
    """Positions that nothing beats in both values, by the first."""
    order = np.lexsort((second, first))
    best = np.minimum.accumulate(second[order])
    return np.asarray(order[np.concatenate([[True], second[order][1:] < best[:-1]])])


def _table(lots: list[_Lot], offer: Offer | None) -> tuple[Array, Array, Array, Array, Array]:
    """(seconds, energy, cost, lot, position) of all plans."""
    seconds = np.concatenate([lot.seconds_P for lot in lots])
    energy = np.concatenate([lot.energy_P for lot in lots])
    which = np.concatenate([np.full(lot.seconds_P.size, i) for i, lot in enumerate(lots)])
    position = np.concatenate([np.arange(lot.seconds_P.size) for lot in lots])
    gpus = np.array([lot.cluster.gpus for lot in lots])[which]
    return seconds, energy, seconds * gpus * (offer.low if offer else 0.0), which, position


def _trade(lots: list[_Lot], offer: Offer | None) -> Trade:
    seconds, energy, cost, which, position = _table(lots, offer)

    def points(order: Array) -> tuple[TradePoint, ...]:
        kept = order if order.size <= _FRONT else order[np.linspace(0, order.size - 1, _FRONT).astype(int)]
        return tuple(
            TradePoint(
                gpus=lots[which[i]].cluster.gpus, step_time=float(seconds[i]), energy=float(energy[i]),
                cost=float(cost[i]) if offer else None, plan=lots[which[i]].plans.take(int(position[i])).describe(),
            )
            for i in kept.tolist()
        )  # fmt: skip

    return Trade(
        time_cost=points(front(seconds, cost)) if offer else (), time_energy=points(front(seconds, energy)),
        offer=offer, tried=tuple(lot.cluster.gpus for lot in lots),
    )  # fmt: skip


def _ranked(case: Case, lots: list[_Lot], offer: Offer | None) -> tuple[Ranked, ...]:
    """The best plan of each layout by the objective, predicted in full with its expense."""
    options = case.options
    seconds, energy, cost, which, position = _table(lots, offer)
    wanted = cost if options.objective == "cost" else energy
    seen: dict[tuple[int, ...], int] = {}
    for i in np.lexsort((seconds, wanted)).tolist():
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
        expense = expense_of(
            prediction, lot.cluster, price=str(options.price), pue=options.pue, within=lots[0].cluster
        )
        prediction = replace(prediction, expense=expense)
        ranked.append(
            Ranked(
                rank=len(ranked) + 1,
                prediction=prediction,
                reason=_reason(prediction, ranked[0].prediction if ranked else None),
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
