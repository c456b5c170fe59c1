"""Packaged tables of published measurements: `names()` lists them, `load(name)` reads one.

The files beside this module are made by reference/; every row keeps its source, role, id and what was confirmed.
`load("llm")` is a whole file, `load("korthikanti")` the part of it that one publication gave.
"""

from __future__ import annotations

import csv
import gzip
import io
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from podsim.accuracy.columns import KINDS, Kind, kind_named
from podsim.accuracy.measured_tables import Row, Rows
from podsim.errors import TableError, unknown_name

__all__ = ["NAMED", "TABLES", "NamedTable", "load", "make_row", "named", "names"]


@dataclass(frozen=True, kw_only=True)
class NamedTable:
    """One part of a packaged table: the rows whose column `tables` names it."""

    slug: str
    title: str
    years: str
    """years of the measured software, or "not stated"; one model gained 24 % in eight months on one node"""
    sweep: bool = False
    """whether it holds several plans for the same work, so that ranking them means something"""
    of: str = "llm"
    """the packaged table it is a part of"""
    what: str = ""
    """quantity compared unless another is asked for; "" takes that of the packaged table"""
    classes: tuple[str, ...] = ()
    """columns of the breakdown; () takes those of the packaged table"""
    overlaps: bool = False
    """whether its rows are in other named tables, too"""


def _read_named() -> tuple[NamedTable, ...]:
    """The entries of parts.toml, in their order."""
    text = files(__package__).joinpath("parts.toml").read_text("utf-8")
    return tuple(
        NamedTable(slug=slug, **{**entry, "classes": tuple(entry.get("classes", ()))})
        for slug, entry in tomllib.loads(text).items()
    )


NAMED = _read_named()
"""every named part of the packaged tables, in the order they are shown"""
TABLES = tuple(table.slug for table in NAMED)
"""their slugs"""


def names() -> tuple[str, ...]:
    """Names that `load` takes: the whole files, then their parts."""
    return tuple(kind.name for kind in KINDS) + tuple(table.slug for table in NAMED)


def named(slug: str) -> NamedTable:
    """What is known of a part: title, years, classes; raises TableError on another name."""
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
    packaged, kind = _load_file(table.of), kind_named(table.of)
    return Rows(
        name=table.slug,
        title=table.title,
        kind=table.of,
        rows=tuple(row for row in packaged if name in row.text("tables").split()),
        what=table.what or kind.what,
        sweep=kind.sweep if table.sweep else (),
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
