"""Minutes of MLPerf Training: other submitters' rows, and that no test row makes a law."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from podsim.accuracy.price_minutes import price_minutes
from podsim.accuracy.tables import load, measurement
from podsim.learning.benchmarks import convergence_law, convergence_rows, find_benchmark


@pytest.mark.parametrize(("table", "bar"), [("minutes-hopper", 0.20), ("minutes-own-samples", 0.12)])
def test_minutes_of_other_submitters(table: str, bar: float) -> None:
    rows = load(table).where(role="test")
    rows = replace(rows, rows=rows.rows[::3])
    priced = price_minutes(rows)
    errors = defaultdict(list)
    for row in rows:
        measured = measurement(row, rows.what)
        if row.id in priced.predictions and measured:
            errors[row.text("benchmark")].append(abs(priced.predictions[row.id] / measured.value - 1))
    assert len(errors) >= 7
    assert np.mean([np.mean(each) for each in errors.values()]) <= bar


def test_test_rows_make_no_law() -> None:
    largest = max(
        row.point.batch for row in convergence_rows() if row.benchmark == "bert" and row.role == "test"
    )
    law = convergence_law(find_benchmark("bert"), "v5.0")
    assert law.largest < largest
