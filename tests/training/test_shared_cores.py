"""Pipelines on shared cores, held against a play of ranks that take turns on them."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.training.step import shared_through_seconds


def _played(stages: int, items: int, cores: int, seconds: float) -> float:
    """Seconds in which items pass through the stages of a chain, whose workers share the cores evenly."""
    left = np.zeros(stages)  # of the item at hand, on a whole core
    waiting, done, now = [items] + [0] * (stages - 1), 0, 0.0
    while done < items:
        for stage in range(stages):
            if left[stage] == 0 and waiting[stage]:
                waiting[stage] -= 1
                left[stage] = seconds
        busy = left > 0
        rate = min(1.0, cores / busy.sum())
        step = left[busy].min() / rate
        now += step
        ended = busy & np.isclose(left, left[busy].min())
        left = np.where(ended, 0.0, np.where(busy, left - rate * step, 0.0))
        for stage in np.flatnonzero(ended).tolist():
            if stage + 1 < stages:
                waiting[stage + 1] += 1
            else:
                done += 1
    return now


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("items", [8, 32])
def test_a_chain_takes_what_its_play_takes(stages: int, cores: int, items: int) -> None:
    share = min(cores / stages, 1.0)
    busy = items / share
    path = (items + stages - 1) / share
    given = (np.array([path]), np.array([busy]), np.array([busy]), np.zeros(1))
    told = shared_through_seconds(share, np.array([stages]), *given) if share < 1 else given[0]
    assert told[0] == pytest.approx(_played(stages, items, cores, 1.0), rel=0.05)


@pytest.mark.parametrize(("stages", "seconds"), [
    (1, 5 + 1 + 0.0), (2, 5 + 1 + 3 * 0.75 * 0.5), (3, 5 + 1 + 3 * 0.75 * 1.25 / 2),
])  # fmt: skip
def test_idle_cores_by_hand(stages: int, seconds: float) -> None:
    """A bubble of 10 - 6 - 1 s on three quarters of a core for each rank; the mean works 5 s."""
    times = (np.array([each]) for each in (10.0, 6.0, 5.0, 1.0))
    assert shared_through_seconds(0.75, np.array([stages]), *times) == pytest.approx(np.array([seconds]))


def test_all_ranks_work_on_all_cores() -> None:
    """One rank with twice the work of three others, one core: what all do is what counts, not the slowest four times."""
    mean, busiest = np.array([5.0 * 4]), np.array([8.0 * 4])  # on a quarter of a core
    told = shared_through_seconds(0.25, np.array([4]), np.array([50.0]), busiest, mean, np.zeros(1))
    assert told[0] == pytest.approx(20.0)
    alone = shared_through_seconds(0.9, np.array([1]), busiest, busiest, np.array([5.0]), np.zeros(1))
    assert alone[0] == pytest.approx(0.9 * 32.0)  # and never less than the busiest rank on a core of its own
