"""The best plans of a search, played out: does the simulation agree with the closed form that ranked them?"""

from __future__ import annotations

from dataclasses import replace

from podsim.answers.prediction import Ranked
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.workload.model import Model

AGREES = 0.03
"""share of a step within which closed form and simulation agree"""


def refine_ranking(
    model: Model, cluster: Cluster, ranked: tuple[Ranked, ...], plans: list[Plan]
) -> tuple[Ranked, ...]:
    """The ranking with the simulated step time of each plan, in the order of the simulation; tight ones after the others.

    `plans` are those of `ranked`, place by place. A plan that stands elsewhere than its closed form would put it, or
    whose two times differ by more than AGREES, says so in its reason.
    """
    from podsim.simulation.events import play_tiled
    from podsim.simulation.lower import lower

    played = [play_tiled(lower(model, cluster, plan, kernels=False).tiled).seconds for plan in plans]
    order = sorted(range(len(ranked)), key=lambda position: (ranked[position].is_tight, played[position]))
    return tuple(
        replace(
            ranked[i],
            rank=position + 1,
            simulated=played[i],
            reason=_reason(ranked[i], played[i], position + 1),
        )
        for position, i in enumerate(order)
    )


def _reason(plan: Ranked, seconds: float, rank: int) -> str:
    """The reason of a plan with what the simulation says of it, where that is something else."""
    off = seconds / plan.prediction.step_time - 1
    reasons = [plan.reason]
    if abs(off) > AGREES:
        reasons.append(
            f"the simulation says {off:+.1%}: what is sent shares adapters, or comes late to other ranks"
        )
    if rank != plan.rank:
        reasons.append(f"by the closed form it is number {plan.rank}")
    return "; ".join(reasons)
