"""Sound parts, peers that are slow, earlier runs, remarks: what an acceptance must not miss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from made_machines import dgx_a100

import podsim
from podsim.acceptance.health_checks import health_parts
from podsim.acceptance.rank_checks import rank_checks
from podsim.acceptance.storage_checks import remarked
from podsim.acceptance.thresholds import THRESHOLDS, Figure, check
from podsim.acceptance.trend_checks import read_earlier, trend_checks, trend_parts
from podsim.answers.acceptance import Acceptance, Part
from podsim.answers.lab import MeasuredPair, MeasuredRanks
from podsim.errors import LabError
from podsim.packaged import packaged_toml
from podsim.report.junit import junit_text

GPU = """GPU 00000000:{slot}:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    VBIOS Version                         : {vbios}
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
                Device Current            : 1
                Device Max                : 4
                Host Max                  : {host}
            Link Width
                Max                       : 16x
                Current                   : {width}x
    Clocks Event Reasons
        Idle                              : Active
        HW Slowdown                       : {slow}
            HW Thermal Slowdown           : {hot}
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    ECC Errors
        Volatile
            SRAM Correctable              : 2
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Correctable              : 9
            DRAM Uncorrectable            : {ecc}
    Retired Pages
        Single Bit ECC                    : N/A
        Pending Page Blacklist            : {pages}
    Remapped Rows
        Correctable Error                 : 3
        Uncorrectable Error               : {rows}
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
    Clocks
        SM                                : 210 MHz
    Max Clocks
        SM                                : {clock} MHz
"""
SOUND = {"vbios": "92.00", "width": 16, "hot": "Not Active", "ecc": 0, "host": 4, "slow": "Not Active", "pages": "No",
         "rows": 0, "pending": "No", "failed": "No", "clock": 1410}  # fmt: skip
"""What nvidia-smi -q prints of a GPU of a DGX A100."""
FAULTS = {
    "uncorrectable ECC errors": {"ecc": 1}, "rows remapped for uncorrectable errors": {"rows": 2},
    "row remaps pending or failed": {"pending": "Yes"}, "pages pending retirement": {"pages": "Yes"},
    "clocks held down": {"hot": "Active"}, "clocks held down by hardware": {"slow": "Active"},
    "PCIe width": {"width": 8}, "PCIe generation": {"host": 3}, "maximum SM clock": {"clock": 1275},
    "VBIOS": {"vbios": "91.00"},
}  # fmt: skip


def _differing(tmp_path: Path, **fault: object) -> dict[str, str]:
    text = "".join(
        GPU.format(slot=f"{slot:02X}", **(SOUND | (fault if slot == 2 else {}))) for slot in range(4)
    )
    (tmp_path / "smi.txt").write_text("==============NVSMI LOG==============\n" + text)
    parts = health_parts([tmp_path / "smi.txt"], tmp_path)
    return {part.name: part.found for part in parts if part.verdict == "differs"}


@pytest.mark.parametrize("name", [rule["name"] for rule in packaged_toml("acceptance/health.toml")["gpu"]])
def test_a_sick_gpu_is_named_by_its_slot(tmp_path: Path, name: str) -> None:
    """Each rule of health.toml by its fault, of one GPU of four."""
    assert _differing(tmp_path) == {}
    found = _differing(tmp_path, **FAULTS[name])
    assert list(found) == [name]
    assert "00000000:02:00.0" in found[name]
    assert "01:00.0" not in found[name]
    assert list(_differing(tmp_path, failed="Yes")) == ["row remaps pending or failed"]


def test_a_dump_of_a_dgx_is_accepted_until_a_remap_is_pending(tmp_path: Path) -> None:
    root, dump = dgx_a100(tmp_path / "root"), tmp_path / "smi.txt"
    for pending in ("No", "Yes"):
        changed = [SOUND | ({"pending": pending} if slot == 2 else {}) for slot in range(8)]
        gpus = [GPU.format(slot=f"{slot:02X}", **each) for slot, each in enumerate(changed)]
        dump.write_text("".join(gpus))
        answer = podsim.verify_machine(
            expect="dgx-a100-80gb", only="inventory,health", root=root, health=[dump]
        )
        verdicts = {part.name: part.verdict for part in answer.parts}
        assert verdicts.pop("row remaps pending or failed") == ("ok" if pending == "No" else "differs")
        assert set(verdicts) > {*FAULTS, "processors", "GPUs and adapters", "TPM"} - {
            "row remaps pending or failed"
        }
        assert "differs" not in verdicts.values()


@pytest.mark.parametrize(
    ("metric", "value", "fault"),
    [
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1, {"pending": "Yes"}), ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, {"failed": "Yes"}),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 2, {"ecc": 2}), ("DCGM_FI_DEV_PCIE_LINK_WIDTH", 8, {"width": 8}),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2, {"rows": 2}),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 0x40, {"hot": "Active"}),
    ],
)  # fmt: skip
def test_verify_and_diagnose_see_the_same_facts(
    tmp_path: Path, metric: str, value: int, fault: dict[str, object]
) -> None:
    """One scrape of an exporter and one dump of the same four GPUs."""
    sound = {"DCGM_FI_DEV_PCIE_LINK_WIDTH": 16}.get(metric, 0)
    for worst, named in ((sound, []), (value, ["GPU 2"])):
        (tmp_path / "scrape.txt").write_text("".join(
            f'{name}{{gpu="{gpu}",hostname="node0"}} {(40, worst if gpu == 2 else sound)[name == metric]}\n'
            for name in ("DCGM_FI_DEV_GPU_TEMP", metric) for gpu in range(4)
        ))  # fmt: skip
        assert [finding.part for finding in podsim.diagnose(tmp_path / "scrape.txt").findings] == named
        assert len(_differing(tmp_path, **(fault if named else {}))) == len(named)


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


@pytest.mark.parametrize("name", THRESHOLDS)
def test_more_than_hardware_can_give_is_a_finding(name: str) -> None:
    """Each check has its own limit; where ports and drives allow more than is expected, it is a remark."""
    threshold, figure = THRESHOLDS[name], Figure(group="metadata", name="File stat", unit="1/s")
    good, much = 0.99 * threshold.most, 1.01 * threshold.most
    assert check(figure, threshold, measured=good, expected=1.0).verdict == "ok"
    assert check(figure, threshold, measured=much, expected=1.0).verdict == "above the limit"
    assert check(figure, threshold, measured=3.1, expected=1.0, limit=4.0).verdict == "remark"
    assert check(figure, threshold, measured=2.98, expected=1.0).verdict == "above the limit"


def test_writes_far_above_reads_are_a_remark() -> None:
    def storage(name: str, measured: float, expected: float | None) -> object:
        figure = Figure(group="storage", name=name, unit="B/s")
        return check(figure, THRESHOLDS["bandwidth"], measured=measured, expected=expected)

    reads, writes = storage("fio read 1M", 1e9, 1e9), storage("fio write 1M", 7e9, None)
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
