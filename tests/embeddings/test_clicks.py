"""Clicks made on the spot have the sizes and the skew of their tables."""

import numpy as np
import pytest

from podsim.embeddings.clicks import make_clicks, zipf_rows
from podsim.embeddings.hit_rates import hot_share
from podsim.embeddings.tables import table_sets


def test_shapes() -> None:
    tables = table_sets()["criteo-multi-hot"]
    clicks = make_clicks(tables, 64, seed=3)
    assert clicks.numbers.shape == (64, 13)
    assert [rows.shape for rows in clicks.rows] == [(64, table.pooling) for table in tables.tables]
    assert all(
        rows.min() >= 0 and rows.max() < t.rows for rows, t in zip(clicks.rows, tables.tables, strict=True)
    )
    assert 0 < clicks.clicked.mean() < 1


def test_skew() -> None:
    rows = zipf_rows(40_000_000, 1.05, 200_000, np.random.default_rng(0))
    for hot in (10, 1000, 100_000):
        assert np.mean(rows < hot) == pytest.approx(hot_share(40_000_000, hot, 1.05), abs=0.005)
