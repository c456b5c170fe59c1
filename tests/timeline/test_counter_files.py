"""Counters and traces of a real run, as their tools write them, by hand."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from podsim.answers.telemetry import PortRow
from podsim.errors import TimelineError
from podsim.timeline.counter_files import _ports_of, plain_values, read_counters

ETHTOOL = """NIC statistics:
     rx_bytes: 100
     tx_bytes: 90
     tx_bytes_phy: 200
     rx_crc_errors_phy: 3
     rx_discards_phy: 4
     link_down_events_phy: 2
     other: 7
"""
SYSFS = "\n".join(
    f"/sys/class/infiniband/mlx5_{card}/ports/1/counters/{name}:{value}"
    for card, name, value in (
        (0, "port_xmit_data", 25), (0, "port_rcv_data", 50), (1, "port_xmit_data", 1), (1, "link_downed", 5),
    )
)  # fmt: skip
TC = """qdisc fq_codel 0: dev eth0 root refcnt 2
 Sent 1200 bytes 3 pkt (dropped 4, overlimits 0 requeues 0)
 backlog 0b 5p requeues 0
qdisc noqueue 0: dev lo root refcnt 2
 Sent 10 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        (ETHTOOL, {"eth0": {"in": 100.0, "out": 200.0, "errors": 7.0, "downs": 2.0}}),
        (SYSFS, {"mlx5_0/1": {"out": 100.0, "in": 200.0}, "mlx5_1/1": {"out": 4.0, "downs": 5.0}}),  # words of 4 B
        ("PortXmitData:....................25\nPortXmitDiscards:.....2\n", {"eth0": {"out": 100.0, "errors": 2.0}}),
        (TC, {
            "eth0": {"out": 1200.0, "errors": 4.0, "waiting": 5.0}, "lo": {"out": 10.0, "errors": 0.0, "waiting": 0.0},
        }),
        (
            json.dumps([
                {"dev": "eth0", "root": True, "bytes": 12, "drops": 1, "qlen": 2},
                {"dev": "a", "parent": "1:", "bytes": 1},
                {"dev": "b", "bytes": 3}, {"kind": "x"}, 3,
            ]),
            {"eth0": {"out": 12.0, "errors": 1.0, "waiting": 2.0}, "b": {"out": 3.0, "errors": 0.0, "waiting": 0.0}},
        ),
        ("[no json", {}), ("a text: of words", {}), ("other: 7\n", {}),
    ],
)  # fmt: skip
def test_counters_of_a_text(text: str, ports: dict[str, dict[str, float]]) -> None:
    assert _ports_of(text, "eth0") == ports


def rows_of(folder: Path) -> dict[str, PortRow]:
    return {row.port: row for row in read_counters(folder).rows}


def test_readings_of_a_port_give_its_bytes_over_time(tmp_path: Path) -> None:
    """At 0, 12 and 48 s of 48: a quarter of the bins has 240 B, and the rest 720 B."""
    for time, sent, came, downs in (("0", 1000, 0, 1), ("12", 1240, 0, 1), ("48.0", 1960, 96, 3)):
        text = f"tx_bytes: {sent}\nrx_bytes: {came}\nlink_downed: {downs}\nsymbol_error: {sent}\n"
        (tmp_path / f"eth0@{time}.txt").write_text(text)
    record = read_counters(tmp_path)
    assert (record.seconds, record.ports, record.bins, record.source) == (48.0, 1, 96, "real")
    out, into = record.rows
    assert (out.port, out.downs, out.errors, out.busy) == ("eth0 out", 2, 960, 48.0)
    assert list(out.values) == [240 / 24] * 24 + [720 / 72] * 72
    assert (into.port, into.downs, into.errors, sum(into.values)) == ("eth0 in", 0, 0, pytest.approx(96))
    assert sum(into.values[:24]) == 0


def test_readings_without_times_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SYSFS)
    assert rows_of(tmp_path)["mlx5_1/1 out"].downs == 5  # one alone: since the machine started
    assert sum(rows_of(tmp_path)["mlx5_0/1 out"].values) == 0
    (tmp_path / "b.txt").write_text(SYSFS.replace(":25", ":35"))
    out = rows_of(tmp_path)["mlx5_0/1 out"]
    assert (out.values[0], sum(out.values)) == (40.0, 40.0)
    assert rows_of(tmp_path)["mlx5_1/1 out"].downs == 0
    (tmp_path / "c.txt").write_text("link_downed: 4\n")
    assert (rows_of(tmp_path)["c"].downs, rows_of(tmp_path)["c"].values) == (4, ())


def recorder(*times: tuple[float, float], last: int = 9) -> dict[str, Any]:
    entries = [
        {
            "time_created_ns": int(a * 1e9),
            "time_discovered_completed_ns": int(b * 1e9),
            "collective_seq_id": last - k,
        }
        for k, (a, b) in enumerate(times)
    ]
    return {"version": "2.4", "entries": [*entries, {"is_p2p": True, "time_created_ns": 0}]}


@pytest.mark.parametrize("is_pickle", [False, True])
def test_laps_of_a_flight_recorder(tmp_path: Path, is_pickle: bool) -> None:
    """Rank 0 works 2 s and 3 s between its collectives; rank 1 alike, and has not joined the last two."""
    for rank, last, times in ((0, 9, [(0, 1), (3, 4), (7, 8)]), (1, 7, [(-9, -8), (0, 1), (3, 4), (7, 7.5)])):
        dump = recorder(*times, last=last)
        path = tmp_path / f"trace_rank_{rank}"
        path.write_bytes(pickle.dumps(dump) if is_pickle else json.dumps(dump).encode())
    one, other = read_counters(tmp_path).rows
    assert (one.port, one.kind, one.ranks, one.values, one.errors, one.busy) == (
        "rank 0", "compute", "0", (2.0, 3.0), 0, 3.0
    )  # fmt: skip
    assert (other.port, other.values, other.errors) == ("rank 1", (2.0, 3.0), 2)  # as many laps as the others


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_of_plain_values_is_read_and_no_other(protocol: int) -> None:
    value = {
        "a": [1, 2.5, "x", None, True, False],
        "b": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "c": {},
        "d": [[]],
    }
    value["e"] = value["a"]
    assert plain_values("f", pickle.dumps(value, protocol)) == value
    with pytest.raises(TimelineError, match="could run"):
        plain_values("f", pickle.dumps(Path("x"), protocol))
    with pytest.raises(TimelineError, match="no JSON, and no pickle"):
        plain_values("f", pickle.dumps(value, protocol)[:-5])
    assert plain_values("f", b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"entries": [], "pg_config": 1}', "no counters, and no collectives either"),
        ('{"entries": 3, "pg_config": 1}', "no list of entries"),
        ('{"entries": [{"time_created_ns": "soon"}]}', "time_created_ns=soon is no number below"),
        ('{"entries": [{"time_created_ns": 1e30}]}', "is no number below"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(TimelineError, match="0 files"):
        read_counters(tmp_path)
    (tmp_path / "rank0.json").write_text(content)
    with pytest.raises(TimelineError, match=problem):
        read_counters(tmp_path)
