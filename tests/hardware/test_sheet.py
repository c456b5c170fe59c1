"""Data sheets: derived figures against those printed, and a sheet for every name."""

from __future__ import annotations

import math

import pytest

from podsim.errors import CatalogError, PodsimError
from podsim.hardware import catalog
from podsim.hardware.cluster import load_cluster
from podsim.hardware.sheet import cluster_sheet, sheet, sheet_names
from podsim.hardware.sheet_rows import Sheet

EVERY = sheet_names()


@pytest.mark.parametrize("name", [*EVERY, "dgx-a100-80gb:64", "superpod-a100:7su"])
def test_every_name_has_a_sheet(name):
    page = sheet(name)
    assert isinstance(page, Sheet)
    rows = [row for section in page.sections for row in section.rows]
    assert rows
    for row in rows:
        assert row.label
        assert row.text
        assert row.source
        assert row.source != "derived" or row.how, row.label
        assert row.value is None or math.isfinite(row.value)
    for section in page.sections:
        labels = [row.label for row in section.rows]
        assert len(labels) == len(set(labels)), section.title


@pytest.mark.parametrize(
    ("label", "value", "text"),
    [
        ("AI (bf16, 2:4 sparse)", 8 * 624e12, "4.992 PFLOP/s (data sheet: 5 PFLOP/s)"),
        ("int8, 2:4 sparse", 8 * 1248e12, "9.984 POP/s (data sheet: 10 POP/s)"),
        ("NVLink per GPU, both directions", 600e9, "600 GB/s (data sheet: 600 GB/s)"),
        ("NVLink of all GPUs, both directions", 4.8e12, "4.8 TB/s (data sheet: 4.8 TB/s)"),
        ("network, both directions", 400e9, "3.2 Tb/s (data sheet: 3.2 Tb/s)"),
        ("network, one direction", 200e9, "1.6 Tb/s"),
        ("GPU memory", 640e9, "640 GB (data sheet: 640 GB)"),
        ("NVMe cache", 8 * 3.84e12, "30.72 TB (data sheet: 30 TB)"),
        ("memory bandwidth per CPU", 204.8e9, "204.8 GB/s"),
        ("power, maximum", 6500.0, "6.5 kW"),
        ("bisection, one direction", 1.2e12, "1.2 TB/s"),
        ("NVLinks per GPU and chip", 2, "2"),
    ],
)
def test_dgx_a100_by_hand(label, value, text):
    row = sheet("dgx-a100-80gb").row(label)
    assert row.value == pytest.approx(value)
    assert row.text == text


def test_the_smaller_dgx_a100():
    page = sheet("dgx-a100-320gb")
    assert page.row("GPU memory").text == "320 GB (data sheet: 320 GB)"
    assert page.row("NVMe cache").text == "15.36 TB (data sheet: 15 TB)"
    assert page.row("AI (bf16, 2:4 sparse)").how == "8 x 624 TFLOP/s"


@pytest.mark.parametrize("name", catalog.names("system"))
def test_derived_figures_agree_with_the_vendors_sheet(name):
    system = catalog.load_system(name)
    if not system.datasheet or name == "dgx-2":
        return
    page = sheet(name)
    labels = {
        "ai": "AI (bf16, 2:4 sparse)",
        "int8": "int8, 2:4 sparse",
        "gpu_memory": "GPU memory",
        "nvlink": "NVLink per GPU, both directions",
        "nvswitch": "NVLink of all GPUs, both directions",
        "network": "network, both directions",
        "cache": "NVMe cache",
        "power": "power, maximum",
    }
    for key, printed in system.datasheet.items():
        assert page.row(labels[key]).value == pytest.approx(printed, rel=0.03), key


@pytest.mark.parametrize(("units", "counts"), [(1, (8, 4, 0)), (2, (16, 10, 0)), (7, (56, 80, 28))])
def test_superpod_switches(units, counts):
    page = sheet(f"superpod-a100:{units}su")
    found = tuple(page.row(f"{layer} switches").value for layer in ("leaf", "spine", "core"))
    assert found == counts
    assert page.row("cables, node to leaf").value == 160 * units
    assert page.row("cables per unit, below the spines").value == 320


def test_selene_by_hand():
    page = sheet("selene")
    assert page.row("fp64 of matrix products (peak of HPL)").value == pytest.approx(4480 * 19.5e12)
    assert page.row("share of the fp64 peak in HPL").value == pytest.approx(63.46 / 87.36)
    assert page.row("HPL work per joule").text == "23.98 GFLOP/J"
    assert page.row("power per node in HPL").value == pytest.approx(4725)


def test_a_part_by_hand():
    assert sheet("a100").row("bf16 work per byte read at the ridge").value == pytest.approx(312e12 / 2039e9)
    assert sheet("qm8700").row("all ports, both directions").text == "16 Tb/s"
    assert sheet("nvswitch2").row("all ports, both directions").text == "1.8 TB/s"
    with pytest.raises(KeyError):
        sheet("a100").row("price")


def test_a_cluster_by_hand():
    """4 servers of 8 GPUs with 300 GB/s inside; 8 ports of 200 Gb/s a server outside: 2,400 to 200 GB/s."""
    page = sheet("dgx-a100-80gb:4")
    assert page.row("GPUs").value == 32
    assert page.row("GPU memory").text == "2.56 TB"
    assert page.row("network per node, one direction").text == "1.6 Tb/s"
    assert page.row("network of all nodes, one direction").text == "6.4 Tb/s"
    assert page.row("inside to outside of a node").value == pytest.approx(12)
    assert page.row("cache on drives").value == pytest.approx(4 * 8 * 3.84e12)
    assert page.row("power of the nodes, maximum").text == "26 kW"


def test_changed_figures_show_as_such():
    page = sheet("dgx-a100", {"network.bandwidth": "100 Gb/s", "nodes": "2"})
    assert page.kind == "cluster"
    assert page.row("nodes").how == "set by the user"
    assert page.row("network, one direction").text == "800 Gb/s"
    assert sheet("a100", {"memory": "64 GB"}).row("memory").how == "set by the user"
    assert sheet("dgx-a100:4", {"fabric": "none", "nodes": "1"}).row("compute adapters").text == "none"
    part = cluster_sheet(load_cluster("dgx-a100").subset(gpus=2))
    assert part.row("GPU memory").value == 160e9


def test_what_has_no_sheet(tmp_path):
    with pytest.raises(CatalogError, match="unknown name 'a1000': did you mean"):
        sheet("a1000")
    with pytest.raises(CatalogError, match="qm8790 is a switch; only accelerators"):
        sheet("qm8790", {"ports": "64"})
    with pytest.raises(PodsimError):
        sheet(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("name", "cables", "rate", "together"),
    [("dgx-a100-40gb", 1, "200 Gb/s", "252 Gb/s"), ("dgx-a100-80gb", 2, "400 Gb/s", "504 Gb/s")],
)
def test_both_ports_of_a_storage_adapter_reach_what_their_slot_carries(name, cables, rate, together):
    """By hand: 2 ports x 200 Gb/s, of which a slot of PCIe 4 carries 31.5 GB/s x 8; one cable of 200 Gb/s a card."""
    page = sheet(name)
    assert page.row("storage adapters, one direction").text == together
    assert page.row("storage ports with a cable").value == cables
    assert page.row("storage network, one direction").text == rate


def test_the_totals_of_a_cluster_by_hand():
    """64 nodes of eight A100 and eight adapters of 200 Gb/s; NVLink gives a GPU 300 GB/s, a node's adapters 200."""
    page = sheet("dgx-a100-80gb:64")
    texts = {
        "GPUs": "512", "network per node, one direction": "1.6 Tb/s",
        "network of all nodes, one direction": "102.4 Tb/s", "inside to outside of a node": "12",
        "AI (bf16, 2:4 sparse)": "319.5 PFLOP/s", "bf16, dense": "159.7 PFLOP/s",
        "power of the nodes, maximum": "416 kW", "cache on drives": "1.966 PB",
    }  # fmt: skip
    assert {label: page.row(label).text for label in texts} == texts
    assert page.row("network of all nodes, one direction").how == "64 nodes x 1.6 Tb/s"


def test_cables_of_a_cluster_are_told_in_kilometres():
    page = sheet("superpod-a100:7su")
    for label in ("length of InfiniBand cables", "length of all cables"):
        row = page.row(label)
        assert row.unit == "m"
        assert row.text == f"{row.value / 1e3:,.1f} km"
    assert page.row("length of all cables").value > page.row("length of InfiniBand cables").value > 1e3


def test_a_lane_is_a_sixteenth_of_a_slot():
    page = sheet("pcie4")
    slot, lane = (page.row(label).value for label in ("16 lanes, one direction", "one lane, one direction"))
    assert lane == pytest.approx(slot / 16)
    assert 1.9e9 < lane < 2e9  # 16 GT/s with 128 of 130 bits
