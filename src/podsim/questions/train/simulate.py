"""`podsim simulate`: one training step, simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podsim.answers.answer import call
from podsim.answers.measured import StepComparison
from podsim.answers.saved_run import write_run
from podsim.answers.simulated import SimulatedStep
from podsim.errors import PodsimError, raise_all
from podsim.graphs.networks import networks
from podsim.options.output_options import SimulateOutput
from podsim.options.plan_options import FiledPlanOptions
from podsim.options.question import PLAN_FILE, options_of, question, wrong_choices
from podsim.options.step_options import SimulateOptions
from podsim.simulation.failed_steps import read_failure
from podsim.simulation.lower_links import Trouble
from podsim.simulation.played_plan import simulate_setting
from podsim.simulation.shares import shares
from podsim.training.plan import read_plan


def _write_files(
    step: SimulatedStep, output: SimulateOutput, options: Mapping[str, Any]
) -> StepComparison | None:
    """Write the timeline and the links of a step; what a measured one has different, if one is named."""
    for path in output.timeline:
        call(
            "timeline.timelines:write_timeline", step.timeline, path, title=f"{step.model} on {step.cluster}"
        )
    if output.links is not None:
        call("timeline.link_plots:plot_links", step, output.links)
    if output.against is None:
        return None
    compared: StepComparison = call(
        "timeline.kineto_compare:compare_steps", call("timeline.kineto:read_kineto", output.against), step
    )
    return compared


@question(
    SimulateOptions,
    fill=PLAN_FILE,
    reads="training.plan:read_plan",
    output=SimulateOutput,
    write=_write_files,
    activity="simulating the step",
)
def simulate(options: SimulateOptions) -> SimulatedStep:
    """Simulate one step of a plan: ops on every rank's streams and adapters, a timeline, the critical path.

    Folded ranks are simulated once for each class of equal ones. One op for all kernels between two collectives changes
    no time; by default kernels are listed one by one if ranks are folded. `throttle` maps a rank to (factor when hot,
    s of computing until 63 % of that); the step begins cool. `jitter` is the standard deviation of the logarithm of
    each op's duration, and makes every rank its own. Traffic of a failed adapter goes over a neighbour's, half as
    fast, or stops if the node has no other. A failure also costs half of the time between checkpoints.

    Raises NoFitError for a plan that does not fit, without `force`, and PodsimError for anything unusable.
    """
    fault = read_failure(
        dict(options.fail or {}), dict(options.fail_link or {}), options.watchdog, options.checkpoint_every
    )
    trouble = Trouble(
        slow=dict(options.slow or {}),
        throttle=dict(options.throttle or {}),
        link=dict(options.slow_link or {}),
        flap=dict(options.flap or {}),
        swap={rank: int(other) for rank, other in (options.swap or {}).items()},
        disk=dict(options.slow_disk or {}),
        hosts=dict(options.host or {}),
        nodes=dict(options.node or {}),
        jitter=options.jitter,
        seed=options.seed,
    )
    raise_all(
        [
            *_problems(trouble),
            *wrong_choices(options, "ranks"),
        ]
    )
    _no_graph(options.model, options.on)
    setting = read_plan(options)
    if options.uneven:
        trouble = replace(trouble, shares=shares(*setting[:3], trouble))
    unfold = options.ranks == "all" or options.jitter > 0
    step = simulate_setting(
        setting,
        kernels=not unfold if options.kernels is None else options.kernels,
        unfold=unfold,
        trouble=trouble,
        force=options.force,
        chakra=options.chakra,
        fault=fault,
    )
    if options.save is not None:
        if step.make_telemetry is None:
            raise PodsimError("a step that fails has no record of its ports: leave --save or the failure out")
        write_run(options.save, replace(step.make_telemetry(), question=healthy_question(options)))
    return step


def healthy_question(options: SimulateOptions) -> dict[str, str]:
    """The options of the plan alone, without what is wrong in its step: JSON by name."""
    group = options_of(FiledPlanOptions)
    values = {name: getattr(options, name) for name in group if name != "plan"}
    return {
        name: json.dumps(value, default=str) for name, value in values.items() if value != group[name].default
    }


def _no_graph(model: str, on: str) -> None:
    """Raise PodsimError for a network that is a graph of ops, with what simulates it."""
    if model in networks():
        raise PodsimError(
            f"{model} is a graph of ops, which has no stages: podsim graph {model} --batch 32 --on {on} --timeline "
            "step.html simulates its step"
        )


def _problems(trouble: Trouble) -> list[str]:
    """What cannot be."""
    problems = [
        f"slow rank {r}: {f:g} times as long; it must be above 0 and finite"
        for r, f in trouble.slow.items()
        if not 0 < f < 1e6
    ]
    problems += [
        f"slow link of rank {r}: {f:g} of its bandwidth; it must be above 0, up to 1"
        for r, f in trouble.link.items()
        if not 0 < f <= 1
    ]
    problems += [
        f"flapping adapter of rank {r}: down for {f:g} of the time; it must be above 0, below 1"
        for r, f in trouble.flap.items()
        if not 0 < f < 1
    ]
    problems += [
        f"slow storage of server {n}: {f:g} times as long; it must be above 0 and finite"
        for n, f in trouble.disk.items()
        if not 0 < f < 1e6
    ]
    for rank, (factor, tau) in trouble.throttle.items():
        if not 1 <= factor < 1e6:
            problems.append(f"throttled rank {rank}: {factor:g} times as long when hot; it must be 1 or more")
        if not 0 < tau < float("inf"):
            problems.append(f"throttled rank {rank}: hot after {tau:g} s; it must be positive and finite")
    if not 0 <= trouble.jitter <= 1:
        problems.append(f"jitter={trouble.jitter:g}; it must be from 0 to 1 (0.05 is about 5 %)")
    if trouble.seed < 0:
        problems.append(f"seed={trouble.seed}; it must not be negative")
    return problems
