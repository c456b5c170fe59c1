"""The tokens of experts: of the busiest ones, and those that are dropped where experts have a capacity.

With a capacity every expert computes its room, filled or not, as static shapes demand. The loads of experts are taken to
fall exponentially from the busiest one. Sources: Lepikhin et al. 2020 (GShard, arXiv 2006.16668), section 2.2; Fedus et
al. 2021 (Switch, arXiv 2101.03961), section 2.2. Known error: not known, as the loads of routers are seldom published;
groups of few tokens drop more.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software


def expert_load(plan: Plan, software: Software) -> Shaped[Array, "plan"]:
    """Tokens that the busiest expert rank computes and exchanges, over the mean."""
    if plan.capacity_factor:
        return np.full(np.shape(plan.ep), float(plan.capacity_factor))
    return np.where(np.asarray(plan.ep) > 1, plan.imbalance or software.expert_imbalance, 1.0)


def expert_loads(imbalance: float, experts: int) -> Array:
    """Tokens of each expert over the mean, [experts]; the busiest comes first, with `imbalance` times the mean."""
    position = np.arange(experts)

    def shape(rate: float) -> Array:
        falling = np.exp(-rate * position)
        return np.asarray(falling / falling.mean())

    if imbalance <= 1.0 or experts < 2:
        return np.ones(experts)
    if imbalance >= experts * (1 - 1e-9):
        return np.where(position == 0, float(experts), 0.0)
    low, high = 0.0, 50.0
    for _ in range(60):  # to the last bit: the busiest expert's share rises with the rate
        middle = (low + high) / 2
        low, high = (middle, high) if shape(middle)[0] < imbalance else (low, middle)
    return shape(high)


def dropped_share(capacity: float, imbalance: float, experts: int) -> float:
    """Share of routed tokens that find no room; 0 without a capacity."""
    if not capacity:
        return 0.0
    return float(np.maximum(expert_loads(imbalance, experts) - capacity, 0.0).mean())
