"""Files that appear whole or not at all: written next to their name, then renamed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, as UTF-8 if it is text; one of that name is replaced. Raises OSError, which names the path."""
    write_pieces(path, (content.encode("utf-8") if isinstance(content, str) else content,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file piece by piece; it gets its name after the last one. Raises OSError, which names the path."""
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("wb") as file:
            file.writelines(pieces)
        part.replace(path)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)
