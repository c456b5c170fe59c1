"""Answers of studies in one SQLite file: a row for each question, by the hash of the question and podsim's version."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.version import __version__, check_format

_FORMAT = 0x706F6401
"""the application id of the file: "pod" and the version of its table"""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS answers "
    "(key TEXT PRIMARY KEY, version TEXT NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL)"
)
_FILES = ("model", "on", "plan")
"""settings that may name a file"""
_AT_ONCE = 500
"""keys of a query"""
_LARGEST_FILE = 1 << 28
"""B of the largest file whose content enters a key"""


def point_key(
    question: str, settings: Mapping[str, Any], digest_of: Callable[[str], str] | None = None
) -> str:
    """The hash of a question, its settings, the content of files that they name, and podsim's version."""
    of_name = digest_of or file_digest
    files = {
        name: digest for name in _FILES if (digest := of_name(str(settings.get(name, "")).partition("#")[0]))
    }
    text = json.dumps([__version__, question, settings, files], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(name: str) -> str:
    """The hash of a file's content; "" if the name is no file."""
    try:
        path = Path(name) / "config.json" if Path(name).is_dir() else Path(name)
        if not name or not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


class AnswerStore:
    """The answers of one file, or of memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take an open database."""
        self._connection = connection

    def known(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The answers that the store has, by key."""
        wanted = list(dict.fromkeys(keys))
        answers: dict[str, dict[str, Any]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, answer FROM answers WHERE key IN ({marks})"
            answers |= {key: _object(answer) for key, answer in self._connection.execute(query, part)}
        return answers

    def keep(self, answers: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Store (key, question, answer); they are on disk when it returns."""
        rows = [
            (key, __version__, question, json.dumps(answer, allow_nan=False))
            for key, question, answer in answers
        ]
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", rows)


def _object(text: str) -> dict[str, Any]:
    """The object of a JSON text; empty for a damaged one, which is no answer."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextmanager
def open_store(path: Path | None) -> Iterator[AnswerStore]:
    """A store in a file, made if there is none; of None in memory. PodsimError for a file that is no store."""
    shown = str(path)[-200:]
    try:
        connection = sqlite3.connect(":memory:" if path is None else path, timeout=30.0)
    except sqlite3.Error as error:
        raise PodsimError(
            f"--store {shown}: {error}; give a file in a directory that can be written"
        ) from None
    try:
        _prepare(connection, shown)
        yield AnswerStore(connection)
    except sqlite3.Error as error:
        raise PodsimError(f"--store {shown}: {error}; give another file") from None
    finally:
        connection.close()


def _prepare(connection: sqlite3.Connection, shown: str) -> None:
    """Make the table in an empty file; PodsimError for a database of another program."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark >> 8 == _FORMAT >> 8:
        check_format(mark & 0xFF, _FORMAT & 0xFF, name=f"--store {shown}", error=PodsimError)
    if mark != _FORMAT and tables:
        raise PodsimError(f"--store {shown} is a database of another program; give another file")
    if mark != _FORMAT:
        connection.execute(f"PRAGMA application_id = {_FORMAT}")
    with connection:
        connection.execute(_TABLE)
