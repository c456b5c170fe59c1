"""A named part of a packaged table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.accuracy.measured_tables import Row


@dataclass(frozen=True, kw_only=True)
class NamedTable:
    """One part of a packaged table: the rows whose id starts, and whose cells match from their start, as given."""

    slug: str
    title: str
    era: str
    """years of the measured software, or "not stated"; one model gained 24 % in eight months on one node"""
    kind: str
    """sweep or points"""
    prefix: str = ""
    """start of the ids"""
    where: Mapping[str, str] = field(default_factory=dict)
    """column -> regular expression that its cell matches from the start"""
    of: str = "llm"
    """the packaged table it is a part of"""
    what: str = ""
    """quantity compared unless another is asked for; "" takes that of the packaged table"""
    classes: tuple[str, ...] = ()
    """columns of the breakdown; () takes those of the packaged table"""
    parts: bool = False
    """whether other named tables split it further"""

    def holds(self, row: Row) -> bool:
        """Whether a row of the packaged table belongs here."""
        return row.id.startswith(self.prefix) and all(
            re.match(pattern, row.text(column)) for column, pattern in self.where.items()
        )
