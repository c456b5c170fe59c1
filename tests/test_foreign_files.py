"""The guard of every reader: sizes, gzip bombs, devices, pipes, depth, numbers that are none."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from podsim.errors import TableError
from podsim.foreign_files import read_bytes, read_json, read_text, read_toml


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"x" * 5000, "larger than 4,096 bytes; keep less"),
        (gzip.compress(b"\0" * (1 << 26)), "larger than 4,096 bytes"),
        (gzip.compress(b"some text")[:-4], "truncated"),
        (b"\x1f\x8b garbage", "damaged gzip"),
        (b"fine\nnot \xff", "line 2 is not UTF-8"),
    ],
    ids=["large", "bomb", "truncated", "damaged", "not-utf-8"],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(TableError, match=says):
        read_text(tmp_path / "f", most=4096, error=TableError, hint="keep less")


def test_a_folder_a_device_and_a_missing_file(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "folder"), (tmp_path / "no", "no such file"), ("a\0b", "cannot be read")):
        with pytest.raises(TableError, match=says):
            read_bytes(path, most=10, error=TableError)
    with pytest.raises(TableError, match="larger than"):
        read_bytes("/dev/zero", most=1 << 20, error=TableError)


def test_a_pipe_without_a_writer_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(tmp_path / "pipe", most=10, error=TableError) == b""


def test_gzip_and_a_mark_of_order_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress("\ufeffä".encode()))
    assert read_text(tmp_path / "f.gz", most=100, error=TableError) == "ä"


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "9" * 5000, "[" * 100_000, '{"a"', ""])
def test_json_that_is_refused(text: str) -> None:
    with pytest.raises(TableError, match=r"^x"):
        read_json(text, name="x", error=TableError)


@pytest.mark.parametrize("text", ["a = nan", "a = inf", "a" * 5000 + " = 1", "[" * 3000, "a ="])
def test_toml_that_is_refused(text: str) -> None:
    with pytest.raises(TableError, match=r"^x"):
        read_toml(text, name="x", error=TableError)


def test_a_key_of_a_hundred_thousand_parts_is_refused() -> None:
    """Its parser would take 8 s; a long list of numbers with points is none."""
    with pytest.raises(TableError, match="100,000 dots; at most 2,000"):
        read_toml("a" + 100_000 * ".a" + " = 1", name="x", error=TableError, longest=10**6)
    numbers = read_toml(f"a = [{'1.5, ' * 5000}]", name="x", error=TableError, longest=10**6)
    assert len(numbers["a"]) == 5000
