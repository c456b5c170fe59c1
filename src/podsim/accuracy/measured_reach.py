"""What measured runs reached: the best of a plan's class, the run nearest to a plan, and a time within that reach.

A law that was fitted to some runs may promise more than any run has shown. A prediction therefore stays within the
best utilisation of comparable measured runs. Up to `_FREE` of it the law stands. Beyond, the utilisation approaches the
best one and never reaches it, so a faster plan stays faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import expm1

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.bands import Residual, operand_bits, residuals, run_features
from podsim.answers.prediction import Allowance, Band, NearestRun, Prediction
from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.training.plan import Plan
from podsim.workload.model import Model

_FREE = 0.95
"""share of the best utilisation up to which the law stands"""
_LIKE = 3.0
"""factor between the parameters of comparable models"""
_ENOUGH = 3
"""runs that make a class"""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The best measured run of a class."""

    utilisation: float
    """share. The model FLOPs utilisation of that run, by 6 x parameters per token."""
    id: str
    """The row of that run."""
    rows: int
    """The number of runs in the class."""
    basis: str
    """The class, in words."""


def measured_reach(model: Model, cluster: Cluster, plan: Plan) -> Reach | None:
    """The best measured run of a scalar plan's class; None where too few runs on its GPU family were measured."""
    key = (cluster.gpu.architecture.lower(), operand_bits(plan.precision))
    return _best_of_class(*key, model.has_experts, float(model.active_parameters))


@lru_cache(maxsize=256)
def _best_of_class(architecture: str, bits: str, has_experts: bool, parameters: float) -> Reach | None:
    family = [
        row for row in residuals() if (row.features.architecture, row.features.bits) == (architecture, bits)
    ]
    size = f"{parameters / _LIKE / 1e9:.3g} to {parameters * _LIKE / 1e9:.3g} B parameters"
    rules: Sequence[tuple[str, Callable[[Residual], bool]]] = (
        (size, lambda row: parameters / _LIKE <= row.parameters <= parameters * _LIKE),
        (
            "mixtures of experts" if has_experts else "dense models",
            lambda row: (row.features.experts == "experts") == has_experts,
        ),
    )
    for dropped in range(len(rules) + 1):
        kept = rules[dropped:]
        rows = [row for row in family if all(rule(row) for _, rule in kept)]
        if len(rows) >= _ENOUGH:
            best = max(rows, key=lambda row: row.utilisation)
            words = [f"{architecture} GPUs", f"{bits} bits", *(word for word, _ in reversed(kept))]
            return Reach(utilisation=best.utilisation, id=best.id, rows=len(rows), basis=", ".join(words))
    return None


def believable_utilisation(utilisation: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    """The utilisation to state for that of the law: at most the best measured one, and the larger the larger."""
    free = _FREE * best
    room = best - free
    beyond = np.maximum(utilisation - free, 0.0)
    return np.minimum(utilisation, free) - room * np.expm1(-beyond / room)


def within_reach(prediction: Prediction, reach: Reach | None) -> Prediction:
    """The prediction with the time that comparable measured runs support, and an allowance for the difference."""
    if reach is None or prediction.mfu_6pd <= _FREE * reach.utilisation:
        return prediction
    stated = float(believable_utilisation(np.asarray(prediction.mfu_6pd), reach.utilisation))
    factor = prediction.mfu_6pd / stated
    allowance = Allowance(
        law_time=prediction.step_time, utilisation=prediction.mfu_6pd, best=reach.utilisation, row=reach.id,
        rows=reach.rows, basis=reach.basis, outside=prediction.mfu_6pd > reach.utilisation,
    )  # fmt: skip
    return scaled_prediction(prediction, factor, part="allowance", allowance=allowance)


def scaled_prediction(
    prediction: Prediction, factor: float, *, part: str, allowance: Allowance | None = None
) -> Prediction:
    """The prediction with `factor` times its step time; the difference is one more part of the step."""
    step = prediction.step_time * factor
    return replace(
        prediction,
        step_time=step,
        parts={**prediction.parts, part: step - prediction.step_time},
        tokens_per_second=prediction.tokens_per_second / factor,
        samples_per_second=prediction.samples_per_second / factor,
        mfu_6pd=prediction.mfu_6pd / factor,
        mfu=prediction.mfu / factor,
        hfu=prediction.hfu / factor,
        allowance=allowance,
    )


def stated_seconds(
    model: Model, cluster: Cluster, plan: Plan, seconds: Shaped[NDArray[np.float64], "plan"]
) -> Shaped[NDArray[np.float64], "plan"]:
    """s. The times to state of plans that differ from a scalar one in their layout, from those of the law."""
    reach = measured_reach(model, cluster, plan)
    if reach is None:
        return seconds
    peak = cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * cluster.gpus
    work = 6.0 * model.active_parameters * float(plan.global_batch) * plan.length(model)
    utilisation = work / (peak * seconds)
    return seconds * utilisation / believable_utilisation(utilisation, reach.utilisation)


def stated_band(band: Band | None, prediction: Prediction) -> Band | None:
    """The band around the stated time: it still begins where the law's begins."""
    if band is None or prediction.allowance is None:
        return band
    low = (1 + band.low) * prediction.allowance.law_time / prediction.step_time - 1
    return replace(band, low=min(low, 0.0), high=max(band.high, 0.0))


_DIFFERENT = {"architecture": 3.0, "experts": 3.0, "bits": 2.0, "kind": 1.0, "framework": 1.0}
"""doublings that a difference in a feature counts for"""
_DOUBLING = np.array([1.0, 0.5, 0.5, 0.5, 0.5])
"""what a doubling of parameters, GPUs, sequence, tensor and pipeline parallelism counts for"""


@lru_cache(maxsize=1)
def _run_columns() -> tuple[Shaped[NDArray[np.float64], "run size"], dict[str, NDArray[np.str_]]]:
    """(logarithms of the sizes of every measured run, its features)."""
    rows = residuals()
    sizes = np.array([(row.parameters, row.gpus, row.sequence, row.tp, row.pp) for row in rows], dtype=float)
    names = {name: np.array([getattr(row.features, name) for row in rows]) for name in _DIFFERENT}
    return np.log2(sizes), names


def nearest_run(model: Model, cluster: Cluster, plan: Plan) -> NearestRun | None:
    """The measured run that resembles a scalar plan most; None if no run was measured at all.

    The distance counts doublings of parameters, and half of those of GPUs, sequence, tensor and pipeline parallelism.
    Each of GPU family, precision, experts, kind of plan and framework that differs adds its weight.
    """
    rows = residuals()
    if not rows:
        return None
    features = run_features(model, cluster, plan, 0.0)
    sizes = (model.active_parameters, plan.gpus, plan.length(model), plan.tp, plan.pp)
    measured_sizes, measured_features = _run_columns()
    distances = np.abs(measured_sizes - np.log2(np.array(sizes, dtype=float))) @ _DOUBLING
    for name, weight in _DIFFERENT.items():
        distances += weight * (measured_features[name] != getattr(features, name))
    nearest = int(distances.argmin())
    row = rows[nearest]
    return NearestRun(
        id=row.id, distance=float(distances[nearest]), parameters=row.parameters, gpus=row.gpus, sequence=row.sequence,
        tp=row.tp, pp=row.pp, framework=row.features.framework, architecture=row.features.architecture,
        bits=row.features.bits, utilisation=row.utilisation, error=expm1(-row.log_ratio),
    )  # fmt: skip


def calibrated_software(architecture: str) -> tuple[str, ...]:
    """The names of the software whose constants were fitted to runs on a GPU family."""
    family = architecture.lower()
    names = {
        row.software for row in residuals() if row.role == "calibrate" and row.features.architecture == family
    }
    return tuple(sorted(names))
