"""The times in which traffic met on a port, by hand: four bins of 2 s on ports of 10 B/s."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.answers.telemetry import PortRow, Telemetry
from podsim.errors import PodsimError
from podsim.monitoring.port_windows import contention_of, windows_of

ALL = PortRow(
    port="leaf0>spine1", kind="leaf", values=(2, 20, 18, 4), capacity=10.0, busy=8.0, queue=(4.0, 3.0)
)
WEIGHTS = replace(ALL, collective="dp", ranks="0-3", values=(2, 14, 9, 4), micro_batches=())
SENDS = replace(ALL, collective="pp", ranks="5", values=(0, 6, 9), micro_batches=(2, 3))


def run_of(*rows: PortRow) -> Telemetry:
    return Telemetry(source="simulated", job="test", seconds=8.0, bins=4, rows=rows)


def test_the_fullest_time_of_a_port() -> None:
    """Bins 1 and 2 carry more than half of the most; 38 of the 40 B that fit. The last bin shares nothing."""
    (window,) = contention_of(run_of(ALL, WEIGHTS, SENDS))
    assert (window.port, window.kind, window.start, window.end) == ("leaf0>spine1", "leaf", 2.0, 6.0)
    assert window.utilisation == pytest.approx(38 / 40)
    # 23 B against 15 B
    assert window.owners == ("gradients and weights of ranks 0-3", "sends of rank 5, micro-batch 2-3")


def test_an_owner_of_a_tenth_does_not_share() -> None:
    tenth = replace(SENDS, values=(0, 2, 1.8))
    assert not [*contention_of(run_of(ALL, WEIGHTS, tenth))]
    (window,) = contention_of(run_of(ALL, WEIGHTS, replace(tenth, values=(0, 2, 1.9))))
    assert (window.start, window.end) == (4.0, 6.0)


def test_traffic_that_never_waits_or_has_one_kind_meets_nobody() -> None:
    assert not [*contention_of(run_of(replace(ALL, queue=(7.0,)), WEIGHTS, SENDS))]
    assert not [*contention_of(run_of(ALL, WEIGHTS, replace(WEIGHTS, ranks="4-7")))]


def test_the_longest_wait_of_each_kind_and_three_kinds_at_most() -> None:
    rows: list[PortRow] = []
    kinds = (
        ("leaf", 1.0, "a"), ("leaf", 2.0, "b"), ("spine", 4.0, "c"), ("adapter", 3.0, "d"), ("socket", 0.5, "e"),
    )  # fmt: skip
    for kind, wait, port in kinds:
        rows += [
            replace(row, port=port, kind=kind, queue=(0.0, wait / 2, wait / 2))
            for row in (ALL, WEIGHTS, SENDS)
        ]
    assert [window.port for window in contention_of(run_of(*rows))] == ["c", "d", "b"]


def test_ports_that_a_pattern_names() -> None:
    rows = [
        replace(ALL, port=f"node{n}/nic0 out", kind="adapter", values=(float(n), 8.0, 0, 0)) for n in range(5)
    ]
    laps = PortRow(port="node9/nic0", kind="compute", values=(99.0,))
    run = run_of(*rows, laps, replace(WEIGHTS, port="node1/nic0 out", values=(0, 5, 0, 0)))
    assert [window.port for window in windows_of(run, "nic0")] == [f"node{n}/nic0 out" for n in (4, 3, 2)]
    (one,) = windows_of(run, "node1/*")
    assert (one.start, one.end, one.utilisation) == (2.0, 4.0, 8 / 20)
    assert one.owners == ("gradients and weights of ranks 0-3",)
    (owned,) = windows_of(run_of(replace(rows[0], owner="7", capacity=0.0)), "node0")
    assert (owned.port, owned.utilisation, owned.owners) == ("node0/nic0 out (rank 7)", 0.0, ())
    busiest = "node4/nic0 out, node3/nic0 out, node2/nic0 out, node1/nic0 out$"
    with pytest.raises(
        PodsimError, match=f"--link 'node9': no port of the record; the busiest are {busiest}"
    ):
        windows_of(run, "node9")
    assert windows_of(run_of(replace(ALL, values=())), "leaf") == ()
