"""Rows in a source's words -> rows that podsim reads: python reference/curate.py KIND IN OUT.csv, from the root.

IN is a CSV, plain or gzip. Every row comes out in its order with its id. One that cannot be read says why in `reason`.
Then: podsim validate --rows OUT.csv
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path[:] = [
    str(Path(__file__).parents[1]),
    *(each for each in sys.path if Path(each) != Path(__file__).parent),
]

from reference.csv_rows import csv_text, read_csv  # noqa: E402 - the root is not on the path of a script

KINDS = {
    "training": "reference.curate_training:curated",
    "tpu": "reference.curate_tpu:curated",
    "networks": "reference.curate_networks:curated",
    "collectives": "reference.curate_collectives:curated",
    "kernels": "reference.curate_kernels:curated",
    "minutes": "reference.learning_tables:curated_minutes",
    "losses": "reference.loss_rows:curated",
    "convergence": "reference.learning_tables:curated_convergence",
    "batch-steps": "reference.batch_rows:curated",
    "formats": "reference.format_pairs:curated",
    "serving": "reference.curate_serving:curated_load",
    "serving-rate": "reference.curate_serving:curated_rate",
    "served-requests": "reference.curate_serving:curated_requests",
}
"""Kind of rows -> MODULE:FUNCTION, from raw rows (cells as text by column) to canonical ones, as many and in order."""


def curated(kind: str, path: Path) -> list[dict[str, str]]:
    """The canonical rows of a file; KeyError for a kind that is not of KINDS."""
    module, _, function = KINDS[kind].partition(":")
    raw = read_csv(path)
    rows: list[dict[str, str]] = getattr(import_module(module), function)(raw)
    assert [row.get("id", "") for row in rows] == [row.get("id", "") for row in raw], (
        f"{kind}: rows lost their order or ids"
    )
    return rows


def main() -> int:
    """Write the canonical rows of a file; 2 if it cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=sorted(KINDS), help="what the rows are")
    parser.add_argument(
        "table", metavar="IN", type=Path, help="the rows in their source's words, .csv or .csv.gz"
    )
    parser.add_argument("out", metavar="OUT.csv", type=Path, help="the file to write")
    given = parser.parse_args()
    try:
        rows = curated(given.kind, given.table)
    except (OSError, UnicodeDecodeError) as problem:
        print(f"{given.table}: {problem}", file=sys.stderr)
        return 2
    given.out.write_text(csv_text(rows), "utf-8")
    reasons = sum(bool(row.get("reason")) for row in rows)
    print(f"{given.out}: {len(rows)} rows, {reasons} with a reason why podsim cannot predict them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
