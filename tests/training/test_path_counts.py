"""The C core counts what lies on the longest paths of schedule tables exactly as numpy does."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.schedules.entries import SCHEDULES, build
from podsim.training import paths
from podsim.workload.catalog import load_model

SIZES = ((2, 1, 4), (4, 1, 9), (4, 2, 8), (5, 3, 15), (6, 1, 12), (16, 4, 32))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("model", ["gpt3-175b", "deepseek-v3"])
def test_both_cores_count_the_same_paths(monkeypatch: pytest.MonkeyPatch, name: str, model: str) -> None:
    network = load_model(model)
    blocks = paths._Blocks(network.order, len(network.kinds), paths._block_shares(network))
    tables = [build(name, *sizes) for sizes in SIZES if not SCHEDULES[name].problems(*sizes)]
    assert tables
    monkeypatch.setattr(paths, "_FEW", 0)
    both = [paths._table_counts(blocks, tables, typical) for typical in (paths._TYPICAL, paths._APART)]

    monkeypatch.setattr(paths, "has_core", lambda **_: False)
    for counts, typical in zip(both, (paths._TYPICAL, paths._APART), strict=True):
        assert np.array_equal(counts, paths._table_counts(blocks, tables, typical))
