"""`podsim workers`: data-parallel workers over many steps, in step with each other or not, simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.errors import PodsimError, raise_all
from podsim.options.output_options import Output
from podsim.options.plan_options import PlanOptions
from podsim.options.question import like, option, options_of, question, values_of, wrong_choices
from podsim.options.step_options import WorkersOptions
from podsim.runs.loss_time import loss_time, read_target
from podsim.simulation.workers_inputs import Given, Workforce, plan_workers, read_workers
from podsim.simulation.workers_times import Pace, round_seconds, step_seconds
from podsim.training.plan import read_plan
from podsim.whole_files import write_whole

OUTER = ("local", "diloco")
"""exchanges of weights after some steps"""
BOUNDS = (0, 1, 2, 4, 8, None)
"""that a comparison simulates; None: no bound"""
_OF_A_PLAN = (
    "gpus",
    "batch",
    "tp",
    "pp",
    "micro_batch",
    "recompute",
    "precision",
    "software",
    "hierarchical",
)
_LOCAL_STEPS = 8
"""steps between exchanges of weights that a comparison of losses simulates"""
MOST_STEPS, MOST_SERVERS, MOST_FACTOR = 100_000, 100_000, 1e6


@dataclass(frozen=True, kw_only=True)
class WorkersOutput(Output):
    """The timeline of an exchange, or a picture of a comparison."""

    csv: bool = like(Output, "csv", "Print CSV: a line for each exchange.")
    plot: Path | None = option(None, "With --compare: draw it, FILE.png or .svg.", suffixes=(".png", ".svg"))
    timeline: Sequence[Path] = option(
        (), "Write it: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."
    )


def _check(output: WorkersOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError where a picture or a timeline is wanted of what has none."""
    if output.plot is not None and not options["compare"]:
        raise PodsimError("--plot draws a comparison; give --compare, too")
    if output.timeline and options["compare"]:
        raise PodsimError("--timeline is of one exchange; leave --compare out")


def _write_files(answer: ExchangeRun | Tradeoff, output: WorkersOutput, options: Mapping[str, Any]) -> None:
    """Write the timelines of an exchange, or draw a comparison."""
    if isinstance(answer, ExchangeRun):
        for path in output.timeline:
            call("timeline.timelines:write_timeline", answer.timeline, path, title=answer.name)
    elif output.plot is not None:
        write_whole(output.plot, call("report.pictures:image_of", answer, output.plot.suffix.lower()[1:]))


@question(
    WorkersOptions,
    output=WorkersOutput,
    check=_check,
    write=_write_files,
    activity="simulating the workers",
)
def workers(options: WorkersOptions) -> ExchangeRun | Tradeoff:
    """Simulate many steps of data-parallel workers: steps per second, idle time, staleness of the gradients, a timeline.

    The workers are the replicas of a model's plan on a cluster, or are given by numbers. With `on` and no model, each
    is a GPU of that cluster. `ps` is `bsp` over parameter servers; under `ssp` the fastest worker is at most
    `staleness` rounds ahead of the slowest; under `async` nobody waits. Servers hold equal shares of the weights.
    `jitter` is the standard deviation of the logarithm of a step's seconds. A throttled worker is slower by
    (factor when hot, s of computing until 63 % of that). Under `hierarchical`, slow and throttle name replicas.
    A comparison simulates every exchange with the same durations.

    Raises PodsimError with all that is wrong with the options, NoFitError for a plan that does not fit.
    """
    problems = [*_exchange_problems(options), *_number_problems(options), *_factor_problems(options)]
    raise_all(problems)
    force = _workforce(options)
    pace = Pace(
        compute=force.compute,
        jitter=options.jitter,
        slow=dict(options.slow or {}),
        throttle=dict(options.throttle or {}),
    )
    return _played(force, pace, options)


def _workforce(options: WorkersOptions) -> Workforce:
    """The workers of a model's plan, or by numbers."""
    given = Given(**{name: getattr(options, name) for name in Given._fields})
    if options.model:
        if options.workers is not None or options.samples is not None:
            raise PodsimError("workers and samples follow from the model's plan; gpus and batch change them")
        if not options.on:
            raise PodsimError("a model needs a cluster: give on, e.g. dgx-a100:4")
        setting = read_plan(PlanOptions(**values_of(options, PlanOptions)))
        return plan_workers(setting, given, options.hierarchical)
    known = options_of(WorkersOptions)
    if unused := [name for name in _OF_A_PLAN if getattr(options, name) != known[name].default]:
        raise PodsimError(f"{', '.join(unused)}: of a model's plan, and no model is given")
    return read_workers(given, options.workers, options.samples, options.on, options.overrides)


def _exchange_problems(options: WorkersOptions) -> Iterator[str]:
    exchange, staleness, compare = options.exchange, options.staleness, options.compare
    servers, server_bandwidth, beside = options.servers, options.server_bandwidth, options.beside
    yield from wrong_choices(options, "exchange")
    if compare and (exchange != "bsp" or staleness is not None):
        yield "compare simulates every exchange and bound; exchange and staleness cannot be given with it"
    elif exchange == "ssp" and staleness is None:
        yield "exchange=ssp needs staleness: the rounds that a worker may be ahead of the slowest, e.g. 4"
    elif exchange != "ssp" and staleness is not None:
        yield f"staleness={staleness}: only ssp has a bound; ps is ssp with 0, async has none"
    if exchange in OUTER and options.every == 1:
        yield f"exchange={exchange} needs every: steps of a worker between exchanges of weights, e.g. 8"
    if options.curve is not None and options.to_loss is None:
        yield "curve is the run whose losses count: give to_loss, too"
    if options.to_loss is not None and not math.isfinite(options.to_loss):
        yield f"to_loss={options.to_loss}: a loss is a finite number"
    if staleness is not None and (isinstance(staleness, bool) or staleness < 0):
        yield f"staleness={staleness}; it must be 0 or more (async: no bound)"
    if (
        exchange in ("bsp", *OUTER)
        and not compare
        and (servers is not None or server_bandwidth != "" or beside)
    ):
        yield f"{exchange} adds up by all-reduce and has no server; exchange=ps, ssp or async has"
    if beside and server_bandwidth != "":
        yield "servers beside workers share their adapters; server_bandwidth cannot be given"


def _number_problems(options: WorkersOptions) -> Iterator[str]:
    servers, every, steps, seed = options.servers, options.every, options.steps, options.seed
    jitter, samples, overlap = options.jitter, options.samples, options.overlap
    if servers is not None and not 1 <= servers <= MOST_SERVERS:
        yield f"servers={servers}; there may be 1 to {MOST_SERVERS:,}"
    if not 1 <= steps <= MOST_STEPS:
        yield f"steps={steps}; there may be 1 to {MOST_STEPS:,}"
    elif every < 1 or steps % every:
        yield f"every={every}: rounds of so many steps do not make {steps}; choose a divisor of it"
    if seed < 0:
        yield f"seed={seed}; it must not be negative"
    if not 0 <= jitter <= 2:
        yield f"jitter={jitter:g}; it must be from 0 to 2 (0.1 is about 10 %)"
    if samples is not None and not (samples > 0 and math.isfinite(samples)):
        yield f"samples={samples:g}; a step has some, and a finite number"
    if not 0 <= overlap <= 1:
        yield f"overlap={overlap:g}: a share of a step's compute, 0 to 1"


def _factor_problems(options: WorkersOptions) -> Iterator[str]:
    for worker, factor in (options.slow or {}).items():
        if not 0 < factor <= MOST_FACTOR:
            yield f"slow worker {worker}: {factor:g} times as long; it must be above 0, up to {MOST_FACTOR:g}"
    for worker, share in (options.slow_link or {}).items():
        if not 0 < share <= 1:
            yield f"slow link of worker {worker}: {share:g} of its bandwidth; it must be above 0, up to 1"
    for worker, (factor, tau) in (options.throttle or {}).items():
        if not 1 <= factor <= MOST_FACTOR:
            yield f"throttled worker {worker}: {factor:g} times as long when hot; it must be 1 or more"
        if not (tau > 0 and math.isfinite(tau)):
            yield f"throttled worker {worker}: hot after {tau:g} s; it must be positive and finite"


def _named(kind: str, named: Mapping[int, object], count: int) -> list[str]:
    """What is said of workers that do not exist."""
    return [f"{kind} {number}: there are 0 to {count - 1}" for number in named if not 0 <= number < count]


def _played(force: Workforce, pace: Pace, options: WorkersOptions) -> ExchangeRun | Tradeoff:
    """The one exchange that was asked for, or all of them with the same durations."""
    import numpy as np

    from podsim.simulation.workers import Exchange
    from podsim.simulation.workers_outcome import RunInputs, simulate_all_reduce, simulate_servers

    servers, slow_link = options.servers or 1, dict(options.slow_link or {})
    count = force.replicas // force.members
    problems = _named("slow worker", pace.slow, force.replicas) + _named(
        "slow link of worker", slow_link, count
    )
    problems += _named("throttled worker", pace.throttle, force.replicas)
    if options.beside and servers > count:
        problems.append(f"servers={servers}: {count} workers have room for one beside each")
    raise_all(problems)
    durations = step_seconds(pace, options.steps, force.replicas, np.random.default_rng(options.seed))
    bandwidth = np.full(count, force.bandwidth)
    for worker, share in slow_link.items():
        bandwidth[worker] *= share

    target = read_target(options, force.tokens)

    def run(kind: str, bound: int | None, every: int = options.every) -> ExchangeRun:
        played = run_alone(kind, bound, every)
        return played if target is None else replace(played, to_loss=loss_time(played, target))

    def run_alone(kind: str, bound: int | None, every: int) -> ExchangeRun:
        labels = RunInputs(
            name=force.name, exchange=kind, members=force.members, every=every, gradients=force.gradients,
            weights=force.weights, overlap=options.overlap,
            samples=None if force.samples is None else force.samples * force.members,
        )  # fmt: skip
        is_reduced = kind == "bsp" or kind in OUTER
        compute = round_seconds(durations, every, force.members, 0.0 if is_reduced else force.inside)
        if is_reduced:
            seconds = force.reduce_weights if kind in OUTER else force.all_reduce
            return simulate_all_reduce(compute, seconds / float(min(slow_link.values(), default=1.0)), labels)
        how = Exchange(
            gradients=force.gradients, weights=force.weights, bandwidth=bandwidth, latency=force.latency,
            servers=servers, server_bandwidth=force.server_bandwidth, bound=bound, beside=options.beside,
        )  # fmt: skip
        return simulate_servers(compute, how, labels)

    if not options.compare:
        bounds = {**dict.fromkeys(("bsp", "ps", *OUTER), 0), "ssp": options.staleness, "async": None}
        return run(options.exchange, bounds[options.exchange])
    kinds = [
        ("bsp", 0),
        *(("async" if bound is None else "ssp" if bound else "ps", bound) for bound in BOUNDS),
    ]
    runs = [run(*kind) for kind in kinds]
    if target is not None and options.every == 1 and options.steps % _LOCAL_STEPS == 0:
        runs += [run(kind, 0, _LOCAL_STEPS) for kind in OUTER]
    return Tradeoff(name=force.name, runs=tuple(runs))
