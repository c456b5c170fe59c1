"""The columns of each kind of reference table: the type of their cells, and which columns a table must have.

Columns for readers hold a source's own names of its model, machine and software. `network`, `cluster` and `plan` hold
what podsim runs for a row, each a name and settings such as "gpt-22b layers=96"; `reason` says why there is nothing to
run. `tables` names the parts of podsim.accuracy.tables that hold the row. docs/measured-rows.md lists the columns that a
user's file needs.

Types of cells: text; role (calibrate, test, or broken: listed and never scored; another counts as test); count (a whole
number, 1 or more); positive (a number above 0); amount (a number, 0 or more). A blank cell says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from podsim.packaged import packaged_toml
from podsim.records import dataclass

BLANK_WORDS = frozenset(("n/a", "na", "-", "--", "\u2013", "\u2014", "?", "unknown", "not stated", "null"))
"""The words, in lower case, that say as little as a blank cell."""


def is_blank(cell: str) -> bool:
    """Whether a cell states nothing."""
    return not cell or cell.strip().lower() in BLANK_WORDS or not cell.strip()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of reference table."""

    name: str
    title: str
    cells: str
    """The lines of "type: name name …": a type of cells, and its columns, in file order."""
    required: tuple[str, ...]
    """The columns that a table of this kind must have."""
    measured: tuple[str, ...]
    """The columns of measurements; a table needs at least one of them."""
    what: str
    """The quantity compared by default."""
    sweep: tuple[str, ...]
    """The columns that define a sweep: rows equal in them do the same work and compete."""
    classes: tuple[str, ...]
    """The columns of the breakdown."""
    words: tuple[str, ...] = ()
    """The columns by which a table in its source's own words is known; () where those are canonical."""
    curated_as: str = ""
    """The kind of reference/curate.py that turns such a table into canonical rows."""
    plan: tuple[str, ...] = ()
    """The columns that tell the plans of a sweep apart: rows equal in them, too, repeat each other."""
    series: str = ""
    """The column that separates rows of one id; "" if ids are unique."""
    source: str = "source"
    """The column of the sources."""
    packaged: str = ""
    """The packaged file, as PACKAGE:NAME; "" is NAME.csv.gz of podsim.accuracy.tables."""

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The cell type of each column, in file order."""
        lines = (line.split(":") for line in self.cells.strip().splitlines())
        return {column: cell.strip() for cell, names in lines for column in names.split()}


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


KINDS = tuple(
    Kind(name=name, **_entry(entry)) for name, entry in packaged_toml("accuracy/tables/kinds.toml").items()
)
"""The kinds of reference tables, in the order of tables/kinds.toml."""
