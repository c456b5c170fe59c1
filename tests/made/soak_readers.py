"""Mutated files for every reader: it reads or refuses them within 5 s and 500 MB; the same ones for the same seed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mutations import ODD, mutated, put_odd
from reader_table import ROOT, Reader, readers

from podsim.errors import PodsimError

SECONDS, BYTES = 5.0, 500_000_000
"""s of the processor and B that a reader may take for a file"""
_PATIENCE = 60.0
"""s until a reader that does not answer is killed"""
CORPUS = ROOT / "tests" / "corpus"
_KEPT = 4096
"""B of the largest crasher that is kept as a test"""
_TURNS = 300
"""tries to make a crasher smaller"""


class _TooLong(BaseException):
    """What no reader catches."""


def tries(seed: int, count: int) -> Iterator[str | None]:
    """None for each file that was read or refused, and for another a sentence with reader, seed and what happened."""
    child = Child()
    seen: set[tuple[str, ...]] = set()
    try:
        for number in range(count):
            reader = readers()[number % len(readers())]
            said = child.answer((seed, number))
            if said is None:
                yield None
                continue
            yield f"{reader.name}, seed {seed}, try {number}: {said}"
            if (kind := (reader.name, *said.split(":")[:2])) not in seen:
                seen.add(kind)
                keep(reader, seed, number, said, child)
    finally:
        child.end()


def content_of(seed: int, number: int) -> tuple[Reader, bytes | str]:
    """The reader of a try and its file: bytes, or the name of something that is no file."""
    draw = random.Random(f"{seed} {number}")
    reader = readers()[number % len(readers())]
    if draw.random() < 0.005:
        return reader, draw.choice(ODD)
    every = _samples()
    sample = draw.choice(reader.samples)
    return reader, mutated(draw, sample.encode() if isinstance(sample, str) else sample, every)


@cache
def _samples() -> tuple[bytes, ...]:
    given = (sample for reader in readers() for sample in reader.samples)
    return tuple(sample.encode() if isinstance(sample, str) else sample for sample in given)


def problem_of(reader: Reader, content: bytes | str) -> str | None:
    """What is wrong with how a reader treats a file; None if it reads it, or raises PodsimError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / reader.file
        if isinstance(content, str):
            path = put_odd(content, path)
        else:
            path.write_bytes(content)
        before = _peak(reset=True)
        said = _said(reader, path)
        used = _peak() - before
        if said is None and used > BYTES:
            said = f"takes {used / 1e6:.0f} MB"
        return said


def _said(reader: Reader, path: Path) -> str | None:
    """How a reader fails."""
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read = reader.read(path)
            if isinstance(read, Iterator):
                list(read)
    except PodsimError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return f"says {len(str(error)):,} characters" if len(str(error)) > 20_000 else None
    except (Exception, _TooLong) as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        ours = [at for at in traceback.extract_tb(error.__traceback__) if "/src/podsim/" in at.filename]
        where = f"{ours[-1].filename.rpartition('/src/')[2]}:{ours[-1].lineno}" if ours else "?"
        kind = "takes more than 5 s" if isinstance(error, _TooLong) else type(error).__name__
        return f"{kind} at {where}: {str(error)[:80]!r}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _late(*_: object) -> None:
    raise _TooLong


def _peak(*, reset: bool = False) -> int:
    """B of memory that this process has held at most since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


class Child:
    """A process that makes and reads files, one at a time; another one follows it if it dies."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = get_context("fork").Pipe()
        self.process = get_context("fork").Process(target=_serve, args=(theirs,), daemon=True)
        readers()
        self.process.start()
        theirs.close()

    def answer(self, asked: Any) -> str | None:
        """What is wrong with a try (seed, number), or with a reader's treatment of a file (position, content)."""
        self.pipe.send(asked)
        try:
            if self.pipe.poll(_PATIENCE):
                said: str | None = self.pipe.recv()
                return said
            said = "hangs"
        except (EOFError, ConnectionError):
            said = "kills its process"
        self.end()
        self._start()
        return said

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    os.setpgid(0, 0)
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    while True:
        first, second = pipe.recv()
        reader, content = content_of(first, second) if isinstance(second, int) else (readers()[first], second)
        pipe.send(problem_of(reader, content))


def keep(reader: Reader, seed: int, number: int, said: str, child: Child) -> None:
    """Write a file that a reader failed on, cut to what still makes it fail, where it is a test from then on."""
    content = content_of(seed, number)[1]
    if isinstance(content, str):
        return
    kind, position = said.split(":")[:2], readers().index(reader)
    size = max(len(content) // 2, 1)
    turns = 0 if len(content) > 1 << 20 or said.startswith(("hangs", "takes")) else _TURNS
    while turns and size:
        at = 0
        while at < len(content) and turns:
            turns -= 1
            shorter = content[:at] + content[at + size :]
            if (again := child.answer((position, shorter))) and again.split(":")[:2] == kind:
                content = shorter
            else:
                at += size
        size //= 2
    if len(content) <= _KEPT:
        folder = CORPUS / reader.name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
