"""How much the law's own errors help the plan that it ranks first: the best of many plans is biased fast.

Plans that differ little share most of their error. Within sweeps of measured plans for the same work, half the mean
square of the difference of two errors grows in proportion to the doublings between their degrees and micro-batches.
So the error is a random walk over the doublings of each. Errors are redrawn around the law's times, and the mean error
of the plan that wins is its optimism. Plans with the same degrees and micro-batch share their error.
Known error: over 40 sweeps of test rows the plan predicted best took 0.2 % longer against its prediction than the mean
plan, with a standard error of 1.0 %, where this law expects 2.4 %. By source, 4.8 % where it expects 4.2 %.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import numpy as np

from podsim.accuracy.bands import Residual, residuals
from podsim.answers.prediction import Optimism
from podsim.axes import Floats, Shaped
from podsim.training.plan_values import Array
from podsim.training.search import SearchResult
from podsim.units import format_quantity

DEGREES = ("tp", "pp", "cp", "ep", "micro_batch")
_HEAD = 20_000
"""fastest plans among which competitors are sought"""
_MOST = 100
"""competitors, the fastest"""
_RADIX = 1 << 12
"""larger than any degree"""
_DRAWS = 500
"""drawn errors; each counts with both signs"""


@lru_cache(maxsize=1)
def error_growth() -> float:
    """Half the mean square of the difference of two logarithmic errors within a sweep, for each doubling between plans.

    From calibrate rows. Each sweep counts with its number of rows.
    """
    sweeps: dict[tuple[object, ...], list[Residual]] = defaultdict(list)
    for row in residuals():
        if row.role == "calibrate":
            work = (row.source, row.software, row.parameters, row.gpus, row.sequence, row.global_batch)
            sweeps[*work, row.features.gpu, row.features.precision].append(row)
    squares = doublings = 0.0
    for rows in sweeps.values():
        errors = np.array([row.log_ratio for row in rows])
        between = np.abs(np.subtract.outer(errors, errors))
        places = np.log2([[getattr(row, name) for name in DEGREES] for row in rows])
        apart = np.abs(places[:, None] - places[None]).sum(axis=-1)
        squares += float((between[apart > 0] ** 2).sum()) / 2 / len(rows)
        doublings += float(apart.sum()) / len(rows)
    return squares / doublings


def mean_optimism(seconds: Floats, degrees: Shaped[Array, "plan field"]) -> float:
    """share. What the plan with the least seconds takes longer than that, in the mean over redrawn errors."""
    draws = np.random.default_rng(0)
    errors = np.zeros((seconds.size, _DRAWS))
    for column in np.log2(degrees).T:
        places, at = np.unique(column, return_inverse=True)
        spread = np.sqrt(error_growth() * np.diff(places))
        steps = spread[:, None] * draws.standard_normal((spread.size, _DRAWS))
        errors += np.concatenate([np.zeros((1, _DRAWS)), np.cumsum(steps, axis=0)])[at]
    errors = np.concatenate([errors, -errors], axis=1)
    winners = (np.log(seconds)[:, None] + errors).argmin(axis=0)
    return float(np.expm1(-errors[winners, np.arange(2 * _DRAWS)].mean()))


def optimism_of(result: SearchResult) -> Optimism | None:
    """The optimism of a search's first plan; None if it is alone."""
    positions, roomy = result.roomy_first()
    head = positions[: min(roomy or _HEAD, _HEAD)]
    plans = result.combinations.take(head % result.memory_bytes.size)
    degrees = np.stack([np.broadcast_to(getattr(plans, name), head.shape) for name in DEGREES], axis=1)
    first = np.unique(degrees @ _RADIX ** np.arange(len(DEGREES)), return_index=True)[1]
    competing = np.sort(first)[:_MOST]
    if competing.size == 1:
        return None
    seconds = result.seconds_of(head[competing])
    share = mean_optimism(seconds, degrees[competing])
    step = float(seconds[0]) * (1 + share)
    basis = (
        f"The fastest of {competing.size} similar plans is likely predicted too fast: {format_quantity(step, 's')} "
        f"({share:+.1%}) if the law errs as it does within measured sweeps"
    )
    return Optimism(share=share, step_time=step, plans=competing.size, basis=basis)
