"""Every row of a table is accounted for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.accuracy.score import Priced, compare
from podsim.accuracy.tables import load, measurement
from podsim.errors import TableError

ROWS = load("korthikanti")
TRUTH = {row.id: row.number("step_time_s") or 0.0 for row in ROWS}


def test_predictions_stand_against_rows() -> None:
    predicted = {id: 1.1 * value for id, value in TRUTH.items()}
    found = compare(ROWS, Priced(predictions=predicted, notes={"KORT-0001": "no overlap"}))
    assert [row.id for row in found.rows] == [row.id for row in ROWS]
    assert found.rows[0].note == "no overlap"
    assert (found.what, found.table, found.not_expressed) == ("seconds per step", "korthikanti", ())
    test, calibrate = found.scores
    assert (test.rows, calibrate.rows) == (7, 2)
    assert test.mae == pytest.approx(0.1)
    assert (test.sweeps, test.tau, test.regret) == (3, 1.0, 1.0)
    assert {c.name for c in test.classes} == {"recompute=full", "recompute=selective"}


def test_reasons_stand_for_predictions() -> None:
    predicted = {id: value for id, value in TRUTH.items() if id != "KORT-0009"}
    found = compare(ROWS, Priced(predictions=predicted, reasons={"KORT-0009": "no such plan"}))
    assert found.not_expressed == (("KORT-0009", "no such plan"),)
    assert len(found.rows) == 8


@pytest.mark.parametrize(
    ("predictions", "reasons", "says"),
    [
        ({}, {}, r"neither a prediction nor a reason: KORT-0001.*\(9\)"),
        (TRUTH, {"KORT-0001": "why"}, "a prediction and a reason against one: KORT-0001"),
        (TRUTH | {"KORT-0010": 1.0}, {}, "the table does not have: KORT-0010"),
        (TRUTH | {"KORT-0002": float("nan")}, {}, "not finite and greater than 0: KORT-0002"),
        ({}, dict.fromkeys(TRUTH, " "), "without a reason"),
    ],
)
def test_nothing_is_left_out_in_silence(
    predictions: dict[str, float], reasons: dict[str, str], says: str
) -> None:
    with pytest.raises(TableError, match=says):
        compare(ROWS, Priced(predictions=predictions, reasons=reasons))


def test_rows_that_hold_no_such_quantity_are_listed() -> None:
    predictions = {f"KORT-{number:04}": 6e10 for number in (2, 4, 6, 8)}
    found = compare(replace(ROWS, what="bytes"), Priced(predictions=predictions))
    assert len(found.rows) == 4
    assert found.not_expressed[0] == ("KORT-0001", "the source gives no bytes")


def test_rows_that_may_not_be_validated_against_are_listed_though_predicted() -> None:
    rows = load("collectives").where(lambda row: row.text("cluster_id") == "xxrjun_cluster00")
    predictions = {row.id: known.value for row in rows if (known := measurement(row, "seconds"))}
    found = compare(rows, Priced(predictions=predictions))
    assert len(found.rows) + len(found.not_expressed) == len(rows)
    assert len(found.not_expressed) > 0
    assert all("never a target" in reason for _, reason in found.not_expressed)


def test_a_table_with_nothing_comparable() -> None:
    found = compare(replace(load("flashattention-2"), what="bytes"), Priced(predictions={}))
    assert (found.rows, found.scores) == ((), ())
    assert len(found.not_expressed) == 12


def test_columns_of_classes_and_sweeps_can_be_chosen() -> None:
    found = compare(replace(ROWS, classes=("model",), sweep=()), Priced(predictions=TRUTH))
    assert found.rows[0].group == "model=GPT-22B"
    assert found.scores[0].sweeps == 0
