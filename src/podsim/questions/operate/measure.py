"""`podsim measure collective`: tables of collectives, and the library's own, run for real on the ranks at hand."""

from __future__ import annotations

import os

from podsim.answers.lab import MeasuredCollectives
from podsim.answers.saved_run import keep_run
from podsim.errors import LabError
from podsim.lab.collective_job import collective_job
from podsim.lab.measured_collectives import task_of
from podsim.lab.options import no_folder
from podsim.lab.ranks import run_task, started_rank
from podsim.options.measure_options import MeasureCollectiveOptions
from podsim.options.question import question


@question(
    MeasureCollectiveOptions,
    ranked=True,
    status=lambda run: int(any(row.wrong or row.in_place_wrong for row in run.rows)),
)
def measure_collective(options: MeasureCollectiveOptions) -> MeasuredCollectives | None:
    """Seconds of a collective run for real, by algorithm and size; None on every rank but the first of a job.

    Under torchrun or `podsim emulate` the ranks are theirs; else they are forked on this machine. Of calls one after the
    other, the start of one may overlap with the end of the one before; the result of the first is checked in float64.

    Raises PodsimError for what makes no sense; LabError, naming the rank, for a run that broke off.
    """
    rank = started_rank(os.environ)
    job = collective_job(options, rank)
    if problem := no_folder(options.save):
        raise LabError(*problem)
    return keep_run(run_task(task_of(job), rank), MeasuredCollectives, options.save)
