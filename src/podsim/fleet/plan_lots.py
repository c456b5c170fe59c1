"""Plans on parts of a cluster, weighed by time, energy and cost."""

from __future__ import annotations

import numpy as np

from podsim.answers.expense import Offer, Trade, TradePoint
from podsim.axes import Shaped
from podsim.fleet.power import BUSY_PARTS, cluster_power
from podsim.hardware.cluster import Cluster
from podsim.records import dataclass
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.search import SearchResult
from podsim.training.step import SPLIT
from podsim.workload.model import Model

_FRONT = 40
"""The number of plans of a front that are shown."""


@dataclass(frozen=True, kw_only=True)
class PlanLot:
    """Plans on one number of GPUs."""

    cluster: Cluster
    plans: Plan
    seconds: Shaped[Array, "plan"]
    energy: Shaped[Array, "plan"]
    """J. The energy of a step at the meter."""
    is_tight: Shaped[Array, "plan"]
    """Whether the memory of each leaves less than the headroom."""


def gpu_counts(cluster: Cluster, gpus: int) -> list[int]:
    """Numbers of GPUs to try: all, and halves that are whole nodes or parts of one."""
    numbers = [gpus]
    while numbers[-1] % 2 == 0:
        half = numbers[-1] // 2
        if half > cluster.gpus_per_node and half % cluster.gpus_per_node:
            break
        numbers.append(half)
    return numbers


def make_lot(model: Model, cluster: Cluster, result: SearchResult, pue: float) -> PlanLot:
    """Plans that may be the fastest or the leanest: a plan that takes longer than the fastest by more than the machine's
    draw can fall draws more energy."""
    least, most = (cluster_power(cluster, busy) for busy in (0.0, 1.0))
    seconds = result.seconds_of(result.order)
    fastest = float(result.seconds_of(result.roomy_first()[0][:1])[0])
    near = result.order[: int(np.searchsorted(seconds, fastest * most / least, side="right"))]
    flag, combination = np.divmod(near, result.memory_bytes.size)
    plans = result.combinations.take(combination).having(
        {"overlap_grad": result.flags[flag, 0], "overlap_param": result.flags[flag, 1]}
    )
    cost = step_cost(model, cluster, plans)
    busy_seconds = sum(cost.parts[SPLIT.index(name)] for name in BUSY_PARTS)
    energy = pue * (least * cost.seconds + (most - least) * busy_seconds)
    return PlanLot(
        cluster=cluster, plans=plans.arrays(), seconds=cost.seconds, energy=np.asarray(energy),
        is_tight=result.memory_bytes[combination] > result.roomy_bytes,
    )  # fmt: skip


def front(first: Array, second: Array) -> Array:
    """Positions that nothing beats in both values, by the first."""
    order = np.lexsort((second, first))
    best = np.minimum.accumulate(second[order])
    return np.asarray(order[np.concatenate([[True], second[order][1:] < best[:-1]])])


def lot_table(lots: list[PlanLot], offer: Offer | None) -> tuple[Array, Array, Array, Array, Array]:
    """(seconds, energy, cost, lot, position) of all plans."""
    seconds = np.concatenate([lot.seconds for lot in lots])
    energy = np.concatenate([lot.energy for lot in lots])
    which = np.concatenate([np.full(lot.seconds.size, i) for i, lot in enumerate(lots)])
    position = np.concatenate([np.arange(lot.seconds.size) for lot in lots])
    gpus = np.array([lot.cluster.gpus for lot in lots])[which]
    return seconds, energy, seconds * gpus * (offer.low if offer else 0.0), which, position


def make_trade(lots: list[PlanLot], offer: Offer | None) -> Trade:
    """The fronts of time against cost and of time against energy."""
    seconds, energy, cost, which, position = lot_table(lots, offer)

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
