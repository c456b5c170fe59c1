"""Paths of tables that are played side by side, against one table after the other, one action at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.joined import SAME, Joined
from podsim.schedules.player import simulate_table
from podsim.training.pipeline_paths import longest_paths

SIZES = [
    (name, p, v, m)
    for name, entry in SCHEDULES.items()
    for p in (2, 3, 4)
    for v in (1, 2, 3)
    for m in (1, 4, 6, 8)
    if not entry.problems(p, v, m)
]


def longest(
    table: ScheduleTable, start: np.ndarray, end: np.ndarray, send: float, last: int
) -> tuple[list[int], int, int]:
    """(actions on the longest path that ends with `last`, last first; sends on it forward; and back)."""
    path, ahead, back = [], 0, 0
    while last >= 0:
        low, high, own = last, last + 1, table.rank[last]
        while table.beside[low]:
            low -= 1
        while high < table.pointer[own + 1] and table.beside[high]:
            high += 1
        last, sent, forward = -1, 0, True
        for action in range(low, high):
            path.append(action)
            need = int(table.need[action])
            if need >= 0:
                abroad = bool(table.rank[need] != own)
                if abs(end[need] + (send if abroad else 0.0) - start[low]) <= SAME * max(1.0, start[low]):
                    last, sent, forward = need, int(abroad), bool(table.work[action] == Work.FORWARD)
        if low > table.pointer[own] and abs(end[low - 1] - start[low]) <= SAME * max(1.0, start[low]):
            last, sent = low - 1, 0
        ahead, back = ahead + sent * forward, back + sent * (not forward)
    return path, ahead, back


def ends(table: ScheduleTable, end: np.ndarray) -> list[int]:
    """The last action, and the last on a rank with the first part."""
    holders = set(table.stage_rank[table.stage_part == 0].tolist())
    early = np.array([rank in holders for rank in table.rank.tolist()])
    return [int(end.argmax()), int(np.where(early, end, -1.0).argmax())]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(SIZES), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.3])), min_size=1, max_size=3),
)
def test_side_by_side_as_one_by_one(
    sizes: list[tuple[str, int, int, int]], drawn: list[tuple[int, float]]
) -> None:
    """The same actions, sends and ends, whatever the durations: whole numbers, so that many paths tie, or fractions."""
    joined = Joined([build(*size) for size in sizes])
    stages = int(joined.first_stage[-1])
    seconds = [
        np.random.default_rng(seed).integers(1, 4, (4, stages)) * (1.0 if seed % 2 else 0.37)
        for seed, _ in drawn
    ]
    sends = np.array([send for _, send in drawn])
    traced = longest_paths(joined, np.stack(seconds, axis=2), sends, first=True)
    path = 0
    for table, stage, action in zip(joined.tables, joined.first_stage, joined.first_action, strict=False):
        for durations, send in zip(seconds, sends.tolist(), strict=True):
            start, end = simulate_table(table, durations[:, stage : stage + table.stages], send)
            for last in ends(table, end):
                found = (traced.action[traced.path == path] - action).tolist()
                assert (found, traced.forward_sends[path], traced.backward_sends[path]) == longest(
                    table, start, end, send, last
                )
                path += 1
    assert path == traced.forward_sends.size
