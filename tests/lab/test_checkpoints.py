"""Checkpoints are whole or not there: full drives, killed writers, damaged files, and which ones are kept."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from podsim.errors import CheckpointError
from podsim.lab.checkpoint_files import (
    MANIFEST,
    begin,
    commit,
    damage,
    discard,
    latest,
    opened,
    part_of,
    saving,
    steps,
)
from podsim.lab.processes import fork

LAYOUT = {"dp": 2, "tp": 1}


def _save(root: Path, step: int, *, keep: int = 0, size: int = 5000) -> None:
    with saving(root, step, layout=LAYOUT, keep=keep) as folder:
        for rank in range(2):
            (folder / f"rank-{rank}.bin").write_bytes(os.urandom(size))
        (folder / "deeper").mkdir()
        (folder / "deeper" / "note.txt").write_text(f"step {step}")


def _rests(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith(".")]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    _save(tmp_path, 10)
    _save(tmp_path, 20)
    found = opened(tmp_path)
    assert (found.step, found.layout, latest(tmp_path)) == (20, LAYOUT, 20)
    assert set(found.files) == {"rank-0.bin", "rank-1.bin", "deeper/note.txt"}
    assert found.bytes_ == 10_000 + len("step 20")
    assert opened(tmp_path, 10).step == 10
    assert not _rests(tmp_path)


def test_ranks_write_and_one_commits(tmp_path: Path) -> None:
    """Processes write into one folder whose name they all know."""
    begin(tmp_path, 7)
    pids = [fork(lambda r=rank: _write_rank(tmp_path, 7, r)) for rank in range(3)]  # type: ignore[misc]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    assert steps(tmp_path) == ()
    made = commit(tmp_path, 7, layout={"ranks": 3})
    assert len(made.files) == 3
    assert opened(tmp_path) == made


def _write_rank(root: Path, step: int, rank: int) -> int:
    (part_of(root, step) / f"{rank}.bin").write_bytes(bytes([rank]) * 100)
    return 0


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10, 9_000):
        _save(tmp_path, step, keep=2)
    assert steps(tmp_path) == (10, 9_000)
    assert not _rests(tmp_path)


def test_a_full_drive_leaves_the_last_good_one(small: Path) -> None:
    _save(small, 1, size=100_000)
    with pytest.raises(
        CheckpointError, match="step 2 was not written: the drive is full; step-1 is as it was"
    ) as caught:
        _save(small, 2, size=600_000)
    assert caught.value.previous == 1
    assert opened(small).step == 1
    assert not _rests(small)
    _save(small, 2, size=100_000)  # and there is room again
    assert opened(small).step == 2


def _fill(path: Path) -> None:
    """Write until the drive takes no more."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_drive_that_fills_at_the_manifest(small: Path) -> None:
    """The files fit, what `commit` adds does not."""
    _save(small, 1, size=100_000)
    folder = begin(small, 2)
    _fill(folder / "rank-0.bin")
    with pytest.raises(CheckpointError, match="the drive is full; step-1 is as it was"):
        commit(small, 2, layout=LAYOUT)
    assert opened(small).step == 1
    assert not _rests(small)


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """The same by a limit on the size of files, which needs no drive of its own."""
    _save(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(
            CheckpointError, match="step 2 was not written: File too large; step-1 is as it was"
        ):
            _save(tmp_path, 2, size=20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert opened(tmp_path).step == 1
    assert not _rests(tmp_path)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_drive_that_is_full_only_when_flushed(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems take every write, and say so at the end: injected, no drive here does."""
    _save(tmp_path, 1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, full)
    with pytest.raises(CheckpointError, match="the drive is full; step-1 is as it was"):
        _save(tmp_path, 2)
    monkeypatch.undo()
    assert opened(tmp_path).step == 1
    assert not _rests(tmp_path)


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    code = (
        "import sys, time; from pathlib import Path; from podsim.lab.checkpoint_files import saving\n"
        "with saving(Path(sys.argv[1]), 2, layout={}) as folder:\n"
        "    (folder / 'rank-0.bin').write_bytes(bytes(5000)); print('written', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.send_signal(signal.SIGKILL)
    assert opened(tmp_path).step == 1
    assert _rests(tmp_path) == [".step-2.part"]
    _save(tmp_path, 2)
    assert opened(tmp_path).step == 2
    assert not _rests(tmp_path)


def test_an_error_of_the_block_passes_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), saving(tmp_path, 1, layout={}):
        raise ZeroDivisionError
    assert steps(tmp_path) == ()
    assert not _rests(tmp_path)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "a bit of rank-1.bin": (lambda f: _flip(f / "rank-1.bin"), "the checksum of rank-1.bin"),
    "rank-0.bin cut short": (
        lambda f: os.truncate(f / "rank-0.bin", 4000),
        r"rank-0.bin has 4,000 B of 5,000",
    ),
    "a file gone": (lambda f: (f / "deeper" / "note.txt").unlink(), "deeper/note.txt is missing"),
    "the manifest gone": (lambda f: (f / MANIFEST).unlink(), "manifest.json is missing"),
    "the manifest cut short": (
        lambda f: os.truncate(f / MANIFEST, 100),
        "manifest.json is not as it was written",
    ),
    "another layout": (
        lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace('"dp": 2', '"dp": 4')),
        "manifest.json is not as it was written",
    ),
    "a list for a manifest": (
        lambda f: (f / MANIFEST).write_text("[]"),
        "manifest.json is not as it was written",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_one_is_named_and_the_one_before_offered(name: str, tmp_path: Path) -> None:
    harm, said = DAMAGES[name]
    for step in (1, 2, 3):
        _save(tmp_path, step)
    _flip(tmp_path / "step-2" / "rank-0.bin")
    harm(tmp_path / "step-3")
    with pytest.raises(
        CheckpointError, match=rf"step-3 is damaged: {said}.*step-1 before it is whole"
    ) as caught:
        opened(tmp_path)
    assert caught.value.previous == 1
    assert opened(tmp_path, caught.value.previous).step == 1


def test_none_whole_is_left(tmp_path: Path) -> None:
    _save(tmp_path, 3)
    _flip(tmp_path / "step-3" / "rank-0.bin")
    with pytest.raises(CheckpointError, match="no whole one is before it") as caught:
        opened(tmp_path)
    assert caught.value.previous is None


def test_a_damaged_one_is_replaced_when_its_step_comes_again(tmp_path: Path) -> None:
    for step in (1, 2):
        _save(tmp_path, step)
    _flip(tmp_path / "step-2" / "rank-0.bin")
    _save(tmp_path, 2)
    assert opened(tmp_path).step == 2
    assert not damage(tmp_path, 2)


def test_a_later_version_is_told_from_damage(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    path = tmp_path / "step-1" / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(CheckpointError, match="of format version 2, which a later podsim wrote"):
        opened(tmp_path)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    _save(tmp_path, 9)
    with pytest.raises(
        CheckpointError, match="has a checkpoint of step 9; one of step 5 would hide behind it"
    ):
        begin(tmp_path, 5)
    with pytest.raises(CheckpointError, match="step 9"):
        begin(tmp_path, 9)


def test_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint; there is none"):
        opened(tmp_path / "nowhere")
    assert latest(tmp_path / "nowhere") is None
    _save(tmp_path, 4)
    with pytest.raises(CheckpointError, match="no checkpoint step-5; there are step-4"):
        opened(tmp_path, 5)
    begin(tmp_path, 6)
    with pytest.raises(CheckpointError, match="nothing was written"):
        commit(tmp_path, 6, layout={})
    with pytest.raises(CheckpointError, match="keep=-1"):
        commit(tmp_path, 6, layout={}, keep=-1)
    with pytest.raises(CheckpointError, match="count from 0"):
        begin(tmp_path, -1)
    discard(tmp_path, 6)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="the checkpoint of step 1 was not written: File exists"):
        begin(tmp_path / "file", 1)
    for name in ("step-007", "step-x", "steps-3"):  # not ours
        (tmp_path / name).mkdir()
    assert steps(tmp_path) == (4,)
