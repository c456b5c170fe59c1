"""`podsim measure tables`: a small DLRM trained for real, its embedding tables on parameter servers."""

from __future__ import annotations

import math
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.saved_run import keep_run
from podsim.answers.trained import MeasuredTables
from podsim.embeddings.hit_rates import hit_rate
from podsim.embeddings.table_files import SUFFIXES, read_tables
from podsim.embeddings.tables import TableSet, table_sets
from podsim.errors import LabError, PodsimError, unknown_name
from podsim.lab import usage
from podsim.lab.options import no_folder, outside
from podsim.lab.ranks import MOST_RANKS, run_here
from podsim.lab.sparse.click_files import read_clicks
from podsim.lab.sparse.sparse_train import SparseJob, checkpoint_step, task_of
from podsim.options.measure_options import RanksOptions
from podsim.options.question import like, option, question
from podsim.units import format_quantity
from podsim.whole_files import scratch_folder

_EXCHANGES = ("sync", "async")
_MOST_ROWS = 100_000_000


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
def measure_tables(
    options: MeasureTablesOptions, *, progress: Callable[[int, int], None] = lambda _done, _whole: None
) -> MeasuredTables:
    """Losses, samples/s, staleness, and hit rates of the servers' caches, measured and by the law of LRU caches.

    All rows are float64. Synchronous training gives the losses of one process, for any number of servers and workers.
    A resumed run gives those of a run that was never stopped.

    Raises PodsimError for what makes no sense; LabError, naming the server or worker, for a run that broke off.
    """
    tables = _cut_tables(options)
    _check(options)
    checkpoint = options.checkpoint
    held = checkpoint_step(checkpoint, *_sizes(tables)) if checkpoint is not None else 0
    if held and not options.resume:
        raise PodsimError(
            f"{checkpoint} holds the checkpoint of step {held}: take --resume, or another folder"
        )
    if held >= options.steps:
        raise PodsimError(f"{checkpoint} holds the checkpoint of step {held}: take more --steps than that")
    started = usage.now_text()
    try:
        with scratch_folder(options.folder) as folder:
            _check_room(tables, folder)
            job = SparseJob(
                tables=tables, servers=options.servers, workers=options.workers, steps=options.steps,
                batch=options.batch, cache=_share(options.cache), is_synchronous=options.exchange == "sync",
                rate=options.rate, seed=options.seed, folder=folder, checkpoint=checkpoint,
                every=options.every, start=held, timeout=options.timeout,
                data=None if options.data is None else read_clicks(options.data, _sizes(tables)[0]),
            )  # fmt: skip
            values = run_here(
                task_of(job),
                watch=lambda rank, heard: progress(heard["done"], heard["whole"]) if not rank else None,
            )
    except OSError as problem:
        raise LabError(f"--folder {options.folder}: {problem.strerror or problem}") from None
    values |= _hit_rates(job, values.pop("hits"), values.pop("lookups"))
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


def _cut_tables(options: MeasureTablesOptions) -> TableSet:
    """The tables with at most --rows rows each, of one width, and with whole poolings."""
    name = options.tables
    if Path(name).suffix.lower() in SUFFIXES:
        known = read_tables(Path(name))
    elif name in table_sets():
        known = table_sets()[name]
    else:
        raise PodsimError(
            f"{unknown_name('set of tables', name, table_sets())}, or a file {', '.join(SUFFIXES)}"
        )
    if wrong := outside((("rows", options.rows, 1, _MOST_ROWS), ("width", options.width, 0, 4096))):
        raise PodsimError("; ".join(wrong))
    widths = sorted({options.width or table.width for table in known.tables})
    if len(widths) > 1:
        raise PodsimError(
            f"--width 0: the tables have widths {', '.join(map(str, widths))}; give one for all: --width 16"
        )
    cut = (
        replace(each, rows=min(each.rows, options.rows), width=widths[0], pooling=math.ceil(each.pooling))
        for each in known.tables
    )
    return replace(known, tables=tuple(cut))


def _sizes(tables: TableSet) -> tuple[tuple[int, ...], int]:
    return tuple(table.rows for table in tables.tables), tables.tables[0].width


def _share(text: str) -> float:
    """A share such as 5% or 0.05. Raises PodsimError."""
    try:
        share = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise PodsimError(f"--cache {text[:40]!r}; a share of the rows, such as 5%, up to 100%")
    return share


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
    if wrong:
        raise PodsimError("; ".join(wrong))


def _check_room(tables: TableSet, folder: Path) -> None:
    """Raise LabError where the drive has no room for all rows and Adagrad's sums."""
    needed, free = 16.0 * tables.parameters, shutil.disk_usage(folder).free
    if needed > free:
        raise LabError(
            f"{folder.parent} has {format_quantity(free, 'B')} free; the tables may need {format_quantity(needed, 'B')}: "
            "take fewer --rows, a smaller --width, or another --folder"
        )


def _hit_rates(job: SparseJob, hits: list[int], lookups: list[int]) -> dict[str, Any]:
    """Lookups and hit rates by group of tables: those of a power of ten of rows, and of one skew."""
    groups: dict[str, list[tuple[int, int, float]]] = {}
    samples = (job.steps - job.start) * job.batch
    order = sorted(
        zip(range(len(hits)), job.tables.tables, hits, lookups, strict=True), key=lambda each: -each[1].rows
    )
    for number, table, hit, asked in order:
        cached = sum(job.shard(server).cached_rows(number) for server in range(job.servers))
        law = hit_rate(
            table.rows, cached, table.skew, lookups=samples * table.pooling,
            batch=job.batch / job.workers * table.pooling,
        )  # fmt: skip
        name = f"up to {10 ** math.ceil(math.log10(table.rows)):,} rows, skew {table.skew:g}"
        groups.setdefault(name, []).append((hit, asked, law * asked))
    return {
        "lookups": {name: sum(each[1] for each in group) for name, group in groups.items()},
        "hit_rates": {
            name: sum(each[0] for each in group) / max(sum(each[1] for each in group), 1)
            for name, group in groups.items()
        },
        "law_rates": {
            name: sum(each[2] for each in group) / max(sum(each[1] for each in group), 1)
            for name, group in groups.items()
        },
    }
