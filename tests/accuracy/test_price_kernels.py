"""Rows of kernels as their sources word them are priced as the packaged ones; a mistake in one leaves the others."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from podsim.accuracy.price_kernels import price_kernels
from podsim.accuracy.reading import read_rows
from podsim.accuracy.tables import Rows, load

RAW = Path(__file__).parents[2] / "reference" / "raw" / "kernels.csv.gz"
IDS = ("CODET-00049", "CODET-00051", "AICG-00001", "AICN-00442", "VTAR-00012", "SIMX-00001")


@pytest.fixture(scope="module")
def raw() -> list[dict[str, str]]:
    with gzip.open(RAW, "rt", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["id"] in IDS]


def written(rows: list[dict[str, str]], path: Path) -> Rows:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return read_rows(path)[1]


def test_raw_rows_are_priced_as_packaged_ones(raw: list[dict[str, str]], tmp_path: Path) -> None:
    own = price_kernels(written(raw, tmp_path / "own.csv"), cross_validate=False).predictions
    packaged = load("kernels").where(lambda row: row.id in IDS)
    assert own == pytest.approx(price_kernels(packaged, cross_validate=False).predictions)
    assert set(own) == set(IDS)


def test_a_size_that_is_no_number_leaves_the_other_rows(raw: list[dict[str, str]], tmp_path: Path) -> None:
    (long,) = (row for row in raw if row["id"] == "CODET-00049")
    priced = price_kernels(
        written([long, {**long, "id": "bad", "m": ""}], tmp_path / "own.csv"), cross_validate=False
    )
    assert set(priced.predictions) == {"CODET-00049"}
    assert "sizes" in priced.reasons["bad"]
