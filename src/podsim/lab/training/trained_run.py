"""A small network trained for real under a plan, on the ranks at hand; and the file of such a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from podsim.answers.saved_run import keep_run
from podsim.answers.trained import MeasuredTraining
from podsim.errors import PodsimError, raise_all
from podsim.lab.options import no_folder, outside, unknown_backend
from podsim.lab.ranks import run_task, started_rank
from podsim.lab.training.metrics_log import MetricsLog
from podsim.lab.training.setup import training_run_of
from podsim.lab.training.train_job import Training
from podsim.lab.training.train_run import task_of
from podsim.options.measure_options import TrainOptions

_BOUNDS = (
    ("steps", 1, 1e7), ("warmup", 0, 1e7), ("local_steps", 1, 1e6), ("prune_at", 0, 1e7), ("test_samples", 0, 100_000),
    ("rate", 1e-9, 100), ("seed", 0, 2**31), ("image", 8, 512), ("classes", 2, 10_000),
    ("every", 0, 1e7), ("keep", 0, 1e6), ("timeout", 1, 1e6),
)  # fmt: skip


def trained_run(
    options: TrainOptions, *, progress: Callable[[int, int], None] = lambda done, steps: None
) -> MeasuredTraining | None:
    """Losses and seconds of each step of a training run; None on every rank but the first of a job.

    The loss of a step is the same for every layout, but for rounding, except where gradients are exchanged
    asynchronously. Numbers are fp32. Under torchrun or `podsim emulate` the ranks are theirs; else they are forked on
    this machine. `progress` is called with (steps done, steps) as the run goes.

    Raises PlanError with all that is wrong with the plan, PodsimError for what makes no sense, LabError, naming the rank,
    for a run that broke off, and CheckpointError.
    """
    joined = started_rank(os.environ)
    _check(options)
    run = training_run_of(options, joined)

    log = (
        _log(options.metrics, run)
        if options.metrics is not None and (joined is None or joined.rank == 0)
        else None
    )

    def watch(rank: int, heard: dict[str, Any]) -> None:
        if log is not None and joined is None:
            log.hear(rank, heard)
        if "done" in heard:
            progress(int(heard["done"]), options.steps)

    measured = keep_run(run_task(task_of(run), joined, watch=watch), MeasuredTraining, options.save)
    if log is not None and joined is not None and measured is not None:
        log.write_all(measured)
    return measured


def _log(path: Path, run: Training) -> MetricsLog:
    try:
        return MetricsLog(path, run)
    except OSError as problem:
        raise PodsimError(f"--metrics {path}: cannot be written: {problem.strerror or problem}") from None


def _check(options: TrainOptions) -> None:
    """Raise PodsimError with all that is wrong with the numbers."""
    values = ((name, getattr(options, name), least, most) for name, least, most in _BOUNDS)
    wrong = outside(each for each in values if each[1] is not None)
    wrong += unknown_backend(options.backend)
    idle = [name for name in ("every", "keep", "resume") if getattr(options, name)]
    if options.checkpoint is None and idle:
        wrong.append(
            f"{', '.join(f'--{name}' for name in idle)}: of checkpoints; say where with --checkpoint FOLDER"
        )
    wrong += no_folder(options.save)
    raise_all(wrong)
