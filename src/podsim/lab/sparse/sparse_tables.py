"""The tables of a run on parameter servers: cut to size, the room that they need, and what their caches held."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.embeddings.hit_rates import hit_rate
from podsim.embeddings.table_files import SUFFIXES, read_tables
from podsim.embeddings.tables import TableSet, table_sets
from podsim.errors import LabError, PodsimError, raise_all, unknown_name
from podsim.lab.options import outside
from podsim.lab.sparse.sparse_train import SparseJob
from podsim.units import format_quantity

_MOST_ROWS = 100_000_000


def cut_tables(name: str, rows: int, width: int) -> TableSet:
    """The tables of a name or a file with at most so many rows each, of one width (0: their own), and whole poolings.

    Raises PodsimError for tables that are unknown or of several widths.
    """
    if Path(name).suffix.lower() in SUFFIXES:
        known = read_tables(Path(name))
    elif name in table_sets():
        known = table_sets()[name]
    else:
        raise PodsimError(
            f"{unknown_name('set of tables', name, table_sets())}, or a file {', '.join(SUFFIXES)}"
        )
    raise_all(outside((("rows", rows, 1, _MOST_ROWS), ("width", width, 0, 4096))))
    widths = sorted({width or table.width for table in known.tables})
    if len(widths) > 1:
        raise PodsimError(
            f"--width 0: the tables have widths {', '.join(map(str, widths))}; give one for all: --width 16"
        )
    cut = (
        replace(each, rows=min(each.rows, rows), width=widths[0], pooling=math.ceil(each.pooling))
        for each in known.tables
    )
    return replace(known, tables=tuple(cut))


def sizes_of(tables: TableSet) -> tuple[tuple[int, ...], int]:
    """The rows of each table, and their width."""
    return tuple(table.rows for table in tables.tables), tables.tables[0].width


def read_share(text: str) -> float:
    """A share such as 5% or 0.05. Raises PodsimError."""
    try:
        share = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise PodsimError(f"--cache {text[:40]!r}; a share of the rows, such as 5%, up to 100%")
    return share


def check_room(tables: TableSet, folder: Path) -> None:
    """Raise LabError where the drive has no room for all rows and Adagrad's sums."""
    needed, free = 16.0 * tables.parameters, shutil.disk_usage(folder).free
    if needed > free:
        raise LabError(
            f"{folder.parent} has {format_quantity(free, 'B')} free; the tables may need {format_quantity(needed, 'B')}: "
            "take fewer --rows, a smaller --width, or another --folder"
        )


def hit_rates(job: SparseJob, hits: list[int], lookups: list[int]) -> dict[str, Any]:
    """Lookups and hit rates by group of tables: those of a power of ten of rows, and of one skew."""
    groups: dict[str, list[tuple[int, int, float]]] = {}
    samples = (job.steps - job.start) * job.batch
    order = sorted(
        zip(range(len(hits)), job.tables.tables, hits, lookups, strict=True), key=lambda each: -each[1].rows
    )
    for number, table, hit, asked in order:
        cached = sum(job.shard(server).cached_rows(number) for server in range(job.servers))
        law = hit_rate(
            table.rows, cached, table.skew, lookups=samples * table.pooling,
            batch=job.batch / job.workers * table.pooling,
        )  # fmt: skip
        name = f"up to {10 ** math.ceil(math.log10(table.rows)):,} rows, skew {table.skew:g}"
        groups.setdefault(name, []).append((hit, asked, law * asked))
    return {
        "lookups": {name: sum(each[1] for each in group) for name, group in groups.items()},
        "hit_rates": {
            name: sum(each[0] for each in group) / max(sum(each[1] for each in group), 1)
            for name, group in groups.items()
        },
        "law_rates": {
            name: sum(each[2] for each in group) / max(sum(each[1] for each in group), 1)
            for name, group in groups.items()
        },
    }
