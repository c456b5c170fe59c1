"""Counts of paths on disk: kept, merged, and never trusted further than their own user and release."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from podsim.training import path_cache, paths
from podsim.training.path_cache import read_counts, write_counts
from podsim.training.plan_values import Schedule
from podsim.workload.catalog import load_model

BLOCKS = ((1, 1, 2), 3, (1.0, 1.0, 0.5))
COUNTS = {(1, 2, 1, 4): np.array([[1.0, 2.5], [3.0, 0.0]]), (2, 4, 2, 8): np.array([[0.1, 1 / 3]])}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "podsim" / "paths"


def _same(kept: dict, wanted: dict) -> bool:
    return kept.keys() == wanted.keys() and all(np.array_equal(kept[size], wanted[size]) for size in wanted)


def test_what_is_written_is_read_and_later_sizes_are_added(folder: Path) -> None:
    assert read_counts(BLOCKS) == {}
    for size, counts in COUNTS.items():
        write_counts(BLOCKS, {size: counts})
    assert _same(read_counts(BLOCKS), COUNTS)
    assert len(list(folder.iterdir())) == 1
    assert folder.stat().st_mode & 0o077 == 0
    assert read_counts((*BLOCKS, "another model")) == {}


@pytest.mark.parametrize("harm", ["cut", "text", "no arrays", "shared", "link", "older"])
def test_a_file_that_cannot_be_trusted_counts_as_absent(
    folder: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_counts(BLOCKS, COUNTS)
    (path,) = folder.iterdir()
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif harm == "text":
        path.write_text("no archive")
    elif harm == "no arrays":
        arrays = np.load(path)["counts"]
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("sizes.npy", "text")
            packed.writestr("paths.npy", "text")
            with packed.open("counts.npy", "w") as part:
                np.save(part, arrays)
    elif harm == "shared":
        path.chmod(0o666)
    elif harm == "link":
        path.rename(folder.parent / "elsewhere")
        path.symlink_to(folder.parent / "elsewhere")
    else:
        monkeypatch.setattr(path_cache, "_sources_digest", lambda: "another release")
    assert read_counts(BLOCKS) == {}
    write_counts(BLOCKS, COUNTS)
    assert _same(read_counts(BLOCKS), COUNTS)


def test_only_the_newest_files_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_cache, "_MOST", 2)
    for number in range(4):
        write_counts((number,), COUNTS)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("home", ["", "/dev/null", "/proc"])
def test_without_a_cache_everything_works(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/dev/null")
    write_counts(BLOCKS, COUNTS)
    assert read_counts(BLOCKS) == {}


def test_kept_counts_are_those_that_are_played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("gpt2")
    blocks = paths._Blocks(model.order, len(model.kinds), paths._block_shares(model))
    sizes = [paths._Size(Schedule.INTERLEAVED, 4, 3, 4 * rounds) for rounds in range(2, 9)]
    monkeypatch.setattr(paths, "_FEW", 0)
    paths._cell.cache_clear()
    first = paths._simulated_counts(blocks, sizes)
    assert len(list(folder.iterdir())) == 1
    paths._cell.cache_clear()
    monkeypatch.setattr(paths, "_table_counts", None)
    assert _same(paths._simulated_counts(blocks, sizes), first)
    paths._cell.cache_clear()
