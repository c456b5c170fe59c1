"""Published times between failures, and the share of time that trained, against the queue."""

from __future__ import annotations

import podsim


def test_failures_within_15_percent() -> None:
    (table,) = podsim.validate(tables=["failures"]).comparisons
    assert len(table.rows) == 6
    assert all(abs(row.error) < 0.15 for row in table.rows)
