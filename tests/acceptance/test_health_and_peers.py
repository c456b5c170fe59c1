"""Sound parts, peers that are slow, earlier runs, remarks: what an acceptance must not miss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from podsim.acceptance.health_checks import health_parts
from podsim.acceptance.rank_checks import rank_checks
from podsim.acceptance.storage_checks import remarked
from podsim.acceptance.thresholds import THRESHOLDS, Figure, check
from podsim.acceptance.trend_checks import read_earlier, trend_checks, trend_parts
from podsim.answers.acceptance import Acceptance, Part
from podsim.answers.lab import MeasuredPair, MeasuredRanks
from podsim.errors import LabError
from podsim.report.junit import junit_text

GPU = """GPU 00000000:{slot}:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    VBIOS Version                         : {vbios}
    PCI
        GPU Link Info
            Link Width
                Max                       : 16x
                Current                   : {width}x
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : {hot}
    ECC Errors
        Aggregate
            DRAM Uncorrectable            : {ecc}
    Remapped Rows
        Correctable Error                 : 3
        Uncorrectable Error               : 0
        Pending                           : No
"""
SOUND = {"vbios": "92.00", "width": 16, "hot": "Not Active", "ecc": 0}


def _differing(tmp_path: Path, **fault: object) -> dict[str, str]:
    text = "".join(
        GPU.format(slot=f"{slot:02X}", **(SOUND | (fault if slot == 2 else {}))) for slot in range(4)
    )
    (tmp_path / "smi.txt").write_text("==============NVSMI LOG==============\n" + text)
    parts = health_parts([tmp_path / "smi.txt"], tmp_path)
    return {part.name: part.found for part in parts if part.verdict == "differs"}


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({}, None), ({"ecc": 1}, "uncorrectable ECC errors"), ({"width": 8}, "PCIe width"), ({"vbios": "91.00"}, "VBIOS"),
        ({"hot": "Active"}, "clocks held down"),
    ],
)  # fmt: skip
def test_a_sick_gpu_is_named_by_its_slot(tmp_path: Path, fault: dict[str, object], name: str | None) -> None:
    found = _differing(tmp_path, **fault)
    assert list(found) == ([name] if name else [])
    assert all("00000000:02:00.0" in text and "01:00.0" not in text for text in found.values())


def test_adapters_firmware_and_boot(tmp_path: Path) -> None:
    for adapter, version, errors in (("mlx5_0", "20.1", 0), ("mlx5_1", "20.1", 7), ("mlx5_2", "20.0", 0)):
        counters = tmp_path / "sys/class/infiniband" / adapter / "ports/1/counters"
        counters.mkdir(parents=True)
        (counters / "symbol_error").write_text(f"{errors}\n")
        (counters.parents[2] / "fw_ver").write_text(f"{version}\n")
    (tmp_path / "sys/class/tpm/tpm0/pcr-sha256").mkdir(parents=True)
    (tmp_path / "sys/class/tpm/tpm0/pcr-sha256/0").write_text("AB12\n")
    (tmp_path / "ib.txt").write_text("GUID 0x1 port 3:[LinkDownedCounter == 2] [PortXmitWait == 9]\n")
    parts = {part.name: part for part in health_parts([tmp_path / "ib.txt"], tmp_path)}
    assert parts["InfiniBand errors"].found == "ib.txt: LinkDownedCounter 2; mlx5_1/1: symbol_error 7"
    assert parts["adapter firmware"].found == "mlx5_2: 20.0"
    assert (parts["PCR 0"].found, parts["PCR 0"].verdict) == ("AB12", "cannot tell here")
    (tmp_path / "other.txt").write_text("hello")
    with pytest.raises(LabError, match="no output of nvidia-smi -q"):
        health_parts([tmp_path / "other.txt"], tmp_path)


def _ranks(slow: tuple[int, ...] = (), product: int = -1, pair: tuple[int, int] = (-1, -1)) -> MeasuredRanks:
    rows = tuple(
        MeasuredPair(
            source=a, destination=b,
            bandwidth=1e9 * (100 if a // 4 == b // 4 else 10) * (0.5 if {a, b} & {*slow} or (a, b) == pair else 1.0),
        )
        for a in range(8) for b in range(a + 1, 8)
    )  # fmt: skip
    return MeasuredRanks(
        hosts=("node0",) * 4 + ("node1",) * 4, backend="nccl", software="torch", size=4e6, started="", rows=rows,
        products=tuple(1e12 * (0.7 if rank == product else 1.0) for rank in range(8)),
    )  # fmt: skip


def test_the_slow_one_is_named() -> None:
    assert [each.verdict for each in rank_checks(_ranks())] == ["ok"] * 3
    hot, *_ = rank_checks(_ranks(product=6))
    assert (hot.verdict, hot.share) == ("falls short", pytest.approx(0.7))
    assert "rank 6 on node1" in hot.why
    _, inside, between = rank_checks(_ranks(slow=(5,)))
    assert "most pairs of rank 5 on node1" in inside.why
    assert "most pairs of rank 5 on node1" in between.why
    _, inside, between = rank_checks(_ranks(pair=(1, 7)))
    assert (inside.verdict, between.verdict) == ("ok", "falls short")
    assert "rank 1 on node0 and rank 7 on node1" in between.why


def test_too_good_is_a_remark() -> None:
    def storage(name: str, measured: float, expected: float | None) -> object:
        figure = Figure(group="storage", name=name, unit="B/s")
        return check(figure, THRESHOLDS["bandwidth"], measured=measured, expected=expected)

    reads, writes, much = (
        storage("fio read 1M", 1e9, 1e9),
        storage("fio write 1M", 7e9, None),
        storage("x", 38.0, 1.0),
    )
    assert much.verdict == "remark"  # type: ignore[attr-defined]
    marked = list(remarked([reads, writes]))  # type: ignore[list-item]
    assert [each.verdict for each in marked] == ["ok", "remark"]
    assert "7 times reads" in marked[1].why


def test_earlier_runs_and_junit(tmp_path: Path) -> None:
    figure = Figure(group="network", name="all-reduce of 16 MiB", unit="B/s")
    now = check(figure, THRESHOLDS["collective"], measured=80.0, expected=80.0)
    part = Part(name="PCR 0", expected="-", found="AB", verdict="cannot tell here", source="")
    before = [{"name": "PCR 0", "found": "AC"}]
    earlier = [
        {"checks": [{"name": now.name, "unit": "B/s", "measured": value}], "parts": before}
        for value in (99.0, 100.0, 500.0)
    ]
    (tmp_path / "run.json").write_text(json.dumps(earlier[0]))
    assert read_earlier(tmp_path / "run.json")["parts"] == earlier[0]["parts"]
    (slower,) = trend_checks([now], earlier)
    assert (slower.verdict, slower.expected) == ("falls short", 100.0)
    (changed,) = trend_parts([part], earlier[-1])
    assert (changed.name, changed.verdict) == ("PCR 0, as before", "differs")
    (same,) = trend_parts([replace(part, found="AC")], earlier[-1])
    assert same.verdict == "ok"
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(LabError, match="not what podsim verify --json prints"):
        read_earlier(tmp_path / "other.json")
    acceptance = Acceptance(
        machine="a & b",
        expected="dgx",
        started="2026-01-01",
        seconds=1.0,
        parts=(part, changed),
        checks=(now, slower),
    )
    suites = Xml.fromstring(junit_text(acceptance)).findall("testsuite")
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("inventory", "2", "1"), ("network", "1", "0"), ("trend", "1", "1"),
    ]  # fmt: skip
