"""Compiles the raw reference tables into the packaged ones of podsim.accuracy.tables.

    python scripts/compile_tables.py REFERENCE_TABLES_DIRECTORY [--check]

Reads llm_training.csv, vision_nlp_rec_training.csv.gz, mlperf_training.csv, gpu_kernels.csv.gz and nccl.csv
from the directory, checks every cell, and writes <kind>.csv.gz beside src/podsim/accuracy/tables/__init__.py:
the same rows, in the same order, with the same columns and cells. One thing is added: a row whose source is
blank, or says only that its repository was not resolved, gets the source "unresolved: " and what is known of
it, and so is never a validation target. No row is dropped. Behind them come the rows of the file of the same
name in scripts/published, if there is one: runs of publications that the reference tables do not hold. Prints
what was read and written.

The result depends on the input only (no time stamp, fixed compression level). With --check nothing is
written; the exit status is 1 if a packaged table differs from what would be.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from podsim.accuracy.columns import KINDS, Kind
from podsim.accuracy.measured_tables import UNRESOLVED, Row, Rows
from podsim.accuracy.reading import read_rows
from podsim.errors import TableError

TABLES = Path(__file__).parent.parent / "src" / "podsim" / "verify" / "tables"
PUBLISHED = Path(__file__).parent / "published"
UNKNOWN_SOURCES = ("", "; repository not resolved)")


def is_unresolved(row: Row) -> bool:
    """Whether the raw table does not say whose number it is."""
    return row.fields.get("source", row.source) in UNKNOWN_SOURCES


def resolved(row: Row) -> str:
    """Source of a row, or "unresolved: " and where its numbers stood."""
    return f"{UNRESOLVED}{row.fields['path']}" if is_unresolved(row) else row.fields["source"]


def compiled(rows: Rows) -> str:
    """CSV text of a table, with every source filled in."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    header = list(rows.rows[0].fields)
    writer.writerow(header)
    for row in rows:
        writer.writerow([resolved(row) if column == "source" else row.fields[column] for column in header])
    return out.getvalue()


def packed(text: str) -> bytes:
    """gzip of a text, without a time stamp or a file name."""
    return gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)


def counted(values: Counter[str]) -> str:
    """ "yes 3, no 1", the most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in values.most_common())


def compile_one(kind: Kind, directory: Path, *, check: bool) -> bool:
    """Write one table, or compare it: whether the packaged table now agrees; TableError on a wrong cell."""
    found, rows = read_rows(directory / kind.file)
    if found != kind.name:
        raise TableError(f"{kind.file}: has the columns of kind {found!r}, not {kind.name!r}")
    if (PUBLISHED / kind.file).is_file():
        more = read_rows(PUBLISHED / kind.file)[1]
        rows = replace(rows, rows=(*rows, *more))
    text, path = compiled(rows), TABLES / f"{kind.name}.csv.gz"
    if not check:
        path.write_bytes(packed(text))
    unresolved = sum(is_unresolved(row) for row in rows)
    print(f"{kind.file} -> {path.name}: {len(rows)} rows in, {text.count(chr(10)) - 1} lines out")
    print(f"  roles: {counted(Counter(row.role for row in rows))}")
    print(f"  confirmed: {counted(Counter(row.confirmed for row in rows))}")
    print(f"  sources: {len(rows.sources)}; rows with an unresolved source: {unresolved}")
    same = path.is_file() and gzip.decompress(path.read_bytes()).decode("utf-8") == text
    print(f"  {path.stat().st_size if path.is_file() else 0} bytes; {'agrees' if same else 'DIFFERS'}")
    return same


def main() -> int:
    """Compile or check every table; 0 if the packaged tables agree with the raw ones."""
    parser = argparse.ArgumentParser(description="Compile the reference tables into podsim's packaged ones.")
    parser.add_argument("directory", type=Path, help="the reference tables directory")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a packaged table differs"
    )
    arguments = parser.parse_args()
    try:
        agree = [compile_one(kind, arguments.directory, check=arguments.check) for kind in KINDS]
    except TableError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
