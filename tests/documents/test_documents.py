"""What the documents of the machine print, against what podsim says: a row of figures.csv for each figure."""

from __future__ import annotations

import csv
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scripts import documents

from podsim.cli import app

ROOT = Path(__file__).parents[2]
FIGURES = list(csv.DictReader((Path(__file__).parent / "figures.csv").read_text("utf-8").splitlines()))


@cache
def answer(command: str) -> dict[str, Any]:
    """The --json of a command."""
    done = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    assert done.exit_code == 0, f"{command}: {done.output}"
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def value(command: str, find: str) -> float | str:
    """The figure or word at a label of a sheet, or at a path such as rows > 0 > seconds or rows > name=x > seconds."""
    data: Any = answer(command)
    if "sections" in data:
        rows = [row for section in data["sections"] for row in section["rows"] if row["label"] == find]
        assert rows, f"{command} has no {find!r}"
        return str(rows[0]["text"]) if rows[0]["value"] is None else float(rows[0]["value"])
    for step in find.split(" > "):
        if isinstance(data, list):
            key, equals, word = step.partition("=")
            data = next(each for each in data if each[key] == word) if equals else data[int(step)]
        else:
            data = data[step]
    return float(data)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda row: row["figure"])
def test_podsim_says_what_the_documents_print(figure: dict[str, str]) -> None:
    commands, finds = figure["command"].split(" / "), figure["find"].split(" / ")
    said = [value(command, find) for command, find in zip(commands, finds, strict=True)]
    within = float(figure["within"])
    if isinstance(said[0], str):
        assert said == [figure["printed"]], figure["says"]
        return
    ratio = said[0] / float(said[1]) if len(said) == 2 else said[0]
    assert ratio == pytest.approx(float(figure["printed"]), rel=max(within, 1e-9)), figure["says"]
    assert figure["note"] or within <= 0.02, "a figure that deviates is explained"


LAST = {"WP": 104, "CO": 97, "WK": 69, "SL": 44, "LK": 16}
"""the number of figures and claims of each document"""


def test_every_statement_of_the_documents_has_a_place() -> None:
    """A row of figures.csv, or a range of places.csv that says where podsim speaks of it, in a page that exists."""
    named = {figure["figure"] for figure in FIGURES if figure["figure"].split("-")[0] in LAST}
    for row in csv.DictReader((Path(__file__).parent / "places.csv").read_text("utf-8").splitlines()):
        document, first = row["first"].split("-")
        named |= {f"{document}-{number}" for number in range(int(first), int(row["last"].split("-")[1]) + 1)}
        for page in re.findall(r"(?:docs|examples)/[\w/-]+\.\w+", row["place"]):
            assert (ROOT / page).exists(), page
    every = {f"{document}-{number}" for document, last in LAST.items() for number in range(1, last + 1)}
    assert named == every


def test_the_page_of_figures_is_current() -> None:
    assert (ROOT / "docs" / "documents.md").read_text("utf-8") == documents.page(), (
        "python scripts/documents.py"
    )
