"""Writes the tables that podsim ships from the raw ones: python -m reference.packaged [--check].

A row keeps what its source says in columns for readers; how podsim runs it is worked out here, once, by the readers of
each table's prose, and stored in canonical columns. With --check nothing is written, and the exit status is 1 if a
shipped table differs from what would be.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import podsim.accuracy.tables as shipped
import podsim.serving as served
from podsim.accuracy.table_columns import KINDS, Kind
from reference import curate_networks, curate_serving, curate_training
from reference.csv_rows import csv_text
from reference.curate_collectives import collective_cells
from reference.curate_kernels import row_cells
from reference.learning_tables import minutes_cells
from reference.row_remarks import counted_cells

HERE = Path(__file__).parent
SHIPPED = Path(shipped.__path__[0])


_SAMPLED = {"gemm": 3000}
"""The most packaged rows of one raw table of kernels, by operation: the constants of products are fitted to them."""
_OTHERS = 240
LOADS = Path(served.__path__[0]) / "measured_loads.csv.gz"
_OF_A_COPY = ("id", "role", "engine_version", "runs", "measured", "first_token_s_mean", "first_token_s_p99",
              "each_token_s_mean", "each_token_s_p99", "end_to_end_s_median", "end_to_end_s_p99")  # fmt: skip
"""columns in which two rows of one measurement may differ"""
_COLLECTED = "github:ai-dynamo/aiconfigurator @ 095f58a, {}"


def raw_rows(kind: str) -> list[dict[str, str]]:
    """Rows of a raw table as their sources word them; of kernels of engines, an even sample of each file."""
    if kind == "engines":
        return [
            row for path in sorted((HERE / "raw" / "kernels").glob("*.csv.gz")) for row in sampled_rows(path)
        ]
    with gzip.open(HERE / "raw" / f"{kind}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sampled_rows(path: Path) -> list[dict[str, str]]:
    """An even sample of a raw table of kernels, as large as _SAMPLED says; ids are the file and the line."""
    stem = path.name.removesuffix(".csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    most = _SAMPLED.get(dict(zip(columns, rows[0], strict=True)).get("op_name", ""), _OTHERS) if rows else 0
    step = max(1.0, len(rows) / max(most, 1))
    picked = [int(step * at) for at in range(min(len(rows), most))]
    source = _COLLECTED.format(stem)
    more = {"source": source, "reason": ""}
    return [dict(zip(columns, rows[at], strict=True)) | {"id": f"{stem}/{at + 2}"} | more for at in picked]


@cache
def _memberships() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return tomllib.loads((HERE / "membership.toml").read_text("utf-8"))


def parts_of(kind: str, row: Mapping[str, str], id: str) -> str:
    """The named parts that a raw row is in, as words."""
    return " ".join(
        slug
        for slug, rule in _memberships().items()
        if rule["of"] == kind
        and id.startswith(rule.get("prefix", ""))
        and all(re.match(pattern, row[column]) for column, pattern in dict(rule.get("where", {})).items())
    )


def canonical(kind: Kind, row: Mapping[str, str]) -> dict[str, str]:
    """The shipped cells of a raw row."""
    cells = {**row, "tables": parts_of(kind.name, row, row["id"])}
    if kind.name == "llm":
        cells |= counted_cells(row) | curate_training.canonical(row)
    elif kind.name in ("vision", "mlperf"):
        cells |= curate_networks.canonical(kind.name, row)
    elif kind.name == "minutes":
        cells |= minutes_cells(row)
    elif kind.name == "kernels":
        cells = dict.fromkeys(kind.columns, "") | cells
        cells |= row_cells(row)
    elif kind.name == "collectives":
        cells |= collective_cells(row)
    return {
        column: cells.get(column, "") if kind.name == "engines" else cells[column] for column in kind.columns
    }


def table_text(kind: Kind) -> str:
    """The shipped table of a kind, as CSV."""
    return csv_text([canonical(kind, row) for row in raw_rows(kind.name)], kind.columns)


@cache
def loads_text() -> str:
    """The shipped table of servers under a load, as CSV: each measurement once, with the release where a row has it."""
    with gzip.open(HERE / "raw" / "serving_load.csv.gz", "rt", encoding="utf-8", newline="") as file:
        raw = list(csv.DictReader(file))
    seen: dict[tuple[str, ...], str] = {}
    for row in sorted(raw, key=lambda row: not row["engine_version"]):
        same = tuple(cell for column, cell in row.items() if column not in _OF_A_COPY)
        seen.setdefault(same, row["id"])
    kept = set(seen.values())
    rows = curate_serving.curated_load(row for row in raw if row["id"] in kept)
    return csv_text(rows, curate_serving.LOAD)


def main() -> int:
    """Write or check every table; 0 if the shipped ones agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a table differs"
    )
    check = parser.parse_args().check
    texts = {SHIPPED / f"{kind.name}.csv.gz": table_text(kind) for kind in KINDS if not kind.packaged}
    differ = 0
    for path, text in {**texts, LOADS: loads_text()}.items():
        same = path.is_file() and gzip.decompress(path.read_bytes()).decode("utf-8") == text
        if not (same or check):
            path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))
        differ += not same
        print(f"{path.name}: {'agrees' if same else 'DIFFERS' if check else 'written'}")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
