"""What measured runs reached: the fastest of those comparable with a plan, and the run nearest to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from math import expm1

from podsim.accuracy.bands import (
    Residual,
    RunColumns,
    band_of,
    residuals,
    run_columns,
    run_distances,
    run_features,
    run_sizes,
)
from podsim.answers.prediction import Band, FastestRun, NearestRun
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.training.plan import Plan
from podsim.training.predict import flops_per_token
from podsim.workload.model import Model

_LIKE = 3.0
"""factor between the parameters of comparable models"""
_ENOUGH = 3
"""runs that make a class"""
_SHARED = ("gpu", "precision", "framework", "experts")
"""the features in which comparable runs agree"""


def stated_band(model: Model, cluster: Cluster, plan: Plan, seconds: float) -> tuple[Band, FastestRun | None]:
    """(error band of the predicted seconds of a scalar plan, the measured run that it would beat or None).

    A plan that is faster than any comparable run gets a wider band, in which it may be as slow as that run.
    """
    best = faster_than_measured(model, cluster, plan, step_utilisation(model, cluster, plan, seconds))
    if best is None:
        return band_of(model, cluster, plan), None
    band = band_of(model, cluster, plan, beyond=best.ratio)
    return replace(band, high=max(band.high, best.ratio - 1)), best


def step_utilisation(model: Model, cluster: Cluster, plan: Plan, seconds: float) -> float:
    """share. The model FLOPs utilisation of a step of some seconds, by 6 x parameters per token."""
    work = flops_per_token(model, plan)["6PD"] * float(plan.global_batch) * plan.length(model)
    return work / seconds / (cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * float(plan.gpus))


def faster_than_measured(model: Model, cluster: Cluster, plan: Plan, utilisation: float) -> FastestRun | None:
    """The fastest measured run comparable with a scalar plan, if the plan's utilisation is higher; else None.

    Comparable runs share the GPU, the number format, the framework and the kind of model, dense or experts, and have
    a third to three times the active parameters. None too where fewer than three such runs were measured.
    """
    features = run_features(model, cluster, plan)
    shared = tuple(getattr(features, name) for name in _SHARED)
    least, most = model.active_parameters / _LIKE, model.active_parameters * _LIKE
    rows = [row for row in _alike().get(shared, ()) if least <= row.parameters <= most]
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


@lru_cache(maxsize=1)
def _measured_columns() -> RunColumns:
    return run_columns(residuals())


@cache
def _alike() -> dict[tuple[str, ...], list[Residual]]:
    """The runs that share the features in which comparable runs agree."""
    alike: dict[tuple[str, ...], list[Residual]] = {}
    for row in residuals():
        alike.setdefault(tuple(getattr(row.features, name) for name in _SHARED), []).append(row)
    return alike


def nearest_run(model: Model, cluster: Cluster, plan: Plan) -> NearestRun | None:
    """The measured run that resembles a scalar plan most; None if no run was measured at all.

    Their distance is that of `run_distances`.
    """
    rows = residuals()
    if not rows:
        return None
    features = run_features(model, cluster, plan)
    distances = run_distances(features, run_sizes(model, plan), _measured_columns())
    nearest = int(distances.argmin())
    row = rows[nearest]
    return NearestRun(
        id=row.id, distance=float(distances[nearest]), parameters=row.parameters, gpus=row.gpus, sequence=row.sequence,
        tp=row.tp, pp=row.pp, framework=row.features.framework, architecture=row.features.architecture,
        bits=row.features.bits, utilisation=row.utilisation, error=expm1(-row.log_ratio),
    )  # fmt: skip


@cache
def calibrated_software(architecture: str) -> tuple[str, ...]:
    """The names of the software whose constants were fitted to runs on a GPU family."""
    family = architecture.lower()
    names = {
        row.software for row in residuals() if row.role == "calibrate" and row.features.architecture == family
    }
    return tuple(sorted(names))
