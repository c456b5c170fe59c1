"""`podsim measure tables`: a small DLRM trained for real, its embedding tables on parameter servers."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podsim.answers.saved_run import keep_run
from podsim.answers.trained import MeasuredTables
from podsim.errors import LabError, PodsimError, raise_all, unknown_name
from podsim.lab import usage
from podsim.lab.options import no_folder, outside
from podsim.lab.ranks import MOST_RANKS, run_here
from podsim.lab.sparse.click_files import read_clicks
from podsim.lab.sparse.sparse_tables import check_room, cut_tables, hit_rates, read_share, sizes_of
from podsim.lab.sparse.sparse_train import SparseJob, checkpoint_step, task_of
from podsim.options.measure_options import RanksOptions
from podsim.options.question import Progress, like, no_progress, option, question
from podsim.whole_files import scratch_folder

_EXCHANGES = ("sync", "async")


@dataclass(frozen=True, kw_only=True)
class MeasureTablesOptions:
    """Embedding tables on parameter servers, and the workers that train on them."""

    tables: str = option(
        "criteo-small",
        "Tables: criteo-small, criteo-40m, criteo-multi-hot, outbrain or a .csv, .toml, .parquet file.",
        argument=True,
    )
    servers: int = option(2, "Parameter servers, each a process.")
    workers: int = option(2, "Workers, each a process.")
    steps: int = option(50, "Steps in all, with those before a resumption.")
    batch: int = option(256, "Samples of a step of all workers.")
    cache: str = option("5%", "Share of its rows that a server caches in memory; the others are in a file.")
    exchange: str = option("sync", "sync (all workers' gradients make one update) or async.")
    rows: int = option(100_000, "Most rows of a table; larger tables are cut.")
    width: int = option(16, "Elements of a row; 0: those of the tables, which must be equal.")
    rate: float = option(0.05, "Learning rate of Adagrad.")
    data: Path | None = option(
        None, "Clicks: FILE.csv or FILE.parquet with label, I1…, C1…; default made by the tables' skew."
    )
    folder: Path | None = option(
        None, "Folder on the drive that holds the servers' rows; default a temporary one."
    )
    checkpoint: Path | None = option(None, "Folder of the checkpoint; the last is kept.")
    every: int = option(0, "Steps between checkpoints; 0: one at the end.")
    resume: bool = option(False, "Go on from the last checkpoint, if there is one.", flag="--resume")
    seed: int = option(0, "Seed of the first weights and of the clicks.")
    timeout: float = like(RanksOptions, "timeout", "Seconds after which podsim gives up on a silent process.")
    save: Path | None = option(None, "File that keeps the run.")


@question(
    MeasureTablesOptions,
    progress="training",
)
def measure_tables(options: MeasureTablesOptions, *, progress: Progress = no_progress) -> MeasuredTables:
    """Losses, samples/s, staleness, and hit rates of the servers' caches, measured and by the law of LRU caches.

    All rows are float64. Synchronous training gives the losses of one process, for any number of servers and workers.
    A resumed run gives those of a run that was never stopped.

    Raises PodsimError for what makes no sense; LabError, naming the server or worker, for a run that broke off.
    """
    tables = cut_tables(options.tables, options.rows, options.width)
    _check(options)
    checkpoint = options.checkpoint
    held = checkpoint_step(checkpoint, *sizes_of(tables)) if checkpoint is not None else 0
    if held and not options.resume:
        raise PodsimError(
            f"{checkpoint} holds the checkpoint of step {held}: take --resume, or another folder"
        )
    if held >= options.steps:
        raise PodsimError(f"{checkpoint} holds the checkpoint of step {held}: take more --steps than that")
    started = usage.now_text()
    try:
        with scratch_folder(options.folder) as folder:
            check_room(tables, folder)
            job = SparseJob(
                tables=tables, servers=options.servers, workers=options.workers, steps=options.steps,
                batch=options.batch, cache=read_share(options.cache), is_synchronous=options.exchange == "sync",
                rate=options.rate, seed=options.seed, folder=folder, checkpoint=checkpoint,
                every=options.every, start=held, timeout=options.timeout,
                data=None if options.data is None else read_clicks(options.data, sizes_of(tables)[0]),
            )  # fmt: skip
            values = run_here(
                task_of(job),
                watch=lambda rank, heard: progress(heard["done"], heard["whole"]) if not rank else None,
            )
    except OSError as problem:
        raise LabError(f"--folder {options.folder}: {problem.strerror or problem}") from None
    values |= hit_rates(job, values.pop("hits"), values.pop("lookups"))
    values |= {
        "tables": tables.title, "parameters": tables.parameters, "servers": job.servers, "workers": job.workers,
        "batch": job.batch, "cache": job.cache, "exchange": options.exchange, "seed": job.seed, "start": held,
        "data": "clicks made by the tables' skew" if options.data is None else options.data.name,
        "software": f"numpy {np.__version__}, Python {platform.python_version()}", "cores": usage.cores(),
        "started": started,
    }  # fmt: skip
    run = keep_run(values, MeasuredTables, options.save)
    assert run is not None
    return run


def _check(options: MeasureTablesOptions) -> None:
    """Raise PodsimError with all that is wrong."""
    wrong = outside((
        ("servers", options.servers, 1, MOST_RANKS - 1), ("workers", options.workers, 1, MOST_RANKS - 1),
        ("servers + --workers", options.servers + options.workers, 2, MOST_RANKS),
        ("steps", options.steps, 1, 10_000_000), ("batch", options.batch, max(options.workers, 1), 1 << 20),
        ("every", options.every, 0, 10_000_000), ("rate", options.rate, 1e-9, 1e3),
        ("seed", options.seed, 0, 1 << 31), ("timeout", options.timeout, 1, 1e6),
    ))  # fmt: skip
    if options.exchange not in _EXCHANGES:
        wrong.append(unknown_name("exchange", options.exchange, _EXCHANGES))
    if options.checkpoint is None and (options.resume or options.every):
        wrong.append("--resume and --every need --checkpoint FOLDER")
    wrong += no_folder(options.save)
    raise_all(wrong)
