"""What a row of language models says in prose: in its notes, its strategy, its framework; the words are data."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from podsim.accuracy.measured_runs import cell_text
from reference.negations import affirmed_cells, read_denials

ANY = "any"
"""The column of a remark that may stand in any of PROSE."""
PROSE = ("model", "zero_stage_or_fsdp", "seq_parallel", "recompute", "precision", "framework", "notes")


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Words of a row, and what they mean."""

    where: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """The patterns of what columns affirm."""
    denied: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """The patterns of what columns deny."""
    written: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """The patterns of columns as they stand."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """The values of columns that are blank in the row."""
    corrected: Mapping[str, str] = field(default_factory=dict)
    """The values of columns, whatever the row has there."""
    plan: Mapping[str, bool | float] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    """The software entry that stands for another one."""

    def group_of(self, row: Mapping[str, str], raw: Mapping[str, str]) -> str | None:
        """The first group of its patterns in a row, "" if they have none; None if one of them is not found.

        `raw` is the row as its source has it, `row` what it affirms by now.
        """
        matches = [pattern.search(_text(row, column, 0)) for column, pattern in self.where.items()]
        matches += [pattern.search(_text(raw, column, 1)) for column, pattern in self.denied.items()]
        matches += [pattern.search(cell_text(raw, column)) for column, pattern in self.written.items()]
        if not all(matches):
            return None
        return next((match[1] for match in matches if match and match.re.groups and match[1]), "")


def _text(row: Mapping[str, str], column: str, part: int) -> str:
    """What a column affirms (part 0) or denies (1)."""
    columns = PROSE if column == ANY else (column,)
    return "; ".join(filter(None, (read_denials(cell_text(row, name))[part] for name in columns)))


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """A row with what its prose adds to its columns."""

    cells: Mapping[str, str]
    plan: Mapping[str, bool | float]
    """The settings of the plan that no column states."""
    software: Mapping[str, str]
    """The software entry that stands for another one."""


@cache
def _remarks() -> tuple[Remark, ...]:
    raw = tomllib.loads(Path(__file__).with_name("row_remarks.toml").read_text("utf-8"))
    return tuple(
        Remark(
            **entry
            | {
                key: {column: re.compile(text, re.IGNORECASE) for column, text in entry[key].items()}
                for key in ("where", "denied", "written")
                if key in entry
            }
        )
        for entry in raw["remark"]
    )


def read_remarks(row: Mapping[str, str]) -> Remarks:
    """The cells of a row with what its prose adds or corrects, and the settings that no column states."""
    cells = affirmed_cells(row)
    plan: dict[str, bool | float] = {}
    software: dict[str, str] = {}
    for remark in _remarks():
        group = remark.group_of(cells, row)
        if group is None:
            continue
        blank = {column: value for column, value in remark.cells.items() if not cell_text(cells, column)}
        for column, value in {**blank, **remark.corrected}.items():
            cells[column] = (
                cell_text(cells, value[1:]) if value.startswith("@") else value.replace("\\1", group)
            )
        plan |= remark.plan
        software |= remark.software
    return Remarks(cells=cells, plan=plan, software=software)


def counted_cells(row: Mapping[str, str]) -> dict[str, str]:
    """What a raw row's measurements cover: its scope, and its memory in GB, which some sources count in GiB."""
    if cell_text(row, "plan"):
        return {}
    cells = read_remarks(row).cells
    text, unit = cell_text(cells, "memory_gb"), cells.get("memory_unit")
    memory = repr(float(text) * float(unit) / 1e9) if text and unit else text
    return {"memory_gb": memory, "scope": cell_text(cells, "scope")}
