"""Traces on a fabric, by hand: who waits for whom, and for how long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_fabrics import single_switch

from podsim.errors import TraceError
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph
from podsim.network.collectives.rings import ring_all_reduce
from podsim.simulation.trace_play import Collective, SimulatedTrace, simulate_traces

RATE = 1e9
Row = tuple[str, float, int]
"""kind, s or B, peer"""


def _graph(rank: int, rows: list[Row], group: tuple[int, ...] = ()) -> TraceGraph:
    """Ops of one stream, one after the other."""
    n = len(rows)
    kinds = [row[0] for row in rows]
    values = np.array([row[1] for row in rows])
    is_compute = np.array([kind == "compute" for kind in kinds])
    of: dict[str, Any] = {
        "name": np.zeros(n, np.int64), "kind": np.array([KINDS.index(kind) for kind in kinds]),
        "stream": np.zeros(n, np.int64), "seconds": np.where(is_compute, values, 9.0), "start": np.full(n, np.nan),
        "flops": np.zeros(n), "bytes": np.where(is_compute, 0.0, values),
        "collective": np.array([COLLECTIVES.index("all_reduce") if kind == "collective" else -1 for kind in kinds]),
        "group": np.where(np.array(kinds) == "collective", 0 if group else -1, -1),
        "peer": np.array([row[2] for row in rows]), "tag": np.zeros(n, np.int64),
        "first": np.array([0, 0, *range(1, n)]), "before": np.arange(n - 1),
    }  # fmt: skip
    groups = (CommGroup(name="all", ranks=group),) if group else ()
    return TraceGraph(rank=rank, names=("op",), streams=("gpu",), groups=groups, **of)


def _how(name: str, size: float, members: tuple[int, ...]) -> Collective:
    return Collective(ring_all_reduce(len(members)), size)


def _play(*graphs: TraceGraph, ranks: int = 4) -> dict[int, SimulatedTrace]:
    return simulate_traces(graphs, single_switch(ranks, RATE), ranks, _how)[0]


def test_a_message_waits_for_both_ends() -> None:
    early = _play(
        _graph(0, [("compute", 1.0, -1), ("send", 1e9, 1)]),
        _graph(1, [("recv", 1e9, 0), ("compute", 1.0, -1)]),
    )
    assert early[1].seconds == pytest.approx(1 + 1 + 1)
    assert early[1].exposed == pytest.approx(2.0)
    late = _play(_graph(0, [("send", 1e9, 1)]), _graph(1, [("compute", 3.0, -1), ("recv", 1e9, 0)]))
    assert late[0].seconds == pytest.approx(4.0)


def test_both_may_send_before_they_receive() -> None:
    both = [_graph(rank, [("send", 1e9, 1 - rank), ("recv", 1e9, 1 - rank)]) for rank in (0, 1)]
    with pytest.raises(Exception, match="never start"):
        _play(*both)  # in one stream they wait for each other, as blocking calls would


def test_a_collective_starts_with_the_last_of_its_group() -> None:
    group = (0, 1, 2, 3)
    slow = [_graph(rank, [("compute", 1.0 + rank, -1), ("collective", 2e9, -1)], group) for rank in range(4)]
    played = _play(*slow)
    assert {rank: each.seconds for rank, each in played.items()} == pytest.approx(
        dict.fromkeys(group, 4.0 + 3.0)
    )
    assert played[0].exposed == pytest.approx(6.0)
    alone = _play(slow[2])
    assert alone[2].seconds == pytest.approx(3.0 + 3.0), "ranks without traces come when it does"


def test_two_groups_share_links() -> None:
    """Two rings whose members send to the same ranks: each has half of a link."""
    rows: list[Row] = [("collective", 2e9, -1)]
    crossed = [_graph(rank, rows, group) for group in ((0, 1), (2, 3)) for rank in group]
    assert _play(*crossed)[0].seconds == pytest.approx(2.0), "no link in common"


def test_traces_that_do_not_fit() -> None:
    with pytest.raises(TraceError, match="receives 1 messages with tag 0 from rank 0, which sends 0"):
        _play(_graph(0, [("compute", 1.0, -1)]), _graph(1, [("recv", 1e9, 0)]))
    with pytest.raises(TraceError, match="rank 1 has no all_reduce of"):
        _play(_graph(0, [("collective", 1e9, -1)], (0, 1)), _graph(1, [("compute", 1.0, -1)], (0, 1)))
    with pytest.raises(TraceError, match="ranks 0 to 3"):
        _play(_graph(7, [("compute", 1.0, -1)]))
    with pytest.raises(TraceError, match="two traces of one rank"):
        _play(_graph(1, [("compute", 1.0, -1)]), _graph(1, [("compute", 1.0, -1)]))
