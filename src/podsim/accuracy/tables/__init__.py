"""Packaged tables of published measurements: `names()` lists them, `load(name)` reads one.

The files beside this module are made by scripts/compile_tables.py; every row keeps its source, role, id and
what was confirmed. `load("llm")` is a whole file, `load("korthikanti")` the part of it that one publication
gave.
"""

from __future__ import annotations

import csv
import gzip
import io
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from podsim.accuracy.columns import KINDS, Kind, kind_named
from podsim.accuracy.measured_tables import Row, Rows
from podsim.accuracy.named import NAMED
from podsim.accuracy.part import NamedTable
from podsim.errors import TableError, unknown_name

__all__ = ["load", "make_row", "named", "names"]


def names() -> tuple[str, ...]:
    """Names that `load` takes: the whole files, then their parts."""
    return tuple(kind.name for kind in KINDS) + tuple(table.slug for table in NAMED)


def named(slug: str) -> NamedTable:
    """What is known of a part: title, era, kind; raises TableError on another name."""
    for table in NAMED:
        if table.slug == slug:
            return table
    raise TableError(unknown_name("table", slug, [table.slug for table in NAMED]))


def load(name: str) -> Rows:
    """Rows of a packaged table or of a named part; raises TableError on an unknown name."""
    if name in {kind.name for kind in KINDS}:
        return _load_file(name)
    if name not in names():
        raise TableError(unknown_name("table", name, names()))
    table = named(name)
    whole, kind = _load_file(table.of), kind_named(table.of)
    return Rows(
        name=table.slug,
        title=table.title,
        kind=table.of,
        rows=tuple(row for row in whole if table.holds(row)),
        what=table.what or kind.what,
        sweep=kind.sweep if table.kind == "sweep" else (),
        classes=table.classes or kind.classes,
    )


def make_row(kind: Kind, fields: dict[str, str], *, id: str = "", role: str = "", source: str = "") -> Row:
    """Row of the cells of one line; where its id, role or source is blank or missing, the given one."""
    given = fields.get("id") or id
    cell = fields.get(kind.series, "") if kind.series and fields.get("id") else ""
    return Row(
        id=f"{given}/{cell}" if cell else given,
        role=fields.get("role") or role,
        source=fields.get(kind.source) or source,
        confirmed=fields.get("confirmed") or "not stated",
        kind=kind.name,
        fields=MappingProxyType(fields),
    )


@cache
def _load_file(name: str) -> Rows:
    """Rows of one packaged file; an assert fails if a row has no source, or two have one id."""
    kind = kind_named(name)
    packed = files(__package__).joinpath(f"{name}.csv.gz").read_bytes()
    lines = csv.reader(io.StringIO(gzip.decompress(packed).decode("utf-8"), newline=""))
    header = next(lines)
    rows = tuple(make_row(kind, dict(zip(header, cells, strict=True))) for cells in lines)
    assert all(row.source and row.role for row in rows), f"{name}: a row without source or role"
    assert len({row.id for row in rows}) == len(rows), f"{name}: an id stands twice"
    return Rows(
        name=name,
        title=kind.title,
        kind=name,
        rows=rows,
        what=kind.what,
        sweep=kind.sweep,
        classes=kind.classes,
    )
