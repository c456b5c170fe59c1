"""`podsim compare` for runs of storage: epochs of a loader, and checkpoints, against predictions of a storage system."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.acceptance.comparable import COMPARABLE, OTHERS_MOST, errors_of
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


def compare_storage(
    name: str,
    run: MeasuredCheckpoints | MeasuredLoader,
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
    rows: tuple[MeasuredCheckpoint | MeasuredEpoch, ...] = run.rows
    if empty := [k for k, row in enumerate(rows, 1) if not _measures(row)]:
        raise LabError(f"{name}: row {empty[0]} measures nothing")
    system, _ = load_storage(on, overrides)
    if isinstance(run, MeasuredCheckpoints):
        if cache_on:
            raise LabError(f"--cache-on is for runs of a loader; {name} is of checkpoints")
        return _checkpoints(name, run, system)
    if run.cache_kind == "none" and cache_on:
        raise LabError(f"--cache-on {cache_on}: {name} ran without a cache")
    return _epochs(
        name, run, system, None if run.cache_kind == "none" else load_storage(cache_on or "local-nvme")[0]
    )


def _measures(row: MeasuredCheckpoint | MeasuredEpoch) -> bool:
    """Whether anything was moved in any time."""
    moved = row.samples * (row.store + row.cache) if isinstance(row, MeasuredEpoch) else 1.0
    return row.seconds > 0.0 and moved > 0.0


def _epochs(
    name: str, run: MeasuredLoader, system: StorageSystem, cache: StorageSystem | None
) -> ComparedStorage:
    """A loader's epochs."""
    rows = []
    for row in run.rows:
        held = 0.0
        if cache is not None:
            room = Cache(
                kind="nvme", size=net_capacity(cache) or float("inf"), read=float("inf"), write=float("inf")
            )
            held = hits(room, run.size, 1, row.epoch, "global")
        size = row.store + row.cache
        load = Load(
            samples=row.samples, record=size / row.samples, batch=min(run.batch, row.samples), workers=run.workers,
            cores=run.cores, processor=row.processor / row.samples, compute=row.compute, stored=1.0 - held,
        )  # fmt: skip
        timed = epoch_time(load, system, cache)
        verdict = _verdict_of_epoch(run, row, system, cache, 1.0 - held)
        rows.append(_row(f"epoch {row.epoch + 1}", row.seconds, timed, row.cpu, row.others, verdict))
    return _compared(
        name, rows,
        what=f"{run.samples:,} samples, {format_quantity(run.size, 'B')}, {run.workers} workers, {run.consumer}",
        machine=f"{run.host}: {run.source} ({run.filesystem})", system=system, cache=cache.name if cache else "",
        notes=("processor: as the run itself took it; wait: what workers wait for answers beyond the links' time",),
    )  # fmt: skip


def _verdict_of_epoch(
    run: MeasuredLoader,
    row: MeasuredEpoch,
    system: StorageSystem,
    cache: StorageSystem | None,
    stored: float,
) -> str:
    size = row.store + row.cache
    if not row.whole:
        return "broken off, not comparable"
    if abs(row.store / size - stored) > 0.01:
        return "the cache held other data, not comparable"
    local = (row.store if system.local else 0.0) + (row.cache if cache is not None else 0.0)
    if row.drive is not None and local and row.drive < _FROM_DRIVE * local:
        return "read from memory, not comparable"
    return _busy(row.others)


def _busy(others: float) -> str:
    return "other programs used the processors, not comparable" if others > OTHERS_MOST else COMPARABLE


def _checkpoints(name: str, run: MeasuredCheckpoints, system: StorageSystem) -> ComparedStorage:
    """Checkpoints, row by row; what only went to memory, or came from it, has no prediction."""
    rows = []
    for row in run.rows:
        if row.state == "page cache":
            continue
        transfer = Transfer(
            size=run.size, ranks=run.count, clients=len(set(run.hosts)), cores=run.cores, block=run.block,
            processor=row.processor, is_write=row.operation == "write",
            has_waiting_blocks=run.filesystem in _OBJECTS and row.operation == "read",
        )  # fmt: skip
        timed = transfer_time(system, transfer)
        rows.append(
            _row(
                f"{row.operation} ({row.state})",
                row.seconds,
                timed,
                row.cpu,
                row.others,
                _verdict_of(row, system),
            )
        )
    return _compared(
        name, rows, what=f"checkpoints of {format_quantity(run.size, 'B')} by {run.count} ranks ({run.writer})",
        machine=f"{', '.join(sorted(set(run.hosts)))}: {run.place} ({run.filesystem})", system=system, cache="",
        notes=("rows of the page cache are of this machine's memory, and not predicted; processor: as the run took it",),
    )  # fmt: skip


def _verdict_of(row: MeasuredCheckpoint, system: StorageSystem) -> str:
    if row.wrong:
        return "wrong bytes, not comparable"
    if system.local and row.from_drive is not None and row.from_drive < _FROM_DRIVE:
        return "read from memory, not comparable"
    return _busy(row.others)


def _row(
    what: str, measured: float, timed: Timed, cpu: float, others: float, verdict: str
) -> ComparedStorageRow:
    predicted = timed.seconds
    return ComparedStorageRow(
        row=what, measured=measured, predicted=predicted, difference=predicted / measured - 1.0,
        parts={**timed.parts, "rest": measured - predicted}, limit=timed.limit, cpu=cpu, others=others, verdict=verdict,
    )  # fmt: skip


def _compared(
    name: str, rows: list[ComparedStorageRow], *, what: str, machine: str, system: StorageSystem, cache: str,
    notes: tuple[str, ...],
) -> ComparedStorage:  # fmt: skip
    mean, worst = errors_of(rows)
    return ComparedStorage(
        run=name, what=what, machine=machine, system=system.name, cache=cache, rows=tuple(rows),
        mean=mean, worst=worst, notes=notes,
    )  # fmt: skip
