"""`podsim workers`: data-parallel workers over many steps, in step with each other or not, played out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from podsim.errors import PodsimError
from podsim.results.exchanged import ExchangeRun, Tradeoff
from podsim.simulation.workers_inputs import Given, Workforce, of_numbers, of_plan
from podsim.simulation.workers_times import Pace, round_seconds, step_seconds
from podsim.training.plan_inputs import read_plan

EXCHANGES = ("bsp", "ps", "ssp", "async")
BOUNDS = (0, 1, 2, 4, 8, None)
"""that a comparison plays; None: no bound"""
MOST_STEPS, MOST_SERVERS, MOST_FACTOR = 100_000, 100_000, 1e6


def workers(
    model: str = "",
    *,
    on: str = "",
    gpus: int | None = None,
    batch: int | None = None,
    tp: int = 1,
    pp: int = 1,
    micro_batch: int = 1,
    recompute: str = "none",
    precision: str | None = None,
    software: str = "megatron-core",
    compute: str | float = "",
    gradients: str | float = "",
    weights: str | float = "",
    workers: int | None = None,
    samples: float | None = None,
    bandwidth: str | float = "",
    latency: str | float = "",
    exchange: str = "bsp",
    staleness: int | None = None,
    servers: int | None = None,
    server_bandwidth: str | float = "",
    beside: bool = False,
    hierarchical: bool = False,
    every: int = 1,
    overlap: float = 0.0,
    jitter: float = 0.0,
    slow: Mapping[int, float] | None = None,
    slow_link: Mapping[int, float] | None = None,
    throttle: Mapping[int, tuple[float, float]] | None = None,
    steps: int = 200,
    seed: int = 0,
    compare: bool = False,
    overrides: Mapping[str, str] | None = None,
) -> ExchangeRun | Tradeoff:
    """Play many steps of data-parallel workers: steps per second, idle time, staleness of the gradients, a timeline.

    The workers are the replicas of a model's plan on a cluster (gpus, batch, tp, …, as in `podsim.predict`), or given by
    numbers: compute (s of a step), gradients (B a worker sends), weights (B it gets, default as many), workers, bandwidth
    and latency of a worker's adapter, samples of its step; with `on` and no model, each is a GPU of that cluster.

    exchange  bsp: all-reduce after every step; ps: the same over parameter servers; ssp: over servers, the fastest worker
              at most `staleness` rounds ahead of the slowest; async: over servers, nobody waits
    servers   parameter servers, each holding an equal share, default 1, with `server_bandwidth` each (default a node's);
              `beside`: on the workers' own machines, sharing their adapters
    every     steps between exchanges (local SGD); hierarchical: the replicas of a node add up first, and are one worker
    overlap   share of a step's compute, at its end, beside which its gradients already leave
    jitter    standard deviation of the logarithm of a step's seconds, drawn with `seed`
    slow      worker -> times that it takes longer; slow_link: -> share of its bandwidth that is left; throttle: -> (times
              that it takes longer when hot, s of computing until 63 % of that). Under `hierarchical` slow and throttle
              name replicas
    compare   all-reduce, and servers with bounds of 0, 1, 2, 4, 8 and none, the same durations for each

    Raises PodsimError with all that is wrong with the arguments, NoFitError for a plan that does not fit.
    """
    given = Given(compute, gradients, weights, bandwidth, latency, server_bandwidth)
    problems = [
        *_exchange_problems(exchange, staleness, servers, server_bandwidth, beside, compare),
        *_number_problems(servers, every, steps, seed, jitter, samples),
        *([] if 0 <= overlap <= 1 else [f"overlap={overlap:g}: a share of a step's compute, 0 to 1"]),
        *_factor_problems(slow or {}, slow_link or {}, throttle or {}),
    ]
    if problems:
        raise PodsimError("; ".join(problems))
    if model:
        if workers is not None or samples is not None:
            raise PodsimError("workers and samples follow from the model's plan; gpus and batch change them")

        if not on:
            raise PodsimError("a model needs a cluster: give on, as dgx-a100:4")
        setting = read_plan(
            model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, micro_batch=micro_batch, recompute=recompute,
            precision=precision, software=software, overrides=overrides,
        )  # fmt: skip
        force = of_plan(setting, given, hierarchical)
    else:
        plan = {
            "gpus": gpus is not None, "batch": batch is not None, "tp": tp != 1, "pp": pp != 1,
            "micro_batch": micro_batch != 1, "recompute": recompute != "none", "precision": precision is not None,
            "software": software != "megatron-core", "hierarchical": hierarchical,
        }  # fmt: skip
        if unused := [name for name, there in plan.items() if there]:
            raise PodsimError(f"{', '.join(unused)}: of a model's plan, and no model is given")
        force = of_numbers(given, workers, samples, on, overrides)

    pace = Pace(compute=force.compute, jitter=jitter, slow=dict(slow or {}), throttle=dict(throttle or {}))
    one = (exchange, {"bsp": 0, "ps": 0, "ssp": staleness, "async": None}[exchange])
    return _played(
        force, pace, one, servers or 1, beside, dict(slow_link or {}), every, overlap, steps, seed, compare
    )


def _exchange_problems(
    exchange: str, staleness: int | None, servers: int | None, server_bandwidth: str | float, beside: bool, compare: bool
) -> Iterator[str]:  # fmt: skip
    if exchange not in EXCHANGES:
        yield f"exchange={exchange[:40]!r} may be {', '.join(EXCHANGES)}"
    if compare and (exchange != "bsp" or staleness is not None):
        yield "compare plays every exchange and bound; exchange and staleness cannot be given with it"
    elif exchange == "ssp" and staleness is None:
        yield "exchange=ssp needs staleness: the rounds that a worker may be ahead of the slowest, as 4"
    elif exchange != "ssp" and staleness is not None:
        yield f"staleness={staleness}: only ssp has a bound; ps is ssp with 0, async has none"
    if staleness is not None and (isinstance(staleness, bool) or staleness < 0):
        yield f"staleness={staleness}; it must be 0 or more (async: no bound)"
    if exchange == "bsp" and not compare and (servers is not None or server_bandwidth != "" or beside):
        yield "bsp adds up by all-reduce and has no server; exchange=ps, ssp or async has"
    if beside and server_bandwidth != "":
        yield "servers beside workers share their adapters; server_bandwidth cannot be given"


def _number_problems(
    servers: int | None, every: int, steps: int, seed: int, jitter: float, samples: float | None
) -> Iterator[str]:
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


def _factor_problems(
    slow: Mapping[int, float], slow_link: Mapping[int, float], throttle: Mapping[int, tuple[float, float]]
) -> Iterator[str]:
    for worker, factor in slow.items():
        if not 0 < factor <= MOST_FACTOR:
            yield f"slow worker {worker}: {factor:g} times as long; it must be above 0, up to {MOST_FACTOR:g}"
    for worker, share in slow_link.items():
        if not 0 < share <= 1:
            yield f"slow link of worker {worker}: {share:g} of its bandwidth; it must be above 0, up to 1"
    for worker, (factor, tau) in throttle.items():
        if not 1 <= factor <= MOST_FACTOR:
            yield f"throttled worker {worker}: {factor:g} times as long when hot; it must be 1 or more"
        if not (tau > 0 and math.isfinite(tau)):
            yield f"throttled worker {worker}: hot after {tau:g} s; it must be positive and finite"


def _named(kind: str, named: Mapping[int, object], count: int) -> list[str]:
    """What is said of workers that do not exist."""
    return [f"{kind} {number}: there are 0 to {count - 1}" for number in named if not 0 <= number < count]


def _played(
    force: Workforce, pace: Pace, one: tuple[str, int | None], servers: int, beside: bool,
    slow_link: Mapping[int, float], every: int, overlap: float, steps: int, seed: int,
    compare: bool,
) -> ExchangeRun | Tradeoff:  # fmt: skip
    """The one exchange that was asked for, or all of them with the same durations."""
    import numpy as np

    from podsim.simulation.workers import Exchange
    from podsim.simulation.workers_outcome import Told, play_all_reduce, play_servers

    count = force.replicas // force.members
    problems = _named("slow worker", pace.slow, force.replicas) + _named(
        "slow link of worker", slow_link, count
    )
    problems += _named("throttled worker", pace.throttle, force.replicas)
    if beside and servers > count:
        problems.append(f"servers={servers}: {count} workers have room for one beside each")
    if problems:
        raise PodsimError("; ".join(problems))
    seconds_TM = step_seconds(pace, steps, force.replicas, np.random.default_rng(seed))
    bandwidth = np.full(count, force.bandwidth)
    for worker, share in slow_link.items():
        bandwidth[worker] *= share

    def run(kind: str, bound: int | None) -> ExchangeRun:
        told = Told(
            name=force.name, exchange=kind, members=force.members, every=every, gradients=force.gradients,
            weights=force.weights, overlap=overlap,
            samples=None if force.samples is None else force.samples * force.members,
        )  # fmt: skip
        inside = 0.0 if kind == "bsp" else force.inside
        compute_RW = round_seconds(seconds_TM, every, force.members, inside)
        if kind == "bsp":
            return play_all_reduce(
                compute_RW, force.all_reduce / float(min(slow_link.values(), default=1.0)), told
            )
        how = Exchange(
            gradients=force.gradients, weights=force.weights, bandwidth=bandwidth, latency=force.latency,
            servers=servers, server_bandwidth=force.server_bandwidth, bound=bound, beside=beside,
        )  # fmt: skip
        return play_servers(compute_RW, how, told)

    if not compare:
        return run(*one)
    kinds = [
        ("bsp", 0),
        *(("async" if bound is None else "ssp" if bound else "ps", bound) for bound in BOUNDS),
    ]
    return Tradeoff(name=force.name, runs=tuple(run(*kind) for kind in kinds))
