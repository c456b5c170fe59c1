"""`podsim why`: injected faults are named from the record alone, healthy runs have none, real counters are read."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import podsim
from podsim.answers.saved_run import read_run
from podsim.answers.telemetry import Telemetry
from podsim.errors import PodsimError
from podsim.lab import port_counters
from podsim.lab.namespaces import unable
from podsim.questions.operate.emulate import emulate
from podsim.report.screen import report_text
from podsim.report.why_tables import why_report
from podsim.timeline.counter_files import read_counters

PLAN = {"model": "gpt-1.7b", "on": "dgx-a100:2", "tp": 4, "pp": 1, "batch": 32}


def test_a_healthy_step_has_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    step = podsim.simulate(**PLAN, ranks="all", jitter=0.02, save=path)
    answer = podsim.why(run=path)
    assert answer.faults == ()
    assert answer.step_time == step.step_time
    run = read_run(path)
    assert isinstance(run, Telemetry)
    assert {row.kind for row in run.rows} >= {"compute", "nvlink", "pcie", "adapter", "storage"}
    sent = sum(row.bytes for row in run.rows if row.port.endswith(" out") and not row.collective)
    assert sent == pytest.approx(sum(use.bytes for use in step.links if use.name.startswith("out")), rel=1e-3)


@pytest.mark.parametrize(
    ("injected", "named"),
    [
        ({"slow_link": {1: 0.2}, "swap": {3: 12}, "slow_disk": {1: 4}}, {("slow link", "1"), ("wrong cable", "3,12"),
                                                                         ("slow disk", "8-15")}),
        ({"flap": {2: 0.3}, "slow": {7: 1.2}}, {("flapping port", "2"), ("late rank", "7")}),
        ({"throttle": {9: (1.4, 0.2)}}, {("hot GPU", "9")}),
    ],
)  # fmt: skip
def test_injected_faults_are_named(
    injected: dict[str, Any], named: set[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "step.jsonl"
    podsim.simulate(**PLAN, **injected, ranks="all", jitter=0.02, save=path)
    assert not set(injected) & set(json.loads(path.read_text("utf-8").splitlines()[0])["question"])
    answer = podsim.why(run=path)
    assert {(fault.kind, fault.ranks) for fault in answer.faults} == named
    lines = report_text(why_report(answer), 80).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    late = [fault for fault in answer.faults if fault.kind == "late rank"]
    assert all(fault.cost == pytest.approx(podsim.simulate(**PLAN, slow=injected["slow"]).step_time - answer.healthy,
                                           rel=0.1) for fault in late)  # fmt: skip


@pytest.mark.parametrize(
    ("way", "kind", "kinds"),
    [("no-gpudirect", "GPUDirect off", {"pcie"}), ("wrong-numa", "wrong NUMA", {"pcie", "socket"})],
)
def test_a_host_that_is_set_up_wrongly_is_named_with_what_it_costs(
    way: str, kind: str, kinds: set[str], tmp_path: Path
) -> None:
    """By hand: 2 GPUs and 2 adapters share a switch's way up, 24.4 GB/s of copies: 6.1 GB/s of 25 for each adapter."""
    path = tmp_path / "step.jsonl"
    step = podsim.simulate(**PLAN, host={1: way}, ranks="all", jitter=0.02, save=path)
    rows = {row.port: row for row in read_run(path).rows if not row.collective}
    adapters = sum(rows[f"node1/nic{nic} {side}"].bytes for nic in (0, 1) for side in ("out", "in"))
    up = [row for port, row in rows.items() if port.startswith("node1/pcie0>node1/cpu")]
    assert sum(row.bytes for row in up) == pytest.approx(adapters, rel=1e-3)
    assert {row.kind for port, row in rows.items() if port.startswith("node1/") and "/cpu" in port} == kinds
    answer = podsim.why(run=path)
    assert [(fault.kind, fault.port, fault.ranks) for fault in answer.faults] == [(kind, "node1", "8-15")]
    slow = podsim.simulate(**PLAN, slow_link=dict.fromkeys(range(8, 16), 6.1 / 25))
    assert answer.faults[0].cost == pytest.approx(slow.step_time - answer.healthy, rel=0.01)
    assert step.step_time == pytest.approx(slow.step_time, rel=0.03)


def test_a_host_is_a_server_and_a_known_way() -> None:
    with pytest.raises(PodsimError, match="unknown way through a server 'far'"):
        podsim.simulate(**PLAN, host={1: "far"})
    with pytest.raises(PodsimError, match="server 2 does not exist; the job has 0 to 1"):
        podsim.simulate(**PLAN, host={2: "wrong-numa"})


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm4-40gb"])
def test_gpus_that_differ_by_design_are_not_late(gpu: str, tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    podsim.simulate(**PLAN, node={1: gpu}, ranks="all", jitter=0.02, save=path, force=True)
    assert podsim.why(run=path).faults == ()


def test_a_slow_node_is_one_fault_with_the_cost_of_all_its_ranks(tmp_path: Path) -> None:
    path, slow = tmp_path / "step.jsonl", dict.fromkeys(range(8, 16), 1.2)
    podsim.simulate(**PLAN, slow=slow, ranks="all", save=path)
    answer = podsim.why(run=path)
    (fault,) = answer.faults
    assert (fault.kind, fault.port, fault.ranks) == ("late rank", "node1", "8-15")
    assert fault.evidence.startswith("8 of its 8 ranks are late")
    assert fault.cost == pytest.approx(podsim.simulate(**PLAN, slow=slow).step_time - answer.healthy, rel=0.1)


def test_a_port_is_shown_and_an_unknown_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    podsim.simulate(**PLAN, save=path)
    (window, *_) = podsim.why(run=path, link="node0/nic0 out").contention
    assert window.port.startswith("node0/nic0 out")
    with pytest.raises(PodsimError, match="no port of the record; the busiest are node"):
        podsim.why(run=path, link="node9/nic0")


def test_two_readings_give_bytes_and_falls(tmp_path: Path) -> None:
    for time, sent, downs in ((0, 1000, 2), (60, 3000, 9)):
        base = "/sys/class/infiniband/mlx5_0/ports/1/counters"
        text = f"{base}/port_xmit_data:{sent}\n{base}/link_downed:{downs}\n"
        (tmp_path / f"all@{time}.txt").write_text(text, "utf-8")
    (row,) = read_counters(tmp_path).rows
    assert (row.port, row.bytes, row.downs) == ("mlx5_0/1 out", pytest.approx(4 * 2000), 7)
    assert [fault.kind for fault in podsim.why(run=tmp_path).faults] == ["flapping port"]


def test_a_rank_that_has_not_joined_is_late(tmp_path: Path) -> None:
    for rank in range(3):
        entries = [
            {
                "collective_seq_id": k,
                "time_created_ns": k * 10**9,
                "time_discovered_completed_ns": k * 10**9 + 1,
            }
            for k in range(1, 8 - 2 * (rank == 1))
        ]
        data = pickle.dumps({"version": "2.4", "entries": entries}, protocol=2 + rank)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data)
    (fault,) = podsim.why(run=tmp_path).faults
    assert (fault.kind, fault.ranks) == ("late rank", "1")
    (tmp_path / "nccl_trace_rank_3").write_bytes(pickle.dumps(print))
    with pytest.raises(PodsimError, match="which could run"):
        podsim.why(run=tmp_path)


def test_text_of_tc_and_ethtool(tmp_path: Path) -> None:
    tc, nic = tmp_path / "tc.txt", tmp_path / "eth0.txt"
    tc.write_text("qdisc htb 1: dev eth1 root refcnt 9\n Sent 99 bytes 4 pkt (dropped 7, overlimits 0 requeues 0)\n"
                  " backlog 0b 3p requeues 0\n", "utf-8")  # fmt: skip
    nic.write_text("NIC statistics:\n     tx_bytes_phy: 12\n     rx_crc_errors_phy: 4242\n", "utf-8")
    assert [(row.port, row.errors) for row in read_counters(tc).rows] == [("eth1 out", 7)]
    assert [(fault.kind, fault.port) for fault in podsim.why(run=nic).faults] == [("bad cable", "eth0")]


_TREE = {
    "eth0@0.txt": "NIC statistics:\n     tx_bytes: 1000\n     tx_bytes_phy: 1040\n     rx_bytes_phy: 7\n"
                  "     link_down_events_phy: 1\n     rx_prio3_pause: 12\n     rx_crc_errors_phy: 3\n",
    "eth0@60.txt": "NIC statistics:\n     tx_bytes: 7000\n     tx_bytes_phy: 7040\n     rx_bytes_phy: 7\n"
                   "     link_down_events_phy: 6\n     rx_prio3_pause: 12\n     rx_crc_errors_phy: 3\n",
    "eth1@0.txt": "NIC statistics:\n     tx_bytes_phy: 40\n     rx_symbol_err_phy: 20\n     link_down_events_phy: 0\n",
    "eth1@60.txt": "NIC statistics:\n     tx_bytes_phy: 9040\n     rx_symbol_err_phy: 90\n     link_down_events_phy: 0\n",
    "tc@0.json": '[{"kind": "mq", "handle": "0:", "dev": "eth2", "root": true, "bytes": 500, "drops": 0, "qlen": 0},'
                 ' {"kind": "fq_codel", "dev": "eth2", "parent": ":1", "bytes": 500, "drops": 0, "qlen": 0}]',
    "tc@60.json": '[{"kind": "mq", "handle": "0:", "dev": "eth2", "root": true, "bytes": 8500, "drops": 450, "qlen": 9},'
                  ' {"kind": "fq_codel", "dev": "eth2", "parent": ":1", "bytes": 8500, "drops": 450, "qlen": 9}]',
}  # fmt: skip
"""Readings of a node's adapters and queues, a minute apart, in the words of mlx5's driver and of tc -s -j qdisc."""


def test_a_tree_of_ethtool_and_tc_names_the_ill_adapters(tmp_path: Path) -> None:
    for name, text in _TREE.items():
        (tmp_path / name).write_text(text, "utf-8")
    sent = {row.port: (row.bytes, row.downs, row.errors) for row in read_counters(tmp_path).rows}
    assert sent == {
        "eth0 out": (pytest.approx(6000), 5, 0), "eth0 in": (0, 0, 0), "eth1 out": (pytest.approx(9000), 0, 70),
        "eth2 out": (pytest.approx(8000), 0, 450),
    }  # fmt: skip
    assert {(fault.kind, fault.port) for fault in podsim.why(run=tmp_path).faults} == {
        ("flapping port", "eth0"), ("bad cable", "eth2"),
    }  # fmt: skip


def test_a_late_rank_is_the_last_to_take_part() -> None:
    """Three ranks exchange each 0.2 s; rank 2 joins 50 ms late, and the others start and wait."""
    times = np.arange(0.0, 1.0, 0.004)
    passed = np.zeros((len(times), 3))
    for start in (0.1, 0.3, 0.5, 0.7):
        for rank, late in enumerate((0.0, 0.0, 0.05)):
            passed[:, rank] += 1e6 * np.clip((times - start - late) / 0.02, 0.0, 1.0)
    laps = {row.ranks: row.values for row in port_counters._laps(times, passed)}
    assert laps["2"] == pytest.approx([lap + 0.05 for lap in laps["0"]], abs=0.009)
    assert laps["1"] == laps["0"]


@pytest.mark.skipif(bool(unable()), reason="no network namespaces here")
def test_ports_of_an_emulated_cluster(tmp_path: Path) -> None:
    """Rank 0 sends 4 MB to rank 2 on the other server; the cables of ranks 0 and 2 are exchanged."""
    path = tmp_path / "run.jsonl"
    program = (
        "import os, socket, time\n"
        "if os.environ['RANK'] == '2':\n"
        "    line, _ = socket.create_server(('10.77.1.1', 7000)).accept()\n"
        "    while line.recv(1 << 20): pass\n"
        "elif os.environ['RANK'] == '0':\n"
        "    while True:\n"
        "        try: line = socket.create_connection(('10.77.1.1', 7000)); break\n"
        "        except ConnectionRefusedError: time.sleep(0.05)\n"
        "    line.sendall(bytes(4 << 20))\n"
    )
    command = [sys.executable, "-c", program]
    sizes = {"gpus_per_node": "2", "nics": "2"}
    assert (
        emulate("dgx-a100:2", command=command, scale="1/1000", overrides=sizes, swap={0: 2}, save=path) == 0
    )
    run = read_run(path)
    assert isinstance(run, Telemetry)
    sent = next(row for row in run.rows if row.port == "node0/nic0 out")
    assert sent.bytes == pytest.approx(4 << 20, rel=0.02)
    assert sent.queued_rate == pytest.approx(sent.capacity, rel=0.15)
    assert [(fault.kind, fault.ranks) for fault in podsim.why(run=path).faults] == [("wrong cable", "0,2")]
    with pytest.raises(PodsimError, match="rank 9 does not exist; there are 0 to 3"):
        emulate("dgx-a100:2", command=command, overrides=sizes, flap={9: 0.3})
