"""Checkpoints as folders `step-N` that are there whole or not at all, and known to be what was written.

    root/step-400/            whole: every file, and manifest.json with the bytes and the checksum of each
    root/.step-500.part/      being written; a run that died left it, the next `begin` takes it away

Ranks write their files into the folder that `begin` makes; one of them then calls `commit`, which flushes files to the
drive, writes the manifest, and renames the folder. A rename is one step of the file system, so a reader sees the whole
checkpoint or none, and the file system's own list is the only list: `latest` scans. A write that fails leaves what was
there, and `discard` takes its rest away.

    with saving(root, step, layout={"dp": 8}, keep=3) as folder:      one process: begin, commit, or discard
        ...
    opened(root).folder                                               the last one, every byte checked
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import CheckpointError
from podsim.foreign_files import read_bytes
from podsim.lab.places import first_line, flush
from podsim.version import check_format

FORMAT, VERSION = "podsim-checkpoint", 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(0|[1-9][0-9]{0,17})")
_REST = re.compile(r"\.step-[0-9]+\.(?:part|gone)")
_LARGEST = 64 << 20
_READERS = 4
"""threads that make checksums; hashing a file lets other threads run"""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint as its manifest has it."""

    folder: Path
    step: int
    layout: Mapping[str, Any]
    """The division of the state, as the writer described it."""
    bytes_: int
    """The bytes of all files."""
    files: Mapping[str, tuple[int, str]]
    """The (B, SHA-256) of each file, by name within the folder."""


def part_of(root: Path, step: int) -> Path:
    """The folder that ranks write a checkpoint into before it is whole; the same for all of them."""
    return root / f".step-{step}.part"


def steps(root: Path) -> tuple[int, ...]:
    """Steps of which there is a checkpoint, rising, by scanning; none where there is no folder."""
    try:
        names = [entry.name for entry in root.iterdir() if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as problem:
        raise CheckpointError(f"{root}: cannot be read: {problem.strerror or problem}") from None
    return tuple(sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name))))


def latest(root: Path) -> int | None:
    """The last step of which there is a checkpoint; None for none. Its bytes are not checked: `opened` does."""
    present = steps(root)
    return present[-1] if present else None


def begin(root: Path, step: int) -> Path:
    """An empty folder to write a checkpoint into, on the same file system as where it will stand.

    Takes away what broken writes left, and damaged checkpoints of this step or later ones, which this one replaces.
    Raises CheckpointError for whole ones of this step or later (two runs in one folder), and where nothing can be made.
    """
    if step < 0:
        raise CheckpointError(f"step {step}; steps count from 0")
    try:
        root.mkdir(parents=True, exist_ok=True)
        for rest in [entry for entry in root.iterdir() if _REST.fullmatch(entry.name)]:
            shutil.rmtree(rest)
        later = [number for number in steps(root) if number >= step]
        if complete := [number for number in later if not damage(root, number)]:
            raise CheckpointError(
                f"{root} has a checkpoint of step {complete[-1]}; one of step {step} would hide behind it: resume from "
                "it, take it away, or write to another folder"
            )
        for number in later:
            _remove(root, number)
        part = part_of(root, step)
        part.mkdir()
    except OSError as problem:
        raise unwritten(root, step, problem) from None
    return part


def commit(root: Path, step: int, *, layout: Mapping[str, Any], keep: int = 0) -> Checkpoint:
    """Make what was written a checkpoint: flush it, write its manifest, rename it; then keep only the last `keep`.

    layout: plain values, kept as they are. keep: 0 keeps all. Raises CheckpointError, having taken the rest of this one
    away, where the drive is full or fails; what was there before stays as it was.
    """
    if keep < 0:
        raise CheckpointError(f"keep={keep}; give 1 or more checkpoints to keep, or 0 for all")
    part, folder = part_of(root, step), root / f"step-{step}"
    try:
        files = _summed(part)
        if not files:
            raise CheckpointError(f"{part}: nothing was written, so there is nothing to commit")
        body = {"format": FORMAT, "version": VERSION, "step": step, "layout": dict(layout),
                "files": {name: {"bytes": size, "sha256": digest} for name, (size, digest) in files.items()}}  # fmt: skip
        text = json.dumps(body | {"sha256": _digest_of(body)}, indent=1, sort_keys=True, allow_nan=False)
        (part / MANIFEST).write_text(text, "utf-8")
        for path in (part / MANIFEST, *(each for each in part.rglob("*") if each.is_dir()), part):
            flush(path)
        part.rename(folder)
        flush(root)
    except (OSError, CheckpointError, TypeError, ValueError) as problem:
        discard(root, step)
        if isinstance(problem, OSError):
            raise unwritten(root, step, problem) from None
        raise
    _thin(root, step, keep)
    return Checkpoint(
        folder=folder,
        step=step,
        layout=dict(layout),
        bytes_=sum(size for size, _ in files.values()),
        files=files,
    )


def discard(root: Path, step: int) -> None:
    """Take away what a broken write left."""
    shutil.rmtree(part_of(root, step), ignore_errors=True)


@contextmanager
def saving(root: Path, step: int, *, layout: Mapping[str, Any], keep: int = 0) -> Iterator[Path]:
    """A folder to write into; a checkpoint at the end of the block, nothing where the block breaks off.

    Raises CheckpointError where the drive is full, inside the block too; other errors of the block pass.
    """
    part = begin(root, step)
    try:
        yield part
    except OSError as problem:
        discard(root, step)
        raise unwritten(root, step, problem) from problem
    except BaseException:
        discard(root, step)
        raise
    commit(root, step, layout=layout, keep=keep)


def opened(root: Path, step: int | None = None) -> Checkpoint:
    """The checkpoint of a step, by default the last, every byte of it checked.

    Raises CheckpointError for none, and for a damaged one: it names the file and what is wrong with it, and offers the
    last whole one before it (also as the error's `previous`).
    """
    there = steps(root)
    wanted = step if step is not None else (there[-1] if there else None)
    if wanted is None or wanted not in there:
        known = (
            f"there are {', '.join(f'step-{number}' for number in there[-5:])}" if there else "there is none"
        )
        what = "no checkpoint" if wanted is None else f"no checkpoint step-{wanted}"
        raise CheckpointError(f"{root}: {what}; {known}")
    if wrong := damage(root, wanted):
        before = next(
            (number for number in reversed(there) if number < wanted and not damage(root, number)), None
        )
        offered = (
            "no whole one is before it"
            if before is None
            else f"step-{before} before it is whole: take step-{wanted} away to go on from that"
        )
        raise CheckpointError(
            f"{root / f'step-{wanted}'} is damaged: {'; '.join(wrong)}. {offered}", previous=before
        )
    return _read(root / f"step-{wanted}", wanted)


def damage(root: Path, step: int) -> tuple[str, ...]:
    """What is wrong with a checkpoint, file by file; nothing where every byte is as it was written."""
    folder = root / f"step-{step}"
    try:
        checkpoint = _read(folder, step)
    except CheckpointError as problem:
        return (str(problem),)
    with ThreadPoolExecutor(_READERS) as pool:
        problems = pool.map(
            lambda name: _wrong(folder / name, name, *checkpoint.files[name]), checkpoint.files
        )
        return tuple(problem for problem in problems if problem)


def _wrong(path: Path, name: str, size: int, digest: str) -> str:
    """What is wrong with a file; empty for nothing."""
    try:
        has = path.stat().st_size
        if has != size:
            return f"{name} has {has:,} B of {size:,}"
        return "" if _sum(path) == digest else f"the checksum of {name} is not the one that was written"
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as problem:
        return f"{name} cannot be read: {problem.strerror or problem}"


def _read(folder: Path, step: int) -> Checkpoint:
    """A checkpoint from its manifest; CheckpointError where that is none."""
    try:
        if not (folder / MANIFEST).exists():
            raise CheckpointError(f"{MANIFEST} is missing")
        body = json.loads(read_bytes(folder / MANIFEST, most=_LARGEST, error=CheckpointError))
        said = body.pop("sha256")
        if body["format"] != FORMAT:
            raise CheckpointError(f"{MANIFEST} is of format {str(body['format'])[:40]}, not {FORMAT}")
        check_format(body["version"], VERSION, name=MANIFEST, error=CheckpointError)
        files = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in body["files"].items()}
        if said != _digest_of(body) or body["step"] != step:
            raise CheckpointError(f"{MANIFEST} is not as it was written")
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise CheckpointError(f"{MANIFEST} is not as it was written") from None
    return Checkpoint(
        folder=folder, step=step, layout=body["layout"], bytes_=sum(size for size, _ in files.values()), files=files
    )  # fmt: skip


def _summed(part: Path) -> dict[str, tuple[int, str]]:
    """Bytes and checksum of each file below a folder, flushed to the drive."""
    paths = sorted(path for path in part.rglob("*") if path.is_file())

    def summed(path: Path) -> tuple[int, str]:
        flush(path)
        return path.stat().st_size, _sum(path)

    with ThreadPoolExecutor(_READERS) as pool:
        sums = list(pool.map(summed, paths))
    return {path.relative_to(part).as_posix(): each for path, each in zip(paths, sums, strict=True)}


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(body: Mapping[str, Any]) -> str:
    """Checksum of a manifest's own values."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _remove(root: Path, step: int) -> None:
    """Take a checkpoint away; renamed first, so that what a crash leaves of it is not taken for a damaged one."""
    gone = root / f".step-{step}.gone"
    (root / f"step-{step}").rename(gone)
    shutil.rmtree(gone)


def _thin(root: Path, step: int, keep: int) -> None:
    """Keep the last `keep` checkpoints up to a step."""
    try:
        for old in steps(root)[:-keep] if keep else ():
            _remove(root, old)
    except OSError as problem:
        raise CheckpointError(
            f"{root / f'step-{step}'} is whole, but an older checkpoint cannot be taken away: "
            f"{problem.strerror or problem}"
        ) from None


def unwritten(root: Path, step: int, problem: BaseException) -> CheckpointError:
    """The error for a checkpoint that could not be written, with the last one that is there."""
    before = latest(root)
    left = "there is none before it" if before is None else f"step-{before} is as it was"
    why = first_line(problem)
    if isinstance(problem, OSError):
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the drive is full" if full else problem.strerror or why
    return CheckpointError(
        f"{root}: the checkpoint of step {step} was not written: {why}; {left}", previous=before
    )
