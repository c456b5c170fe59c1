"""The units of an answer's numbers, as JSON states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from podsim.report.field_notes import field_notes

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
