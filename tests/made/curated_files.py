"""A file of rows in a source's words, as `python reference/curate.py` writes it."""

from __future__ import annotations

from pathlib import Path

from reference.csv_rows import csv_text
from reference.curate import curated


def curated_file(kind: str, path: Path, out: Path) -> Path:
    """`out`, with the canonical rows of a file."""
    out.write_text(csv_text(curated(kind, path)), "utf-8")
    return out
