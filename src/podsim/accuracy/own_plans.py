"""podsim's own best plan of a run that was measured: what stands beside published runs."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.accuracy.measured_runs import TrainingRun
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.training.search import search
from podsim.training.search_limits import read_limits
from podsim.training.search_order import LAYOUT_DEGREES, fastest_plans, no_plan_fits
from podsim.units import format_quantity
from podsim.workload.model import Model

_KEPT = (
    "global_batch",
    "precision",
    "optimizer_precision",
    "software",
    "sequence",
    "flash",
    "capacity_factor",
)
"""what a run's plan and its best plan have alike"""


def best_plan(
    model: Model, cluster: Cluster, fixed: Plan, limit: Mapping[str, list[str]] | None = None
) -> tuple[float, Plan]:
    """(seconds of a step, plan) of the fastest plan on all GPUs; NoFitError if none fits."""
    result = search(model, cluster, fixed, wanted=read_limits(limit, cluster.gpus))
    if result.order.size == 0:
        raise NoFitError([no_plan_fits(result, cluster, cluster.gpus)])
    best = int(fastest_plans(result)[0])
    return result.seconds(best), result.plan(best)


def own_plan_note(run: TrainingRun, memory: float, band: tuple[float, float]) -> str:
    """The memory and the error band of a run's plan, and podsim's own plan for its job, in words.

    `memory`: B of the fullest stage; `band`: s.
    """
    low, high = (format_quantity(end, "s") for end in band)
    text = f"{format_quantity(memory, 'B')}; band {low} to {high}; own plan "
    try:
        fixed = Plan(**{name: getattr(run.plan, name) for name in _KEPT})
        tried = {"schedule": ["1f1b", "interleaved", str(run.plan.describe()["schedule"])]}
        seconds, plan = best_plan(run.model, run.cluster, fixed, tried)
    except PodsimError as problem:
        return f"{text}none: {problem}"
    shown = plan.describe()
    degrees = " ".join(f"{name}={shown[name]}" for name in LAYOUT_DEGREES if shown[name] != 1)
    return f"{text}{format_quantity(seconds, 's')}: {degrees}"
