"""`podsim measure ranks`: each rank by itself, and each pair of ranks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from podsim.answers.lab import MeasuredRanks
from podsim.answers.saved_run import keep_run
from podsim.errors import raise_all
from podsim.lab.collective_job import ranks_of
from podsim.lab.options import no_folder, outside, unknown_backend
from podsim.lab.rank_pairs import task_of
from podsim.lab.ranks import run_task, started_rank
from podsim.options.measure_options import RanksOptions
from podsim.options.question import like, option, question
from podsim.units import parse_quantity


@dataclass(frozen=True, kw_only=True)
class MeasureRanksOptions(RanksOptions):
    """Ranks that are timed alone and in pairs."""

    save: Path | None = like(RanksOptions, "save", "File that keeps the run, for podsim verify --pairs.")
    size: str | float = option("4MiB", "Bytes of a message between two ranks.")


@question(
    MeasureRanksOptions,
    ranked=True,
)
def measure_ranks(options: MeasureRanksOptions) -> MeasuredRanks | None:
    """Products of each rank, and the bandwidth of each pair; None on every rank but the first of a job.

    Raises PodsimError for what makes no sense, LabError, naming the rank, for a run that broke off.
    """
    joined = started_rank(os.environ)
    ranks, _ = ranks_of(joined, options.ranks, None)
    size = parse_quantity(options.size, "B")
    wrong = outside(
        (("size", size, 4, 1 << 32), ("ranks", ranks, 2, 4096), ("timeout", options.timeout, 1, 1e6))
    )
    wrong += unknown_backend(options.backend) + no_folder(options.save)
    raise_all(wrong)
    task = task_of(ranks, int(size), options.timeout, options.backend)
    return keep_run(run_task(task, joined), MeasuredRanks, options.save)
