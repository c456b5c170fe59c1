"""`podsim measure collective`: tables of collectives, and the library's own, run for real on the ranks at hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from podsim.answers.lab import MeasuredCollectives
from podsim.answers.saved_run import keep_run
from podsim.errors import LabError, raise_all
from podsim.lab.collective_job import collective_job
from podsim.lab.measured_collectives import task_of
from podsim.lab.options import no_folder
from podsim.lab.processes import stopped_by_signals
from podsim.lab.ranks import run_task, started_rank
from podsim.options.measure_options import MeasureCollectiveOptions
from podsim.options.question import Progress, no_progress, question


@question(
    MeasureCollectiveOptions,
    ranked=True, progress="calling",
    status=lambda run: 130 if run.stopped else int(any(row.wrong or row.in_place_wrong for row in run.rows)),
)  # fmt: skip
def measure_collective(
    options: MeasureCollectiveOptions, *, progress: Progress = no_progress
) -> MeasuredCollectives | None:
    """Seconds of a collective run for real, by algorithm and size; None on every rank but the first of a job.

    Under torchrun or `podsim emulate` the ranks are theirs; else they are forked on this machine. Of calls one after the
    other, the start of one may overlap with the end of the one before; the result of the first is checked in float64.
    `save` has each row as soon as it is measured. Ctrl-C, SIGTERM and SIGHUP keep the rows until then. `progress` is
    called with (rows that are measured, all).

    Raises PodsimError for what makes no sense; LabError, naming the rank, for a run that broke off.
    """
    rank = started_rank(os.environ)
    job = collective_job(options, rank)
    raise_all(no_folder(options.save), LabError)
    rows, head = list[Any](), dict[str, Any]()
    lines = (len(job.tables) + job.library) * len(job.sizes)

    def watch(_rank: int, heard: Mapping[str, Any]) -> None:
        head.update(heard.get("head", {}))
        if "row" in heard:
            rows.append(heard["row"])
            progress(len(rows), lines)
            if options.save is not None:
                keep_run(
                    head | {"rows": rows, "stopped": len(rows) < lines}, MeasuredCollectives, options.save
                )

    with stopped_by_signals():
        try:
            measured = run_task(task_of(job), rank, watch=watch)
        except KeyboardInterrupt:
            if not rows:
                raise
            measured = head | {"rows": rows, "stopped": True}
    return keep_run(measured, MeasuredCollectives, options.save)
