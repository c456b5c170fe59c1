"""The version of podsim, and the warning for files that another version wrote."""

from __future__ import annotations

import re
from collections.abc import Callable

__version__ = "0.2.0"


def check_format(found: object, known: int, *, name: str, error: Callable[[str], Exception]) -> None:
    """Raise `error` unless the version of a file's format is the known one; `name` names the file."""
    if type(found) is int and found > known:
        raise error(
            f"{name}: of format version {found}, which a later podsim wrote; this is podsim {__version__}, which reads "
            f"version {known}: update podsim"
        )
    if type(found) is not int or found != known:
        raise error(
            f"{name}: of format version {str(found)[:20]}; podsim {__version__} reads version {known}: write it again"
        )


def check_release(found: object, *, name: str, error: Callable[[str], Exception]) -> None:
    """Raise `error` if a later podsim wrote a file, which says its release as text, as {"version": text}, or not."""
    text = str(found.get("version") if isinstance(found, dict) else found)[:40]
    if _numbers(text) > _numbers(__version__):
        raise error(f"{name}: written by podsim {text}; this is podsim {__version__}: update podsim")


def _numbers(release: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]{1,9}", release)[:3]]
