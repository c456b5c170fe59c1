"""The unit and the meaning of each field of a dataclass, from the docstring that follows the field; units for JSON."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple

_UNIT = re.compile(r"((?:[A-Za-z]{1,7}|1)(?:/[A-Za-z]{1,7})?)\. ")
"""a docstring that begins with a unit: "B/s. The bandwidth of one port." """


class Note(NamedTuple):
    """What the docstring of a field says."""

    unit: str
    meaning: str


@cache
def field_notes(kind: type) -> dict[str, Note]:
    """The notes of the fields of a dataclass, with those that it inherits."""
    notes: dict[str, Note] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            notes |= _stated(base)
    return notes


def _stated(kind: type) -> dict[str, Note]:
    """The notes of a class's own fields."""
    try:
        (made,) = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, ValueError, SyntaxError):  # a class without source
        return {}
    notes: dict[str, Note] = {}
    body = made.body if isinstance(made, ast.ClassDef) else []
    for field, note in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(note, ast.Expr)
            and isinstance(note.value, ast.Constant)
        ):
            text = str(note.value.value)
            match = _UNIT.match(text)
            notes[field.target.id] = Note(match[1], text[match.end() :]) if match else Note("", text)
    return notes


_MOST = 50
"""items of a list whose kinds are looked at"""


def units_of(answer: Any) -> dict[str, str]:
    """The unit of each number, by the path of its keys: {"band.low": "share", "expense.low": "USD"}.

    Lists have no part in a path. A unit of a table is that of its values.
    """
    units: dict[str, str] = {}
    _collect(answer, "", units, set())
    return units


def _collect(value: Any, path: str, units: dict[str, str], seen: set[tuple[str, type]]) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        if (path, type(value)) not in seen:
            seen.add((path, type(value)))
            notes = field_notes(type(value))
            units |= {f"{path}{name}": note.unit for name, note in notes.items() if note.unit}
        for name, part in vars(value).items():
            _collect(part, f"{path}{name}.", units, seen)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            _collect(part, f"{path}{name}.", units, seen)
    elif isinstance(value, (list, tuple)):
        for part in value[:_MOST]:
            _collect(part, path, units, seen)
