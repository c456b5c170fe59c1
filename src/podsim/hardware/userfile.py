"""A user's own cluster or storage: a small TOML file that inherits from the catalog and changes what is different.

inherits = "dgx-a100-80gb"
source = "our lab"
nodes = 16
[gpu]
memory = "64 GB"
[network]
bandwidth = "100 Gb/s"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import CatalogError

LARGEST = 64_000
"""B of the largest file read; a description takes a few hundred"""
LONGEST = 1_000
"""characters of the longest line: the parser needs memory as the square of the parts of a dotted key"""


@dataclass(frozen=True, kw_only=True)
class UserFile:
    """What a user's file says."""

    name: str
    inherits: str
    source: str
    overrides: Mapping[str, object]
    """The values by dotted key, not yet checked."""


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a cluster's file, whatever it says.

    Raises CatalogError for a file that is missing, no regular file, too large, no UTF-8 or no TOML.
    """
    return _parsed(_read(path), str(path)[-200:])


def read_user_file(path: str | Path) -> UserFile:
    """What a user's file says; see `read_toml` and `user_file`."""
    return user_file(read_toml(Path(path)), str(path)[-200:], Path(path).stem)


def parse_user_file(text: str, file: str, stem: str) -> UserFile:
    """What the text of a user's file says; see `user_file`."""
    return user_file(_parsed(text, file), file, stem)


def _parsed(text: str, file: str) -> dict[str, Any]:
    longest = max(map(len, text.splitlines()), default=0)
    if longest > LONGEST:
        raise CatalogError(
            f"{file} has a line of {longest:,} characters; a cluster file has at most {LONGEST:,}"
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{file} is not TOML: {str(error)[:200]}") from None


def user_file(table: dict[str, Any], file: str, stem: str) -> UserFile:
    """What a user's table says; its overrides are checked by whoever applies them.

    `file` is for messages, `stem` the name if the table gives none. Raises CatalogError where it does not say what it
    inherits from and where its figures come from.
    """
    head = {
        key: table.pop(key, default) for key, default in (("name", stem), ("inherits", ""), ("source", ""))
    }
    problems = [
        f"{key} must be a text that is not empty, such as {key} = {example!r}"
        for key, example in (("name", "lab"), ("inherits", "dgx-a100-80gb"), ("source", "our lab"))
        if not isinstance(head[key], str) or not head[key].strip()
    ]
    if str(head["inherits"]).endswith(".toml"):
        problems.append("inherits must name a catalog entry, not another file")
    if problems:
        raise CatalogError(f"{file}: " + "; ".join(problems))
    return UserFile(
        name=head["name"][:80],
        inherits=head["inherits"],
        source=head["source"][:1000],
        overrides=dict(_flat(table)),
    )


def _flat(table: Mapping[str, object], above: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Values by dotted key; tables nested deeper than any key reaches are left as they are, to be refused."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth < 3:
            yield from _flat(value, f"{above}{key}.", depth + 1)
        else:
            yield f"{above}{key}", value


def _read(path: Path) -> str:
    try:
        if not path.exists():
            raise CatalogError(f"{str(path)[-200:]}: no such file")
        if not path.is_file():
            raise CatalogError(f"{str(path)[-200:]} is no regular file; expected a TOML file")
        size = path.stat().st_size
        if size > LARGEST:
            raise CatalogError(
                f"{str(path)[-200:]} has {size:,} bytes; a cluster file has at most {LARGEST:,}"
            )
        return path.read_bytes().decode("utf-8")
    except CatalogError:
        raise
    except UnicodeDecodeError as error:
        raise CatalogError(
            f"{str(path)[-200:]} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
    except (OSError, ValueError) as error:
        raise CatalogError(f"{str(path)[-200:]!r} cannot be read: {error}") from None
