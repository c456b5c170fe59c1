"""`podsim measure checkpoint`: a checkpoint of a given size written, and read back, by the ranks at hand."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.answers.lab_storage import MeasuredCheckpoints
from podsim.answers.saved_run import keep_run
from podsim.errors import LabError, raise_all
from podsim.lab.checkpoint_io import WRITERS, CheckpointJob, task_of
from podsim.lab.options import no_folder, outside, wrong_ranks
from podsim.lab.places import Place, place_of
from podsim.lab.ranks import run_task, started_rank
from podsim.options.measure_options import RanksOptions
from podsim.options.question import Progress, like, no_progress, option, question
from podsim.units import format_quantity, parse_quantity

_LARGEST = 1 << 50


@dataclass(frozen=True, kw_only=True)
class MeasureCheckpointOptions:
    """A checkpoint that is written and read."""

    to: str = option(
        MISSING, "Folder, or URL: s3://bucket/folder. Nothing stays in it.", flag="--to", argument=True
    )
    size: str | float = option("256MB", "Bytes of the whole checkpoint: 2GB.")
    ranks: int | None = like(RanksOptions, "ranks")
    read: bool = option(True, "Read it back, too.")
    repeats: int = option(3, "Number of repeats; the median counts.")
    block: str | float = option("1MiB", "Bytes that a rank writes or reads at once.")
    writer: str = option("files", "files (one a rank) or dcp (torch.distributed.checkpoint).")
    timeout: float = like(RanksOptions, "timeout", default=600.0)
    save: Path | None = like(RanksOptions, "save")


@question(
    MeasureCheckpointOptions,
    progress="checkpoints",
    status=lambda run: int(any(row.wrong for row in run.rows)),
)
def measure_checkpoint(
    options: MeasureCheckpointOptions, *, progress: Progress = no_progress
) -> MeasuredCheckpoints | None:
    """Seconds and B/s of a checkpoint written by several ranks, and read back; None on every rank but the first of a job.

    A new folder is used, and taken away again. What is read back comes from the drive (nothing of it in the page cache),
    then from the page cache. The median of the repeats counts.

    Raises PodsimError for what makes no sense; LabError, naming the rank, for a run that broke off.
    """
    joined = started_rank(os.environ)
    count = options.ranks if options.ranks is not None else joined.world if joined else 4
    size, block = (
        round(parse_quantity(value, "B", what=name))
        for name, value in (("size", options.size), ("block", options.block))
    )
    wrong = []
    if options.writer not in WRITERS:
        wrong.append(f"--writer {options.writer[:40]!r}; known: {', '.join(WRITERS)}")
    wrong += wrong_ranks(count, joined.world if joined else None)
    wrong += outside((
        ("size", size, max(count, 1), _LARGEST), ("block", block, 4096, 1 << 30),
        ("repeats", options.repeats, 1, 1000), ("timeout", options.timeout, 1, 1e6),
    ))  # fmt: skip
    raise_all(wrong)
    raise_all(no_folder(options.save), LabError)
    storage = place_of(options.to)
    if options.writer == "dcp" and not storage.local:
        raise LabError(f"--writer dcp writes to folders; {options.to} is a URL: take --writer files")
    _room(storage, size)
    token = os.environ.get("TORCHELASTIC_RUN_ID", "job") if joined else uuid.uuid4().hex[:12]
    job = CheckpointJob(
        place=storage, folder=f"{storage.path}/podsim-checkpoint-{token}", size=size, ranks=count, block=block,
        repeats=options.repeats, read=options.read, writer=options.writer, timeout=options.timeout,
    )  # fmt: skip

    def watch(rank: int, heard: dict[str, Any]) -> None:
        if rank == 0 and joined is None:
            progress(heard["done"], heard["whole"])

    try:
        result = run_task(task_of(job), joined, watch=watch)
    except BaseException as broken:  # the ranks took their files away, or are dead
        left = storage.clear(job.folder)
        if left and isinstance(broken, LabError):
            raise LabError(f"{broken}; what was written of it may still be there: {left}") from None
        raise
    return keep_run(result, MeasuredCheckpoints, options.save)


def _room(storage: Place, size: int) -> None:
    """Raise LabError for a folder that is none, or that has no room."""
    if not storage.local:
        return
    folder = Path(storage.path)
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; make it, or give another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LabError(f"{folder}: may not be written to")
    free = shutil.disk_usage(folder).free
    if free < 1.05 * size:
        raise LabError(
            f"{folder} has {format_quantity(free, 'B')} free; a checkpoint of {format_quantity(size, 'B')} needs "
            f"{format_quantity(1.05 * size, 'B')}: take a smaller --size, or another folder"
        )
