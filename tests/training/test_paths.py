"""Pipelines of very many micro-batches whose paths do not grow alike: what many rounds add stands for all."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.training import paths
from podsim.training.plan_values import Schedule
from podsim.workload.catalog import load_model


def test_many_rounds_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pipelines played whole and grown from 64 rounds, each typical path has the same counts but for few."""
    model = load_model("t5-3b")
    blocks = paths._Blocks(model.order, len(model.kinds), paths._block_shares(model))
    codes = (Schedule.INTERLEAVED, Schedule.ZB_H1, Schedule.ONE_F_ONE_B)
    sizes = [
        paths._Size(int(code), p, v if code == Schedule.INTERLEAVED else 1, 1504)
        for code in codes
        for p in (4, 8)
        for v in (4, 8)
    ]
    played = paths._simulated_counts(blocks, [short for size in sizes for short in paths._short_sizes(size)])
    uneven = [size for size in sizes if paths._grown_counts(blocks, size, played) is None]
    assert uneven, "every pipeline grows alike: this test holds nothing"
    assert all(paths._long_sizes(size) == [size] for size in uneven), "they are to be played whole"
    exact = paths._pipeline_counts(blocks, uneven)
    monkeypatch.setattr(paths, "_LONGEST", 100)
    grown = paths._pipeline_counts(blocks, uneven)
    for size, own, mean in zip(uneven, exact, grown, strict=True):
        assert mean.sum(axis=1).max() == pytest.approx(own.sum(axis=1).max(), rel=2e-3), size
        assert np.all(mean >= 0)


def test_a_search_with_a_million_micro_batches_ends() -> None:
    found = podsim.plan("t5-3b", on="dgx-a100-80gb:2", batch=1_000_000, limit={"tp": "2"})
    assert found.ranked
