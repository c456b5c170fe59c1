"""Counters of real ports and ranks as records: bytes in their bins, laps, errors, and pickles that run nothing."""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from podsim.answers.telemetry import PortRow
from podsim.errors import TimelineError
from podsim.timeline.counter_files import plain_values, read_counters

IB = "/sys/class/infiniband/mlx5_0/ports/1/counters/"


def rows(folder: Path, **files: str | bytes) -> dict[str, PortRow]:
    """The rows of files, by port; of a name, "_at_" stands for "@"."""
    for name, text in files.items():
        path = folder / (name.replace("_at_", "@") + ".txt")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return {row.port: row for row in read_counters(folder).rows}


def test_bytes_between_readings_are_spread_over_their_bins(tmp_path: Path) -> None:
    """96 bins of 96 s: 960 B in the first half are 20 B a bin, 96 B in the last quarter 4 B a bin."""
    text = "NIC statistics:\n     tx_bytes: {}\n     rx_bytes_phy: {}\n     rx_crc_errors_phy: {}\n"
    found = rows(
        tmp_path, eth0=text.format(100, 7, 1), eth0_at_48=text.format(1060, 7, 1), eth0_at_72=text.format(1060, 7, 5),
        eth0_at_96=text.format(1156, 103, 5),
    )  # fmt: skip
    assert found["eth0 out"].values == (20.0,) * 48 + (0.0,) * 24 + (4.0,) * 24
    assert found["eth0 in"].values == (0.0,) * 72 + (4.0,) * 24
    assert [(row.busy, row.errors, row.downs) for row in found.values()] == [(96.0, 4, 0), (96.0, 0, 0)]
    assert read_counters(tmp_path).seconds == 96


def test_infiniband_counts_four_bytes_and_names_its_ports(tmp_path: Path) -> None:
    text = f"{IB}port_xmit_data:{{}}\n{IB}port_rcv_data:10\n{IB}link_downed:{{}}\n{IB}symbol_error:3\n"
    found = rows(tmp_path, a=text.format(100, 1), a_at_2=text.format(196, 3))
    assert found["mlx5_0/1 out"].values == (4.0,) * 96
    assert (found["mlx5_0/1 out"].downs, found["mlx5_0/1 out"].errors) == (2, 0)
    assert sum(found["mlx5_0/1 in"].values) == 0


def test_one_reading_has_the_errors_since_the_start(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        eth1="rx_bytes: 5\nrx_discards_phy: 2\nrx_crc_errors_phy: 1\n",
        eth2="link_down_events_phy: 4",
    )
    assert (found["eth1 in"].errors, sum(found["eth1 in"].values)) == (3, 0)
    assert (found["eth2"].downs, found["eth2"].errors) == (4, 0)


def test_readings_of_one_time_are_in_the_first_bin(tmp_path: Path) -> None:
    found = rows(tmp_path, a=f"{IB}port_xmit_data:100\n", b=f"{IB}port_xmit_data:200\n")
    assert found["mlx5_0/1 out"].values == (400.0, *[0.0] * 95)


@pytest.mark.parametrize("as_json", [True, False])
def test_queues_of_tc(tmp_path: Path, as_json: bool) -> None:
    def text(sent: int, drops: int) -> str:
        held = [{"dev": "eth0", "root": True, "bytes": sent, "drops": drops, "qlen": 3},
                {"dev": "eth9", "parent": "1:1", "bytes": 7}]  # fmt: skip
        said = f"qdisc fq_codel 0: dev eth0 root refcnt 2\n Sent {sent} bytes 5 pkt (dropped {drops}, overlimits 0)\n" \
               " backlog 0b 3p requeues 0\n"  # fmt: skip
        return json.dumps(held) if as_json else said

    found = rows(tmp_path, tc=text(1000, 2), tc_at_4=text(1960, 5))
    assert list(found) == ["eth0 out"]
    assert (found["eth0 out"].values[0], found["eth0 out"].errors) == (10.0, 3)


def dump(first: int, spans: list[tuple[float, float]]) -> dict[str, Any]:
    """A flight recorder's dump of collectives that start and end at these ms."""
    entries = [{"time_created_ns": a * 1e6, "time_discovered_completed_ns": b * 1e6, "collective_seq_id": first + n}
               for n, (a, b) in enumerate(spans)]  # fmt: skip
    return {"version": "2.5", "entries": [*entries, {"is_p2p": True, "time_created_ns": 0}]}


def test_laps_of_ranks_stand_beside_each_other(tmp_path: Path) -> None:
    """Rank 0 has joined collectives 1 to 4, rank 1 only 2 and 3: its one lap stands beside the last of the other."""
    zero = json.dumps(dump(1, [(0, 1), (3, 5), (9, 10), (10, 12)])).encode()
    found = rows(tmp_path, rank_0=zero, rank_1=pickle.dumps(dump(2, [(3, 6), (9.5, 9)])))
    assert list(found) == ["rank 0", "rank 1"]
    assert found["rank 0"].values == pytest.approx((0.0,))
    assert found["rank 1"].values == pytest.approx((3.5e-3,))
    assert found["rank 0"].busy == pytest.approx(6e-3)
    assert found["rank 1"].busy == pytest.approx(3e-3)
    assert (found["rank 0"].errors, found["rank 1"].errors) == (0, 1)
    (tmp_path / "rank_1.txt").unlink()
    assert read_counters(tmp_path).rows[0].values == pytest.approx((2e-3, 4e-3, 0.0))
    assert read_counters(tmp_path).seconds == pytest.approx(6e-3)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_of_plain_values_is_what_it_was(protocol: int) -> None:
    twice = [1, 2]
    value = {"a": [1, -2.5, "x", None, True, False, 1 << 40], "b": {"c": ()}, "d": (1,), "e": (1, 2), "f": (1, 2, 3),
             "g": (1, 2, 3, 4), "h": [twice, twice], "i": {}}  # fmt: skip
    assert plain_values("dump", pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pickle.dumps(OrderedDict(a=1)), "which could run"), (pickle.dumps(print), "which could run"),
        (pickle.dumps({"a": 1})[:-1], "no JSON, and no pickle"), (b"\x80\x04.", "no JSON, and no pickle"),
        (b"{", "truncated|no JSON"),
    ],
)  # fmt: skip
def test_what_is_no_plain_value(data: bytes, said: str) -> None:
    with pytest.raises(TimelineError, match=said):
        plain_values("dump", data)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"entries": 3}', "no list of entries"),
        ('{"entries": []}', "no counters, and no collectives either"),
        ('{"entries": [{"time_created_ns": 1e30}]}', "time_created_ns=1e[+]30 is no number below 2"),
    ],
)
def test_what_is_no_reading(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TimelineError, match=said):
        rows(tmp_path, a=text)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(TimelineError, match="0 files; a run has 1 to 4,096"):
        rows(tmp_path)
