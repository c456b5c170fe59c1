"""What is read of packaged files is kept in the user's cache: the same again, and read anew where it is damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from podsim import cache_folder, packaged
from podsim.packaged import once_read

FILE = "fleet/power.toml"
READS: list[str] = []


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    READS.clear()
    cache_folder._say_unused.cache_clear()
    yield tmp_path / "cache" / "podsim" / "tables"
    cache_folder._say_unused.cache_clear()


def read(text: str) -> dict[str, object]:
    """A table with what JSON would change, and how often it was read."""
    READS.append(text)
    return {"length": len(text), "pair": [1, 2.5], "inner": {"inf": float("inf")}}


def test_a_table_is_read_once_and_is_the_same_again(tables: Path) -> None:
    first, again = once_read((FILE,), read), once_read((FILE,), read)
    assert first == again == read("x" * first["length"])
    assert len(READS) == 2  # one of them here
    assert len(list(tables.iterdir())) == 1


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-1], lambda b: b[:20] + b"\xff" + b[21:], lambda b: b"x"]
)
def test_what_is_damaged_is_read_again_and_mended(tables: Path, damage: object) -> None:
    first = once_read((FILE,), read)
    path = next(tables.iterdir())
    whole = path.read_bytes()
    path.write_bytes(damage(whole))  # type: ignore[operator]
    assert once_read((FILE,), read) == first
    assert path.read_bytes() == whole


def test_another_reader_or_file_is_another_table() -> None:
    once_read((FILE,), read)
    once_read((FILE, "units.py"), read)
    once_read(("fleet/prices.toml",), read)
    assert len(READS) == 3


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "cache_folder", lambda name: None)
    assert once_read((FILE,), read) == once_read((FILE,), read)
    assert len(READS) == 2


def test_a_folder_that_others_may_change_is_not_trusted(tables: Path) -> None:
    once_read((FILE,), read)
    tables.chmod(0o777)
    once_read((FILE,), read)
    assert len(READS) == 2


def test_a_second_prediction_loads_no_pydantic_and_says_the_same() -> None:
    code = (
        "import sys, podsim\n"
        "answer = podsim.predict('gpt3-175b', on='selene', gpus=64, tp=8, pp=8)\n"
        "print(repr(answer.step_time), 'pydantic' in sys.modules)"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
        for _ in range(2)
    )
    assert (first[0], first[1], second[1]) == (second[0], "True", "False")
