"""What the documents of the machine print, against what podsim says: a row of figures.csv for each figure."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest
from tests.documents import documents

ROOT = Path(__file__).parents[2]
FIGURES = documents.rows("figures.csv")
WITH_A_FIGURE = {
    "WP": "8-13 15-19 22-24 27-34 39 40 42-48 53 54 56-58 60-64 76-78 82-95 97-104",
    "CO": "7 9 11 23 24 26-29 32 35-37 39 40 48 54 55 57 59-61 67-79 82-86 88 89 91 92 94 95",
    "WK": "14 15 19 35-39 43-47 49 51 53-55 57 59 62-67",
    "SL": "5 8 11 13 17 18 22 23 25-28 30 32 34-36",
}
"""by document, the statements that are a hardware fact, a measured or derived figure, or a formula"""


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row["figure"])
def test_a_row_is_within_the_tolerance_of_its_kind_or_red_with_its_cause(row: dict[str, str]) -> None:
    if row["kind"] == documents.NOT_ANSWERED:
        assert row["cause"], "it says why podsim does not answer"
        assert not any(row[field] for field in ("origin", "command", "find", "times")), row["says"]
        return
    assert row["kind"] in documents.TOLERANCES
    assert row["origin"] in documents.ORIGINS
    said = documents.podsim_says(row)
    assert said is not None
    is_red = documents.is_red(row, said)
    assert is_red == bool(row["cause"]), f"{row['says']}: podsim says {said}, printed is {row['printed']}"
    assert row["printed"] or row["note"], "a row without a figure says why"


def test_a_kind_has_one_tolerance() -> None:
    assert documents.TOLERANCES == {
        "hardware fact": 0, "formula": 0, "kernel": 0.05, "run": 0.1, "time to train": 0.15,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "printed", "said", "is_red"),
    [
        ("hardware fact", "5e15", 4.992e15, False),
        ("hardware fact", "172", 172.4, False),
        ("hardware fact", "172", 172.6, True),
        ("hardware fact", "31.5e9", 31.4e9, True),
        ("kernel", "100", 104.9, False),
        ("kernel", "100", 105.1, True),
        ("run", "100", 89.9, True),
        ("time to train", "100", 114.9, False),
        ("time to train", "100", 115.1, True),
        ("hardware fact", "ampere", "hopper", True),
        ("run", "", 7.0, False),
    ],
)
def test_what_is_red(kind: str, printed: str, said: float | str, is_red: bool) -> None:
    assert documents.is_red({"kind": kind, "printed": printed}, said) == is_red


def _numbers(spans: str) -> set[int]:
    """The numbers of spans such as `1-3 7`."""
    ends = [[int(end) for end in span.split("-")] for span in spans.split()]
    return {number for span in ends for number in range(span[0], span[-1] + 1)}


def test_every_figure_of_the_documents_has_a_row() -> None:
    every = {
        f"{document}-{number}" for document, spans in WITH_A_FIGURE.items() for number in _numbers(spans)
    }
    assert len(every) == 155
    assert every <= {row["figure"] for row in FIGURES}


LAST = {"WP": 104, "CO": 97, "WK": 69, "SL": 44, "LK": 16}
"""the number of figures and claims of each document"""


def test_every_statement_of_the_documents_has_a_place() -> None:
    """A row of figures.csv, or a range of places.csv that says where podsim speaks of it, in a page that exists."""
    named = {row["figure"] for row in FIGURES if row["figure"].split("-")[0] in LAST}
    for row in csv.DictReader((Path(__file__).parent / "places.csv").read_text("utf-8").splitlines()):
        document, first = row["first"].split("-")
        named |= {f"{document}-{number}" for number in range(int(first), int(row["last"].split("-")[1]) + 1)}
        for page in re.findall(r"(?:docs|examples)/[\w/-]+\.\w+", row["place"]):
            assert (ROOT / page).exists(), page
    every = {f"{document}-{number}" for document, last in LAST.items() for number in range(1, last + 1)}
    assert named == every


def test_the_page_has_the_answers_of_today() -> None:
    page = ROOT / "docs" / "documents.md"
    if os.environ.get("PODSIM_REFRESH") == "1":
        page.write_text(documents.page(), "utf-8")
    assert page.read_text("utf-8") == documents.page(), "PODSIM_REFRESH=1 python -m pytest tests/documents"
