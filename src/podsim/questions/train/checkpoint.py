"""`podsim checkpoint`: size of a checkpoint, the stall it means, and the time to read it back."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.runs import CheckpointTime
from podsim.options.fleet_options import SavedJobOptions
from podsim.options.question import PLAN_FILE, question
from podsim.runs.best_job import best_job, check_job
from podsim.storage.checkpoint_answer import checkpoint_time
from podsim.storage.checkpoints_stores import load_store
from podsim.storage.long_runs import Asked, read_with


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(SavedJobOptions):
    """A checkpoint of a job."""


@question(CheckpointOptions, fill=PLAN_FILE, reads=check_job)
def checkpoint(options: CheckpointOptions) -> CheckpointTime:
    """Size and times of a checkpoint of the best plan of a model on a cluster.

    The plan is the fastest that fits, within `limit`. The default interval is the best one for the failures of a
    study. Raises NoFitError where a plan or a checkpoint does not fit, PodsimError for anything unusable.
    """
    from podsim.storage.checkpoints_time import Saving, checkpoint_times

    saving = Saving(to=options.to, store=options.store, mode=options.mode, writers=options.writers)
    load_store(options.store)
    asked = Asked(failures=options.failures, **read_with({"interval": options.interval}, "s"))  # type: ignore[arg-type]
    job = best_job(options)
    return checkpoint_time(job, saving, checkpoint_times(job.model, job.cluster, job.plan, saving), asked)
