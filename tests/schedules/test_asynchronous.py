"""Weights that asynchronous schedules use: published staleness, and how many versions are kept."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.schedules.actions import Work
from podsim.schedules.entries import build
from podsim.schedules.held import weight_copies


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_pipedream_is_stale_by_the_ranks_behind_it(p: int) -> None:
    """Narayanan et al. 2019, section 3.3: stage r of p trains with weights p - r - 1 updates behind those it changes."""
    table = build("pipedream", p, 1, 4 * p)
    assert table.version is not None
    backward = (table.work == Work.BACKWARD) & (table.micro >= p)
    behind = table.micro[backward] - table.version[backward]
    assert behind.tolist() == (p - 1 - table.rank[backward]).tolist()
    assert weight_copies(table).tolist() == list(range(p, 0, -1))


@pytest.mark.parametrize("p", [2, 3, 4])
def test_2bw_is_stale_by_one_update_everywhere(p: int) -> None:
    """Narayanan et al. 2021, section 3.1: batch b trains with the weights that b - 1 batches have made."""
    table = build("pipedream-2bw", p, 1, 5 * p)
    assert table.version is not None
    batch = table.micro // p
    assert np.unique((batch - table.version)[batch > 0]).tolist() == [1]
    assert weight_copies(table).tolist() == [2] * p


def test_a_forward_takes_the_newest_weights_there_are() -> None:
    """Two ranks: the first has two micro-batches in flight, so its third forward is the first with new weights."""
    table = build("pipedream", 2, 1, 4)
    assert table.version is not None
    assert table.version[table.row(0)].tolist() == [0, 0, 0, 1, 0, 2, 1, 2]
    assert table.version[table.row(1)].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
