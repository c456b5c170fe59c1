"""Where data are: a folder of this machine, or a URL that fsspec knows; and what the page cache holds of it.

fsspec is loaded by name, when a URL is opened; forked processes open it again, as fsspec requires.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from podsim.errors import LabError
from podsim.packaged import install_hint

_opened: set[int] = set()
"""processes that have opened a URL: this one, and those that it is a fork of"""
_URL = re.compile(r"([a-z][a-z0-9+.-]*)(?:://|::)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder or a URL."""

    text: str
    """A URL as given, or a folder's path."""
    path: str
    """The absolute path of a folder, or the URL without a slash at its end."""
    local: bool
    filesystem: str
    """The kind of the folder's file system, or the URL's protocol."""
    software: str = ""
    """The versions of what opens it, ending in a comma."""

    def make(self, folder: str) -> None:
        """Make a folder within the place; object stores need none."""
        if self.local:
            Path(folder).mkdir(parents=True, exist_ok=True)

    def writing(self, name: str) -> Any:
        """A binary file to write; what was written goes out block by block."""
        return Path(name).open("wb", buffering=0) if self.local else fsspec_of(self.path)[0].open(name, "wb")

    def reading(self, name: str) -> Any:
        """A binary file to read."""
        if self.local:
            return Path(name).open("rb", buffering=0)
        return fsspec_of(self.path)[0].open(name, "rb", cache_type="none")

    def remove(self, name: str) -> None:
        """Take a file away; nothing is said if there is none."""
        if self.local:
            Path(name).unlink(missing_ok=True)
            return
        with suppress(FileNotFoundError):
            fsspec_of(self.path)[0].rm(name)

    def empty(self, folder: str) -> None:
        """Take a folder's files away."""
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir(exist_ok=True)

    def clear(self, folder: str) -> str:
        """Take a folder away with all that is in it, if it is there; why that failed, empty if it did not."""
        if self.local:
            shutil.rmtree(folder, ignore_errors=True)
            return f"{folder} cannot be taken away" if Path(folder).exists() else ""
        try:
            fsspec_of(self.path)[0].rm(folder, recursive=True)
        except FileNotFoundError:
            return ""
        except Exception as problem:  # whatever the store's library raises
            return f"{folder} cannot be taken away: {first_line(problem)}"
        return ""


def first_line(problem: BaseException, most: int = 200) -> str:
    """What a library's error says, on one line of at most so many characters."""
    text = str(problem).strip().splitlines()
    return (text[0] if text else type(problem).__name__)[:most]


def place_of(text: str) -> Place:
    """The place that a text names: s3://bucket/…, file:///…, memory://…, or a folder.

    Raises LabError for a URL without fsspec, or of a protocol that it does not know.
    """
    match = _URL.match(text)
    if match is None or match[1].lower() in ("file", "local"):
        path = Path(text if match is None else text[match.end() :]).absolute()
        return Place(text=str(path), path=str(path), local=True, filesystem=filesystem_of(path))
    fsspec_of(text)
    version = import_module("fsspec").__version__
    protocol = text.rpartition("::")[2].partition("://")[0].lower()
    return Place(
        text=text, path=text.rstrip("/"), local=False, filesystem=protocol, software=f"fsspec {version}, "
    )


def fsspec_of(url: str) -> tuple[Any, str]:
    """(file system, path within it) of a URL. Raises LabError where it cannot be opened."""
    try:
        core = import_module("fsspec.core")
    except ImportError:
        raise LabError(f"{url}: URLs need fsspec, which is not installed: {install_hint('lab')}") from None
    if _opened and os.getpid() not in _opened:  # a fork: the thread that fsspec waits for is its parent's
        import_module("fsspec.asyn").reset_lock()
    _opened.add(os.getpid())
    try:
        located: tuple[Any, str] = core.url_to_fs(url)
    except ImportError as problem:  # fsspec knows the protocol, but not its package
        raise LabError(f"{url}: {str(problem).splitlines()[0][:200]}") from None
    except ValueError as problem:
        raise LabError(
            f"{url}: {str(problem)[:200]}; give a folder, or a URL such as s3://bucket/folder"
        ) from None
    return located


def filesystem_of(path: Path) -> str:
    """The kind of file system that a folder is on, as the kernel calls it: ext4, xfs, nfs4, tmpfs; empty if unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return platform.system().lower()
    best, kind = "", ""
    for line in mounts:
        words = line.split()
        if len(words) < 3:
            continue
        where = words[1].replace("\\040", " ")
        inside = where == "/" or str(path) == where or str(path).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):
            best, kind = where, words[2]
    return kind


def flush(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the drive."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop(path: Path) -> None:
    """Take a file out of the page cache: what is new in it goes to the drive first."""
    if sys.platform != "linux":
        return
    with suppress(FileNotFoundError, IsADirectoryError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def drive_bytes() -> float | None:
    """B that drives have given this process, as the kernel counts; None where it does not tell."""
    try:
        lines = Path("/proc/self/io").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)
