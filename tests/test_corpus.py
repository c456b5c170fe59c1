"""Files that once broke a reader, files made to break one, and some that are made up: all are read or refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "made"))

from mutations import ALIASES, ENTITIES, ODD, gzip_bomb, zip_bomb
from reader_table import readers
from soak_readers import CORPUS, Child, content_of, tries

POSITION = {reader.name: number for number, reader in enumerate(readers())}
KEPT = sorted(CORPUS.glob("*/*"))


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.end()


def test_crashers_that_were_found_are_read_or_refused(child: Child) -> None:
    named = {name.replace(" ", "-"): number for name, number in POSITION.items()}
    said = {str(path): child.answer((named[path.parent.name], path.read_bytes())) for path in KEPT}
    assert said
    assert {path: what for path, what in said.items() if what} == {}


def test_each_reader_reads_its_samples() -> None:
    """The fuzzer would find nothing with samples that are refused at once."""
    assert len(readers()) > 60
    assert all(reader.samples for reader in readers())


def test_some_made_up_files_are_read_or_refused() -> None:
    assert [said for said in tries(11, 4 * len(readers())) if said] == []


def test_the_same_seed_makes_the_same_files() -> None:
    assert [content_of(5, number) for number in range(40)] == [content_of(5, number) for number in range(40)]


CRAFTED = {
    "aliases": ALIASES.encode(), "entities": ENTITIES.encode(), "gzip": gzip_bomb(), "zip": zip_bomb(),
    "deep": b"[" * 100_000,
    "digits": b"9" * 5000, "superscript": "²,²\n²,²\n".encode(), "infinity": b'{"a": Infinity}', "null": b"\0" * 100,
    **{name: name for name in ODD},
}  # fmt: skip
"""aliases of YAML (43 million texts), entities of XML (3 GB), gzip and zip that become 1 GiB and 640 MiB, no files"""
SOME = {
    "mig-parted": ("aliases",), "launch file of kubernetes": ("aliases",), "topology xml": ("entities", "gzip"),
    "chrome trace": ("gzip", "deep", "infinity", "zero", "pipe"),
    "chakra trace": ("gzip", "zero"),
    "part of tables": ("zip", "pipe", "zero"), "jobs of a queue": ("superscript", "digits", "pipe"),
    "fio": ("infinity", "loop"),
    "serving trace": ("gzip", "pipe"), "nvidia-smi of mig": ("digits", "superscript"),
    "rows to validate": ("pipe", "folder"),
    "exposition": ("pipe", "zero"), "record of a run": ("unreadable", "zero", "deep"), "safetensors": ("pipe", "zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SOME))
def test_crafted_files_are_refused_or_inert(child: Child, name: str) -> None:
    assert {kind: child.answer((POSITION[name], CRAFTED[kind])) for kind in SOME[name]} == dict.fromkeys(
        SOME[name]
    )


@pytest.mark.long
def test_every_reader_refuses_every_crafted_file(child: Child) -> None:
    said = {
        (name, kind): child.answer((at, each))
        for name, at in POSITION.items()
        for kind, each in CRAFTED.items()
    }
    assert {key: what for key, what in said.items() if what} == {}
