"""What measured runs reached: the fastest of those comparable with a plan, and the run nearest to it."""

from __future__ import annotations

from functools import lru_cache
from math import expm1

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.bands import residuals, run_features
from podsim.answers.prediction import FastestRun, NearestRun
from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.workload.model import Model

_LIKE = 3.0
"""factor between the parameters of comparable models"""
_ENOUGH = 3
"""runs that make a class"""
_SHARED = ("gpu", "precision", "framework", "experts")
"""the features in which comparable runs agree"""


def faster_than_measured(model: Model, cluster: Cluster, plan: Plan, utilisation: float) -> FastestRun | None:
    """The fastest measured run comparable with a scalar plan, if the plan's utilisation is higher; else None.

    Comparable runs share the GPU, the number format, the framework and the kind of model, dense or experts, and have
    a third to three times the active parameters. None too where fewer than three such runs were measured.
    """
    features = run_features(model, cluster, plan, 0.0)
    shared = tuple(getattr(features, name) for name in _SHARED)
    least, most = model.active_parameters / _LIKE, model.active_parameters * _LIKE
    rows = [
        row for row in residuals()
        if least <= row.parameters <= most and tuple(getattr(row.features, name) for name in _SHARED) == shared
    ]  # fmt: skip
    if len(rows) < _ENOUGH:
        return None
    best = max(rows, key=lambda row: row.utilisation)
    if utilisation <= best.utilisation:
        return None
    kind = "mixtures of experts" if model.has_experts else "dense models"
    sizes = f"{least / 1e9:.3g} to {most / 1e9:.3g} B parameters"
    basis = f"{cluster.gpu.name}, {plan.precision}, {features.framework}, {kind} of {sizes}"
    return FastestRun(
        id=best.id, utilisation=best.utilisation, ratio=utilisation / best.utilisation, rows=len(rows), basis=basis
    )  # fmt: skip


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
