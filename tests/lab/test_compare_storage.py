"""Runs of storage beside their predictions: laws worked by hand, what is not comparable, and storage of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from podsim.answers.lab_storage import (
    ComparedStorage,
    MeasuredCheckpoint,
    MeasuredCheckpoints,
    MeasuredEpoch,
    MeasuredLoader,
)
from podsim.answers.saved_run import KINDS, Run, read_run, write_run
from podsim.errors import CatalogError, LabError, StorageError
from podsim.questions.operate.compare import compare
from podsim.storage.catalog import load_storage

DISK = """
inherits = "local-nvme"
source = "fio on a laptop"
read_latency = "1 ms"
write_latency = "2 ms"
[server]
read = "1 GB/s"
write = "500 MB/s"
"""


def _epoch(epoch: int, **changes: object) -> MeasuredEpoch:
    given = {
        "epoch": epoch, "whole": True, "samples": 1000, "steps": 10, "seconds": 2.0, "rate": 500.0, "bandwidth": 5e8,
        "compute": 0.0, "waited": 1.9, "utilisation": None, "store": 1e9, "cache": 0.0, "fetched": 1000, "drive": 1e9,
        "reading": 2.0, "decoding": 0.0, "processor": 0.0, "cpu": 0.1, "others": 0.01,
    }  # fmt: skip
    return MeasuredEpoch(**(given | changes))  # type: ignore[arg-type]


def _loader(*rows: MeasuredEpoch, **changes: object) -> MeasuredLoader:
    given = {
        "source": "/data", "filesystem": "ext4", "cache_kind": "none", "cache_folder": "", "cache_filesystem": "",
        "samples": 1000, "size": 1e9, "batch": 100, "workers": 4, "consumer": "read only", "step": 0.0,
        "page_cache": "dropped", "host": "lab", "cores": 8, "software": "Python", "started": "2026-01-01T00:00:00+00:00",
        "rows": rows or (_epoch(0),),
    }  # fmt: skip
    return MeasuredLoader(**(given | changes))  # type: ignore[arg-type]


def _checkpoints(**changes: object) -> MeasuredCheckpoints:
    row = MeasuredCheckpoint(
        operation="write", state="flushed", repeats=3, seconds=3.0, fastest=2.9, slowest=3.2, bandwidth=1e9 / 3,
        ranks=(3.0, 2.8), processor=0.8, from_drive=None, wrong=0, cpu=0.1, others=0.0,
    )  # fmt: skip
    rows = (
        replace(row, state="page cache", seconds=0.5),
        row,
        replace(row, operation="read", state="drive", seconds=1.25, from_drive=1.0),
        replace(row, operation="read", state="page cache", seconds=0.1, from_drive=0.0),
    )
    given = {
        "place": "/data", "filesystem": "ext4", "size": 1e9, "count": 2, "writer": "files", "block": 1048576.0,
        "hosts": ("lab", "lab"), "cores": 8, "software": "Python", "started": "2026-01-01T00:00:00+00:00", "rows": rows,
    }  # fmt: skip
    return MeasuredCheckpoints(**(given | changes))  # type: ignore[arg-type]


@pytest.fixture
def disk(tmp_path: Path) -> str:
    path = tmp_path / "disk.toml"
    path.write_text(DISK)
    return str(path)


def _against(
    tmp_path: Path, run: Run, on: str, cache_on: str = "", overrides: dict[str, str] | None = None
) -> ComparedStorage:
    kept = tmp_path / "run.jsonl"
    write_run(kept, run)
    assert read_run(kept) == run
    found = compare(kept, on=on, cache_on=cache_on, overrides=overrides)
    assert isinstance(found, ComparedStorage)
    return found


def test_a_disk_of_ones_own(disk: str) -> None:
    system, clients = load_storage(disk)
    assert (system.name, system.kind, clients, system.source) == ("disk", "local", 1, "fio on a laptop")
    assert (system.read_latency, system.write_latency) == (1e-3, 2e-3)
    assert system.server.read is not None
    assert system.server.read.per_byte == pytest.approx(1e-9)
    assert load_storage(f"{disk}:3", {"server.read": "2 GB/s"})[1] == 3
    changed = load_storage(disk, {"server.read": "2 GB/s"})[0].server.read
    assert changed is not None
    assert changed.per_byte == pytest.approx(5e-10)


def test_files_that_describe_no_storage(tmp_path: Path) -> None:
    path = tmp_path / "disk.toml"
    with pytest.raises(CatalogError, match="no such file"):
        load_storage(str(path))
    for text, error, said in (
        ("nonsense", CatalogError, "is not TOML"),
        ('inherits = "local-nvme"', CatalogError, "source must be a text"),
        ('inherits = "floppy"\nsource = "x"', CatalogError, "unknown storage system 'floppy'"),
        (DISK + "reads = 1", CatalogError, r"unknown key of a storage system 'server\.reads'"),
        (DISK.replace('"1 GB/s"', '"fast"'), StorageError, r"server\.read: cannot read 'fast'"),
    ):
        path.write_text(text)
        with pytest.raises(error, match=said):
            load_storage(str(path))


def test_an_epoch_by_hand(tmp_path: Path, disk: str) -> None:
    """1 GB at 1 GB/s; a worker waits 1 ms and the drive's own time for each sample; the first batch waits alone."""
    (row,) = _against(tmp_path, _loader(), disk).rows
    drive = load_storage(disk)[0].server.ssd
    assert drive is not None
    each = 1e-3 + (1e6 - 4096) / drive.read_bandwidth
    assert row.parts["compute"] == 0.0
    assert row.parts["read"] == pytest.approx(1.0)
    assert row.parts["wait"] == pytest.approx(100 * each), "four workers hide the others' waiting"
    assert row.predicted == pytest.approx(1.0 + 100 * each)
    assert row.limit == "servers"
    assert row.parts["rest"] == pytest.approx(2.0 - row.predicted)
    assert sum(row.parts.values()) == pytest.approx(row.measured)
    assert row.verdict == "comparable"


def test_waiting_and_processors_by_hand(tmp_path: Path, disk: str) -> None:
    """One worker that waits 1.3 ms a sample and computes 4 ms: what is beyond the bytes' time is told by kind."""
    run = _loader(_epoch(0, processor=4.0, compute=0.5, seconds=6.0), workers=1, cores=1, batch=1)
    (row,) = _against(tmp_path, run, disk).rows
    drive = load_storage(disk)[0].server.ssd
    assert drive is not None
    each = 1e-3 + (1e6 - 4096) / drive.read_bandwidth
    assert row.parts["compute"] == pytest.approx(0.5)
    assert row.parts["read"] == pytest.approx(0.5), "a second of reading, half of it beside the steps"
    assert row.parts["wait"] == pytest.approx(1000 * each - 1.0 + each)
    assert row.parts["processor"] == pytest.approx(4.0 + 0.004)
    assert row.limit == "workers"


def test_an_accelerator_that_is_the_limit(tmp_path: Path, disk: str) -> None:
    (row,) = _against(tmp_path, _loader(_epoch(0, compute=5.0, seconds=5.2)), disk).rows
    assert (row.limit, row.parts["compute"], row.parts["read"]) == ("accelerator", 5.0, 0.0)


def test_later_epochs_come_from_the_cache(tmp_path: Path, disk: str) -> None:
    """The store at 100 MB/s, the cache on the disk at 1 GB/s."""
    later = _epoch(1, store=0.0, cache=1e9, fetched=0)
    run = _loader(_epoch(0, drive=0.0), later, filesystem="s3", cache_kind="file", cache_folder="/nvme")
    first, second = _against(tmp_path, run, "s3", disk, {"range_requests": "100"}).rows
    assert first.parts["read"] == pytest.approx(10.0), "a hundred requests a second"
    assert first.limit == "requests"
    assert second.parts["read"] == pytest.approx(1.0)
    assert second.limit == "cache servers"
    assert {first.verdict, second.verdict} == {"comparable"}


def test_what_is_not_comparable(tmp_path: Path, disk: str) -> None:
    run = _loader(
        _epoch(0), _epoch(1, whole=False), _epoch(2, drive=1e8), _epoch(3, others=0.3), _epoch(4, store=0.0, cache=1e9)
    )  # fmt: skip
    found = _against(tmp_path, run, disk)
    assert [row.verdict for row in found.rows] == [
        "comparable", "broken off, not comparable", "read from memory, not comparable",
        "other programs used the processors, not comparable", "the cache held other data, not comparable",
    ]  # fmt: skip
    assert found.mean == found.worst == abs(found.rows[0].difference)


def test_checkpoints_by_hand(tmp_path: Path, disk: str) -> None:
    """1 GB at 500 MB/s, 2 ms, and 0.8 s of two processors; read at 1 GB/s while processors copy."""
    found = _against(tmp_path, _checkpoints(), disk)
    write, read = found.rows
    assert (write.row, read.row) == ("write (flushed)", "read (drive)")
    assert write.parts == pytest.approx({"write": 2.0, "wait": 0.002, "processor": 0.4, "rest": 3.0 - 2.402})
    assert read.parts == pytest.approx({"read": 1.0, "wait": 0.001, "processor": 0.0, "rest": 1.25 - 1.001})
    assert found.mean == pytest.approx((1 - 2.402 / 3.0 + 1 - 1.001 / 1.25) / 2)
    assert (write.verdict, read.verdict) == ("comparable", "comparable")


def test_checkpoints_on_an_object_store_wait_for_each_block(tmp_path: Path) -> None:
    row = _checkpoints().rows[2]
    run = _checkpoints(filesystem="s3", block=1e6, rows=(replace(row, state="store", from_drive=0.0),))
    (found,) = _against(tmp_path, run, "s3").rows
    assert found.parts["wait"] == pytest.approx(500 * load_storage("s3")[0].read_latency)


def test_without_a_storage_system_it_is_asked_for(tmp_path: Path, disk: str) -> None:
    for run in (_loader(), _checkpoints()):
        with pytest.raises(LabError, match=r'name it with --on, such as s3, nfs, .* inherits = "local-nvme"'):
            _against(tmp_path, run, "")
    with pytest.raises(LabError, match="ran without a cache"):
        _against(tmp_path, _loader(), disk, disk)
    with pytest.raises(LabError, match="row 1 measures nothing"):
        _against(tmp_path, _loader(_epoch(0, seconds=0.0)), disk)
    with pytest.raises(LabError, match="is of checkpoints"):
        _against(tmp_path, _checkpoints(), disk, disk)


@pytest.mark.parametrize("run", [_loader(), _checkpoints()])
def test_files_of_every_kind(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, run)
    lines = kept.read_text().splitlines()
    head = json.loads(lines[0])
    assert (head["format"], head["version"], KINDS[head["kind"]]) == ("podsim-run", 1, type(run))
    assert len(lines) == 1 + len(run.rows)
    kept.write_text("\n".join([json.dumps(head | {"kind": "poems"}), *lines[1:]]))
    with pytest.raises(
        LabError, match=r"unknown kind of run 'poems'.*known: checkpoints, collectives, .*loader"
    ):
        read_run(kept)
    kept.write_text("\n".join([lines[0], lines[1].replace('"seconds": ', '"secs": ')]))
    with pytest.raises(LabError, match="row 1: 'secs' is unknown; seconds is missing"):
        read_run(kept)


def test_the_command(tmp_path: Path, disk: str, podsim: Callable[..., Result]) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _checkpoints())
    ended = podsim("compare", kept, "--on", disk)
    assert ended.exit_code == 0, ended.output
    assert "write (flushed)" in ended.output
    assert re.search(r"system +disk ", ended.output), ended.output
    assert json.loads(podsim("compare", kept, "--on", disk, "--json").stdout)["rows"][0]["limit"] == "servers"
    write_run(kept, _loader(_epoch(0, others=0.9)))
    ended = podsim("compare", kept, "--on", disk)
    assert ended.exit_code == 1
    assert "no row can be compared" in ended.output
    assert podsim("compare", kept).exit_code == 2
