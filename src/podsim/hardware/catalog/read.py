"""A catalog file read and checked: every problem of the file in one CatalogError.

A file has a `sources` table (key to text) and one table per entry. An entry names its sources by key, says
whether its figures are confirmed, and may inherit from another entry of the same file; tables such as `peaks`
are merged key by key, and an empty table or text clears what was inherited.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from podsim.errors import CatalogError, unknown_name
from podsim.hardware.catalog.schema import SCHEMAS, Entry

__all__ = ["parse_catalog"]

_OWN = ("aliases", "source", "confirmed", "inherits")
"""keys that an entry never inherits"""


def parse_catalog(kind: str, text: str, file: str, schema: type[Entry] | None = None) -> dict[str, Entry]:
    """Entries of a catalog file by name, their sources spelt out; `schema` is that of a kind which is no part.

    Raises CatalogError that names the file, the entry, the key and the rule of everything found wrong.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{file} is not TOML: {error}") from None
    shape = schema or SCHEMAS[kind]
    sources = tables.pop("sources", {})
    problems = list(_table_problems(tables, sources))
    entries: dict[str, Entry] = {}
    for name in () if problems else tables:
        try:
            raw = _with_inherited(name, tables, ())
            entries[name] = shape.model_validate(raw)
            problems += [f"[{name}] {problem}" for problem in _entry_problems(entries[name], sources)]
        except ValidationError as error:
            problems += [f"[{name}] {problem}" for problem in _readable(error, shape)]
        except CatalogError as error:
            problems.append(f"[{name}] {error}")
    problems += _alias_problems(entries)
    if problems:
        raise CatalogError(f"{file}: " + "; ".join(problems))
    return {name: _with_sources(entry, sources) for name, entry in entries.items()}


def _table_problems(tables: Mapping[str, object], sources: object) -> Iterator[str]:
    if not isinstance(sources, dict) or not all(isinstance(text, str) and text for text in sources.values()):
        yield "sources must be a table of key to text"
    for name, table in tables.items():
        if not isinstance(table, dict):
            yield f"{name} stands outside any entry; expected tables such as [{name}]"
        elif name != name.lower() or ":" in name:
            yield f"[{name}] must be named in lower case, without a colon"


def _with_inherited(name: str, tables: Mapping[str, dict[str, Any]], path: tuple[str, ...]) -> dict[str, Any]:
    own = dict(tables[name])
    parent = own.pop("inherits", None)
    if parent is None:
        return own
    if parent in (*path, name):
        raise CatalogError(f"inherits from itself: {' from '.join((*path, name, parent))}")
    if parent not in tables:
        raise CatalogError(unknown_name("entry to inherit from", str(parent), tables))
    base = _with_inherited(parent, tables, (*path, name))
    merged = {key: value for key, value in base.items() if key not in _OWN}
    if isinstance(merged.get("notes"), dict):
        merged["notes"] = {field: text for field, text in merged["notes"].items() if not _sets(own, field)}
    for key, value in own.items():
        before = merged.get(key)
        merged[key] = {**before, **value} if value and isinstance(value, dict) and before else value
    return merged


def _sets(own: Mapping[str, Any], field: str) -> bool:
    """Whether an entry sets a field such as peaks.fp64 itself, so that a note on its parent's is void."""
    head, _, rest = field.partition(".")
    return head in own and (not rest or not isinstance(own[head], dict) or rest in own[head])


def _entry_problems(entry: Entry, sources: Mapping[str, str]) -> Iterator[str]:
    fields = type(entry).model_fields
    for key in entry.source:
        if key not in sources:
            yield unknown_name("source", key, sources)
    for field in entry.notes:
        if field.partition(".")[0] not in fields:
            yield f"notes: {unknown_name('key', field, fields)}"
    doubts = [text for text in entry.notes.values() if text.startswith("unconfirmed")]
    if entry.confirmed == "partial" and not doubts:
        yield 'confirmed = "partial" needs a note on each field that is unconfirmed'
    if entry.confirmed == "yes" and doubts:
        yield 'confirmed = "yes" stands beside notes that say unconfirmed'


def _alias_problems(entries: Mapping[str, Entry]) -> Iterator[str]:
    taken = dict.fromkeys(entries, "is an entry")
    for name, entry in entries.items():
        for alias in entry.aliases:
            if alias in taken:
                yield f"[{name}] alias {alias!r} {taken[alias]}"
            taken[alias] = f"belongs to {name}"


def _readable(error: ValidationError, schema: type[BaseModel]) -> Iterator[str]:
    for found in error.errors(include_url=False):
        where = ".".join(str(step) for step in found["loc"])
        if found["type"] == "extra_forbidden":
            yield unknown_name("key", where, schema.model_fields)
        elif found["type"] == "missing":
            yield f"key {where!r} is missing"
        else:
            given = str(found["input"])[:60]
            yield f"{where}: {found['msg'].removeprefix('Value error, ')} (given: {given!r})"


def _with_sources(entry: Entry, sources: Mapping[str, str]) -> Entry:
    return entry.model_copy(update={"source": tuple(sources[key] for key in entry.source)})
