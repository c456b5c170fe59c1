"""A user's cluster or storage: a small TOML file that inherits from the catalog and overrides some values.

inherits = "dgx-a100-80gb"
source = "our lab"
nodes = 16
[gpu]
memory = "64 GB"
[network]
bandwidth = "100 Gb/s"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import podsim.foreign_files as foreign
from podsim.errors import CatalogError

LARGEST = 64_000
"""B. The largest file; a description takes a few hundred bytes."""
LONGEST = 1_000
"""The longest line, in characters: the parser's memory grows as the square of the parts of a dotted key."""


@dataclass(frozen=True, kw_only=True)
class UserFile:
    """The content of a user's file."""

    name: str
    inherits: str
    source: str
    overrides: Mapping[str, object]
    """The unchecked values, by dotted key."""


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a cluster's file, unchecked.

    Raises CatalogError for a file that is missing, not regular, too large, not UTF-8 or not TOML.
    """
    text = foreign.read_text(path, most=LARGEST, error=CatalogError, hint="no cluster file is")
    return foreign.read_toml(text, name=str(path)[-200:], error=CatalogError, longest=LONGEST)


def read_user_file(path: str | Path) -> UserFile:
    """The content of a user's file; see `read_toml` and `user_file`."""
    return user_file(read_toml(Path(path)), str(path)[-200:], Path(path).stem)


def user_file(table: dict[str, Any], file: str, stem: str) -> UserFile:
    """The content of a user's table. The reader of the overrides checks them.

    `file` is for messages; `stem` is the default name. Raises CatalogError for a table without `inherits` or `source`.
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
        overrides=dict(_flatten(table)),
    )


def _flatten(table: Mapping[str, object], above: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """The values by dotted key. Tables deeper than any valid key stay tables, which the readers reject."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth < 3:
            yield from _flatten(value, f"{above}{key}.", depth + 1)
        else:
            yield f"{above}{key}", value
