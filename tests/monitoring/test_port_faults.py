"""Faults that a record of ports shows, by hand: each at the last figure that is sound, and at the first that is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from podsim.answers.telemetry import PortRow, Telemetry
from podsim.monitoring.port_faults import faults_of, lower_median, numbers_of, rank_count

PORT = PortRow(
    port="node0/nic0 out", kind="adapter", owner="0", values=(5.0, 5.0), capacity=10.0, busy=10.0,
    queue=(8.0, 1.0, 1.0), queued_rate=5.0,
)  # fmt: skip
DISK = PortRow(port="", kind="storage", busy=1.0)


def found(*rows: PortRow, source: str = "simulated") -> list[tuple[str, str]]:
    run = Telemetry(source=source, job="test", seconds=10.0, bins=2, rows=rows)
    return [(fault.kind, fault.port) for fault in faults_of(run)]


@pytest.mark.parametrize(
    ("source", "change", "kind"),
    [
        ("simulated", {}, "slow link"),
        ("simulated", {"queued_rate": 8.5}, None),  # 0.85 of its capacity is no slow port
        ("simulated", {"queue": (9.0, 1.0)}, None),  # a tenth of its busy time
        ("simulated", {"queue": (0.0, 1.01)}, "slow link"),
        ("simulated", {"capacity": 0.0}, None),  # unknown
        ("real", {}, None),  # 2 s of 10
        ("real", {"queue": (6.9, 3.1)}, "slow link"),
        (
            "real",
            {"queue": (0.0, 3.1), "utilisation": (0,) * 8 + (0.4, 0.4)},
            None,
        ),  # 0.75 of capacity, too often
        ("real", {"queue": (0.0, 3.1), "utilisation": (0,) * 7 + (9.0, 0.4, 0.3)}, "slow link"),
        ("real", {"queue": (0.0, 0.2), "busy": 0.1}, None),  # a short time
        ("simulated", {"downs": 1, "queue": ()}, "flapping port"),
        ("real", {"downs": 3, "queue": ()}, None),
        ("real", {"downs": 4, "queue": ()}, "flapping port"),
        ("real", {"errors": 99, "queue": ()}, None),
        ("real", {"errors": 100, "queue": ()}, "bad cable"),
        ("real", {"neighbour": "leaf1", "expected": "leaf0", "queue": ()}, "wrong cable"),
        ("real", {"neighbour": "leaf0", "expected": "leaf0", "queue": ()}, None),
        ("real", {"neighbour": "", "expected": "leaf0", "queue": ()}, None),
        ("simulated", {"kind": "storage"}, None),
        ("simulated", {"collective": "dp"}, None),
    ],
)
def test_one_port(source: str, change: dict[str, Any], kind: str | None) -> None:
    assert found(replace(PORT, **change), source=source) == ([(kind, "node0/nic0")] if kind else [])


def test_the_slowest_port_comes_first_and_those_that_wait_for_it_are_left_out() -> None:
    first = replace(PORT, port="node1/nic0 in", queue=(0.0, 10.0), queued_rate=4.0)
    second = replace(PORT, queue=(0.0, 3.0))
    third = replace(PORT, port="node2/nic0 in", queue=(0.0, 2.9))
    assert found(second, third, first) == [("slow link", "node1/nic0"), ("slow link", "node0/nic0")]


def test_exchanged_cables_are_one_fault() -> None:
    rows = [
        replace(
            PORT,
            port=f"node{n}/nic0 in",
            owner=str(n),
            neighbour=f"leaf{near}",
            expected=f"leaf{n}",
            queue=(),
        )
        for n, near in ((0, 1), (1, 0), (2, 3))
    ]
    run = Telemetry(source="real", job="test", seconds=10.0, rows=tuple(rows))
    both, alone = faults_of(run)
    assert (both.port, both.ranks) == ("node0/nic0 and node1/nic0", "0,1")
    assert (alone.port, alone.ranks) == ("node2/nic0", "2")


def test_a_full_port_beside_an_emptier_one_is_a_clash() -> None:
    def port(name: str, moved: float, waited: float) -> PortRow:
        return replace(
            PORT,
            port=name,
            kind="leaf",
            owner="",
            ranks="0-3",
            values=(moved,),
            queue=(0.0, waited),
            queued_rate=10.0,
        )

    full, empty = port("leaf0>spine1", 14.0, 0.31), port("leaf0>spine2", 10.0, 0.0)
    assert found(full, empty) == [("clash", "leaf0>spine1")]
    assert found(port("leaf0>spine1", 13.0, 0.31), empty) == []  # 1.3 times the least is even
    assert found(port("leaf0>spine1", 14.0, 0.3), empty) == []  # 3 % of its busy time
    assert found(full, port("leaf1>spine2", 10.0, 0.0)) == [
        ("clash", "leaf0>spine1")
    ]  # a switch with one port
    worse = port("leaf1>spine2", 9.0, 0.5)
    run = Telemetry(source="simulated", job="test", seconds=10.0, rows=(full, empty, worse))
    (fault,) = faults_of(run)
    assert (fault.port, fault.ranks) == ("leaf1>spine2", "0-3")
    assert fault.evidence.endswith(
        "full for 500 ms of 10 s, while ports beside it have room; so do 1 more ports"
    )


def laps(rank: str, *seconds: float, **changes: Any) -> PortRow:
    return PortRow(
        port=f"rank {rank}", kind="compute", collective="dp", ranks=rank, values=seconds, **changes
    )


def test_laps_that_are_longer_or_grow() -> None:
    sound = laps("0-2", *[1.0] * 6)
    assert found(sound, laps("3", *[1.0399] * 6)) == []
    assert found(sound, laps("3", *[1.0401] * 6)) == [("late rank", "rank 3")]
    assert found(sound, laps("3", 1.0, 1.0, 1.0, 1.1, 1.1, 1.1)) == [("hot GPU", "rank 3")]
    assert found(laps("3", *[2.0] * 6)) == []  # no peer
    assert found(sound, laps("3", *[1.0] * 6, errors=2)) == [("late rank", "rank 3")]  # it has not joined
    run = Telemetry(source="simulated", job="test", seconds=6.0, rows=(sound, laps("3", *[1.05] * 6)))
    assert "its laps are 5 % longer" in faults_of(run)[0].evidence


def test_measured_laps_are_late_by_more_and_often() -> None:
    def seen(*own: float) -> list[tuple[str, str]]:
        return found(laps("0-2", *[1.0] * 6), laps("3", *own), source="real")

    assert seen(*[1.1199] * 6) == []
    assert seen(*[1.1201] * 6) == [("late rank", "rank 3")]
    assert seen(1.0, 1.0, 1.0, 1.0, 2.0, 2.0) == []  # in two laps of six
    assert seen(1.0, 1.0, 1.0, 2.0, 2.0, 2.0) == [("late rank", "rank 3")]  # too few laps show a growth


def test_measured_laps_differ_by_more_than_clocks_err() -> None:
    """Laps of 50 ms: 9 ms more may be the clocks, 11 ms are a late rank."""
    for own, late in ((0.059, []), (0.061, [("late rank", "rank 3")])):
        assert found(laps("0-2", *[0.05] * 6), laps("3", *[own] * 6), source="real") == late


def test_a_node_of_late_ranks_is_one_fault() -> None:
    ports = [replace(PORT, port=f"node{n // 4}/nic{n % 4} out", owner=str(n), queue=()) for n in range(16)]
    late = [laps(str(rank), *[1.5] * 4) for rank in (4, 5, 6)]
    rest = [laps("0-3,7-15", *[1.0] * 4)]
    run = Telemetry(source="simulated", job="test", seconds=6.0, rows=(*ports, *late, *rest))
    (fault,) = faults_of(run)
    assert (fault.port, fault.ranks) == ("node1", "4-6")
    assert fault.evidence.startswith("3 of its 4 ranks are late; of rank 4, its laps are 50 % longer")
    assert found(*ports, *late[:2], *rest, laps("6", *[1.0] * 4)) == [
        ("late rank", "rank 4"),
        ("late rank", "rank 5"),
    ]


def test_traffic_through_processors() -> None:
    """Three servers; the third moves 31 B through its processors, or between them, where the others move 10."""

    def servers(kind: str, last: float) -> Iterable[PortRow]:
        for node, moved in enumerate((10.0, 10.0, last)):
            yield replace(PORT, port=f"node{node}/nic0 out", owner=str(node), queue=())
            yield replace(
                PORT, port=f"node{node}/pcie0>node{node}/cpu0", kind=kind, values=(moved,), queue=()
            )

    assert found(*servers("pcie", 30.0)) == []
    assert found(*servers("pcie", 31.0)) == [("GPUDirect off", "node2")]
    assert found(*servers("socket", 31.0)) == [("wrong NUMA", "node2")]
    run = Telemetry(source="simulated", job="test", seconds=6.0, rows=(*servers("socket", 31.0),))
    (fault,) = faults_of(run)
    assert (fault.ranks, fault.evidence.partition(" pass ")[0]) == ("2", "31 B")
    assert fault.evidence.endswith("of most servers 10 B")


@pytest.mark.parametrize(
    ("source", "rate", "busy", "is_slow"),
    [("simulated", 6.0, 1.0, False), ("simulated", 5.9, 0.01, True), ("real", 4.2, 1.0, False),
     ("real", 4.1, 1.0, True), ("real", 4.1, 0.05, False), ("real", 0.0, 1.0, False)],
)  # fmt: skip
def test_storage_that_gives_less(source: str, rate: float, busy: float, is_slow: bool) -> None:
    rates = (10.0, rate, 10.0, 12.0)  # the lower of the two in the middle: 10
    rows = [replace(DISK, port=f"node{n}/disk", queued_rate=each, busy=busy) for n, each in enumerate(rates)]
    assert found(*rows, source=source) == ([("slow disk", "node1/disk")] if is_slow else [])
    assert found(rows[1], source=source) == []  # no peer


def test_ranks_and_medians() -> None:
    assert numbers_of("0-3,12,x,7-7") == [0, 1, 2, 3, 12, 7]
    assert [rank_count(laps(ranks)) for ranks in ("0-3,12", "", "5")] == [5, 1, 1]
    values = np.array([3.0, 1.0, 2.0, 9.0])
    assert lower_median(values, np.ones(4, np.int64)) == 2.0
    assert lower_median(values, np.array([1, 1, 1, 4])) == 9.0
    assert lower_median(values, np.array([3, 2, 1, 0])) == 2.0
