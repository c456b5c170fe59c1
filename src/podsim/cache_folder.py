"""Private folders of the user's cache, by the XDG rules: what is in them may be deleted at any time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """The folder of a kind of files in the user's cache, which nobody else can write to; None without one."""
    try:
        base = os.environ.get("XDG_CACHE_HOME", "")
        cache_home = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        folder = cache_home / "podsim" / name
        cache_home.mkdir(parents=True, exist_ok=True)
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    for each, others in ((folder.parent, 0o022), (folder, 0o077)):
        if not is_private(each, stat.S_ISDIR, others):
            _say_unused(each)
            return None
    return folder


@cache
def _say_unused(folder: Path) -> None:
    """Say once why a folder is not used."""
    said = f"podsim: the cache {folder} is not used: others could change it; take it away, or chmod 700 your own\n"
    sys.stderr.write(said)


def is_private(path: Path, is_kind: Callable[[int], bool], others: int = 0o022) -> bool:
    """Whether a file or folder exists, belongs to the user, is no link, and grants others nothing of `others`."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if sys.platform == "win32":  # no owner there: the list of access of the profile keeps others out
        return is_kind(status.st_mode)
    return is_kind(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & others
