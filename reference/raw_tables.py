"""Compiles the collected tables into reference/raw: python -m reference.raw_tables DIRECTORY [--check].

Reads the files of FILES from the directory, checks every cell, and keeps rows, order, columns and cells as they are. One
thing is added: a row whose source is blank, or says only that its repository was not resolved, gets the source
"unresolved: " and what is known of it, and so is never a validation target. Behind them come the rows of the file of the
same name in reference/published, if there is one: runs of publications that the collected tables do not hold. The tables
of kernels/, one a GPU, kind and engine, are checked and copied as they are. Nothing is written with --check; the exit
status is 1 if a table differs. Then: python -m reference.packaged.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import podsim.learning
from podsim.accuracy.reading import read_rows
from podsim.accuracy.table_columns import KINDS
from podsim.accuracy.tables import UNRESOLVED
from podsim.errors import TableError
from reference.learning_tables import CONVERGENCE, convergence_rows, minutes_rows

HERE = Path(__file__).parent
FILES = {
    "llm": "llm_training.csv",
    "vision": "vision_nlp_rec_training.csv.gz",
    "mlperf": "mlperf_training.csv",
    "kernels": "gpu_kernels.csv.gz",
    "collectives": "nccl.csv",
}
POINTS = Path(podsim.learning.__path__[0]) / "convergence.csv"
UNKNOWN_SOURCES = ("", "; repository not resolved)")


def cells_of(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a table as text, every source filled in; TableError on a cell that its column cannot hold."""
    read_rows(path)
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    for row in csv.DictReader(io.StringIO(text, newline="")):
        cells = {column: cell.strip() for column, cell in row.items()}
        if "source" in cells and cells["source"] in UNKNOWN_SOURCES:
            cells["source"] = f"{UNRESOLVED}{cells['path']}"
        yield cells


def raw_text(directory: Path, file: str) -> str:
    """One raw table as CSV, the published rows behind the collected ones."""
    rows = list(cells_of(directory / file))
    more = HERE / "published" / file
    rows += cells_of(more) if more.is_file() else []
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def copy_kernels(directory: Path, *, check: bool) -> int:
    """Number of tables of kernels that reference/raw/kernels lacks or holds otherwise; copies them unless `check`."""
    differ = 0
    for path in sorted(directory.glob("*.csv.gz")):
        packed, target = path.read_bytes(), HERE / "raw" / "kernels" / path.name
        same = target.is_file() and target.read_bytes() == packed
        if not (same or check):
            read_rows(path)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(packed)
        differ += not same
    print(f"kernels of engines: {differ} tables {'differ' if check else 'written'}")
    return differ


def write_learning(directory: Path, *, check: bool) -> int:
    """Number of files of benchmarks that differ from the collected tables; writes them unless `check`."""
    columns = [name for kind in KINDS if kind.name == "minutes" for name in kind.columns]
    raw = [name for name in columns if name not in ("cluster", "reason", "tables")]
    files = (
        (POINTS, csv_text(CONVERGENCE, convergence_rows(directory)).encode()),
        (HERE / "raw" / "minutes.csv.gz", csv_text(raw, minutes_rows(directory)).encode()),
    )
    differ = 0
    for path, data in files:
        packed = path.suffix == ".gz"
        known = path.read_bytes() if path.is_file() else b""
        same = (gzip.decompress(known) if packed and known else known) == data
        if not (same or check):
            path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0) if packed else data)
        differ += not same
    print(f"benchmarks: {differ} files {'differ' if check else 'written'}")
    return differ


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, str]]) -> str:
    """Some columns of rows, as CSV."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(columns), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> int:
    """Compile or check every table; 0 if those of reference/raw agree with the collected ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="the directory of the collected tables")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a table differs"
    )
    arguments = parser.parse_args()
    differ = 0
    for kind, file in FILES.items():
        try:
            text = raw_text(arguments.directory, file)
        except TableError as problem:
            print(problem, file=sys.stderr)
            return 2
        path = HERE / "raw" / f"{kind}.csv.gz"
        same = path.is_file() and gzip.decompress(path.read_bytes()).decode("utf-8") == text
        if not (same or arguments.check):
            path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))
        differ += not same
        print(f"{kind}: {text.count(chr(10)) - 1} lines; {'agrees' if same else 'differs'}")
    differ += write_learning(arguments.directory, check=arguments.check)
    differ += copy_kernels(arguments.directory / "kernels", check=arguments.check)
    return 1 if arguments.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
