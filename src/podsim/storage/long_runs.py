"""Checkpoints and failures of a plan: the inputs of `checkpoint`, `goodput`, and of `predict` with tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from podsim.answers.prediction import Prediction, TrainingTime
from podsim.errors import ClusterError, NoFitError, PodsimError, raise_all
from podsim.fleet.reliability import HORIZON, LongRun, best_interval_seconds, blocked_share, expected_seconds
from podsim.fleet.reliability_rates import has_study, node_rate, recovery
from podsim.hardware.cluster import Cluster
from podsim.memo import Memo
from podsim.options.plan_options import PredictOptions, SearchOptions
from podsim.records import dataclass, replace
from podsim.training.plan import Plan
from podsim.units import duration, format_quantity, parse_count, parse_quantity
from podsim.workload.model import Model

if TYPE_CHECKING:
    from podsim.storage.checkpoints_time import Times


@dataclass(frozen=True, kw_only=True)
class Job:
    """A plan of a model on the part of a cluster that it gets, and its prediction."""

    model: Model
    cluster: Cluster
    plan: Plan
    prediction: Prediction


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user may say of failures; None or an empty text where the packaged figure counts."""

    failures: str = ""
    """A study of the catalog, or "parts"."""
    mtbf: float | None = None
    """s. The time between failures of the whole job."""
    restart: float | None = None
    """s. The time of a restart, with loading."""
    spares: int | None = None
    interval: float | None = None
    """s. The time between checkpoints."""
    slow: float = 0.0
    """share. The share of nodes that run slowly."""
    found: float | None = None
    """s. The time until a slow node is detected."""
    spread: float = 0.0


def read_with(given: Mapping[str, str | float | None], unit: str) -> dict[str, float | None]:
    """Numbers of arguments that may be text with a unit; PodsimError names all that are none, or not positive."""
    problems: list[str] = []
    numbers: dict[str, float | None] = {}
    for name, value in given.items():
        try:
            numbers[name] = None if value is None else parse_quantity(value, unit, what=name)
        except PodsimError as error:
            problems.append(str(error))
            continue
        number = numbers[name]
        if number is not None and number <= 0:
            problems.append(f"{name}={value}: must be more than zero")
    raise_all(problems)
    return numbers


def read_tokens(tokens: str | float) -> float:
    """Tokens to train from text such as 300G; PodsimError for what is no positive number."""
    if isinstance(tokens, str):
        return parse_count(tokens, "tokens")
    number = read_with({"tokens": tokens}, "")["tokens"]
    assert number is not None
    return number


def mtbf_of(cluster: Cluster, asked: Asked) -> tuple[float, float, str]:
    """(s between failures of the job, failures of a node in 1/s or 0, where that comes from)."""
    if asked.mtbf is not None:
        return asked.mtbf, 0.0, "mean time between failures as given"
    rate, source = node_rate(asked.failures, cluster)
    return 1.0 / (rate * cluster.nodes), rate, source


def long_run(job: Job, asked: Asked, times: Times, *, work: float, step: float) -> LongRun:
    """The run with its checkpoints and failures, at the interval asked for, or the best one in whole steps."""
    known = {name: constant.value for name, constant in recovery().items()}
    mtbf, _, _ = mtbf_of(job.cluster, asked)
    spares = math.ceil(known["spares"] * job.cluster.nodes) if asked.spares is None else asked.spares
    return LongRun(
        work=work,
        mtbf=mtbf,
        interval=interval_of(asked, times, mtbf, step),
        stall=times.stall,
        persist=times.persist,
        restart=known["start"] + times.read.seconds if asked.restart is None else asked.restart,
        hang=known["hang"],
        timeout=known["timeout"],
        drain=known["drain"],
        repair=known["repair"],
        spares=spares,
        spread=asked.spread,
        slow=asked.slow,
        nodes=job.cluster.nodes,
        slowdown=known["slowdown"] if asked.slow else 0.0,
        found=math.inf if asked.found is None else asked.found,
    )


def interval_of(asked: Asked, times: Times, mtbf: float, step: float) -> float:
    """s of training between checkpoints: as asked, else the best whole number of steps that the write leaves time for."""
    if asked.interval is not None:
        given = f"interval={duration(asked.interval)}"
        if asked.interval < step * (1.0 - 1e-9):
            raise PodsimError(
                f"{given}: shorter than a step of {duration(step)}; a checkpoint holds what a step has left"
            )
        if asked.interval < times.persist:
            raise PodsimError(
                f"{given}: a checkpoint is complete only {duration(times.persist)} after training goes on, and "
                "then the next may start; give more"
            )
        return asked.interval
    best = max(_best_interval(times.stall, mtbf), times.persist)
    steps = max(round(best / step), math.ceil(times.persist / step), 1)
    return steps * step


@lru_cache(maxsize=1024)
def _best_interval(stall: float, mtbf: float) -> float:
    return float(best_interval_seconds(stall, mtbf))


_TIMES: Memo[Any] = Memo(256)
"""Checkpoints of plans by the packaged figures."""


def training_time(job: Job, tokens: float) -> TrainingTime:
    """Days of a run over a number of tokens, with and without failures, by the packaged figures.

    Synchronous checkpoints to the default store at the best interval; a run that waits for spares is longer by the
    long-run share of Erlang's formula. A machine whose failures nobody published has none. Raises NoFitError if the
    run would hardly ever get through.
    """
    from podsim.storage.checkpoints_time import STATE_FIELDS, Saving, checkpoint_times

    saving, asked = Saving(), Asked()
    step = job.prediction.step_time
    steps = steps_of(job, tokens)
    if job.cluster.host is None and not has_study(job.cluster.gpu.architecture):
        return TrainingTime(
            tokens=tokens, steps=steps, seconds=steps * step, expected=steps * step,
            interval=math.inf, stall=0.0, restart=0.0, mtbf=math.inf,
            basis=f"no failures: no study of {job.cluster.gpu.architecture} machines is packaged",
        )  # fmt: skip
    key = (job.model, job.cluster, *(getattr(job.plan, name) for name in STATE_FIELDS))
    times = _TIMES.of(key, lambda: checkpoint_times(job.model, job.cluster, job.plan, saving))
    run = long_run(job, asked, times, work=steps * step, step=step)
    _, _, source = mtbf_of(job.cluster, asked)
    blocked = blocked_share(run.spares or 0, run.drain * run.repair / run.mtbf)
    return TrainingTime(
        tokens=tokens, steps=steps, seconds=run.work, expected=check_ends(run, expected_seconds(run)) / (1.0 - blocked),
        interval=run.interval, stall=run.stall, restart=run.restart, mtbf=run.mtbf,
        basis=f"checkpoints to {saving.store}; {run.spares} spare nodes; failures, {source}",
    )  # fmt: skip


def steps_of(job: Job, tokens: float) -> int:
    """The number of steps that train at least a number of tokens."""
    each = float(job.plan.global_batch) * job.plan.length(job.model)
    return max(1, math.ceil(tokens / each * (1.0 - 1e-12)))


def check_ends(run: LongRun, expected: float) -> float:
    """The expected s of a run; NoFitError, an answer, if it is so long that the run never ends in practice."""
    if expected > HORIZON * run.work:
        needs = run.restart + run.persist + run.interval + run.stall
        raise NoFitError(
            [
                f"the run does not get ahead: {expected / run.work:.3g} times the time of its training is expected, "
                f"as the job fails every {duration(run.mtbf)} on average, needs {duration(needs)} without a failure to "
                f"keep one more checkpoint, and stops {duration(run.stall)} for it; "
                "fewer or more reliable nodes, a better interval, faster checkpoints or restarts would help"
            ]
        )
    return expected


TOKENS_PER_PARAMETER = 20
"""Tokens of a run whose length nobody states (Hoffmann et al. 2022, arXiv 2203.15556)."""
NO_DEFAULT = "fine-tuning has no usual number of tokens: --tokens gives days and money"
DAY = 86400.0


class RunLength(NamedTuple):
    """How long a run is: a number of tokens, or the days that it may take."""

    tokens: float
    is_default: bool = False
    days: float | None = None
    """s. The time that the run may take; None: as long as its tokens need."""

    @property
    def note(self) -> str:
        """The default in words; "" where the tokens were given."""
        amount = format_quantity(self.tokens, "")
        if not self.is_default or self.days is not None:
            return ""
        return f"{amount} tokens: {TOKENS_PER_PARAMETER} a parameter (arXiv 2203.15556); --tokens changes it"


def read_length(options: PredictOptions | SearchOptions, model: Model) -> RunLength | None:
    """The tokens of a run, or the days it may take, as a user gave them, or the default; None: fine-tuning has none."""
    days = None
    if options.days is not None:
        days = read_days(options.days)
    if options.tokens is not None:
        return RunLength(read_tokens(options.tokens), days=days)
    if options.train != "full" and days is None:
        return None
    return RunLength(float(TOKENS_PER_PARAMETER * model.parameters), True, days)


def read_days(days: str | float) -> float:
    """Seconds of a time in days (a number), or with another unit, as 36h."""
    text = str(days).strip().lower().removesuffix("days").removesuffix("day").strip()
    seconds = parse_quantity(f"{text}d" if text.replace(".", "", 1).isdecimal() else text, "s", what="days")
    if seconds <= 0:
        raise PodsimError(f"days={str(days)[:40]}: a run takes more than no time").offer(days=30)
    return seconds


def with_run(
    prediction: Prediction, model: Model, cluster: Cluster, plan: Plan, length: RunLength | None
) -> Prediction:
    """The prediction with the days of a run, and whether it keeps a deadline.

    Raises NoFitError for given tokens that failures never let finish; a default that never ends is a warning.
    """
    if not prediction.fits:
        return prediction
    if length is None:
        return replace(prediction, notes=(*prediction.notes, NO_DEFAULT))
    job = Job(model=model, cluster=cluster, plan=plan, prediction=prediction)
    least = prediction.step_time * prediction.tokens_per_second
    tokens = max(length.tokens, least) if length.is_default else length.tokens
    try:
        if length.is_default and length.days is not None:
            run = _run_of_days(job, length.days)
        else:
            run = training_time(job, tokens)
    except NoFitError as error:
        if not length.is_default:
            raise
        return replace(prediction, warnings=(*prediction.warnings, str(error)))
    except ClusterError as error:  # a machine that no checkpoint leaves
        if not length.is_default:
            raise
        return replace(prediction, notes=(*prediction.notes, f"no days of a run: {error}"))
    notes = (*prediction.notes, *([length.note] if length.note else []))
    if length.days is not None and not length.is_default:
        verb, days = "meets" if run.expected <= length.days else "MISSES", f"{length.days / DAY:,.3g}"
        notes = (*notes, f"{verb} the {days}-day deadline: {run.expected / DAY:,.4g} with failures")
    return replace(prediction, training=run, notes=notes)


def _run_of_days(job: Job, seconds: float) -> TrainingTime:
    """The run whose expected time with failures is a given one."""
    tokens = seconds * job.prediction.tokens_per_second
    for _ in range(3):
        run = training_time(job, tokens)
        tokens *= seconds / run.expected
    return training_time(job, tokens)
