"""The cost of a real server's step, from the steps of a run that measured them.

    seconds = step + ramps(decoding sequences) + c x sequences x context + chunks x d + new tokens x e + pairs x f

All coefficients are at least 0; the ramps are linear between powers of two. Pairs are the tokens that the attention of a
chunk looks at: new x (past + new / 2). The fit has the least squares of relative errors.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from podsim.answers.quantiles import quantile
from podsim.answers.served_real import MeasuredServing
from podsim.axes import Bools, Floats
from podsim.errors import LabError
from podsim.serving.step_cost import StepCost

_SLOWEST = 0.99
"""quantile of the steps' time per computed token beyond which a step was interrupted, and is left out"""
_ROUNDS = 20_000
_LEAST = 100
"""steps that a fit needs"""
_NEW = np.array([1.0, 8, 16, 32, 64, 128, 256, 512, 1024])
_PAST = np.array([0.0, 4096.0])
_CONTEXT = np.array([0.0, 4096.0])


def measured_cost(run: MeasuredServing, number: int) -> StepCost:
    """The cost of a step of podsim's own server during one of its runs. Raises LabError for one without enough steps.

    Steps are fitted to the loops before and after the run. What its own steps take in all, over their cost, is the
    machine's speed meanwhile: other programs and a host's theft of processors are in it.
    """
    columns = np.array([
        run.step_decoding, run.step_context, run.step_prompts, run.step_new, run.step_pairs, run.step_seconds,
    ])  # fmt: skip
    near, own = _near_steps(run, number), np.array(run.step_run) == number
    if near.sum() < _LEAST:
        raise LabError(f"{int(near.sum())} steps of a run that measures them; a fit needs {_LEAST} at least")
    rows = list(columns[:, near])
    knots = _knots(int(rows[0].max()))
    fitted = _fitted(rows, knots)
    if own.sum() >= _LEAST:
        fitted = fitted * columns[-1, own].sum() / (_features(list(columns[:, own]), knots) @ fitted).sum()
    ramps = np.concatenate([[0.0], np.cumsum(fitted[1 : len(knots)] * np.diff(knots))])
    context, chunk, new, pair = fitted[len(knots) :]
    return StepCost(
        step=float(fitted[0]), request=0.0, tokens=np.array([0.0, 1.0]), tokens_seconds=np.zeros(2),
        decode_requests=knots, decode_context=_CONTEXT,
        decode_seconds=ramps[:, None] + context * knots[:, None] * _CONTEXT, prompt_new=_NEW, prompt_past=_PAST,
        prompt_seconds=chunk + new * _NEW[:, None] + pair * _NEW[:, None] * (_PAST + _NEW[:, None] / 2),
    )  # fmt: skip


def _near_steps(run: MeasuredServing, number: int) -> Bools:
    """Which steps are of loops just before or after a run; of all loops where none are."""
    ends, runs = np.array(run.step_end, float), np.array(run.step_run)
    loops = runs == len(run.rates)
    before, after = ends[runs == number - 1], ends[runs == number + 1]
    begin, end = before.max(initial=-np.inf), after.min(initial=np.inf)
    last = number + 1 >= len(run.rates)
    near: Bools = loops & (ends > begin) & (ends < (np.inf if last else end))
    return near if near.any() else loops


def _knots(most: int) -> Floats:
    """0, 1, 2, 4, … up to the most decoding sequences."""
    powers = [float(1 << k) for k in range(max(most - 1, 1).bit_length())]
    return np.array([0.0, *(each for each in powers if each < most), float(max(most, 1))])


def _features(rows: list[Floats], knots: Floats) -> Floats:
    """What each coefficient of a step counts: steps, ramps, then context, chunks, new tokens and pairs."""
    decoding, context, prompts, new, pairs, _ = rows
    return np.column_stack([
        np.ones_like(decoding),
        *(np.clip(decoding - low, 0.0, high - low) for low, high in pairwise(knots)),
        decoding * context, prompts, new, pairs,
    ])  # fmt: skip


def _fitted(rows: list[Floats], knots: Floats) -> Floats:
    """The coefficients: of the step, of each ramp, then of context, chunks, new tokens and pairs."""
    seconds, features = rows[-1], _features(rows, knots)
    kept = np.ones(len(seconds), bool)
    for _ in range(3):  # interrupted steps are seen once the others are known
        weights = 1 / seconds[kept]
        fitted = nonnegative_least_squares(features[kept] * weights[:, None], np.ones(int(kept.sum())))
        ratio = seconds / np.maximum(features @ fitted, 1e-12)
        kept = ratio <= max(quantile(ratio, _SLOWEST), 2.0)
    return fitted


def nonnegative_least_squares(matrix: Floats, target: Floats) -> Floats:
    """The least squares of matrix x = target with x >= 0, by descent along one coordinate after another."""
    scale = np.sqrt((matrix**2).sum(axis=0))
    scale[scale == 0] = 1.0
    gram, goal = (matrix / scale).T @ (matrix / scale), (matrix / scale).T @ target
    x = np.zeros(len(goal))
    for _ in range(_ROUNDS):
        largest = 0.0
        for k in range(len(x)):
            value = max(x[k] + (goal[k] - gram[k] @ x) / max(gram[k, k], 1e-300), 0.0)
            largest, x[k] = max(largest, abs(value - x[k])), value
        if largest < 1e-10 * max(float(np.abs(x).max()), 1e-300):
            break
    return np.asarray(x / scale)
