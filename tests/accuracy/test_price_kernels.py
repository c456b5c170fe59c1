"""Rows of kernels as curation gives them are priced as the packaged ones; a mistake in one leaves the others."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from reference.curate_kernels import curated

from podsim.accuracy.price_kernels import price_kernels
from podsim.accuracy.reading import read_rows
from podsim.accuracy.tables import Rows, load
from podsim.hardware.catalog import load_gpu
from podsim.kernels.gemm import gemm_seconds

RAW = Path(__file__).parents[2] / "reference" / "raw" / "kernels.csv.gz"
IDS = ("CODET-00049", "CODET-00051", "AICG-00001", "AICN-00442", "VTAR-00012", "SIMX-00001")


@pytest.fixture(scope="module")
def raw() -> list[dict[str, str]]:
    with gzip.open(RAW, "rt", encoding="utf-8", newline="") as file:
        return curated([row for row in csv.DictReader(file) if row["id"] in IDS])


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


@pytest.mark.parametrize(("kernel", "enough"), [("gemm", 300), ("bmm", 50)])
def test_enough_rows_of_a_kernel_are_held_out(kernel: str, enough: int) -> None:
    rows = load("kernels")
    wanted = ("a100-sxm4-40gb", "fp16", kernel) if kernel == "bmm" else ("a100-sxm4-80gb", "bf16", kernel)
    ids = [
        row.id
        for row in rows
        if tuple(row.text(name) for name in ("device", "precision", "kernel")) == wanted
        and not row.text("reason")
    ]
    for count in (enough - 1, enough):
        some = set(ids[:count])
        priced = price_kernels(rows.where(lambda row: row.id in some))  # noqa: B023
        assert len(priced.predictions) == count
        assert set(priced.notes.values()) == ({"five-fold cross-validation"} if count == enough else set())


def test_batches_and_precisions_of_products_count() -> None:
    rows = load("kernels")
    some = [
        next(row for row in rows if row.text("kernel") == "bmm" and (row.number("batch") or 0) >= 64),
        next(
            row
            for row in rows
            if row.text("kernel") == "gemm" and row.text("precision") == "fp8" and row.text("m")
        ),
    ]
    for row in some:
        found = price_kernels(rows.where(lambda other: other is row), cross_validate=False)  # noqa: B023
        m, n, k, batch = (row.number(name) or 1.0 for name in ("m", "n", "k", "batch"))
        plain = gemm_seconds(
            load_gpu(row.text("device")), m, n, k, batch=batch, precision=row.text("precision"), layout="tn"
        )
        seconds = found.predictions[row.id]
        if rows.what == "FLOP/s per GPU":
            seconds = 2 * m * n * k * batch / seconds
        assert seconds == pytest.approx(float(plain), rel=0.3)


def test_what_is_not_modelled_is_said() -> None:
    rows = load("kernels").where(lambda row: row.id in ("AICG-00001", "FAFIG-00024", "FAFIG-00001"))
    changed = {"AICG-00001": {"precision": "fp8", "dtype": "fp8"}}
    rows = replace(
        rows, rows=tuple(replace(row, fields={**row.fields, **changed.get(row.id, {})}) for row in rows)
    )
    priced = price_kernels(rows)
    assert set(priced.predictions) == {"FAFIG-00024"}
    assert "fp8" in priced.reasons["AICG-00001"]  # no A100 computes in it
    assert "eager attention" in priced.reasons["FAFIG-00001"]
