"""The units of an answer's numbers, as JSON states them: from the docstrings of the answer's fields."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

_UNIT = re.compile(r"((?:[A-Za-z]{1,7}|1)(?:/[A-Za-z]{1,7})?)\. ")
"""a docstring that begins with a unit: "B/s. The bandwidth of one port." """
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
            units |= {f"{path}{name}": unit for name, unit in units_of_kind(type(value)).items()}
        for name, each in vars(value).items():
            _collect(each, f"{path}{name}.", units, seen)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            _collect(each, f"{path}{name}.", units, seen)
    elif isinstance(value, (list, tuple)):
        for each in value[:_MOST]:
            _collect(each, path, units, seen)


@cache
def units_of_kind(kind: type) -> dict[str, str]:
    """The unit of each field of a dataclass, with those that it inherits."""
    units: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if is_dataclass(each):
            units |= _stated(each)
    return units


def _stated(kind: type) -> dict[str, str]:
    """The units in the docstrings of a class's own fields."""
    try:
        (made,) = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, ValueError, SyntaxError):  # a class without source
        return {}
    units: dict[str, str] = {}
    body = made.body if isinstance(made, ast.ClassDef) else []
    for field, note in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(note, ast.Expr)
        ):
            text = note.value.value if isinstance(note.value, ast.Constant) else ""
            if match := _UNIT.match(str(text)):
                units[field.target.id] = match[1]
    return units
