"""What a fault and a meeting of traffic cost a step: the plan of the record, simulated again with and without them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from podsim.answers.telemetry import Contention, Fault, PortRow, Telemetry
from podsim.errors import LabError
from podsim.hardware.cluster import Cluster
from podsim.monitoring.port_faults import HOST_WAYS, lower_median, numbers_of, rank_count
from podsim.options.step_options import SimulateOptions
from podsim.simulation.lower_links import Trouble
from podsim.simulation.played_plan import simulate_setting
from podsim.training.plan import Setting, read_plan
from podsim.units import format_quantity

_LEAST_COST = 1e-3
"""The share of a step below which a cost is none."""


def setting_of(run: Telemetry) -> Setting | None:
    """The plan of the record, to be simulated again."""
    if not run.question:
        return None
    try:
        values = {name: json.loads(text) for name, text in run.question.items()}
        return read_plan(SimulateOptions(**values))
    except (ValueError, TypeError) as problem:
        raise LabError(f"the record's plan cannot be read: {str(problem)[:200]}") from None


def step_seconds(setting: Setting, trouble: Trouble, cluster: Cluster | None = None) -> float:
    """Seconds of the step, simulated again with equal ranks folded, on another cluster if one is given."""
    changed = setting._replace(cluster=cluster or setting.cluster)
    return simulate_setting(changed, kernels=False, unfold=False, trouble=trouble, force=True).step_time


def with_cost(fault: Fault, run: Telemetry, setting: Setting | None, healthy: float | None) -> Fault:
    """The fault with its cost: the step simulated with it, against one without."""
    if setting is None or healthy is None:
        return fault
    rows = [
        row
        for row in run.rows
        if fault.port in (row.part, row.port) and (not row.collective or row.kind == "compute")
    ]
    ranks = numbers_of(fault.ranks)
    if fault.kind == "clash":
        sound = step_seconds(setting, Trouble(), replace(setting.cluster, routing="adaptive"))
        return replace(fault, cost=healthy - sound)
    trouble = None
    if fault.kind in ("slow link", "flapping port") and ranks:
        shares = [row.queued_rate / row.capacity for row in rows if row.capacity and row.queued_rate]
        trouble = Trouble(link={ranks[0]: max(min(shares), 0.01)}) if shares else None
    elif fault.kind in ("late rank", "hot GPU") and ranks:
        laps = [row for row in run.rows if row.kind == "compute"]
        trouble = Trouble(slow={
            rank: max(sum(row.values) / _usual(laps, row.collective), 1.0)
            for row in laps for rank in set(numbers_of(row.ranks)) & set(ranks)
        })  # fmt: skip
    elif fault.kind in HOST_WAYS:
        trouble = Trouble(hosts={int(fault.port.removeprefix("node")): HOST_WAYS[fault.kind]})
    elif fault.kind == "wrong cable" and len(ranks) == 2:
        trouble = Trouble(swap={ranks[0]: ranks[1]})
    return fault if trouble is None else replace(fault, cost=step_seconds(setting, trouble) - healthy)


def with_counterfactual(window: Contention, setting: Setting | None, healthy: float | None) -> Contention:
    """The window with the mapping that makes it, its cost, and the change that ends it best."""
    if setting is None or healthy is None:
        return window
    plan, per = setting.plan, setting.cluster.gpus_per_node
    tp, pp, dp = int(plan.tp), int(plan.pp), int(plan.dp) * int(plan.cp)
    reasons = []
    if dp * tp > per and dp > 1:
        reasons.append(f"the ring of {dp} data-parallel ranks crosses servers of {per} GPUs")
    if pp > 1:
        reasons.append(
            f"stages of {dp * tp} ranks lie on other servers" if dp * tp >= per else "stages share servers"
        )
    cost = healthy - step_seconds(setting, Trouble(alone=True))
    changes: dict[str, float] = {}
    bandwidth = setting.cluster.network.bandwidth
    doubled = replace(setting.cluster.network, bandwidth=2 * bandwidth)
    faster = replace(setting.cluster, network=doubled)
    changes["adapters twice as fast"] = step_seconds(setting, Trouble(), faster)
    if plan.overlap_grad and pp > 1:
        moved = setting._replace(plan=replace(plan, overlap_grad=False))
        changes["gradients after the last pass (--no-overlap-grad)"] = step_seconds(moved, Trouble())
    name, best = min(changes.items(), key=lambda each: each[1])
    gain = healthy - best
    remedy = f"{name} would save {format_quantity(gain, 's')}" if gain > _LEAST_COST * healthy else ""
    return replace(window, reason=" and ".join(reasons), cost=cost, remedy=remedy)


def _usual(laps: Sequence[PortRow], peers: str) -> float:
    """s. The lower median of what peers compute."""
    mine = [row for row in laps if row.collective == peers]
    return lower_median(
        np.array([sum(row.values) for row in mine]), np.array([rank_count(row) for row in mine])
    )
