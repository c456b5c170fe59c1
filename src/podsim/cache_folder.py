"""Private folders of the user's cache, by the XDG rules: what is in them may be deleted at any time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """The folder of a kind of files in the user's cache, which nobody else can write to; None without one."""
    try:
        base = os.environ.get("XDG_CACHE_HOME", "")
        cache_home = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        folder = cache_home / "podsim" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if is_private(folder, stat.S_ISDIR) else None


def is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Whether a file or folder exists, belongs to the user, and is not another's to write to."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if sys.platform == "win32":  # no owner there: the list of access of the profile keeps others out
        return is_kind(status.st_mode)
    return is_kind(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
