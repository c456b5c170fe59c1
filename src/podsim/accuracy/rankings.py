"""How well predictions rank the rows of a sweep: Kendall's tau, and what the row that they pick loses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.answers.comparison import ComparedRow, GroupRank
from podsim.axes import Floats
from podsim.errors import TableError

FEWEST_PLANS = 5
"""The least number of plans of a group whose ranks count."""


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float | None:
    """Kendall's tau-b of two rankings, -1 to 1; None where one of them has no two different values.

    (concordant - discordant) / sqrt(pairs untied in a x pairs untied in b), Kendall 1945. Memory grows with
    rows^2.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise TableError(f"rankings of {x.shape} and {y.shape} rows do not pair")
    above = np.triu_indices(x.size, k=1)
    sign_x, sign_y = _signs(x)[above], _signs(y)[above]
    untied_x, untied_y = int(np.count_nonzero(sign_x)), int(np.count_nonzero(sign_y))
    if not untied_x or not untied_y:
        return None
    balance = float(np.dot(sign_x.astype(np.int64), sign_y.astype(np.int64)))
    return balance / math.sqrt(untied_x * untied_y)


def _signs(x: Floats) -> NDArray[np.int8]:
    """Sign of x_i - x_j for each pair; shape (rows, rows)."""
    return (x[:, None] > x[None, :]).astype(np.int8) - (x[:, None] < x[None, :]).astype(np.int8)


def _sweeps(labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Sweep -> its rows, for sweeps of two rows or more; "" is no sweep."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(labels):
        if name:
            groups.setdefault(name, []).append(index)
    return {name: np.array(rows) for name, rows in groups.items() if len(rows) > 1}


def sweep_tau(predicted: ArrayLike, measured: ArrayLike, sweeps: Sequence[str]) -> float | None:
    """Mean of tau-b over sweeps, each weighted by its pairs; None if no sweep can be ranked."""
    p, m = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    weights, total = 0.0, 0.0
    for rows in _sweeps(sweeps).values():
        tau = kendall_tau(p[rows], m[rows])
        if tau is not None:
            pairs = rows.size * (rows.size - 1) / 2
            weights, total = weights + pairs, total + pairs * tau
    return total / weights if weights else None


def regrets(
    predicted: ArrayLike, measured: ArrayLike, sweeps: Sequence[str], *, more_is_better: bool = False
) -> dict[str, float]:
    """Sweep -> how much worse the row that the prediction picks is than the best measured row; 1 is perfect.

    For times it is measured(picked) / best measured, for rates the inverse. Where several rows are predicted
    equally good, the worst of them counts, so the figure does not depend on the order of rows.
    """
    p, m = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    if more_is_better:
        p, m = 1.0 / p, 1.0 / m
    worst = {}
    for name, rows in _sweeps(sweeps).items():
        picked = rows[p[rows] == p[rows].min()]
        worst[name] = float(m[picked].max() / m[rows].min())
    return worst


def group_ranks(rows: Sequence[ComparedRow], *, more_is_better: bool) -> tuple[GroupRank, ...]:
    """The ranks of the plans of every sweep of at least five; a sweep without a tau is left out.

    Repeats of a plan scatter, so it counts with the medians of its rows. The most that any prediction reaches is the tau
    of these medians with the measured rows.
    """
    groups: dict[str, list[ComparedRow]] = {}
    for row in rows:
        if row.sweep:
            groups.setdefault(row.sweep, []).append(row)
    ranks = (_group_rank(name, members, more_is_better) for name, members in groups.items())
    return tuple(rank for rank in ranks if rank is not None)


def _group_rank(name: str, rows: Sequence[ComparedRow], more_is_better: bool) -> GroupRank | None:
    plans = np.unique([row.plan or row.id for row in rows], return_inverse=True)[1]
    sign = -1.0 if more_is_better else 1.0
    measured = np.array([row.measured for row in rows])
    predicted_median = _medians(np.array([row.predicted for row in rows]), plans)
    measured_median = _medians(measured, plans)
    if measured_median.size < FEWEST_PLANS:
        return None
    tau = kendall_tau(predicted_median, measured_median)
    limit = kendall_tau(measured_median[plans], measured)
    if tau is None or limit is None:
        return None
    chosen = np.flatnonzero(sign * predicted_median == (sign * predicted_median).min())
    costs = measured_median[chosen] / (measured_median.max() if more_is_better else measured_median.min())
    return GroupRank(
        name=name,
        rows=len(rows),
        plans=int(measured_median.size),
        tau=tau,
        limit=limit,
        regret=float(max(costs**sign)) - 1.0,
    )


def _medians(values: Floats, plans: NDArray[np.intp]) -> Floats:
    """The median of the values of each plan."""
    return np.array([np.median(values[plans == plan]) for plan in range(int(plans.max()) + 1)])
