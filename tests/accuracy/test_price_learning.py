"""Losses of the packaged tables: their bars are met by laws that no test row has made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.accuracy.bars import verdicts
from podsim.accuracy.price_learning import price_losses
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.tables import load


@pytest.mark.parametrize("table", ["losses-chinchilla", "losses-four"])
def test_bars_of_losses_are_met(table: str) -> None:
    judged = verdicts([compare_rows(load(table))])
    assert judged
    assert all(verdict.met for verdict in judged), judged


def test_test_rows_make_no_law() -> None:
    rows = load("losses-step-law")
    doubled = tuple(
        replace(row, fields={**row.fields, "loss": str(2 * float(row.fields["loss"]))})
        if row.role == "test"
        else row
        for row in rows
    )
    plain, changed = price_losses(rows), price_losses(replace(rows, rows=doubled))
    assert plain.predictions == changed.predictions
    assert plain.predictions


def test_a_setting_without_calibrate_rows_says_so() -> None:
    rows = load("losses-step-law").where(role="test")
    own = tuple(replace(row, fields={**row.fields, "setting": "mine"}) for row in rows)
    assert "no row to fit" in next(iter(price_losses(replace(rows, rows=own)).reasons.values()))
