"""Checkpoints written and read back for real, by forked ranks: to a folder, to memory, to an S3 server."""

from __future__ import annotations

import importlib
import json
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from podsim.answers.saved_run import read_run, run_of
from podsim.errors import LabError, PodsimError
from podsim.lab.checkpoint_io import CheckpointJob, task_of
from podsim.lab.places import filesystem_of, place_of
from podsim.lab.ranks import run_here
from podsim.questions.operate.measure_checkpoint import measure_checkpoint

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]
QUICK: dict[str, Any] = {"size": "3MB", "ranks": 3, "repeats": 2, "timeout": 60.0}


def _job(folder: Path) -> CheckpointJob:
    return CheckpointJob(
        place=place_of(str(folder)), folder=str(folder / "checkpoint"), size=1_000_001, ranks=2, block=65_536, repeats=2,
        read=True, writer="files", timeout=60.0,
    )  # fmt: skip


@pytest.mark.parametrize("writer", ["files", "dcp"])
def test_written_and_read_back(writer: str, tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    (tmp_path / "to").mkdir()
    run = measure_checkpoint(str(tmp_path / "to"), writer=writer, save=kept, **QUICK)
    assert run is not None
    assert [(row.operation, row.state) for row in run.rows] == [
        ("write", "page cache"), ("write", "flushed"), ("read", "drive"), ("read", "page cache"),
    ]  # fmt: skip
    assert (run.size, run.count, run.writer, run.place) == (3e6, 3, writer, str(tmp_path / "to"))
    for row in run.rows:
        assert (row.repeats, row.wrong, len(row.ranks)) == (2, 0, 3)
        assert 0 < row.fastest <= row.seconds <= row.slowest
        assert row.bandwidth == pytest.approx(3e6 / row.seconds)
        assert max(row.ranks) <= row.slowest
    assert read_run(kept) == run
    assert not list((tmp_path / "to").iterdir()), "nothing stays"


def test_the_index_of_dcp_is_not_read(tmp_path: Path) -> None:
    """It is a pickle; here it is no more one when the parts are read."""

    def spoil(rank: int, doing: str) -> None:
        if rank == 0 and doing.startswith("read (drive)"):
            (tmp_path / "checkpoint" / ".metadata").write_bytes(b"no pickle")

    run = run_of(run_here(task_of(replace(_job(tmp_path), writer="dcp")), hook=spoil), kind="checkpoints")
    assert [row.wrong for row in run.rows] == [0, 0, 0, 0]


def test_parts_add_up() -> None:
    job = replace(_job(Path("/tmp")), size=1_000_003, ranks=4)
    assert [job.part(rank) for rank in range(4)] == [250_001, 250_001, 250_001, 250_000]


def test_other_bytes_are_found(tmp_path: Path) -> None:
    """A bit of one rank's part is turned before the last read."""

    def turn(rank: int, doing: str) -> None:
        if rank == 1 and doing == "read (page cache), repeat 2 of 2":
            path = tmp_path / "checkpoint" / "rank-1.bin"
            data = bytearray(path.read_bytes())
            data[400_000] ^= 1
            path.write_bytes(data)

    run = run_of(run_here(task_of(_job(tmp_path)), hook=turn), kind="checkpoints")
    assert [row.wrong for row in run.rows] == [0, 0, 1, 1]


def test_a_rank_that_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(rank: int, doing: str) -> None:
        if rank == 1 and doing.startswith("read"):
            os._exit(7)

    monkeypatch.setattr(
        "podsim.lab.ranks.run_here", lambda task, watch: run_here(task, hook=die, watch=watch)
    )
    with pytest.raises(LabError, match=r"rank 1 ended with status 7 during read \(drive\), repeat 1 of 2"):
        measure_checkpoint(str(tmp_path), **QUICK)
    assert not list(tmp_path.iterdir()), "what the ranks left was taken away"


def test_a_full_drive_is_said(tmp_path: Path) -> None:
    """By a limit on the size of files: the last write takes a part of its block, the next one nothing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        with pytest.raises(LabError, match=r"rank \d failed: .*File too large"):
            measure_checkpoint(str(tmp_path), **QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, _whole: int) -> None:
        if done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_checkpoint(str(tmp_path), progress=interrupt, **QUICK)
    assert not list(tmp_path.iterdir())


def test_a_store_has_no_page_cache(store: Any) -> None:
    store.reset()
    run = measure_checkpoint("s3://bucket/checkpoints", block="512KiB", **QUICK)
    assert run is not None
    assert [(row.operation, row.state, row.wrong) for row in run.rows] == [
        ("write", "store", 0),
        ("read", "store", 0),
    ]
    assert run.filesystem == "s3"
    assert store.sent >= 2 * 3e6, "two reads of all parts, and the one that checks them"
    assert (
        not importlib.import_module("s3fs").S3FileSystem(skip_instance_cache=True).find("bucket/checkpoints")
    )


def test_a_store_that_refuses(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One screen, also where what was written cannot be taken away."""
    with pytest.raises(LabError, match=r"rank \d failed: .*bucket does not exist"):
        measure_checkpoint("s3://nobucket/checkpoints", **QUICK)
    monkeypatch.setattr("podsim.lab.places.Place.clear", lambda *_: "it cannot be taken away")
    with pytest.raises(LabError, match="may still be there: it cannot be taken away"):
        measure_checkpoint("s3://nobucket/checkpoints", **QUICK)


def test_the_command(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    given = ("measure", "checkpoint", "--to", tmp_path, "--size", "1MB", "--ranks", 2, "--repeats", 1)
    ended = podsim(*given)
    assert ended.exit_code == 0, ended.output
    assert "what was read back is what was written" in ended.output
    assert filesystem_of(tmp_path) in ended.output
    told = json.loads(podsim(*given, "--no-read", "--json").stdout)
    assert [row["operation"] for row in told["rows"]] == ["write", "write"]
    assert "operation,state,repeats" in podsim(*given, "--no-read", "--csv").stdout


def test_mistakes(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    for given, said in (
        ({"to": tmp_path / "none"}, "there is no such folder"),
        ({"to": tmp_path, "size": "1PB"}, "free; a checkpoint of 1 PB needs"),
        ({"to": tmp_path, "writer": "pickle"}, "--writer 'pickle'; known: files, dcp"),
        ({"to": tmp_path, "ranks": 0, "repeats": 0}, "--ranks 0; .*; --repeats 0; it must be 1 to"),
        ({"to": tmp_path, "block": "1B"}, "--block 1; it must be 4096 to"),
        ({"to": tmp_path, "size": "1 mile"}, "size: cannot read '1 mile'"),
        ({"to": "memory://x", "writer": "dcp"}, "take --writer files"),
        ({"to": tmp_path, "save": tmp_path / "none" / "run"}, "there is no folder"),
    ):
        with pytest.raises(PodsimError, match=said):
            measure_checkpoint(**(given | {"to": str(given["to"])}))  # type: ignore[arg-type]
    ended = podsim("measure", "checkpoint", "--to", tmp_path / "none")
    assert ended.exit_code == 2
    assert "Traceback" not in ended.output
