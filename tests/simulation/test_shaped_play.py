"""Token buckets by hand: what passes at once, what a link owes, and what processors add."""

from __future__ import annotations

import numpy as np
import pytest
from made_fabrics import single_switch

from podsim.network.collectives.lookup import table_of
from podsim.network.collectives.rings import ring_all_reduce
from podsim.simulation.events import play
from podsim.simulation.rank_ops import RankOps
from podsim.simulation.shaped_play import IDLE, Buckets, Processors, simulate_shaped

RATE, BURST = 1e6, 1e5


def _seconds(
    sends: list[tuple[int, int, float]], *, burst: float = BURST, leaves: int = 3, processors: Processors = IDLE,
    pause: float = 0.0,
) -> float:  # fmt: skip
    """s of messages between 4 ranks on one switch; each starts a pause after the one before it on its sender."""
    entered = RankOps(4)
    last = {rank: entered.compute(rank, 0.0) for rank in range(4)}
    for source, destination, size in sends:
        op = entered.send(source, destination, size, [last[source]])
        if pause:
            last[source] = entered.compute(source, pause, [op])
    ops = entered.ops(single_switch(4, RATE))
    return float(simulate_shaped(ops, Buckets(np.full(8, burst), np.full(8, leaves)), processors)[1].max())


def test_a_bucket_passes_at_once_and_fills_in_a_pause() -> None:
    assert _seconds([(0, 1, 1e6)]) == pytest.approx(0.9)
    assert _seconds([(0, 1, 5e4)]) == pytest.approx(0.0)
    assert _seconds([(0, 1, 1e6)] * 3) == pytest.approx(2.9), "a link that never pauses has one bucket"
    assert _seconds([(0, 1, 1e6)] * 3, burst=0.0) == pytest.approx(3.0)
    paused = _seconds([(0, 1, 1e6)] * 3, pause=0.05)
    assert paused == pytest.approx(0.9 + 0.95 + 0.95 + 3 * 0.05), "50 ms give half a bucket back"


def test_a_link_owes_what_its_pairs_have_passed_at_once() -> None:
    """Two senders to one rank: both buckets pass, then each has its third alone until the link has gained one back."""
    assert _seconds([(0, 2, 1e6), (1, 2, 1e6)]) == pytest.approx((2e6 - BURST) / RATE)
    assert _seconds([(0, 2, 1.5e5), (1, 2, 1.5e5)]) == pytest.approx(5e4 / (RATE / 3)), (
        "over before it has paid"
    )


def test_processors_pass_on_one_message_after_the_other() -> None:
    at_once = [(0, 1, 1e5), (2, 3, 1e5)]
    assert _seconds(at_once, processors=Processors(message=1e-3)) == pytest.approx(2e-3)
    assert _seconds(at_once, processors=Processors(byte=1e-8)) == pytest.approx(2e-3)
    held_back = _seconds([(0, 1, 1e6)], processors=Processors(byte=1e-8))
    assert held_back == pytest.approx(0.9 + 1e-3), "bytes that a link holds back cost nothing more"


@pytest.mark.parametrize("name", ["ring", "double-tree", "tree"])
def test_without_buckets_it_is_the_play_of_all_ops(name: str) -> None:
    entered = RankOps(6)
    start = {rank: entered.compute(rank, 0.0) for rank in range(6)}
    entered.collective(table_of(name, "all-reduce", 3, 2), 6e6, range(6), start, name)
    ops = entered.ops(single_switch(6, RATE, 1e-4))
    shaped = simulate_shaped(ops, Buckets(np.zeros(12), np.ones(12, np.int64)))[1]
    assert shaped == pytest.approx(play(ops).end, rel=1e-6)


def test_sums_fill_buckets() -> None:
    """While a part is added, buckets fill for the next: there the time is won back."""

    def seconds(add: float) -> float:
        entered = RankOps(4)
        start = {rank: entered.compute(rank, 0.0) for rank in range(4)}
        entered.collective(ring_all_reduce(4), 4e6, range(4), start, "ring", add=add)
        ops = entered.ops(single_switch(4, RATE))
        return float(simulate_shaped(ops, Buckets(np.full(8, BURST), np.ones(8, np.int64)))[1].max())

    assert seconds(0.0) == pytest.approx(6.0 - 0.1)
    assert seconds(1e-8) == pytest.approx(5.9), "10 ms after each part of 1 MB: the links make up for it"
    assert seconds(1e-6) == pytest.approx(5.9 + 3 * 1.0 - 3 * 0.1), (
        "1 s: a bucket for each pause, and no more"
    )
