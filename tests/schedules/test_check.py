"""A broken table is told what is wrong with it, all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import ScheduleError
from podsim.schedules.actions import ScheduleTable
from podsim.schedules.check import check_schedule, schedule_problems
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.player import simulate_table, unit_seconds
from podsim.schedules.torch_csv import read_csv


def said(text: str) -> str:
    return "; ".join(schedule_problems(read_csv(text)))


def changed(table: ScheduleTable, column: str, at: int, value: int) -> ScheduleTable:
    values = getattr(table, column).copy()
    values[at] = value
    return replace(table, **{column: values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0F0,0B0\n1F0,1B0\n", ""),
        ("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n", "missing: 1F1"),
        ("0F0,0B0\n1F0,1I0\n", "missing: 1W0"),
        ("0F0,0B0,0B0\n1F0,1B0\n", "done twice: 0B0"),
        ("0F0,0I0,0W0,0B0\n1F0,1B0\n", "done twice: 0I0, 0W0"),
        ("0F0,0B0\n1F0,1W0,1I0\n", "weight gradient before its input gradient: 1W0"),
        ("0B0,0F0\n1F0,1B0\n", "forward after its own backward: 0F0"),
        ("0F0,0B0,1F0\n1F0,1B0\n", "done twice: 1F0"),
        ("0F0,0B0,1B0\n1F0\n", "wrong rank: 1F0 on rank 1, though rank 0 holds stage 1"),
        ("(0F0;0B0)OVERLAP_F_B\n1F0,1B0\n", "beside what it depends on: 0B0"),
        ("0F0,0F2,0B0,0B2\n1F0,1F2,1B0,1B2\n", "missing: 0F1, 1F1, 0B1, 1B1"),
    ],
)
def test_what_is_wrong(text: str, expected: str) -> None:
    assert expected in said(text)
    assert bool(expected) == bool(said(text))


def test_a_deadlock_names_the_circle() -> None:
    """The first rank wants a gradient before it sends the second forward, the last wants that forward first."""
    text = said("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    assert text == (
        "deadlock: rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0; "
        "6 of 8 actions never run"
    )
    table = read_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    with pytest.raises(ScheduleError, match="deadlock: rank 0 waits at 0B0"):
        simulate_table(table, unit_seconds(table))


def test_a_deadlock_of_a_rank_with_itself() -> None:
    """Stages 1 and 2 on one rank in the wrong order: rank 0 waits for them, but is no part of the circle."""
    text = said("0F0,0B0\n2F0,1F0,1B0,2B0\n3F0,3B0\n")
    assert text.startswith("deadlock: rank 1 waits at 2F0 for 1F0 of rank 1; 7 of 8")


def test_all_problems_at_once() -> None:
    text = said("0F0,0F0,0B0\n1W0,1I0,1F0,0B1\n")
    for part in (
        "wrong rank: 0B1",
        "missing: 0F1",
        "done twice: 0F0",
        "forward after",
        "weight gradient before",
    ):
        assert part in text


def test_numbers_that_do_not_exist() -> None:
    table = build("1f1b", 2, 1, 2)
    assert schedule_problems(changed(table, "stage", 0, 7)) == ["stage 7: it may be 0 to 1"]
    assert schedule_problems(changed(table, "micro", 1, -3)) == ["micro-batch -3: it may be 0 to 1"]
    assert schedule_problems(changed(table, "work", 1, 9)) == ["work 9: it may be 0 to 3"]
    assert schedule_problems(changed(table, "stage_before", 0, 5)) == ["stage_before 5: it may be -1 to 1"]
    assert "do not agree" in schedule_problems(changed(table, "stage_before", 1, -1))[0]
    assert "through parts 0 to 1 in order" in schedule_problems(changed(table, "stage_part", 1, 0))[0]
    falls = replace(table, pointer=np.array([0, 9, 8]))
    assert "pointer falls" in schedule_problems(falls)[0]


def test_two_directions() -> None:
    """A micro-batch of the way down has no business on the way up."""
    table = build("dualpipe", 2, 1, 4)
    up = int(np.flatnonzero((table.stage == 2) & (table.micro == 2) & (table.work == 0))[0])
    text = "; ".join(schedule_problems(changed(table, "micro", up, 0)))
    assert "micro-batches that run through two directions: 2F0" in text
    assert "missing: 2F2" in text


def test_first_with_nothing_beside() -> None:
    table = build("1f1b", 2, 1, 2)
    beside = table.beside.copy()
    beside[0] = True
    assert "nothing to run beside: 0F0" in schedule_problems(replace(table, beside=beside))[0]


def test_versions_are_checked() -> None:
    table = build("pipedream", 3, 1, 8)
    assert table.version is not None
    late = table.version.copy()
    late[3] += 1
    assert "weights" in schedule_problems(replace(table, version=late))[0]
    newer = table.version + 5
    assert "weights that are not made yet" in schedule_problems(replace(table, version=newer))[0]
    assert "needs `version`" in schedule_problems(replace(table, version=None))[0]
    assert (
        "needs `version`" in schedule_problems(replace(build("1f1b", 2, 1, 2), version=np.zeros(8, int)))[0]
    )


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(list(SCHEDULES)), seed=st.integers(0, 2**31))
def test_a_swap_is_legal_or_told(name: str, seed: int) -> None:
    """Two actions of a rank change places: either it still plays, or the check says why not; it never breaks."""
    generator = np.random.default_rng(seed)
    table = build(name, 4, 2 if SCHEDULES[name].problems(4, 1, 8) else 1, 8)
    rank = int(generator.integers(4))
    one, two = generator.integers(table.pointer[rank], table.pointer[rank + 1], 2).tolist()
    order = np.arange(len(table))
    order[[one, two]] = order[[two, one]]
    columns = {c: getattr(table, c)[order] for c in ("work", "stage", "micro")}
    swapped = replace(table, **columns)
    if not schedule_problems(swapped):
        check_schedule(swapped)
        simulate_table(swapped, unit_seconds(swapped))
