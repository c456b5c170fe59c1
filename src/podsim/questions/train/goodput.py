"""`podsim goodput`: how long a training run takes with checkpoints and failures, and where its time goes."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, replace
from typing import Any

import numpy as np

from podsim.answers.quantiles import Quantiles
from podsim.answers.runs import Goodput
from podsim.errors import raise_all
from podsim.fleet.goodput_figures import (
    efficiency_curve,
    make_histogram,
    mean_losses,
    run_efficiency,
)
from podsim.fleet.reliability import (
    HORIZON,
    LongRun,
    best_interval_seconds,
    blocked_share,
    check_counts,
    check_numbers,
    daly_interval_seconds,
    expected_seconds,
    failure_free_seconds,
    first_order_efficiency,
    young_interval_seconds,
)
from podsim.fleet.reliability_rates import recovery
from podsim.fleet.reliability_runs import MOST_RUNS, RunSamples, simulate_runs
from podsim.options.fleet_options import SavedJobOptions
from podsim.options.output_options import PlotOutput
from podsim.options.question import PLAN_FILE, option, question, reworded
from podsim.runs.best_job import best_job, check_job
from podsim.storage.checkpoint_answer import checkpoint_time
from podsim.storage.checkpoints_stores import load_store
from podsim.storage.long_runs import Asked, check_ends, long_run, mtbf_of, read_tokens, read_with, steps_of

_DAY = 86400.0
_TIMES = ("step", "interval", "mtbf", "restart", "found")


@dataclass(frozen=True, kw_only=True)
class GoodputOptions(SavedJobOptions):
    """A long run of a job, and what fails in it."""

    tokens: str | float = option(MISSING, "Tokens to train, e.g. 300G or 15T.", example="1T")
    step: str | float | None = option(None, "A measured step, e.g. 5.2s; default the predicted.")
    mtbf: str | float | None = option(None, "Mean time between failures of the whole job, e.g. 7.9h.")
    restart: str | float | None = option(None, "A restart, e.g. 10min; default 5 min and reading back.")
    spares: int | None = option(None, "Spare nodes; default 5 %.")
    slow: float = option(0.0, "Share of nodes that are silently slow, e.g. 0.005.")
    found: str | float | None = option(None, "Time until a slow node is noticed, e.g. 12h; default never.")
    spread: float = option(
        0.0, "Standard deviation of the logarithm of the failure rate between runs, e.g. 0.7."
    )
    runs: int = option(10_000, "Runs to simulate.")
    seed: int = option(0, "Seed of the random numbers: the same seed gives the same result.")


@question(
    GoodputOptions,
    fill=PLAN_FILE,
    output=reworded(PlotOutput, "plot", "Draw intervals and the days' histogram: FILE.svg or .png."),
    reads=check_job,
)
def goodput(options: GoodputOptions) -> Goodput:
    """Days to train some tokens with failures: closed forms, and simulated runs.

    The plan is the fastest that fits, within `limit`, and checkpoints are those of `checkpoint`. Failures come at the
    rate of a study, by default the one of the GPU's architecture, or as a mean time between failures of the whole job.
    A failure costs a restart, and some cost a time-out before it. Some take a node away; a run whose spares are used up
    waits for a repair. Times are text with a unit, or s. Raises NoFitError where nothing fits or the run would never
    end, PodsimError for anything unusable.
    """
    from podsim.storage.checkpoints_time import Saving, checkpoint_times

    wanted = read_tokens(options.tokens)
    read = read_with({name: getattr(options, name) for name in _TIMES}, "s")
    saving = Saving(to=options.to, store=options.store, mode=options.mode, writers=options.writers)
    _check(options)
    load_store(options.store)
    measured = read.pop("step")
    asked = Asked(
        failures=options.failures, spares=options.spares, slow=options.slow, spread=options.spread, **read
    )
    job = best_job(options)
    job = replace(job, prediction=replace(job.prediction, step_time=measured or job.prediction.step_time))
    seconds = job.prediction.step_time
    times = checkpoint_times(job.model, job.cluster, job.plan, saving)
    run = long_run(job, asked, times, work=steps_of(job, wanted) * seconds, step=seconds)
    check_ends(run, _expected(replace(run, spread=0.0)) or 0.0)
    samples = simulate_runs(run, options.runs, np.random.default_rng(options.seed))
    return _result(job, saving, times, asked, run, samples, tokens=wanted, seed=options.seed)


def _check(options: GoodputOptions) -> None:
    """Raise PodsimError with all that is wrong of the plain numbers."""
    slow, spread, runs, seed = options.slow, options.spread, options.runs, options.seed
    spares = options.spares
    problems = check_numbers({"slow": slow}, most=1.0) + check_numbers({"spread": spread}, most=3.0)
    problems += check_counts({"runs": runs}, low=1) + check_counts({"seed": seed}, low=0)
    problems += check_counts({"spares": spares}, low=0) if spares is not None else []
    if runs > MOST_RUNS:
        problems.append(f"runs={runs:,}: at most {MOST_RUNS:,} can be drawn")
    if options.found is not None and slow == 0:
        problems.append("found: no node is slow; give the share of slow nodes, too (slow)")
    if options.to == "local":
        problems.append(
            "to=local: a failed node takes its drives along, so a run cannot go on from them; to=store or to=neighbour"
        )
    raise_all(problems)


def _expected(run: LongRun) -> float | None:
    """Mean s in closed form, waiting by the long-run share; None where there is no closed form."""
    if run.spread or run.slow:
        return None
    return expected_seconds(run) / (1.0 - blocked_share(run.spares or 0, run.drain * run.repair / run.mtbf))


def _result(
    job: Any,
    saving: Any,
    times: Any,
    asked: Asked,
    run: LongRun,
    samples: RunSamples,
    *,
    tokens: float,
    seed: int,
) -> Goodput:
    """Everything that is said of the run."""
    _, rate, source = mtbf_of(job.cluster, asked)
    blocked = blocked_share(run.spares or 0, run.drain * run.repair / run.mtbf)
    points = efficiency_curve(run, blocked)
    edges, counts = make_histogram(samples)
    step = job.prediction.step_time
    return Goodput(
        model=job.model.name, cluster=job.cluster.name, gpus=job.prediction.gpus, nodes=job.cluster.nodes,
        plan=job.prediction.plan, tokens=tokens, steps=round(run.work / step), step_time=step,
        checkpoint=checkpoint_time(job, saving, times, replace(asked, interval=run.interval)), rate=rate,
        rate_source=source, mtbf=run.mtbf, restart=run.restart, load=times.read.seconds, hang=run.hang,
        timeout=run.timeout, spares=run.spares or 0, interval=run.interval, interval_steps=round(run.interval / step),
        young=float(young_interval_seconds(run.stall, run.mtbf)), daly=float(daly_interval_seconds(run.stall, run.mtbf)),
        best=float(best_interval_seconds(run.stall, run.mtbf)), efficiency=run_efficiency(run, run.interval, blocked),
        first_order=first_order_efficiency(1, 1.0 / run.mtbf, run.restart, run.interval, run.stall), blocked=blocked,
        work=run.work, failure_free=failure_free_seconds(run), expected=_expected(run),
        seconds=Quantiles.of(samples.seconds), effective=Quantiles.of(run.work / samples.seconds),
        interruptions=Quantiles.of(samples.failures.astype(float)), unfinished=samples.unfinished,
        losses=mean_losses(run, samples), curve=points, edges=edges, counts=counts, runs=samples.seconds.size, seed=seed,
        warnings=_warnings(run, samples), assumptions=_assumptions(run, source),
    )  # fmt: skip


def _warnings(run: LongRun, samples: RunSamples) -> tuple[str, ...]:
    said = []
    if samples.unfinished:
        said.append(
            f"{samples.unfinished:.1%} of the simulated runs were given up after {HORIZON:g} times their length"
        )
    if run.mtbf > run.work:
        said.append("fewer than one failure is expected: the best interval is longer than is prudent")
    if run.spares == 0:
        said.append("no spare node: every drained node stops the run until it is repaired")
    return tuple(said)


def _assumptions(run: LongRun, source: str) -> tuple[str, ...]:
    known = recovery()
    said = [
        f"failures, {source}; random and independent, at the same rate day and night",
        *(
            f"{known[name].about}: {text}; source: {known[name].source}"
            for name, text in (
                ("start", f"{known['start'].value / 60:g} min"),
                ("hang", f"{run.hang:.1%}"),
                ("timeout", f"{run.timeout / 60:g} min"),
                ("drain", f"{run.drain:.0%}"),
                ("repair", f"{run.repair / 3600:.1f} h"),
                ("spares", f"{run.spares} in this run"),
            )
        ),
        "spare nodes stand by beside the job's own; a repaired node fails no more often than before",
    ]
    if run.slow:
        until = "for good" if run.found == math.inf else f"for {run.found / 3600:g} h of training"
        said.append(
            f"{run.slow:.1%} of nodes are {run.slowdown:.0%} slow, {until}; source: {known['slowdown'].source}"
        )
    if run.spread:
        said.append(
            f"the failure rate differs from run to run by a factor of e^{run.spread:g} (one deviation)"
        )
    return tuple(said)
