"""Published bubbles come out of the play; and what a play must always keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.player import bubble, idle, simulate_table, unit_seconds

SECONDS = st.integers(1, 40).map(lambda n: n / 8)


def waits(
    table: ScheduleTable, seconds: np.ndarray, *, staggered: bool = False, overlap: float = 1.0
) -> np.ndarray:
    start, end = simulate_table(table, seconds, overlap=overlap)
    return idle(table, start, end, staggered=staggered)


@settings(max_examples=30, deadline=None)
@given(p=st.integers(1, 8), v=st.integers(2, 4), k=st.integers(1, 4), forward=SECONDS, backward=SECONDS)
def test_flushing_schedules_wait_for_p_minus_1_chunks(
    p: int, v: int, k: int, forward: float, backward: float
) -> None:
    """(p - 1) (F + B) of a chunk each: (p - 1) / m of the work, divided by v where there are v chunks."""
    for name, chunks, m in (
        ("gpipe", 1, k),
        ("1f1b", 1, k),
        ("breadth-first", v, p * k),
        ("interleaved", v, p * k),
    ):
        if name == "interleaved" and p < 2:
            continue
        table = build(name, p, chunks, m)
        seconds = unit_seconds(table, forward=forward, input=backward / 2, weight=backward / 2)
        assert waits(table, seconds) == pytest.approx([(p - 1) * (forward + backward)] * p, abs=1e-9)
        assert bubble(table, seconds) == pytest.approx((p - 1) / m / chunks, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    p=st.integers(1, 7), extra=st.integers(0, 6), f=SECONDS, i=SECONDS, w=SECONDS,
)  # fmt: skip
def test_zb_h1_waits_for_qi(p: int, extra: int, f: float, i: float, w: float) -> None:
    """(p - 1) (F + I - W), Qi et al. 2023, Table 1; where weight gradients fit into the gap between two passes."""
    table = build("zb-h1", p, 1, p + extra)
    w = min(w, f, i)
    seconds = unit_seconds(table, forward=f, input=i, weight=w)
    assert waits(table, seconds).max() == pytest.approx((p - 1) * (f + i - w), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(p=st.integers(1, 7), extra=st.integers(0, 6), f=SECONDS, i=SECONDS, w=SECONDS)
def test_zb_h2_waits_for_qi(p: int, extra: int, f: float, i: float, w: float) -> None:
    """(p - 1) (F + I - 2 W) if no rank waits for the others before its optimizer step, Qi et al. 2023, Table 1."""
    table = build("zb-h2", p, 1, 2 * p + extra)
    w = min(w, f, i)
    seconds = unit_seconds(table, forward=f, input=i, weight=w)
    assert waits(table, seconds, staggered=True).max() == pytest.approx((p - 1) * (f + i - 2 * w), abs=1e-9)


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_zb_v_has_no_bubble_if_passes_take_equal_time(p: int, extra: int) -> None:
    """Qi et al. 2023, section 6: none from a rank's first action to its last; ranks start and end p - 1 passes apart."""
    table = build("zb-v", p, 2, 2 * p - 1 + extra)
    assert waits(table, unit_seconds(table), staggered=True).tolist() == [0.0] * p
    assert waits(table, unit_seconds(table)).tolist() == [p - 1.0] * p


@pytest.mark.parametrize(("name", "half"), [("dualpipe", 1), ("dualpipe-v", 2)])
@pytest.mark.parametrize("p", [2, 4, 6])
@pytest.mark.parametrize("extra", [0, 2, 8])
@pytest.mark.parametrize(("weight", "overlap"), [(1.0, 1.0), (1.0, 0.0), (0.75, 0.5), (0.5, 0.0)])
def test_dualpipe_waits_for_deepseek(
    name: str, half: int, p: int, extra: int, weight: float, overlap: float
) -> None:
    """(PP/2 - 1) (F&B + B - 3 W) of PP stages (p of them, or 2p in DualPipeV), for F = I and weight gradients not longer.

    Ranks near the ends have fewer passes beside each other, hence work longer and wait less: the rank that waits most
    is the one meant.
    """
    table = build(name, p, half, 2 * p + extra)
    seconds = unit_seconds(table, weight=weight)
    back = 1 + weight
    beside = overlap * max(1, back) + (1 - overlap) * (1 + back)
    stages = table.parts
    found = waits(table, seconds, overlap=overlap)
    assert found.max() == pytest.approx((stages / 2 - 1) * (beside + back - 3 * weight), abs=1e-9)


@pytest.mark.parametrize("name", ["pipedream", "pipedream-2bw"])
@pytest.mark.parametrize("p", [1, 2, 4, 7])
def test_without_a_flush_nobody_waits(name: str, p: int) -> None:
    table = build(name, p, 1, 4 * p)
    assert bubble(table, unit_seconds(table, forward=1.5, input=1.0, weight=2.0)) == pytest.approx(
        0.0, abs=1e-12
    )


def test_sends_by_hand() -> None:
    """Two ranks, one micro-batch: there and back again."""
    table = build("1f1b", 2, 1, 1)
    start, end = simulate_table(table, unit_seconds(table, forward=1.0, input=0.5, weight=1.5), 0.25)
    assert start.tolist() == [0.0, 4.5, 1.25, 2.25]
    assert end.tolist() == [1.0, 6.5, 2.25, 4.25]
    assert idle(table, start, end).tolist() == [3.5, 3.5]


def test_beside_by_hand() -> None:
    table = build("dualpipe", 2, 1, 4)
    pair = int(np.flatnonzero(table.beside)[0])
    for overlap, expected in ((1.0, 2.0), (0.0, 3.0), (0.5, 2.5)):
        start, end = simulate_table(table, unit_seconds(table), overlap=overlap)
        assert start[pair] == start[pair - 1]
        assert end[pair] - start[pair] == end[pair - 1] - start[pair - 1] == expected


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(list(SCHEDULES)), p=st.integers(1, 6), v=st.integers(1, 3), m=st.integers(1, 16),
    seed=st.integers(0, 2**31), send=st.sampled_from([0.0, 0.3]),
)  # fmt: skip
def test_laws_of_any_play(name: str, p: int, v: int, m: int, seed: int, send: float) -> None:
    """One thing at a time on a rank, nothing before what it needs has come, each start forced by one of the two."""
    if SCHEDULES[name].problems(p, v, m):
        return
    table = build(name, p, v, m)
    seconds = np.random.default_rng(seed).uniform(0.1, 2.0, (4, table.stages))
    start, end = simulate_table(table, seconds, send)
    need = table.need
    far = np.where(table.rank[need] != table.rank, send, 0.0)
    ready = np.where(need >= 0, end[need] + far, 0.0)
    assert (start >= ready - 1e-12).all()
    lead = np.flatnonzero(~table.beside)
    before = np.where(np.isin(lead, table.pointer[:-1]), 0.0, end[lead - 1])
    assert (start[lead] >= before - 1e-12).all()
    group = np.cumsum(~table.beside) - 1
    latest = np.zeros(len(lead))
    np.maximum.at(latest, group, ready)
    assert start[lead] == pytest.approx(np.maximum(before, latest), abs=1e-12)
    assert (end - start >= seconds[table.work, table.stage] - 1e-12).all()
    work = np.bincount(table.rank, seconds[table.work, table.stage] * (~table.beside), table.ranks)
    assert end.max() >= work.max() - 1e-9
    twice, _ = simulate_table(table, 2 * seconds, 2 * send)
    assert twice == pytest.approx(2 * start)


def test_gradients_of_weights_never_delay_others() -> None:
    """Only the rank that makes it needs a weight gradient."""
    table = build("zb-h1", 4, 1, 8)
    need = table.need
    assert not (table.work[need[need >= 0]] == Work.WEIGHT).any()
