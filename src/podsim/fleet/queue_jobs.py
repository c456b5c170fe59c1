"""The jobs and the policies that a user asks a queue for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from podsim.answers.queued import ContainerStart
from podsim.errors import PodsimError
from podsim.fleet.arrivals import draw_jobs, read_arrivals
from podsim.fleet.jobs import Jobs
from podsim.fleet.policies import ELASTIC, POLICIES, Policy, find_policy
from podsim.fleet.queue import Machine
from podsim.fleet.queue_plans import make_plan_filler
from podsim.fleet.reliability_rates import recovery
from podsim.fleet.sliced import policy_problem
from podsim.fleet.traces import read_jobs
from podsim.options.fleet_options import QueueOptions
from podsim.units import parse_quantity

_MODEL = "arrivals:"
_SAVES = 3600.0
"""s. The training time between checkpoints, if the user says none."""


def jobs_of(options: QueueOptions, machine: Machine) -> Jobs:
    """The jobs of a trace or of a model of arrivals."""
    trace, where, together, seed = options.trace, options.where, options.together, options.seed
    taper = options.taper
    if not 0 < taper <= 1:
        raise PodsimError(f"taper={taper:g}; it is above 0 and at most 1")
    if not trace.startswith(_MODEL):
        return read_jobs(
            trace,
            where,
            together=together,
            fill=make_plan_filler(options.on, taper, elastic=options.elastic is not None),
        )
    if where:
        raise PodsimError("where chooses rows of a trace; a model of arrivals has none")
    if not 0 <= seed < 2**63:
        raise PodsimError(f"seed={seed}; it must be 0 or more")
    arrivals = read_arrivals(trace.removeprefix(_MODEL))
    jobs = draw_jobs(arrivals, machine.gpus, np.random.default_rng(seed), warm=not together)
    return jobs.at_once() if together else jobs


def policies_of(
    names: Sequence[str], compare: bool, jobs: Jobs, *, changes: bool, elastic: bool
) -> list[Policy]:
    """Policies by name, or all that serve these jobs, on a machine that changes or not."""
    if names and compare:
        raise PodsimError("compare takes every policy; give policies or compare, not both")
    if compare:
        return [
            policy
            for policy in ((*POLICIES, ELASTIC) if elastic else POLICIES)
            if not (jobs.mig and policy_problem(policy))
            and not (changes and policy.backfill == "conservative")
        ]
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise PodsimError(f"policy {twice[0]} is given more than once")
    return [find_policy(name) for name in names or (("tiresias", "elastic") if elastic else ("easy",))]


def with_costs(policy: Policy, options: QueueOptions, container: ContainerStart | None) -> Policy:
    """The policy with the costs and the pace that the user gives; conservative backfill keeps its own pace."""
    given = {name: getattr(options, name) for name in ("interval", "start", "checkpoint", "restart")}
    changes: dict[str, Any] = {
        name: parse_quantity(text, "s", what=name) for name, text in given.items() if text != ""
    }
    if options.depth is not None:
        changes["depth"] = options.depth
    if options.failures:
        known = {name: constant.value for name, constant in recovery().items()}
        changes.setdefault("restart", known["start"] + known["hang"] * known["timeout"])
        changes["saves"] = parse_quantity(options.saves, "s", what="saves") if options.saves else _SAVES
    elif options.saves:
        raise PodsimError("saves: nothing fails; give failures, too, e.g. rsc-1 or 0.0065")
    if options.qos:
        changes["tiers"] = True
    if container is not None:
        changes |= {"mount": container.mount, "pull": container.pull, "pull_each": container.pull_each}
    return replace(policy, **changes) if changes else policy
