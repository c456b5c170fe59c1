"""Files that appear whole or not at all, and folders that are gone afterwards, however a process ends.

Linux writes a file that has no name yet, so that a killed process leaves nothing; elsewhere, and on file systems
without such files, it is called `.podsim-….part` until it is whole.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, as UTF-8 if it is text; one of that name is replaced. Raises OSError, which names the path."""
    write_pieces(path, (content.encode("utf-8") if isinstance(content, str) else content,))


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that podsim names in a folder: none gets its name before all are written, and links are replaced.

    Raises OSError, which names one.
    """
    with ExitStack() as files:
        for path, content in contents.items():
            file = files.enter_context(whole_file(path, is_followed=False))
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            with _naming(path):
                file.flush()


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file piece by piece; it gets its name after the last one. Raises OSError, which names the path."""
    with whole_file(path) as file:
        file.writelines(pieces)


@contextmanager
def whole_file(path: Path, *, is_followed: bool = True) -> Iterator[IO[bytes]]:
    """A file to write; at the end of the block it gets its name, and its permissions if it replaces another.

    What a link leads to is replaced, not the link, unless links are not followed. Devices and pipes are written as they
    are. A file that may not be written stays. Raises OSError, which names the path.
    """
    file: IO[bytes]
    with _naming(path, every=True):
        before = _status(path, is_followed)
        if _is_open_file(path) or (before is not None and not stat.S_ISREG(before.st_mode)):
            file, part = path.open("wb"), None
        elif before is not None and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
        else:
            path_of_target = Path(os.path.realpath(path)) if is_followed else path
            part = path_of_target.with_name(f".podsim-{secrets.token_hex(8)}.part")
            file, is_named = _begin(part)
    with _naming(path):
        if part is None:
            with file:
                yield file
            return
        try:
            with file:
                yield file
                file.flush()
                with _naming(path, every=True):
                    if before is not None:
                        _keep_owner(file.fileno(), before)
                    if (
                        not is_named
                    ):  # the call follows the link only where a folder's descriptor is given, too
                        os.link(f"/proc/self/fd/{file.fileno()}", part, src_dir_fd=file.fileno())
                        is_named = True
            with _naming(path, every=True):
                part.replace(path_of_target)
        finally:
            if is_named:
                part.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path, *, every: bool = False) -> Iterator[None]:
    """Errors of the system name the path: those that name no file, or every one."""
    try:
        yield
    except OSError as problem:
        if problem.filename is not None and not every:
            raise
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def _status(path: Path, is_followed: bool) -> os.stat_result | None:
    """What is known of a file; None where there is none yet, or a link that is not followed."""
    try:
        status = path.stat(follow_symlinks=is_followed)
        return None if stat.S_ISLNK(status.st_mode) else status
    except FileNotFoundError:
        return None


def _is_open_file(path: Path) -> bool:
    """Whether a path names what a process has open, as /dev/stdout or /proc/self/fd/3."""
    folder = os.path.realpath(path.parent)
    return folder == "/dev" or folder.startswith("/proc/")


def _begin(part: Path) -> tuple[IO[bytes], bool]:
    """(a new file for a folder, whether it has its name already)."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").exists():
        with suppress(
            OSError
        ):  # this file system has none; or there is no such folder, as the next line says
            return os.fdopen(os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb"), False
    return part.open("xb"), True


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    """Give a file the owner and the permissions of the one that it replaces, as far as the system allows."""
    if sys.platform != "win32":
        with suppress(OSError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder in `parent`, or where the system keeps temporary files; at the end it goes with all that is in it.

    Folders that killed processes left there go, too: a living one holds a lock on its own. Raises OSError.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    for left in parent.glob("podsim-*.scratch"):
        _clear_abandoned(left)
    folder = Path(tempfile.mkdtemp(prefix=".podsim-", dir=parent))
    lock = None
    try:
        if sys.platform != "win32":
            lock = os.open(folder, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            folder = folder.rename(folder.with_name(f"{folder.name[1:]}.scratch"))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _clear_abandoned(folder: Path) -> None:
    """Take a folder away whose process is gone; another user's stays."""
    if sys.platform != "win32":
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
