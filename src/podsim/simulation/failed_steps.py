"""A rank or an adapter that fails while a step is played."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from podsim.answers.failed import FailedStep
from podsim.answers.simulated import SimulatedStep
from podsim.errors import PodsimError, SimulationError, raise_all
from podsim.fleet.reliability_rates import recovery
from podsim.simulation.lower_links import Trouble
from podsim.training.plan import Setting

if TYPE_CHECKING:
    from podsim.simulation.events import Played
    from podsim.simulation.failures import Stopped
    from podsim.simulation.lower import Lowered


@dataclass(frozen=True, kw_only=True)
class Failing:
    """The failure, and its cost until somebody notices."""

    rank: int
    time: float
    """s. The time from the start of the step."""
    adapter: bool
    """Whether only its adapter fails."""
    watchdog: float
    """s. The time of the watchdog."""
    interval: float
    """s. The time between checkpoints; 0 if unknown."""


def read_failure(
    ranks: dict[int, float], links: dict[int, float], watchdog: float | None, interval: float
) -> Failing | None:
    """What fails, of the ranks and adapters given with their times: at most one. Raises PodsimError."""
    given = [(r, t, False) for r, t in ranks.items()] + [(r, t, True) for r, t in links.items()]
    default = recovery()["timeout"].value
    seconds = default if watchdog is None else watchdog
    problems = [
        f"{'adapter' if adapter else 'rank'} {r} fails after {t:g} s; give a time of 0 s or more"
        for r, t, adapter in given
        if not 0 <= t < 1e9
    ]
    problems += [f"watchdog={seconds:g} s; it must be above 0 and finite"] * (not 0 < seconds < 1e9)
    problems += [f"checkpoint_every={interval:g} s; it must not be negative"] * (not 0 <= interval < 1e9)
    if len(given) > 1:
        problems.append(f"{len(given)} failures in one step; the first ends it or slows it: give one")
    if not given and (watchdog is not None or interval):
        problems.append("watchdog and checkpoint_every are about a failure: give fail or fail_link, too")
    raise_all(problems)
    if not given:
        return None
    rank, time, adapter = given[0]
    return Failing(rank=rank, time=time, adapter=adapter, watchdog=seconds, interval=interval)


def failing_step(
    setting: Setting, fault: Failing, *, kernels: bool, unfold: bool, trouble: Trouble, closed_form: float
) -> SimulatedStep:
    """The step of a plan in which something fails: until all stand still, or on by a detour."""
    from podsim.simulation.events import play
    from podsim.simulation.failures import cut_off, detour, outside_step_error, stop
    from podsim.simulation.lower import lower
    from podsim.simulation.outcome import outcome

    model, cluster, plan = setting[:3]
    node = cluster.gpus_per_node
    if not 0 <= fault.rank < int(plan.gpus):
        raise SimulationError(
            f"rank {fault.rank} does not exist; this job has ranks 0 to {int(plan.gpus) - 1}"
        )
    if fault.adapter and not cluster.nics:
        raise PodsimError(f"{cluster.name} has no adapters that could fail: nothing leaves its node")
    alike, beside = _affected_ranks(fault, node, cluster.nics, int(plan.gpus))
    trouble = replace(trouble, fail=tuple(alike))

    def lower_with(trouble: Trouble) -> Lowered:
        return lower(model, cluster, plan, kernels=kernels, unfold=unfold, trouble=trouble)

    lowered = lower_with(trouble)
    played = play(lowered.ops)
    if fault.time >= played.seconds:
        raise outside_step_error(fault.time, played.seconds)
    common: dict[str, Any] = {
        "what": "adapter" if fault.adapter else "rank", "rank": fault.rank, "time": fault.time, "healthy": played.seconds,
        "watchdog": fault.watchdog,
    }  # fmt: skip
    if fault.adapter and (beside or not lowered.link_names):
        step, text = lowered, "nothing leaves a node under this plan"
        if lowered.link_names:
            half = dict.fromkeys((fault.rank, *beside), 0.5)
            half = {r: share * trouble.link.get(r, 1.0) for r, share in half.items()}
            step = detour(
                lowered, played, lower_with(replace(trouble, link={**trouble.link, **half})), fault.time
            )
            text = f"the adapter of rank {beside[0]}"
        result = outcome(model, cluster, plan, step, play(step.ops), closed_form)
        failure = FailedStep(
            **common, rerouted=text, under_way=(), standing=(), still=0.0, noticed=0.0,
            lost=result.step_time - played.seconds,
        )  # fmt: skip
        return replace(result, failure=failure)
    ended = (
        cut_off(lowered, played, plan, alike, fault.time)
        if fault.adapter
        else stop(lowered, played, plan, fault.rank, fault.time)
    )
    return _stopped_step(setting, fault, ended, played, common, closed_form)


def _affected_ranks(fault: Failing, node: int, nics: int, gpus: int) -> tuple[list[int], list[int]]:
    """(ranks to tell apart, the failed one first; the rank whose adapter takes over, if there is one)."""
    if not fault.adapter:
        return [fault.rank], []
    first = fault.rank // node * node
    peers = [r for r in range(first, min(first + node, gpus)) if r != fault.rank]
    if nics > 1 and peers:
        other = fault.rank ^ 1 if fault.rank ^ 1 in peers else peers[0]
        return [fault.rank, other], [other]
    return [fault.rank, *peers], []


def _stopped_step(
    setting: Setting, fault: Failing, ended: Stopped, played: Played, common: dict[str, Any], closed_form: float
) -> SimulatedStep:  # fmt: skip
    """A step that stops short."""
    from podsim.simulation.outcome import outcome

    model, cluster, plan = setting[:3]
    result = outcome(model, cluster, plan, ended.lowered, ended.played, closed_form, is_whole=False)
    noticed = ended.hung + fault.watchdog
    failure = FailedStep(
        **common, rerouted="", under_way=ended.under_way, standing=ended.standing, still=ended.played.seconds,
        noticed=noticed, lost=noticed + fault.interval / 2,
    )  # fmt: skip
    return replace(result, failure=failure, critical=())
