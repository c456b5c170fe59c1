"""Constants from measured rows: parameters with bounds, residuals, one solver, and predictions of rows held out.

    fit = Fit(parameters={"share": Parameter(start=0.9, low=0.1, high=1.0)}, softness=0.05)
    solve(fit, residuals).values["share"]

Residuals are log(predicted / measured) of each row. Their squares are summed with a soft loss, so that outliers count
linearly, and a weak pull keeps at its start what the rows do not tell. There is no randomness but the seed of folds.
The solver needs scipy (pip install podsim[calibrate]); `solve_by_search` does without.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from podsim.axes import Bools, Floats, Ints
from podsim.errors import PodsimError
from podsim.packaged import install_hint

Values: TypeAlias = Mapping[str, float]
"""Name of a parameter -> its value."""
Residuals: TypeAlias = Callable[[Values], Floats]
"""Gives log(predicted / measured) of each row, weighted."""

_ROUNDS = 120
_SMALLEST_STEP = 1e-3
_THREADS = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One constant of a fit, and how the solver varies it: coordinate = (value or its logarithm - zero) / scale."""

    start: float
    low: float
    high: float
    scale: float = 1.0
    """factor. The change of the value, or of its logarithm, that costs as much as any other parameter's."""
    zero: float = 0.0
    """factor. The value, or its logarithm, at coordinate 0. The solver's finite differences are shares of the
    coordinate."""
    is_log: bool = False

    def coordinate(self, value: float) -> float:
        """The solver's coordinate of a value."""
        return ((math.log(value) if self.is_log else value) - self.zero) / self.scale

    def value(self, coordinate: float) -> float:
        """The value at a coordinate of the solver."""
        inside = self.zero + self.scale * coordinate
        return math.exp(inside) if self.is_log else inside


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is fitted, and how."""

    parameters: Mapping[str, Parameter]
    softness: float
    """factor. The residual beyond which a row counts linearly."""
    pull: float = 0.0
    """factor. The weight of a parameter's distance from its start, against the residual of one row."""
    differences: tuple[float | None, ...] = (None,)
    """share. The finite differences of the coordinates, one after the other: laws have kinks, so coarse slopes come
    first."""
    evaluations: int | None = None
    """The largest number of evaluations of the residuals for each difference."""
    other_starts: tuple[Values, ...] = ()
    """The further starting points, where the loss has several valleys."""


class Solution(NamedTuple):
    """The values with the least loss."""

    values: dict[str, float]
    cost: float


def load_optimizer() -> Any:
    """The module scipy.optimize, its BLAS with one thread unless the user chose; PodsimError if it is missing."""
    is_chosen = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")  # read when its BLAS loads; idle threads would spin
    try:
        from scipy import optimize
    except ImportError:
        raise PodsimError(f"fits need scipy: {install_hint('calibrate')}") from None
    finally:
        if not is_chosen:
            del os.environ[_THREADS]
    return optimize


def solve(fit: Fit, residuals: Residuals) -> Solution:
    """The values that meet the rows best, from the best of all starts."""
    own = {name: parameter.start for name, parameter in fit.parameters.items()}
    solutions = [_solve_from(fit, residuals, start) for start in (own, *fit.other_starts)]
    return min(solutions, key=lambda solution: solution.cost)


def _solve_from(fit: Fit, residuals: Residuals, start: Values) -> Solution:
    least_squares = load_optimizer().least_squares
    named = fit.parameters.items()
    point = np.array([parameter.coordinate(start[name]) for name, parameter in named])
    origin, low, high = (
        np.array([parameter.coordinate(getattr(parameter, bound)) for _, parameter in named])
        for bound in ("start", "low", "high")
    )

    def values_at(at: Floats) -> dict[str, float]:
        return {name: parameter.value(x) for (name, parameter), x in zip(named, at.tolist(), strict=True)}

    def pulled(at: Floats) -> Floats:
        rows = residuals(values_at(at))
        return np.concatenate([rows, fit.pull * (at - origin)]) if fit.pull else rows

    cost = math.inf
    for difference in fit.differences:
        result: Any = least_squares(
            pulled, point, bounds=(low, high), loss="soft_l1", f_scale=fit.softness, max_nfev=fit.evaluations,
            diff_step=None if difference is None else np.full(len(point), difference),
        )  # fmt: skip
        point, cost = result.x, float(result.cost)
    return Solution(values_at(point), cost)


def solve_by_search(parameters: Mapping[str, Parameter], residuals: Residuals) -> Solution:
    """The values with the least mean of absolute residuals, by steps along one parameter after another; no scipy."""

    def cost_of(values: Values) -> float:
        return float(np.abs(residuals(values)).mean())

    point = {name: parameter.start for name, parameter in parameters.items()}
    best, step = cost_of(point), 0.5
    for _ in range(_ROUNDS):
        has_improved = False
        for name, parameter in parameters.items():
            for factor in (1 + step, 1 / (1 + step)):
                moved = float(np.clip(point[name] * factor, parameter.low, parameter.high))
                cost = cost_of({**point, name: moved})
                if cost < best - 1e-12:
                    point, best, has_improved = {**point, name: moved}, cost, True
        if not has_improved:
            step /= 2
        if step < _SMALLEST_STEP:
            break
    return Solution(point, best)


def fold_of(sizes: tuple[Floats, ...], folds: int, seed: int) -> Ints:
    """The fold of each row, drawn over distinct sizes: one that was measured twice is held out with both rows."""
    _, size = np.unique(np.stack(sizes, axis=1), axis=0, return_inverse=True)
    drawn = np.random.default_rng(seed).integers(0, folds, len(sizes[0]))
    return np.asarray(drawn[size.reshape(-1)])


def held_out(fold: Ints, folds: int, predict: Callable[[Bools], Floats]) -> Floats:
    """Predictions of every row by a fit to the rows of the other folds, [..., rows].

    `predict` takes which rows are held out, fits to the others, and gives [..., rows held out].
    """
    parts = {index: fold == index for index in range(folds) if (fold == index).any()}
    predicted = {index: predict(held) for index, held in parts.items()}
    shape = next(iter(predicted.values())).shape[:-1]
    out = np.empty((*shape, len(fold)))
    for index, held in parts.items():
        out[..., held] = predicted[index]
    return out
