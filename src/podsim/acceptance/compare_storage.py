"""`podsim compare` for runs of storage: epochs of a loader, and checkpoints, against predictions of a storage system.

A run becomes cases: one for each epoch, or for each operation on checkpoints. A case has what was measured, the law's
seconds by kind, and the reasons why it may not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podsim.acceptance.comparable import OTHERS_MOST, errors_of, verdict_of
from podsim.answers.lab_storage import (
    ComparedStorage,
    ComparedStorageRow,
    MeasuredCheckpoint,
    MeasuredCheckpoints,
    MeasuredEpoch,
    MeasuredLoader,
)
from podsim.errors import LabError
from podsim.storage.cache import Cache, hits
from podsim.storage.catalog import load_storage
from podsim.storage.loads import Load, Timed, Transfer, epoch_time, transfer_time
from podsim.storage.storage_parts import StorageSystem
from podsim.storage.stripe import net_capacity
from podsim.units import format_quantity

_FROM_DRIVE = 0.9
"""share of the bytes that drives must have given for a run to be one of drives"""
_OBJECTS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "http", "https")
"""protocols of stores that are asked over a network, one request after another"""
_ASK = (
    "says what was measured, not what the storage is: name it with --on, such as s3, nfs, local-nvme (`podsim storage "
    "show` lists them), or describe it in a file: disk.toml with inherits = \"local-nvme\", source = \"fio\", "
    "server.read = \"1.2 GB/s\", server.write = \"0.9 GB/s\", read_latency = \"100 us\""
)  # fmt: skip
Run = MeasuredCheckpoints | MeasuredLoader


def compare_storage(
    name: str,
    run: Run,
    *,
    on: str,
    cache_on: str = "",
    overrides: Mapping[str, str] | None = None,
) -> ComparedStorage:
    """A run of storage against its predictions.

    name: of its file. on: the storage system that was read or written, from the catalog or a TOML file; cache_on: the
    one that a loader's cache is on, by default the drives of `on`'s nodes (local-nvme). What processors did is taken
    from the run; bytes, rates and latencies from the storage system, hits of the cache from podsim.storage.cache. A rate
    of the run is never taken for the store's own: it would predict itself.

    Not comparable: rows that memory answered, rows of a cache that was not empty at the start, epochs broken off, and
    those during which other programs used more than a tenth of the processors. Raises LabError without `on`.
    """
    if not on:
        raise LabError(f"{name} {_ASK}")
    system, _ = load_storage(on, overrides)
    if isinstance(run, MeasuredCheckpoints):
        if cache_on:
            raise LabError(f"--cache-on is for runs of a loader; {name} is of checkpoints")
        cache, rows = None, tuple(_checkpoint_rows(name, run, system))
        what = f"checkpoints of {format_quantity(run.size, 'B')} by {run.count} ranks ({run.writer})"
        machine = f"{', '.join(sorted(set(run.hosts)))}: {run.place} ({run.filesystem})"
        note = "rows of the page cache are of this machine's memory, and not predicted; processor: as the run took it"
    else:
        if run.cache_kind == "none" and cache_on:
            raise LabError(f"--cache-on {cache_on}: {name} ran without a cache")
        cache = None if run.cache_kind == "none" else load_storage(cache_on or "local-nvme")[0]
        rows = tuple(_epoch_rows(name, run, system, cache))
        size = format_quantity(run.size, "B")
        what = f"{run.samples:,} samples, {size}, {run.workers} workers, {run.consumer}"
        machine = f"{run.host}: {run.source} ({run.filesystem})"
        note = (
            "processor: as the run itself took it; wait: what workers wait for answers beyond the links' time"
        )
    mean, worst = errors_of(rows)
    return ComparedStorage(
        run=name, what=what, machine=machine, system=system.name, cache=cache.name if cache else "", rows=rows,
        mean=mean, worst=worst, notes=(note,),
    )  # fmt: skip


def _epoch_rows(
    name: str, run: MeasuredLoader, system: StorageSystem, cache: StorageSystem | None
) -> Iterator[ComparedStorageRow]:
    """A loader's epochs."""
    for number, row in enumerate(run.rows, 1):
        size = row.store + row.cache
        _check_measures(name, number, row.seconds * row.samples * size)
        stored = 1.0 - (0.0 if cache is None else _held(run, row.epoch, cache))
        load = Load(
            samples=row.samples, record=size / row.samples, batch=min(run.batch, row.samples), workers=run.workers,
            cores=run.cores, processor=row.processor / row.samples, compute=row.compute, stored=stored,
        )  # fmt: skip
        local = (row.store if system.local else 0.0) + (row.cache if cache is not None else 0.0)
        verdict = verdict_of({
            "broken off": not row.whole,
            "the cache held other data": abs(row.store / size - stored) > 0.01,
            "read from memory": row.drive is not None and row.drive < _FROM_DRIVE * local,
            "other programs used the processors": row.others > OTHERS_MOST,
        })  # fmt: skip
        yield _row(f"epoch {row.epoch + 1}", row, epoch_time(load, system, cache), verdict)


def _held(run: MeasuredLoader, epoch: int, cache: StorageSystem) -> float:
    """Share of an epoch's bytes that a cache on a storage system holds."""
    endless = float("inf")
    room = Cache(kind="nvme", size=net_capacity(cache) or endless, read=endless, write=endless)
    return hits(room, run.size, 1, epoch, "global")


def _checkpoint_rows(
    name: str, run: MeasuredCheckpoints, system: StorageSystem
) -> Iterator[ComparedStorageRow]:
    """Checkpoints, row by row; what only went to memory, or came from it, has no prediction."""
    for number, row in enumerate(run.rows, 1):
        _check_measures(name, number, row.seconds)
        if row.state == "page cache":
            continue
        transfer = Transfer(
            size=run.size, ranks=run.count, clients=len(set(run.hosts)), cores=run.cores, block=run.block,
            processor=row.processor, is_write=row.operation == "write",
            has_waiting_blocks=run.filesystem in _OBJECTS and row.operation == "read",
        )  # fmt: skip
        given = 1.0 if row.from_drive is None else row.from_drive
        verdict = verdict_of({
            "wrong bytes": row.wrong > 0,
            "read from memory": system.local and given < _FROM_DRIVE,
            "other programs used the processors": row.others > OTHERS_MOST,
        })  # fmt: skip
        yield _row(f"{row.operation} ({row.state})", row, transfer_time(system, transfer), verdict)


def _check_measures(name: str, number: int, moved: float) -> None:
    """Raise LabError for a row in which nothing was moved, or in no time."""
    if not moved > 0.0:
        raise LabError(f"{name}: row {number} measures nothing")


def _row(
    what: str, row: MeasuredCheckpoint | MeasuredEpoch, timed: Timed, verdict: str
) -> ComparedStorageRow:
    measured, predicted = row.seconds, timed.seconds
    return ComparedStorageRow(
        row=what, measured=measured, predicted=predicted, difference=predicted / measured - 1.0,
        parts={**timed.parts, "rest": measured - predicted}, limit=timed.limit, cpu=row.cpu, others=row.others,
        verdict=verdict,
    )  # fmt: skip
