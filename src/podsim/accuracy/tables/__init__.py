"""Packaged tables of published measurements: `names()` lists them, `load(name)` reads one.

reference/ writes the files in this folder; every row keeps its source, role, id and state of confirmation.
`load("llm")` is a whole file, `load("torchtitan")` the part of it from one publication. `measurement(row, what)` is a
measured value of a row in SI; only units are converted here, by no law of the model.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.table_columns import KINDS, Kind
from podsim.answers.comparison import BROKEN, QUANTITIES, Measurement
from podsim.errors import TableError, check_name, unknown_name
from podsim.packaged import packaged_toml

__all__ = [
    "NAMED",
    "TABLES",
    "UNRESOLVED",
    "NamedTable",
    "Row",
    "Rows",
    "find_kind",
    "load",
    "make_row",
    "measurement",
    "named_table",
    "names",
    "quantities",
    "training_rows",
]

UNRESOLVED = "unresolved: "
"""The start of a source that could not be traced to its publisher."""

_NO_TARGET = ("no", "threshold")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One measured case."""

    id: str
    """The id, unique in its table."""
    role: str
    source: str
    confirmed: str
    """The state of the number in the reference tables: yes, approx, partial, no, …, or "not stated"."""
    kind: str
    fields: Mapping[str, str] = field(hash=False)
    """The cells of the raw table as text, by column; "" where blank."""

    @property
    def validates(self) -> bool:
        """Whether the number may be compared with a prediction: it was measured, and its source is known."""
        return (
            self.role != BROKEN
            and self.confirmed not in _NO_TARGET
            and not self.source.startswith(UNRESOLVED)
        )

    def text(self, column: str) -> str:
        """Cell of a column, "" where blank; raises TableError on an unknown column."""
        try:
            return self.fields[column]
        except KeyError:
            raise TableError(unknown_name("column", column, self.fields)) from None

    def number(self, column: str) -> float | None:
        """Cell as a float, None where blank; raises TableError if it is no finite number."""
        cell = self.text(column)
        if not cell:
            return None
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TableError(f"row {self.id}: {column}={cell[:60]!r} is not a finite number")
        return value

    def integer(self, column: str) -> int | None:
        """Cell as an int, None where blank; raises TableError if it is no whole number."""
        value = self.number(column)
        if value is None:
            return None
        if not value.is_integer():
            raise TableError(f"row {self.id}: {column}={self.text(column)[:60]!r} is not a whole number")
        return int(value)

    def label(self, columns: Iterable[str]) -> str:
        """Text such as "tp=8, pp=1" of some columns; blank cells are left out."""
        return ", ".join(f"{column}={text}" for column in columns if (text := self.text(column)))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A table of measurements; iterates over its rows."""

    name: str
    title: str
    kind: str
    rows: tuple[Row, ...]
    what: str
    """The quantity compared by default (a key of podsim.answers.comparison.QUANTITIES)."""
    sweep: tuple[str, ...] = ()
    """The columns that define a sweep; () for none."""
    classes: tuple[str, ...] = ()
    """The columns of the breakdown."""
    remarks: tuple[str, ...] = ()
    """The remarks on the file that holds the rows."""
    with_own_plans: bool = False
    """Whether podsim's own best plan stands beside each row."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        """Rows in file order."""
        return iter(self.rows)

    def __getitem__(self, id: str) -> Row:
        """The row of that id; raises TableError on another."""
        for row in self.rows:
            if row.id == id:
                return row
        raise TableError(unknown_name("row", id, [row.id for row in self.rows]))

    def where(self, keep: Callable[[Row], bool] = lambda row: True, *, role: str | None = None) -> Rows:
        """The rows that pass, of one role if it is given."""
        return replace(self, rows=tuple(r for r in self.rows if role in (None, r.role) and keep(r)))

    def column(self, name: str) -> NDArray[np.float64]:
        """Cells of a column as float64, NaN where blank; shape (rows,)."""
        cells = [row.number(name) for row in self.rows]
        return np.array([math.nan if cell is None else cell for cell in cells], dtype=np.float64)

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources, each once, in order of first use."""
        return tuple(dict.fromkeys(row.source for row in self.rows))


@dataclass(frozen=True, kw_only=True)
class NamedTable:
    """One part of a packaged table: the rows whose column `tables` names it."""

    slug: str
    title: str
    years: str
    """The years of the measured software, or "not stated"."""
    sweep: bool = False
    """Whether it holds several plans for the same work, so that ranking them has a meaning."""
    of: str = "llm"
    """The packaged table that it is a part of."""
    what: str = ""
    """The quantity compared by default; "" uses that of the packaged table."""
    classes: tuple[str, ...] = ()
    """The columns of the breakdown; () uses those of the packaged table."""
    overlaps: bool = False
    """Whether its rows are also in other named tables."""
    with_own_plans: bool = False
    """Whether podsim's own best plan stands beside each row."""
    file: str = ""
    """The packaged file of its own, with the columns of `of`; "" where its rows are in that table."""


NAMED = tuple(
    NamedTable(slug=slug, **{**entry, "classes": tuple(entry.get("classes", ()))})
    for slug, entry in packaged_toml("accuracy/tables/parts.toml").items()
)
"""Every named part of the packaged tables, in the order of their display."""
TABLES = tuple(table.slug for table in NAMED)
"""The slugs of the named parts."""


def find_kind(name: str) -> Kind:
    """The kind of that name; raises TableError on another."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise TableError(unknown_name("kind of table", name, [kind.name for kind in KINDS]))


def names() -> tuple[str, ...]:
    """Names that `load` takes: the whole files, then their parts."""
    return tuple(kind.name for kind in KINDS) + tuple(table.slug for table in NAMED)


def named_table(slug: str) -> NamedTable:
    """The named part of a slug: title, years, classes; raises TableError on another name."""
    for table in NAMED:
        if table.slug == slug:
            return table
    raise TableError(unknown_name("table", slug, [table.slug for table in NAMED]))


def load(name: str) -> Rows:
    """Rows of a packaged table or of a named part; raises TableError on an unknown name."""
    if name in {kind.name for kind in KINDS}:
        return _load_file(name)
    check_name("table", name, names(), TableError)
    table = named_table(name)
    kind = find_kind(table.of)
    return Rows(
        name=table.slug,
        title=table.title,
        kind=table.of,
        rows=tuple(_rows_by_part(table.of, table.file).get(name, ())),
        what=table.what or kind.what,
        sweep=kind.sweep if table.sweep else (),
        classes=table.classes or kind.classes,
        with_own_plans=table.with_own_plans,
    )


def make_row(kind: Kind, fields: dict[str, str], *, id: str = "", role: str = "", source: str = "") -> Row:
    """Row of the cells of one line; a given id, role or source replaces a blank one."""
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
def _load_file(name: str, own: str = "") -> Rows:
    """Rows of one packaged file, or of a part's own; an assert fails if a row has no source, or two have one id."""
    kind = find_kind(name)
    package, _, file = (own or kind.packaged or f"{__package__}:{name}.csv.gz").partition(":")
    data = files(package).joinpath(file).read_bytes()
    text = (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8")
    lines = csv.reader(io.StringIO(text, newline=""))
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


@cache
def _rows_by_part(name: str, own: str) -> dict[str, list[Row]]:
    """Named part -> its rows of a packaged file."""
    parts: dict[str, list[Row]] = {}
    for row in _load_file(name, own):
        for part in row.text("tables").split():
            parts.setdefault(part, []).append(row)
    return parts


def _scaled(column: str, factor: float) -> Callable[[Row], float | None]:
    """Reader of a column that is `factor` SI units a unit."""

    def read(row: Row) -> float | None:
        value = row.number(column)
        return None if value is None else value * factor

    return read


def _step_seconds(row: Row) -> float | None:
    """Seconds of a step: as the source gives them, or the tokens of a step over a rate of tokens."""
    given = row.number("step_time_s")
    batch, length = row.number("global_batch"), row.number("seq_len")
    if given is not None or not batch or not length:
        return given
    rate = row.number("tokens_per_s")
    if rate is None:
        each, gpus = row.number("tokens_per_s_per_gpu"), row.number("n_gpus")
        rate = each * gpus if each and gpus else None
    return batch * length / rate if rate else None


def _token_rate(row: Row) -> float | None:
    """Tokens per second and GPU."""
    each, rate, gpus = (row.number(name) for name in ("tokens_per_s_per_gpu", "tokens_per_s", "n_gpus"))
    return rate / gpus if each is None and rate and gpus else each


def _collective_seconds(row: Row) -> float | None:
    """Seconds of a collective; from nccl-tests' algbw = size / time where no time was printed."""
    time, size, rate = row.number("time_us"), row.number("size_bytes"), row.number("algbw_GBps")
    if time is None and size and rate:
        return size / (rate * 1e9)
    return None if time is None else time * 1e-6


def _seconds_of_samples(row: Row) -> float | None:
    """Seconds to the target of a row that states the samples it needed."""
    minutes = row.number("minutes_score")
    return None if minutes is None or not row.text("samples") else minutes * 60.0


_READERS: dict[tuple[str, str], Callable[[Row], float | None]] = {
    ("llm", "seconds per step"): _step_seconds,
    ("llm", "tokens/s per GPU"): _token_rate,
    ("llm", "FLOP/s per GPU"): _scaled("tflops_per_gpu", 1e12),
    ("llm", "bytes"): _scaled("memory_gb", 1e9),
    ("vision", "samples/s"): _scaled("throughput", 1.0),
    ("vision", "seconds"): _scaled("latency_ms", 1e-3),
    ("vision", "seconds to train"): _scaled("time_to_train_h", 3600.0),
    ("mlperf", "samples/s"): _scaled("throughput_samples_s", 1.0),
    ("mlperf", "seconds to train"): _scaled("minutes_score", 60.0),
    ("minutes", "seconds to train"): _scaled("minutes_score", 60.0),
    ("minutes", "seconds of own samples"): _seconds_of_samples,
    ("losses", "nats"): _scaled("loss", 1.0),
    ("convergence", "samples to a target"): _scaled("mean", 1.0),
    ("batch-steps", "steps to a target"): _scaled("steps", 1.0),
    ("formats", "result in a metric"): _scaled("value", 1.0),
    ("kernels", "seconds"): _scaled("latency_ms", 1e-3),
    ("kernels", "FLOP/s per GPU"): _scaled("tflops", 1e12),
    ("kernels", "B/s"): _scaled("bus_gb_per_s", 1e9),
    ("engines", "seconds"): _scaled("latency", 1e-3),
    ("collectives", "seconds"): _collective_seconds,
    ("collectives", "B/s"): _scaled("busbw_GBps", 1e9),
}
_MACHINE = {
    "llm": ("n_gpus", "gpu", "node_type", "interconnect"),
    "vision": ("n_gpus", "gpu", "node_type"),
    "mlperf": ("n_accelerators", "accelerator", "system"),
    "minutes": ("n_accelerators", "accelerator", "system"),
    "convergence": ("benchmark", "version"),
    "losses": ("setting",),
    "batch-steps": ("model",),
    "formats": ("model",),
    "kernels": ("gpu",),
    "engines": ("device",),
    "collectives": ("gpus", "gpu", "system", "nics"),
}


def quantities(kind: str) -> tuple[str, ...]:
    """Quantities that rows of a kind can hold."""
    return tuple(what for name, what in _READERS if name == kind)


def measurement(row: Row, what: str) -> Measurement | None:
    """The measured value of a quantity in SI; None if the source does not state it.

    Raises TableError on a quantity that rows of this kind never hold.
    """
    reader = _READERS.get((row.kind, what))
    if reader is None:
        known = quantities(row.kind)
        kind = "quantity" if what not in QUANTITIES else f"quantity of a table of kind {row.kind!r}"
        raise TableError(unknown_name(kind, what, known))
    value = reader(row)
    if value is None:
        return None
    machine = " ".join(text for column in _MACHINE[row.kind] if (text := row.text(column)))
    return Measurement(id=row.id, what=what, value=value, source=row.source, role=row.role, machine=machine)


def training_rows() -> list[Mapping[str, str]]:
    """Rows of the packaged tables of training, as text by column."""
    apart = [table.slug for table in NAMED if table.file and not table.overlaps]
    return [row.fields for name in ("llm", *apart, "vision", "mlperf") for row in load(name)]
