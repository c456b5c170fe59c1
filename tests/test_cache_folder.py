"""Caches that another user could have poisoned: not used, never loaded, said once; and damaged entries."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from podsim import cache_folder, native
from podsim.c_compiler import library_name
from podsim.training import path_cache
from podsim.training.path_cache import read_counts, write_counts

NOBODY = 65534
COUNTS = {(1, 2, 1, 4): np.array([[1.0, 2.5], [3.0, 0.0]])}
BLOCKS = ((1, 1, 2), 3)
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache_folder._say_unused.cache_clear()
    yield tmp_path / "cache" / "podsim"
    cache_folder._say_unused.cache_clear()


def _give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _link(path: Path) -> None:
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


HARMS = {
    "another's": _give_away, "group": lambda path: path.chmod(0o770), "world": lambda path: path.chmod(0o777),
    "link": _link, "sticky": lambda path: path.chmod(0o1777),
}  # fmt: skip


@pytest.mark.parametrize("place", ["", "paths"])
@pytest.mark.parametrize("harm", [pytest.param(h, marks=as_root if h == "another's" else ()) for h in HARMS])
def test_a_folder_that_others_could_change_is_not_used_and_said_once(
    home: Path, harm: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_counts(BLOCKS, COUNTS)
    HARMS[harm](home / place)
    assert read_counts(BLOCKS) == {}
    write_counts(BLOCKS, COUNTS)
    assert cache_folder.cache_folder("paths") is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(home / place) in said
    assert "is not used: others could change it" in said


def test_folders_are_the_users_alone(home: Path) -> None:
    assert cache_folder.cache_folder("paths") == home / "paths"
    assert {path.stat().st_mode & 0o777 for path in (home, home / "paths")} == {0o700}


@pytest.mark.parametrize("harm", [pytest.param("another's", marks=as_root), "world", "link"])
def test_a_library_that_others_could_have_written_is_not_loaded(
    home: Path, harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "podsim"
    (package / "network").mkdir(parents=True)
    for name in ("native.h", "network/flow.h", "network/flow.c"):
        shutil.copy(native.PACKAGE / name, package / name)
    monkeypatch.setattr(native, "PACKAGE", package)
    folder = cache_folder.cache_folder("native")
    assert folder is not None
    entry = folder / library_name(package)
    entry.write_text("crafted")
    HARMS[harm](entry)
    assert native.load_library.__wrapped__().flow_fill is not None  # compiled anew
    assert not entry.is_symlink()
    assert entry.stat().st_uid == os.getuid()
    assert entry.read_bytes()[:7] != b"crafted"


class _Command:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("run",)


def _archive(**arrays: object) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


GOOD = {"sizes": np.array([[1, 2, 1, 4]]), "paths": np.array([1]), "counts": np.ones((1, 2))}
CRAFTED = {
    "object": _archive(**{**GOOD, "counts": np.array([_Command()], dtype=object)}),
    "pickle": pickle.dumps(_Command()), "one array": b"\x93NUMPY" + bytes(200), "empty": b"",
    "fractions": _archive(**{**GOOD, "paths": np.array([1.0])}),
    "words": _archive(**{**GOOD, "sizes": np.array([["a"] * 4])}),
    "negative": _archive(**{**GOOD, "paths": np.array([-1]), "counts": np.ones((0, 2))}),
    "nan": _archive(**{**GOOD, "counts": np.array([[np.nan, 1.0]])}), "missing": _archive(sizes=GOOD["sizes"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_entry_counts_as_absent_and_runs_nothing(
    home: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_counts(BLOCKS, COUNTS)
    (entry,) = (home / "paths").iterdir()
    entry.write_bytes(CRAFTED[name])
    assert read_counts(BLOCKS) == {}
    assert not Path("run").exists()
    write_counts(BLOCKS, COUNTS)
    assert read_counts(BLOCKS).keys() == COUNTS.keys()


def test_an_entry_that_unpacks_to_too_much_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    write_counts(BLOCKS, COUNTS)
    assert read_counts(BLOCKS)
    monkeypatch.setattr(path_cache, "_LARGEST_UNPACKED", 100)
    assert read_counts(BLOCKS) == {}
