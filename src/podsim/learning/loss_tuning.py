"""The best learning rate and batch by size and tokens, from runs on a grid of both, and what another choice costs.

Around its optimum, log loss is a paraboloid of log rate and log batch, and the optimum moves as powers of parameters and
tokens (Li et al. 2025, Step Law). Both are linear in the coefficients of one regression over all runs within 3 % of the
best of their size and length. Limits: no interaction of rate and batch, and optima within the grid.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.losses import TunedPower, Tuning
from podsim.learning.loss_runs import Runs

Array: TypeAlias = NDArray[np.float64]

_NEAR = 0.03
"""share. The loss above the best of its size and length within which a run tells the paraboloid."""
_LEAST_CELLS = 4
_LEAST_RUNS = 40
_LEAST_VALUES = 3


def tune(runs: Runs) -> Tuning | None:
    """The best rate and batch; None where the runs are on no grid of either."""
    settings = {"rate": runs.rate, "batch": runs.batch}
    cells, best = _cells(runs)
    near = runs.loss <= (1 + _NEAR) * best
    varied = {
        name: np.log(values)
        for name, values in settings.items()
        if values is not None and _varies(np.log(values)[near], cells[near])
    }
    if not varied or near.sum() < _LEAST_RUNS or len(np.unique(cells[near])) < _LEAST_CELLS:
        return None
    sizes, tokens = np.log(runs.parameters), np.log(runs.tokens)
    centre = (float(sizes[near].mean()), float(tokens[near].mean()))
    columns = [np.eye(cells.max() + 1)[cells]]
    for values in varied.values():
        along = values - values[near].mean()
        columns.append(
            np.stack([along**2, along, along * (sizes - centre[0]), along * (tokens - centre[1])], axis=1)
        )
    table = np.concatenate(columns, axis=1)
    loss = np.log(runs.loss)
    answer, *_ = np.linalg.lstsq(table[near], loss[near], rcond=None)
    error = float(np.abs(table[near] @ answer - loss[near]).mean())
    powers = {}
    for number, (name, values) in enumerate(varied.items()):
        at = cells.max() + 1 + 4 * number
        curve, *slopes = answer[at : at + 4].tolist()
        if curve <= 0:  # no optimum within the grid
            continue
        powers[name] = _power(curve, slopes, centre, float(values[near].mean()))
    return Tuning(runs=int(near.sum()), error=error, **powers) if powers else None


def _cells(runs: Runs) -> tuple[NDArray[np.intp], Array]:
    """(the number of the size and length of each run, the least loss among its like)."""
    keys = np.stack([np.round(np.log(runs.parameters), 2), np.round(np.log(runs.tokens), 2)])
    _, cells = np.unique(keys, axis=1, return_inverse=True)
    cells = cells.reshape(-1)
    best = np.full(cells.max() + 1, np.inf)
    np.minimum.at(best, cells, runs.loss)
    return cells, best[cells]


def _varies(values: Array, cells: NDArray[np.intp]) -> bool:
    """Whether several values were tried of most sizes and lengths."""
    counts = [len(np.unique(np.round(values[cells == cell], 3))) for cell in np.unique(cells)]
    return bool(counts) and float(np.median(counts)) >= _LEAST_VALUES


def _power(curve: float, slopes: list[float], centre: tuple[float, float], middle: float) -> TunedPower:
    """The optimum as a product of powers, from the coefficients of the regression."""
    at, by_size, by_tokens = (-slope / (2 * curve) for slope in slopes)
    factor = np.exp(middle + at - by_size * centre[0] - by_tokens * centre[1])
    return TunedPower(
        factor=float(factor),
        parameters=by_size,
        tokens=by_tokens,
        cost=float(np.expm1(curve * np.log(2) ** 2)),
    )
