"""Write docs/documents.md: each figure that the documents of the machine print, and the command that answers it.

python scripts/documents.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "documents"
TITLES = {
    "WP": "White paper: DGX A100 System Architecture",
    "CO": "Course: distributed training",
    "WK": "WekaIO reference architecture for DGX A100",
    "SL": "Slides: infrastructure for large-scale AI",
    "LK": "Talks that they name",
    "PR": "Press, TOP500 and Green500",
    "NF": "Published runs of collectives",
}
HEAD = """\
# Figures of the documents

Each figure that the documents print is a row here. The command answers it, and a test holds the answer within the
tolerance. A figure that deviates has a note. Two commands are a ratio of their answers. The last table says where podsim
speaks of everything else.
"""


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table of the tests."""
    return list(csv.DictReader((FOLDER / name).read_text("utf-8").splitlines()))


def page() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    figures, places = rows("figures.csv"), rows("places.csv")
    for key, title in TITLES.items():
        own = [row for row in figures if row["figure"].startswith(f"{key}-")]
        if own:
            yield from (
                f"## {title}",
                "",
                "| | figure | printed | tolerance | podsim | note |",
                "|---|---|---|---|---|---|",
            )
            yield from map(_line, own)
            yield ""
    yield from ("## Everything else", "", "| statements | where |", "|---|---|")
    for row in places:
        span = row["first"] if row["first"] == row["last"] else f"{row['first']} to {row['last']}"
        yield f"| {span} | {row['place']} |"


def _line(row: dict[str, str]) -> str:
    exact = float(row["within"]) < 1e-5
    tolerance = "exact" if exact else f"{float(row['within']):.1%}"
    command = " over ".join(f"`podsim {each}`" for each in dict.fromkeys(row["command"].split(" / ")))
    printed = f"{row['printed']} {row['unit']}".strip()
    return f"| {row['figure']} | {row['says']} | {printed} | {tolerance} | {command} | {row['note']} |"


if __name__ == "__main__":
    (ROOT / "docs" / "documents.md").write_text(page(), "utf-8")
