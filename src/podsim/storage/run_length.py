"""A plan's whole run: its tokens, the days with failures, energy and money; and the command that repeats the plan.

Without a number of tokens a run trains 20 for each parameter (Hoffmann et al. 2022, arXiv 2203.15556), at the market
price of its GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from podsim.answers.prediction import Prediction, TrainingTime
from podsim.errors import ClusterError, NoFitError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import PredictOptions, SearchOptions
from podsim.storage.long_runs import Job, read_tokens, training_time
from podsim.training.plan import Plan
from podsim.units import format_quantity, parse_quantity
from podsim.workload.model import Model

TOKENS_PER_PARAMETER = 20
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
        kept = "kept" if run.expected <= length.days else "MISSED"
        notes = (*notes, f"{length.days / DAY:,.3g} days are {kept}: {run.expected / DAY:,.4g} with failures")
    return replace(prediction, training=run, notes=notes)


def _run_of_days(job: Job, seconds: float) -> TrainingTime:
    """The run whose expected time with failures is a given one."""
    tokens = seconds * job.prediction.tokens_per_second
    for _ in range(3):
        run = training_time(job, tokens)
        tokens *= seconds / run.expected
    return training_time(job, tokens)
