"""What the findings of a diagnosis cost: the job simulated with and without each, and what its GPUs cost meanwhile.

    lost = 1 - T / T_ill     T, T_ill: a step of the job as planned, and with the part at what it has left

A clock that is left slows all kernels of its GPU, a bandwidth all transfers of its port. What is no such share is not
simulated: there, lost is what the telemetry shows, 1 - speed. A restart on other nodes costs R; it pays if the job goes
on for longer than R / lost. Limits: kernels that wait for memory slow down less; each finding is simulated alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from podsim.answers.diagnosis import Diagnosis, Effect, Finding
from podsim.answers.prediction import Prediction
from podsim.errors import NoFitError, PlanError, PodsimError
from podsim.fleet.price_offers import price_offer
from podsim.fleet.reliability_rates import recovery
from podsim.hardware.cluster import load_cluster
from podsim.monitoring.fault_costs import step_seconds
from podsim.options.plan_options import SearchOptions
from podsim.runs.best_plans import find_plans
from podsim.simulation.lower_links import Trouble
from podsim.training.plan import Plan, Setting

_DAY = 86400.0
_LEAST = 1e-3
"""The share of a job's time below which a finding costs none."""


def with_costs(diagnosis: Diagnosis, on: str, model: str, price: str) -> Diagnosis:
    """The diagnosis of machine `on` with costs; its jobs train `model` with the best plan, or "": nothing is simulated.

    Raises PodsimError for a GPU without a price, and for a model that no plan fits.
    """
    offer = price_offer(price, cluster := load_cluster(on))
    if offer is None:
        raise PodsimError(f"no price of {cluster.gpu.name} is known; give USD per GPU-hour: --price 2.10")
    effects = [each.effect for each in diagnosis.findings]
    settings: dict[int, tuple[Setting, float]] = {}
    for gpus in {each.gpus for each in effects if model and each and _is_simulated(each)}:
        setting, _ = best_plan(model, on, gpus)
        settings[gpus] = setting, step_seconds(setting, Trouble())
    findings = tuple(_with_cost(each, settings, offer.low) for each in diagnosis.findings)
    return replace(diagnosis, findings=findings)


@cache
def best_plan(model: str, on: str, gpus: int) -> tuple[Setting, Prediction]:
    """The best plan, and what it is predicted to do, on the largest power of two of GPUs that a job has."""
    size = 1 << (gpus.bit_length() - 1)
    try:
        case, result = find_plans(SearchOptions(model=model, on=on, gpus=size))
    except (PlanError, NoFitError) as problem:
        raise PodsimError(
            f"model={model}: no plan on {size} GPUs of {on}, as a job has; take a smaller model:"
            f" --model bert-large ({str(problem)[:160]})"
        ) from None
    prediction = result.ranked[0].prediction
    plan = Plan(**dict(prediction.plan))  # type: ignore[arg-type]
    return Setting(case.model, case.cluster, plan, case.default_batch), prediction


def _is_simulated(effect: Effect) -> bool:
    """Whether a finding is of a kind that a simulation can have."""
    return bool(effect.ranks) and (effect.clock < 1 or effect.link < 1)


def _with_cost(finding: Finding, settings: Mapping[int, tuple[Setting, float]], price: float) -> Finding:
    """The finding with its cost at a price in USD/s, where something says how slow its job is."""
    effect = finding.effect
    if effect is None:
        return finding
    if is_simulated := _is_simulated(effect) and effect.gpus in settings:
        setting, healthy = settings[effect.gpus]
        ranks = [rank for rank in effect.ranks if rank < int(setting.plan.gpus)]
        slow = {rank: 1 / effect.clock for rank in ranks if effect.clock < 1}
        link = {rank: effect.link for rank in ranks if effect.link < 1}
        speed = healthy / step_seconds(setting, Trouble(slow=slow, link=link))
    elif effect.speed is None:
        return finding
    else:
        speed = effect.speed
    lost = max(1 - speed, 0.0)
    pays = recovery()["start"].value / lost if lost > _LEAST else None
    daily = lost * effect.gpus * price * _DAY
    return replace(finding, effect=replace(
        effect, lost=lost, is_simulated=is_simulated, daily=daily, restart_pays=pays,
    ))  # fmt: skip
