"""Checkpoints written and read back for real: every rank has a part, all start together, the last one's end counts.

Files: a rank writes its part as one file, block after block, and reads it back into one buffer. dcp:
torch.distributed.checkpoint does the same with tensors, and its metadata. Each repeat writes all and flushes (fsync of
the file and of its folder), writes again without (what the page cache takes), reads with nothing of it in memory
(posix_fadvise), and reads once more. What a drive really gave is what the kernel counts; what was read is held against
what was written, outside the timed part. An object store has neither flush nor page cache: it keeps what was closed.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from podsim.answers.lab_storage import MeasuredCheckpoint, MeasuredCheckpoints
from podsim.answers.saved_run import plain
from podsim.lab import usage
from podsim.lab.places import Place, drive_bytes, drop, flush
from podsim.lab.ranks import Note, Task
from podsim.lab.wires import Board, Wires, load_part

SLOW_DISK = "PODSIM_SLOW_DISK"
"""environment variable that slows the writing of a rank by a factor, to see whether podsim why tells"""
WRITERS = ("files", "dcp")
_BUFFER = 32 << 20
"""B of random data that a part is cut from; each block begins elsewhere in it, so that no two are alike"""


@dataclass(frozen=True, kw_only=True)
class CheckpointJob:
    """What is to be written and read."""

    place: Place
    folder: str
    """The new folder within the place; the parts of all ranks."""
    size: int
    """The bytes of all parts."""
    ranks: int
    block: int
    repeats: int
    read: bool
    writer: str
    timeout: float

    def part(self, rank: int) -> int:
        """B of a rank's part: equal ones, the first a byte larger where it does not go into equal ones."""
        return self.size // self.ranks + (rank < self.size % self.ranks)


@dataclass(kw_only=True)
class _Times:
    """What one operation of one repeat took this rank."""

    seconds: float
    processor: float
    drive: float | None
    usage: Mapping[str, float] = field(default_factory=dict)


def task_of(job: CheckpointJob) -> Task:
    """The job as ranks run it."""
    return Task(
        work=partial(measure_checkpoints, job), nodes=job.ranks, timeout=job.timeout,
        backend="gloo",
    )  # fmt: skip


def measure_checkpoints(
    job: CheckpointJob, wires: Wires, note: Note = lambda _: None
) -> MeasuredCheckpoints | None:
    """The job's measurements at rank 0, None at the others."""
    board, started = Board(wires), usage.now_text()
    ranks = board.gather(usage.this_process())
    part = _Part(job, wires)
    steps = _steps(job, part)
    took: list[list[_Times]] = [[] for _ in steps]
    for repeat in range(job.repeats):
        for step, (operation, state, before, call) in enumerate(steps):
            name = f"{operation} ({state}), repeat {repeat + 1} of {job.repeats}"
            note(name, done=repeat * len(steps) + step, whole=job.repeats * len(steps))
            before()
            wires.barrier()
            took[step].append(_timed(call, reads=operation == "read"))
            wires.barrier()
    wrong = int(job.read and not part.right())
    reports = board.gather(
        {"wrong": wrong, "took": plain([[vars(entry) for entry in step_times] for step_times in took])}
    )
    wires.barrier()
    left = job.place.clear(job.folder) if job.place.local or wires.rank == 0 else ""
    if reports is None or ranks is None:
        return None
    rows = tuple(
        _row(job, operation, state, [entry["took"][step] for entry in reports], ranks,
             sum(entry["wrong"] for entry in reports) if operation == "read" else 0)
        for step, (operation, state, _, _) in enumerate(steps)
    )  # fmt: skip
    return MeasuredCheckpoints(
        place=job.place.text, filesystem=job.place.filesystem, size=float(job.size), count=job.ranks,
        writer=job.writer, block=float(job.block), hosts=tuple(entry["host"] for entry in ranks),
        cores=min(entry["cores"] for entry in ranks), started=started, rows=rows,
        software=f"{job.place.software}{wires.software}",
        left_out=_left_out(job, left),
    )  # fmt: skip


def _left_out(job: CheckpointJob, left: str) -> dict[str, str]:
    """What was not done, and why; left: why the files are still there."""
    reasons = (
        {} if job.place.local else {"page cache": "an object store has none that a client could pass by"}
    )
    return reasons | ({"taking it away": left} if left else {})


def _steps(job: CheckpointJob, part: _Part) -> list[tuple[str, str, Callable[[], None], Callable[[], None]]]:
    """(operation, state, what is done before, untimed, and the operation itself), in order."""

    def nothing() -> None:
        return

    if not job.place.local:
        both = [("write", "store", nothing, lambda: part.write(flushed=False))]
        return both + ([("read", "store", nothing, part.read)] if job.read else [])
    operations = [
        ("write", "page cache", part.clear, lambda: part.write(flushed=False)),
        ("write", "flushed", part.clear, lambda: part.write(flushed=True)),
    ]
    if job.read:
        operations += [("read", "drive", part.drop, part.read), ("read", "page cache", nothing, part.read)]
    return operations


def _timed(call: Callable[[], None], *, reads: bool) -> _Times:
    """What a call took; the kernel's count of what drives gave, for reads."""
    before, drives = usage.mark(), drive_bytes() if reads else None
    call()
    used = usage.since(before)
    after = drive_bytes() if reads else None
    given = None if drives is None or after is None else after - drives
    return _Times(seconds=used["wall"], processor=used["own"], drive=given, usage=used)


def _row(
    job: CheckpointJob, operation: str, state: str, reports: Sequence[Sequence[Mapping[str, Any]]],
    ranks: Sequence[Mapping[str, Any]], wrong: int,
) -> MeasuredCheckpoint:  # fmt: skip
    """One line, from what every rank says of every repeat."""
    repeats = list(zip(*reports, strict=True))
    longest = [max(entry["seconds"] for entry in repeat) for repeat in repeats]
    seconds = statistics.median(longest)
    drives = [entry["drive"] for repeat in repeats for entry in repeat]
    shares = [usage.busiest([entry["usage"] for entry in repeat], ranks) for repeat in repeats]
    return MeasuredCheckpoint(
        operation=operation, state=state, repeats=len(longest), seconds=seconds, fastest=min(longest),
        slowest=max(longest),
        bandwidth=job.size / max(seconds, 1e-9),
        ranks=tuple(statistics.median(entry["seconds"] for entry in rank) for rank in reports),
        processor=statistics.median(sum(entry["processor"] for entry in repeat) for repeat in repeats),
        from_drive=None if None in drives else min(sum(drives) / (job.size * len(longest)), 1.0), wrong=wrong,
        cpu=statistics.median(own for own, _ in shares), others=statistics.median(others for _, others in shares),
    )  # fmt: skip


class _Part:
    """A rank's part of the checkpoint."""

    def __init__(self, job: CheckpointJob, wires: Wires) -> None:
        self.job, self.wires = job, wires
        self.slow = max(float(os.environ.get(SLOW_DISK, "1")), 1.0)
        self.size, self.name = job.part(wires.rank), f"{job.folder}/rank-{wires.rank}.bin"
        self.data = memoryview(os.urandom(min(_BUFFER, max(2 * job.block, 1 << 20))))
        self.state = self._tensors() if job.writer == "dcp" else {}
        if job.writer == "dcp":
            self.dcp = load_part("torch.distributed.checkpoint")
            self.index: Any = None
        job.place.make(job.folder)
        wires.barrier()

    def _tensors(self) -> dict[str, Any]:
        content = b"".join(self._blocks())
        return {
            f"rank-{self.wires.rank}": self.wires.torch.frombuffer(
                bytearray(content), dtype=self.wires.torch.uint8
            )
        }

    def _blocks(self) -> Iterator[memoryview]:
        """What the part is made of, block by block."""
        room, block = len(self.data) - self.job.block, self.job.block
        for k, first in enumerate(range(0, self.size, block)):
            start = 4099 * (k + 1) % (room + 1)
            yield self.data[start : start + min(block, self.size - first)]

    def write(self, *, flushed: bool) -> None:
        """Write the part."""
        if self.job.writer == "dcp":
            writer = self.dcp.FileSystemWriter(self.job.folder, sync_files=flushed, overwrite=True)
            self.index = self.dcp.save(self.state, storage_writer=writer)
        else:
            with self.job.place.writing(self.name) as file:
                for block in self._blocks():
                    begun = time.perf_counter()
                    while block:  # a nearly full drive takes a part of it
                        block = block[file.write(block) :]  # noqa: PLW2901
                    time.sleep((self.slow - 1.0) * (time.perf_counter() - begun))
                if flushed:
                    file.flush()
                    os.fsync(file.fileno())
        if flushed:
            flush(Path(self.job.folder))

    def read(self) -> None:
        """Read the part, and keep nothing of it but, with dcp, the tensor."""
        if self.job.writer == "dcp":
            self.dcp.load(self.state, storage_reader=_reader(self.dcp, self.job.folder, self.index))
            return
        buffer, left = bytearray(self.job.block), self.size
        with self.job.place.reading(self.name) as file:
            while left and (count := file.readinto(buffer)):
                left -= count
        if left:
            raise OSError(f"{self.name} ended {left:,} B early")

    def right(self) -> bool:
        """Whether the part that is there is the one that was written."""
        written = hashlib.sha256()
        for block in self._blocks():
            written.update(block)
        if self.job.writer == "dcp":
            held = self.state[f"rank-{self.wires.rank}"]
            held.zero_()
            self.read()
            return hashlib.sha256(held.numpy().data).hexdigest() == written.hexdigest()
        with self.job.place.reading(self.name) as file:
            read = hashlib.sha256()
            while block := file.read(self.job.block):
                read.update(block)
        return read.hexdigest() == written.hexdigest()

    def drop(self) -> None:
        """Take the part's files out of the page cache."""
        self.wires.barrier()
        for path in Path(self.job.folder).iterdir():
            drop(path)

    def clear(self) -> None:
        """Delete the part's file, so that the next write starts from nothing."""
        self.wires.barrier()
        if self.job.writer == "dcp":
            if self.wires.rank == 0:
                self.job.place.empty(self.job.folder)
        else:
            self.job.place.remove(self.name)
        self.wires.barrier()


def _reader(dcp: Any, folder: str, index: Any) -> Any:
    """torch's reader of files, but with the index that was written: torch keeps it as a pickle, which is not read."""

    class Reader(dcp.FileSystemReader):  # type: ignore[misc]
        def read_metadata(self, *_: Any, **__: Any) -> Any:
            return index

    return Reader(folder)
