"""fio and mdtest run for real on a folder: what is run, and the files that they write.

A file of `size` bytes is written first, so that reads find data and not holes. Everything is in a folder of its own
below the one that is asked for, and is taken away again, also after Ctrl-C. What the tools wrote is read elsewhere
(podsim.accuracy), by the readers of anybody's runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from podsim.errors import LabError
from podsim.lab.processes import die_with_parent
from podsim.programs import ask
from podsim.whole_files import scratch_folder

FIO = "fio is not installed: apt install fio (Debian, Ubuntu), dnf install fio (Fedora, RHEL)"
_PATIENCE = 120.0
"""s that a run may take beyond what it was asked to run"""
Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Access:
    """One job of fio: pattern, block, jobs and depth."""

    name: str
    rw: str
    block: str
    """The block size, as fio writes it."""
    jobs: int
    depth: int


def accesses(cores: int) -> tuple[Access, ...]:
    """What is run: wekatester's jobs, but no more at once than a few for each core, which else are measured.

    Bandwidth: 1 MiB in order, 32 jobs of depth 1. Operations: 4 KiB anywhere, 64 jobs of depth 8. Latency: 4 KiB,
    one at a time. Source: github.com/weka/tools (wekatester).
    """
    wide, many = min(32, 4 * cores), min(64, 4 * cores)
    return (
        Access(name="write 1M", rw="write", block="1M", jobs=wide, depth=1),
        Access(name="read 1M", rw="read", block="1M", jobs=wide, depth=1),
        Access(name="write 4k", rw="randwrite", block="4k", jobs=many, depth=8),
        Access(name="read 4k", rw="randread", block="4k", jobs=many, depth=8),
        Access(name="read 4k alone", rw="randread", block="4k", jobs=1, depth=1),
        Access(name="write 4k alone", rw="randwrite", block="4k", jobs=1, depth=1),
    )


NAMES = {"File creation": "filecreate", "File stat": "filestat", "File removal": "filedelete"}
"""mdtest's name of an operation -> the engine of fio that does it"""


def tool(name: str, missing: str = "") -> str:
    """The path of a program; LabError, saying how to install it, where it is not."""
    path = shutil.which(name)
    if path is None:
        raise LabError(missing or f"{name} is not installed")
    return path


def has_direct_access(folder: Path) -> bool:
    """Whether files in a folder can be opened past the page cache."""
    if not hasattr(os, "O_DIRECT"):
        return False
    path = folder / "direct"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        with suppress(OSError):
            path.unlink()
    return True


@contextmanager
def scratch(folder: Path, size: float) -> Iterator[Path]:
    """A new folder below `folder` with room for `size` bytes, taken away afterwards. LabError where it cannot be."""
    try:
        free = shutil.disk_usage(folder).free
        if free < 1.1 * size:
            raise LabError(
                f"{folder}: {free / 1e9:.3g} GB are free; the file alone has {size / 1e9:.3g} GB: give a smaller --size, "
                "or another --folder"
            )
        with scratch_folder(folder) as own:
            yield own
    except OSError as problem:
        raise LabError(f"{folder}: cannot be written: {problem.strerror or problem}") from None


def fio_command(
    access: Access, folder: Path, out: Path, *, size: int, seconds: float, direct: bool
) -> list[str]:
    """The command of one job; `seconds` 0 writes the file once, from its start to its end."""
    timed = [f"--runtime={seconds:g}", "--time_based", "--ramp_time=0.5"] if seconds else []
    return [
        tool("fio", FIO), f"--name={access.name.replace(' ', '-')}", f"--filename={_path(folder / 'data')}",
        f"--size={size}",
        f"--rw={access.rw}", f"--bs={access.block}", f"--numjobs={access.jobs}", f"--iodepth={access.depth}",
        f"--ioengine={'libaio' if access.depth > 1 else 'psync'}", f"--direct={int(direct)}", "--thread",
        "--group_reporting", "--randrepeat=1", "--norandommap", *timed, "--output-format=json", f"--output={out}",
    ]  # fmt: skip


def _path(path: Path) -> str:
    """A path as fio takes it, which separates several by colons."""
    return str(path).replace(":", "\\:")


def names_command(engine: str, folder: Path, out: Path, *, files: int, jobs: int) -> list[str]:
    """The command that makes, looks at or takes away files, each job its own."""
    return [
        tool("fio", FIO), f"--name={engine}", f"--directory={_path(folder)}", f"--ioengine={engine}",
        f"--nrfiles={files}",
        "--filesize=4k", f"--numjobs={jobs}", "--openfiles=1", "--thread", "--fallocate=none",
        "--output-format=json", f"--output={out}",
    ]  # fmt: skip


def mdtest_command(folder: Path, *, files: int) -> list[str]:
    """The command of mdtest, one task: many are started with MPI, and their output given to `--mdtest`."""
    return [tool("mdtest"), "-n", str(files), "-u", "-i", "3", "-d", str(folder)]


def run_tool(command: Sequence[str], seconds: float) -> str:
    """What a tool printed. LabError for one that fails or does not end; it never outlives this process's interest."""
    out, why = ask(command, seconds + _PATIENCE, partial(die_with_parent, os.getpid()))
    if why:
        raise LabError(why)
    return out
