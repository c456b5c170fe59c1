"""How a field of an answer is shown, where its name, its unit and its docstring do not say enough."""

from __future__ import annotations

import dataclasses
from typing import Any

from podsim.answers.answer import Hook
from podsim.records import MISSING, dataclass


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a report shows of a field, as a line of an answer or as a column of a table."""

    heading: str | None = None
    """The heading of a column, or the name of a fact; None: the field's name in words."""
    format: Hook = None
    """An SI unit, ":" and a format specification, or a function (MODULE:FUNCTION of podsim) that gives the text of a
    value; by default what the unit in the field's docstring says."""
    of_row: Hook = None
    """The function of the whole row that gives the text instead; or of the whole answer, for what is shown instead: text,
    rows, or facts by name."""
    missing: str = "-"
    """The text of None in a column; of a fact that is None or has no rows, which is left out by default."""
    is_hidden: bool = False
    """Whether no report shows it."""
    hide_if: object = None
    """The value that says nothing."""
    drop: int = 0
    """The order in which columns disappear on a narrow terminal; 0: the column stays."""
    title: str = ""
    """The title above the table of a field with rows; by default there is none above the first table."""
    remark: str | None = None
    """The remark behind a fact; by default the field's docstring; "" for nothing."""


def shown(heading: str | None = None, format: Hook = None, *, default: Any = MISSING, **details: Any) -> Any:
    """A field of an answer with what a report shows of it; `details` are those of `Cell`.

    optional=True leaves the field out of JSON while it is None.
    """
    marks = {"optional": True} if details.pop("optional", False) else {}
    cell = Cell(heading=heading, format=format, **details)
    kind = "default_factory" if callable(default) else "default"
    return dataclasses.field(**{kind: default}, metadata={"cell": cell, **marks})


def cell_of(field: dataclasses.Field[Any]) -> Cell:
    """What a report shows of a field."""
    cell: Cell = field.metadata.get("cell", _PLAIN)
    return cell


_PLAIN = Cell()
