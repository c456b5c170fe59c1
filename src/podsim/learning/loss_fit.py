"""Constants of a law of the loss from training runs: Huber's loss on logarithms, many starts, L-BFGS, bootstraps.

Besides the residuals the fit minimises a weak pull of the exponents and the coupling towards usual ones, so that runs
that do not tell them do not choose them. Runs of more compute weigh more, (compute / most)^0.2, as a law is asked about
larger ones. Both settings were chosen on the calibrate rows of podsim's table of losses, the top of whose compute was
held out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.losses import FittedRange
from podsim.axes import Shaped
from podsim.errors import PodsimError
from podsim.fitting import load_optimizer
from podsim.learning.loss_law import REPEAT, LossLaw, constants_of, repeated
from podsim.learning.loss_runs import Runs

Array: TypeAlias = NDArray[np.float64]

_HUBER = 1e-3
_COARSE = 0.03
"""logarithm of the loss. Where residuals begin to count linearly: at the end, and in the first descent from a start."""
LEAN = 0.2
"""factor. The power of compute with which runs weigh."""
_USUAL = np.array([0.0, 0.0, 0.0, 0.6, 0.6, -0.7])
_PULL = np.array([0.0, 0.0, 0.0, 0.15, 0.15, 0.075])
"""The usual exponents and coupling, and how strongly they pull."""
_MANY = 120
"""The number of runs beyond which they pull less with every further one."""
_STARTS = 6
_SEEDS = 0.002
_DRIFT, _CLIMB = 0.005, 0.002
"""share. The least scatter of runs; and what makes 80 % bands hold 80 % of the runs held out from calibrate sources (the
top 20, 35 and 50 % of their compute): drift for each factor e outside the range, and climb for each of compute above."""
_LEAST_SIZES = 3
"""The fewest sizes, and lengths, of which a floor, a factor and an exponent can follow."""
_SEED = 22
_SCALES = np.geomspace(0.3, 300.0, 61)
_TURNS = 3
_NO_EXCESS = 1e9


@dataclass(frozen=True, kw_only=True)
class Form:
    """Which coordinates a form of the law leaves free; the others are fixed."""

    free: tuple[bool, ...]
    fixed: tuple[float, ...]
    """factor. The values of coordinates that are not free."""
    is_pulled: bool = True
    """Whether usual exponents pull."""

    @property
    def count(self) -> int:
        """How many constants are free."""
        return sum(self.free)


FORMS = {
    "coupled": Form(free=(True,) * 6, fixed=(0.0,) * 6),
    "additive": Form(free=(True,) * 5 + (False,), fixed=(0.0,) * 6, is_pulled=False),
    "kaplan": Form(
        free=(False, True, True, True, False, True), fixed=(-60.0, 0, 0, 0, 1.0, 0), is_pulled=False
    ),
}
"""name of a form -> its free coordinates"""


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """What L-BFGS minimises, over the free coordinates, with parameters and tokens counted from their typical values."""

    parameters: Shaped[Array, "trained"]
    tokens: Shaped[Array, "trained"]
    loss: Shaped[Array, "trained"]
    weights: Shaped[Array, "trained"]
    form: Form
    centre: tuple[float, float]
    huber: float = _HUBER

    @cached_property
    def _free(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.form.free)

    @cached_property
    def _scale(self) -> float:
        return 1.0 / float(self.weights.sum() * self.huber)

    @cached_property
    def _pull(self) -> Array:
        return _PULL * (min(1.0, _MANY / len(self.loss)) ** 0.5 if self.form.is_pulled else 0.0)

    def full(self, free: Array) -> Array:
        """All coordinates."""
        values = np.multiply.outer(self.form.fixed, np.ones(free.shape[1:]))
        values[self._free] = free
        return values

    def _logs(self, at: Iterable[Any]) -> tuple[Array, Array, Array, Array]:
        """Logarithms at coordinates: (what the size costs, with what the data cost, to the power, with all the loss)."""
        irreducible, size, data, size_exponent, data_exponent, coupling = at
        short = size - size_exponent * self.parameters
        both = np.logaddexp(short, data - data_exponent * self.tokens)
        excess = np.exp(coupling) * both
        return short, both, excess, np.logaddexp(irreducible, excess)

    def _slopes(self, total: Array) -> tuple[Array, Array]:
        """(the slope of Huber's loss, the loss) of each run."""
        residual = total - self.loss
        slope = np.minimum(np.maximum(residual, -self.huber), self.huber)
        return slope, slope * (residual - 0.5 * slope)

    def cost(self, free: Array) -> tuple[float, Array]:
        """(the mean Huber loss over its width, its gradient)."""
        at = self.full(free)
        short, both, excess, total = self._logs(at.tolist())
        slope, loss = self._slopes(total)
        value = self._scale * float(self.weights @ loss)
        share, above = np.exp(short - both), np.exp(excess - total)
        pushed = self._scale * self.weights * slope
        inner = pushed * above * np.exp(at[5])
        by_size = inner * share
        by_data = inner - by_size
        gradient = np.array([
            (pushed * (1 - above)).sum(), by_size.sum(), by_data.sum(), -(by_size @ self.parameters),
            -(by_data @ self.tokens), inner @ both,
        ])  # fmt: skip
        away = (at - _USUAL) * self._pull
        return value + 0.5 * float(away @ away), (gradient + away * self._pull)[self._free]

    def descend(self, start: Array, rounds: int = 200, precision: float = 1e-9) -> tuple[Array, float]:
        """(free coordinates, cost) of the valley below a start."""
        options = {"maxiter": rounds, "ftol": precision, "gtol": 1e3 * precision}
        end = load_optimizer().minimize(self.cost, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(end.x), float(end.fun)

    def starts(self) -> list[Array]:
        """The most promising of a grid of starts, best first."""
        least, middle = float(np.exp(self.loss.min())), float(np.exp(np.median(self.loss)))
        grid = itertools.product(
            (0.3, 0.6, 0.8, 0.95), (0.2, 0.5, 0.8), (0.25, 0.45, 0.8), (0.25, 0.45, 0.8), (0.0, -0.7)
        )
        floor, share, first, second, coupling = np.array(list(grid)).T
        rest = (middle - floor * least) ** np.exp(-coupling)
        at = np.array([floor * least, share * rest, (1 - share) * rest, first, second, coupling])
        at[:3] = np.log(at[:3])
        at = self.full(at[self._free])  # [coordinate, start]
        _, losses = self._slopes(self._logs(at[:, :, None])[-1])
        costs = self._scale * (losses @ self.weights)
        costs += 0.5 * (((at.T - _USUAL) * self._pull) ** 2).sum(axis=1)
        return list(at[self._free].T[np.argsort(costs, kind="stable")[:_STARTS]])

    def constants(self, free: Array) -> Array:
        """Coordinates that count parameters and tokens from one, not from the typical ones."""
        at = self.full(free).copy()
        at[1] += at[3] * self.centre[0]
        at[2] += at[4] * self.centre[1]
        return at


def fit_law(
    runs: Runs, *, name: str, form: str = "coupled", bootstraps: int = 200, lean: float = LEAN
) -> LossLaw:
    """The law of a form that meets runs best, with a band from bootstraps.

    `lean` is the power of compute with which runs weigh. Raises PodsimError for runs that cannot tell the constants.
    """
    chosen = FORMS[form]
    lengths = len(np.unique(np.round(np.log(runs.tokens), 2)))
    if len(runs) <= chosen.count or min(runs.sizes, lengths) < _LEAST_SIZES:
        counted = f"{len(runs)} runs of {runs.sizes} sizes and {lengths} lengths"
        raise PodsimError(
            f"{counted} cannot tell the {chosen.count} constants of the {form} law: {chosen.count + 1} runs of "
            f"{_LEAST_SIZES} sizes and lengths can; or fit one offset to a known shape: --shape podsim"
        )
    if runs.is_repeated:
        return _fit_repetition(runs, name=name, form=form, bootstraps=bootstraps, lean=lean)
    problem = _problem(runs, chosen, lean)
    rough = replace(problem, huber=_COARSE)
    ends = [problem.descend(rough.descend(start)[0]) for start in problem.starts()]
    best, _ = problem.descend(min(ends, key=lambda end: end[1])[0], precision=1e-13)
    draws = _bootstraps(problem, best, bootstraps)
    covariance = np.cov(np.array(draws), rowvar=False).tolist() if len(draws) > 1 else ()
    law = LossLaw(
        name=name,
        form=form,
        constants=constants_of(problem.constants(best)),
        fitted=_range(runs),
        covariance=tuple(map(tuple, covariance)),
        draws=tuple(tuple(draw.tolist()) for draw in draws),
    )
    return with_scatter(law, runs)


def _fit_repetition(runs: Runs, **given: Any) -> LossLaw:
    """The law with its constant of repetition: that with which the tokens that count meet the runs best.

    The constant changes the tokens of a fit, so both are found in turn; parameters in excess lose no value here.
    """
    unique = np.minimum(runs.tokens if runs.unique is None else runs.unique, runs.tokens)
    scale = REPEAT
    for _ in range(_TURNS):
        law = fit_law(
            replace(runs, tokens=repeated(runs.tokens, unique, scale), unique=None),
            **{**given, "bootstraps": 0},
        )
        errors = [
            np.abs(np.log(law.loss(runs.parameters, repeated(runs.tokens, unique, each)) / runs.loss)).mean()
            for each in _SCALES
        ]
        scale = float(_SCALES[int(np.argmin(errors))])
    law = fit_law(replace(runs, tokens=repeated(runs.tokens, unique, scale), unique=None), **given)
    return replace(law, constants={**law.constants, "repeat": scale, "excess": _NO_EXCESS})


def _problem(runs: Runs, form: Form, lean: float) -> _Problem:
    parameters, tokens = np.log(runs.parameters), np.log(runs.tokens)
    centre = (float(parameters.mean()), float(tokens.mean()))
    compute = runs.compute
    return _Problem(
        parameters=parameters - centre[0], tokens=tokens - centre[1], loss=np.log(runs.loss),
        weights=(compute / compute.max()) ** lean, form=form,
        centre=centre,
    )  # fmt: skip


def _bootstraps(problem: _Problem, best: Array, count: int) -> list[Array]:
    """Coordinates of fits to runs drawn with replacement, each from the optimum of all runs."""
    random = np.random.default_rng(_SEED)
    runs = len(problem.loss)
    draws = []
    for _ in range(count):
        times = np.bincount(random.integers(0, runs, runs), minlength=runs)
        drawn = replace(problem, weights=problem.weights * times)
        draws.append(problem.constants(drawn.descend(best, rounds=40)[0]))
    return draws


def with_scatter(law: LossLaw, runs: Runs) -> LossLaw:
    """The law with the scatter of these runs around it: the root mean square of all but the worst tenth."""
    residual = np.abs(np.log(runs.loss) - np.log(law.loss(runs.parameters, runs.tokens, runs.unique)))
    kept = np.sort(residual)[: max(1, int(np.ceil(0.9 * len(residual))))]
    scatter = max(float(np.sqrt(np.mean(kept**2))), _SEEDS)
    return replace(law, scatter=scatter, drift=_DRIFT, climb=_CLIMB)


def fit_offset(shape: LossLaw, runs: Runs, *, name: str) -> LossLaw:
    """A known shape with one constant fitted: the factor that tokenizer and data put on its loss.

    It is the median over runs, weighted by the root of their compute. Raises PodsimError for no runs.
    """
    if not len(runs):
        raise PodsimError("no run is left to fit the offset to")
    logs = np.log(runs.loss) - np.log(shape.loss(runs.parameters, runs.tokens, runs.unique))
    order = np.argsort(logs)
    weight = np.cumsum(np.sqrt(runs.compute[order]))
    shift = float(logs[order][np.searchsorted(weight, weight[-1] / 2)])
    power = 1.0 / shape.constants["coupling"]
    moves = np.array([shift, power * shift, power * shift, 0.0, 0.0, 0.0])
    draws = tuple(tuple((np.array(draw) + moves).tolist()) for draw in shape.draws)
    moved = {**shape.constants, **constants_of(shape.coordinates + moves)}
    ranged = replace(shape, name=name, constants=moved, draws=draws, fitted=_range(runs))
    return with_scatter(ranged, runs)


def _range(runs: Runs) -> FittedRange:
    ends = [(float(values.min()), float(values.max())) for values in (runs.parameters, runs.tokens)]
    return FittedRange(runs=len(runs), parameters=ends[0], tokens=ends[1], compute=float(runs.compute.max()))
