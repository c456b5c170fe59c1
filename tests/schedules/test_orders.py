"""Orders worked by hand, and every schedule over a grid of sizes."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import ScheduleError
from podsim.schedules.actions import ScheduleTable, Work, occurrence_numbers
from podsim.schedules.check import check_schedule
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.held import held, weight_copies
from podsim.schedules.torch_csv import to_csv
from podsim.training.plan_values import SCHEDULE_CODES, Schedule

SIZES = [
    (p, v, m) for p in (1, 2, 3, 4, 6) for v in (1, 2, 3) for m in (1, 2, 3, 4, 5, 8, 12, 13, 18)
]  # fmt: skip


def legal(name: str) -> list[ScheduleTable]:
    """The tables of a schedule over the grid."""
    return [build(name, *size) for size in SIZES if not SCHEDULES[name].problems(*size)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_table_runs(name: str) -> None:
    tables = legal(name)
    assert len(tables) > 3
    for table in tables:
        check_schedule(table)
        assert table.name == name
        forwards = int((table.work == Work.FORWARD).sum())
        assert forwards == table.parts * table.micro_batches


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_an_entry_says_is_what_its_table_holds(name: str) -> None:
    entry = SCHEDULES[name]
    for table in legal(name):
        p, m = table.ranks, table.micro_batches
        if not entry.flush and m < 2 * p:
            continue  # too short to be a piece of an endless run: it never fills the pipeline
        v = table.parts // p
        said = np.broadcast_to(entry.activations(p, v, m, np.arange(p)), p)
        assert held(table).tolist() == said.tolist(), (p, v, m)
        assert (
            weight_copies(table).tolist() == np.broadcast_to(entry.copies(p, v, m, np.arange(p)), p).tolist()
        )
        assert table.flush == entry.flush


@pytest.mark.parametrize("name", SCHEDULES)
def test_parts_lie_as_the_entry_says(name: str) -> None:
    table = legal(name)[-1]
    p, parts = table.ranks, np.arange(table.parts)
    expected = {
        "loop": parts % p,
        "vee": np.where(parts < p, parts, 2 * p - 1 - parts),
        "two ways": np.concatenate([parts, parts[::-1]]),
    }
    assert table.stage_rank.tolist() == expected[SCHEDULES[name].placement].tolist()


def test_entries_and_plans_know_the_same_schedules() -> None:
    assert list(SCHEDULES) == list(SCHEDULE_CODES) == [s.name.lower().replace("_", "-") for s in _ordered()]
    assert sorted(SCHEDULE_CODES.values()) == list(Schedule)


def _ordered() -> list[Schedule]:
    class Named:
        name = "1F1B"

    return [Named if s is Schedule.ONE_F_ONE_B else s for s in Schedule]  # type: ignore[misc]


def rows(name: str, p: int, v: int, m: int) -> list[str]:
    return to_csv(build(name, p, v, m)).splitlines()


def test_gpipe_by_hand() -> None:
    assert rows("gpipe", 2, 1, 3) == ["0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1F2,1B0,1B1,1B2"]


def test_1f1b_by_hand() -> None:
    """Narayanan et al. 2021, Figure 4 (top), cut down to three ranks and four micro-batches."""
    assert rows("1f1b", 3, 1, 4) == [
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3",
        "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3",
        "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3",
    ]


def test_interleaved_by_hand() -> None:
    """Two ranks of two chunks: two micro-batches through a chunk, then two through the next."""
    assert rows("interleaved", 2, 2, 4) == [
        "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3",
        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3",
    ]


def test_breadth_first_by_hand() -> None:
    assert rows("breadth-first", 2, 2, 2) == [
        "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0",
        "1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0",
    ]


def test_zb_h1_by_hand() -> None:
    """The last rank starts its weight gradients one micro-batch late and ends with what it put off."""
    assert rows("zb-h1", 2, 1, 3) == [
        "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2",
        "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2",
    ]


def test_zb_v_by_hand() -> None:
    """The second rank holds the bottom of the V: parts 1 and 2."""
    assert rows("zb-v", 2, 2, 3) == [
        "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,3F2,3I2,3W2,0I1,0W1,0I2,0W2",
        "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,1W2",
    ]


def test_dualpipe_by_hand() -> None:
    """Stages 0, 1 are the way down with micro-batches 0, 1; stages 2, 3 the way up with 2, 3."""
    assert rows("dualpipe", 2, 1, 4) == [
        "0F0,3F2,0F1,3B2,(3F3;0B0)OVERLAP_F_B,3B3,0I1,0W1",
        "2F2,1F0,2F3,1B0,(1F1;2B2)OVERLAP_F_B,1B1,2I3,2W3",
    ]


def test_sizes_that_cannot_be_say_what_would_work() -> None:
    with pytest.raises(ScheduleError, match="did you mean interleaved"):
        build("interleaves", 2, 2, 2)
    with pytest.raises(
        ScheduleError, match="pp=0, micro_batches=-1: sizes of a schedule are whole numbers from 1"
    ):
        build("1f1b", 0, 1, -1)
    with pytest.raises(ScheduleError) as caught:
        build("dualpipe", 3, 2, 5)
    assert [text.partition("it needs ")[2] for text in caught.value.problems] == [
        "virtual_stages of 1 (interleaved needs 2 or more)",
        "an even pp",
        "an even number of micro-batches, half from each end",
        "2 x pp micro-batches or more",
    ]


def test_counted() -> None:
    assert occurrence_numbers(np.array([3, 5, 3, 3, 0, 5])).tolist() == [0, 0, 1, 2, 0, 1]
    assert occurrence_numbers(np.array([], np.int64)).tolist() == []
