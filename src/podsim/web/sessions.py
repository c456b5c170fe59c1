"""Visitors: each has a random name in a cookie, and files that nobody else can name; both end with the visit."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from podsim.errors import PodsimError

LONGEST_VISIT = 3600.0
"""s. The time after which an idle session ends, and its files are deleted."""
MOST_SESSIONS = 500
MOST_FILES = 20
"""files of one session"""
LARGEST = {"config": 2**20, "trace": 50 * 2**20}
"""B. The largest file of each kind."""
_MOST_BYTES = 100 * 2**20
"""B. The bytes of all files of one session."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(eq=False)
class Session:
    """One visitor."""

    folder: Path
    """The folder of the files; nothing is in it before the first one."""
    used: float
    """s. The time of the last request."""
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def uploads(self) -> Mapping[str, str]:
        """The paths of the files by ID."""
        return {identity: str(path) for identity, path in self.files.items()}


class Sessions:
    """All visitors of a server."""

    def __init__(self, root: Path) -> None:
        """Begin without visitors; their files are kept below `root`."""
        self._root = root
        self._known: dict[str, Session] = {}

    def get(self, name: str) -> Session | None:
        """The session of a cookie, if it is known and not over."""
        self._end_old()
        session = self._known.get(name)
        if session is not None:
            session.used = time.monotonic()
        return session

    def make(self) -> str:
        """The name of a new session."""
        self._end_old()
        if len(self._known) >= MOST_SESSIONS:
            self._end(min(self._known, key=lambda name: self._known[name].used))
        name = secrets.token_urlsafe(24)
        self._known[name] = Session(folder=self._root / secrets.token_hex(8), used=time.monotonic())
        return name

    def add_file(self, session: Session, name: str, kind: str, content: bytes) -> str:
        """The ID of a file that is kept for a session. PodsimError if it is too large, or one too many."""
        if kind not in LARGEST:
            raise PodsimError(f"kind={kind[:40]!r}: {' or '.join(LARGEST)}")
        if not content:
            raise PodsimError(f"{name[:60]}: the file is empty")
        held = sum(path.stat().st_size for path in session.files.values())
        if len(session.files) >= MOST_FILES or held + len(content) > _MOST_BYTES:
            raise PodsimError(
                f"a visit may hold {MOST_FILES} files of {_MOST_BYTES // 2**20} MB in all; drop some first"
            )
        identity = secrets.token_hex(8)
        path = session.folder / identity / _safe_name(name)
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        session.files[identity] = path
        return identity

    def drop_file(self, session: Session, identity: str) -> bool:
        """Delete a file; whether there was one."""
        path = session.files.pop(identity, None)
        if path is not None:
            shutil.rmtree(path.parent, ignore_errors=True)
        return path is not None

    def close(self) -> None:
        """End all sessions, and delete their files."""
        self._known.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _end_old(self) -> None:
        now = time.monotonic()
        for name in [name for name, session in self._known.items() if now - session.used > LONGEST_VISIT]:
            self._end(name)

    def _end(self, name: str) -> None:
        shutil.rmtree(self._known.pop(name).folder, ignore_errors=True)


def _safe_name(name: str) -> str:
    """The last part of a file's name, in plain letters."""
    plain = _UNSAFE.sub("-", name.replace("\\", "/").rsplit("/", 1)[-1]).strip(".-")[-80:]
    return plain or "file"
