"""Compiles the results of MLPerf Storage v1.0 into podsim's packaged table.

    python scripts/compile_storage.py mlperf_storage_v1.csv [--check]

Adds an id and a role: results on one accelerator are `calibrate` (the host's share of a step is fitted to them), all
others `test`. Writes src/podsim/storage/catalog/mlperf_storage.csv.gz; with --check only says whether it would change.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src" / "podsim" / "storage" / "catalog" / "mlperf_storage.csv.gz"


def compiled(text: str) -> bytes:
    """The packed table of a raw one: same rows, same order, two columns more."""
    rows = list(csv.DictReader(io.StringIO(text)))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, fieldnames=["id", "role", *rows[0]], lineterminator="\n")
    writer.writeheader()
    for number, row in enumerate(rows, 1):
        role = "calibrate" if row["n_accelerators"] == "1" else "test"
        writer.writerow({"id": f"mls{number:03d}", "role": role, **row})
    return gzip.compress(out.getvalue().encode(), compresslevel=9, mtime=0)


def main() -> int:
    """Write the table, or check it; 0 if it agrees."""
    parser = argparse.ArgumentParser(description="Compile the results of MLPerf Storage.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    packed = compiled(arguments.file.read_text("utf-8"))
    if not arguments.check:
        TABLE.write_bytes(packed)
    return int(gzip.decompress(TABLE.read_bytes()) != gzip.decompress(packed))


if __name__ == "__main__":
    sys.exit(main())
