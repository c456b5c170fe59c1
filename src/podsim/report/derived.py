"""Reports from the fields of answers: facts, tables and lists follow from names, units and docstrings.

A text, a number or a switch is a fact: its name in words, its value in its unit, and what its docstring says. Rows of
one kind are a table, texts are a list, a table of names and numbers is facts below a title, and an answer within an
answer is shown in the same way. `podsim.answers.fields.shown` says more about a field where that is not enough.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from podsim.answers.answer import call
from podsim.answers.fields import Cell, cell_of
from podsim.report.columns import (
    Column,
    Format,
    Table,
    energy_text,
    field_value,
    mass_text,
    percent,
    quantity_text,
    ratio,
)
from podsim.report.field_notes import Note, field_notes
from podsim.report.screen import Block, Paragraph, Rows, bold, items
from podsim.units import duration, format_quantity

_FORMATS: Mapping[str, Format] = {
    "share": percent,
    "factor": ratio,
    "count": ":,.6g",
    "SI": ":.4g",
    "1/s": partial(quantity_text, unit="1/s"),
    "USD": ":,.4g",
    "J": energy_text,
    "kg": mass_text,
    "s": lambda seconds: duration(seconds) if seconds >= 120 else format_quantity(seconds, "s"),
}
"""how values of a unit are written; the others are SI units"""
_FACTS = Table(Column("", "0"), Column("", "1"), Column("", "2", wrap=True, is_brief=True))
"""names, values, and what they mean where there is room"""
_LONG = 30
"""characters of a text that stands last in a table, where it wraps"""
_NUMBER = re.compile(r"[-+]?[\d,.]*\d(e[-+]?\d+)?( ?[^\d\s]{1,8})?|-|no|yes|")
"""texts of columns that are aligned to the right"""
_LINE = 48
"""characters of a value that stands in a paragraph of its own"""


def derived_report(answer: Any) -> Iterator[Block]:
    """The report of an answer from its fields, with its title first; of several answers, a table."""
    if isinstance(answer, (tuple, list)):
        yield rows_block(answer)
        return
    yield bold(_title(answer))
    yield from _blocks(answer)


def _title(answer: Any) -> str:
    """What the class says of itself, in one line."""
    return (type(answer).__doc__ or type(answer).__name__).partition("\n")[0].rstrip(".")


def _blocks(answer: Any) -> Iterator[Block]:
    """The facts of an answer, and below them its tables, its lists and what it holds."""
    facts: list[tuple[str, str, str]] = []
    parts: list[tuple[str, Cell, Any, Note]] = []
    kind: Any = type(answer)
    notes = field_notes(kind)
    for field in dataclasses.fields(answer):
        cell, value, note = cell_of(field), getattr(answer, field.name), notes.get(field.name, Note("", ""))
        if cell.is_hidden:
            continue
        if _is_nothing(value) and cell.missing != "-":
            facts.append((in_words(field.name) if cell.heading is None else cell.heading, cell.missing, ""))
        if _is_nothing(value, cell):
            continue
        if cell.of_row is not None:
            value = call(cell.of_row, answer)
        if isinstance(value, (Mapping, tuple, list)) or dataclasses.is_dataclass(value):
            parts += [(field.name, cell, value, note)] if value else []
        elif value != "":
            facts.append(_fact(field.name, value, cell, note))
    yield from _facts(facts)
    for number, (name, cell, value, note) in enumerate(parts):
        title = cell.title or ("" if number == 0 and _has_rows(value) else in_words(name).capitalize())
        yield from _part(title, cell, value, note)


def _is_nothing(value: Any, cell: Cell | None = None) -> bool:
    """Whether a value is none, empty, or the one that says nothing."""
    if cell is not None and isinstance(value, (str, int, float)) and value == cell.hide_if:
        return True
    return value is None or (hasattr(value, "__len__") and len(value) == 0)


def _facts(facts: Sequence[tuple[str, str, str]]) -> Iterator[Block]:
    """Names, values and what they mean; below them the long texts."""
    rows = [fact for fact in facts if len(fact[1]) <= _LINE]
    if rows:
        yield Rows(_FACTS, rows)
    for name, value, _ in facts:
        if len(value) > _LINE:
            yield Paragraph(f"{name}: {value}", indent="    ", first="  ")


def _has_rows(value: Any) -> bool:
    """Whether a value is rows of one kind."""
    return isinstance(value, (tuple, list)) and dataclasses.is_dataclass(value[0])


def _fact(name: str, value: Any, cell: Cell, note: Note) -> tuple[str, str, str]:
    heading = in_words(name) if cell.heading is None else cell.heading
    remark = note.meaning if cell.remark is None else cell.remark
    is_said = remark.lower().removeprefix("the ").rstrip(".") == heading.lower()
    return heading, _text(cell, note, None, value), "" if is_said else remark


def _part(title: str, cell: Cell, value: Any, note: Note) -> Iterator[Block]:
    """A table, a list, facts of a mapping, or an answer within the answer."""
    if _is_text(value):
        yield from items(title, list(value))
        return
    yield ""
    if title:
        yield bold(title)
    if isinstance(value, Mapping):
        yield from _facts([_entry(str(name), held, cell, note) for name, held in value.items()])
    elif dataclasses.is_dataclass(value):
        yield from _blocks(value)
    elif _has_rows(value):
        yield rows_block(value)
    else:
        yield ", ".join(_text(cell, note, None, part) for part in value)


def _entry(name: str, value: Any, cell: Cell, note: Note) -> tuple[str, str, str]:
    """An entry of a mapping as a fact; what it holds in turn stands behind it."""
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, str):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        return str(name), "", ", ".join(f"{key} {_text(cell, note, None, part)}" for key, part in inner)
    return str(name), _text(cell, note, None, value), ""


def rows_block(rows: Sequence[Any]) -> Rows:
    """Rows of one kind as a table; its last text wraps, which is the longest one if that is long."""
    columns = table_columns(type(rows[0]), rows)
    if texts := [column for column in columns[1:] if column.align == "l"]:
        longest = max(texts, key=lambda column: max(len(column.text(row)) for row in rows))
        if max(len(longest.text(row)) for row in rows) > _LONG:
            columns.remove(longest)
            columns.append(longest)
    if len(columns) > 1 and columns[-1].align == "l":
        columns[-1] = dataclasses.replace(columns[-1], wrap=True)
    return Rows(Table(*columns), rows)


def table_columns(kind: Any, rows: Sequence[Any], path: str = "") -> list[Column]:
    """The columns of a kind of row: one for each field that some row fills, and for each field or key within it."""
    notes = field_notes(kind)
    columns: list[Column] = []
    for field in dataclasses.fields(kind):
        cell, note = cell_of(field), notes.get(field.name, Note("", ""))
        name = f"{path}{field.name}"
        every = (field_value(row, name) for row in rows)
        values = [value for value in every if cell.missing != "-" or not _is_nothing(value, cell)]
        if cell.is_hidden or not values:
            continue
        if dataclasses.is_dataclass(values[0]) and cell.of_row is None:
            columns += table_columns(type(values[0]), rows, f"{name}.")
            continue
        heading = in_words(field.name) if cell.heading is None else cell.heading
        if isinstance(values[0], Mapping) and cell.of_row is None:
            parts = [(str(key), f"{name}.{key}") for key in dict.fromkeys(chain(*values))]
        else:
            parts = [(heading, name)]
        for heading, part in parts:
            text = partial(_cell_text, part, cell, note)
            is_number = all(_NUMBER.fullmatch(text(row)) for row in rows)
            columns.append(Column(heading, text, align="r" if is_number else "l", drop=cell.drop))
    return columns


def _is_text(value: Any) -> bool:
    """Whether a value is a text, or several."""
    return isinstance(value, str) or (
        isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value)
    )


def _cell_text(name: str, cell: Cell, note: Note, row: Any) -> str:
    return _text(cell, note, row, field_value(row, name))


def _text(cell: Cell, note: Note, row: Any, value: Any) -> str:
    """The text of a value: by the cell, by its unit, or by its kind."""
    if cell.of_row is not None and row is not None:
        return str(call(cell.of_row, row))
    if cell.of_row is not None and isinstance(value, str):
        return value
    if value is None:
        return cell.missing
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    is_number = isinstance(first, (int, float)) and not isinstance(first, bool)
    form = cell.format or (_FORMATS.get(note.unit, note.unit) if is_number else "")
    if callable(form) or (isinstance(form, str) and ":" in form[1:]):
        return str(call(form, value))
    return _plain(value, str(form))


def _plain(value: Any, form: str) -> str:
    """The text of a value by an SI unit, a format specification or its kind."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(value, form)
    if isinstance(value, (tuple, list)):
        return ", ".join(_plain(part, form) for part in value)
    return str(value)


def _number(value: float, form: str) -> str:
    if form.startswith(":"):
        return f"{value:{form[1:]}}"
    if form:
        return format_quantity(value, form)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def in_words(name: str) -> str:
    """The name of a field as words."""
    return name.replace("_", " ")
