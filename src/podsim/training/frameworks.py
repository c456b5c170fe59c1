"""The software entry of a run, from its framework's name as people write it and the year in which it was made.

`frameworks.toml` has the names, and the releases and years from which on each entry holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from podsim.packaged import packaged_toml
from podsim.training.software import software_names

Moment: TypeAlias = "tuple[int, int]"
"""A release such as (24, 11), or a year and 0."""
_RELEASE = re.compile(r"(?<![\d.])[vr]?(\d{1,2})\.(\d{1,2})(?!\d)")


@dataclass(frozen=True, kw_only=True)
class _Framework:
    """The entries of one framework, by the release or year from which on they hold."""

    text: str
    """The regular expression of its names."""
    years: Mapping[Moment, str]
    releases: Mapping[Moment, str]


@cache
def _frameworks() -> tuple[_Framework, ...]:
    raw = packaged_toml("training/frameworks.toml")
    return tuple(
        _Framework(
            text=entry["text"],
            years={(int(year), 0): name for year, name in entry["years"].items()},
            releases={_release(text): name for text, name in entry.get("releases", {}).items()},
        )
        for entry in raw["framework"]
    )


def framework_software(framework: str, year: int | None) -> str | None:
    """The entry of the software catalog that a framework's name means; None if it means none.

    "NeMo v24.11.1" is its release whenever it was published; `year` counts where the name states no release.
    """
    name = framework.strip().lower()
    if name in software_names():
        return name
    known = next((entry for entry in _frameworks() if re.search(entry.text, name)), None)
    if known is None:
        return None
    release = _RELEASE.search(name)
    if known.releases and release:
        return _entry_at(known.releases, (int(release[1]), int(release[2])))
    return _entry_at(known.years, (year, 0) if year is not None else min(known.years))


def _release(text: str) -> Moment:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _entry_at(entries: Mapping[Moment, str], moment: Moment) -> str:
    """The entry that holds at a moment: the last that began by then, else the first."""
    begun = [start for start in entries if start <= moment]
    return entries[max(begun) if begun else min(entries)]
