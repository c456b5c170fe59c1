"""`nvidia-smi topo -m`: listings as printed, all ways they vary, and errors that name the cell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PodsimError, TableError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import node_fabric, node_of
from podsim.hardware.machine_input import given_cluster, read_server
from podsim.hardware.topo_text import parse_topo, topo_text

# The form of a DGX A100: NVSwitch between GPUs, two adapters to a switch, underlined header, a legend of adapters.
_UNDER, _PLAIN = "\x1b[4m", "\x1b[0m"
A100 = f"""
\t{_UNDER}GPU0\tGPU1\tGPU2\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID{_PLAIN}
GPU0\t X \tNV12\tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A
GPU1\tNV12\t X \tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A
GPU2\tNV12\tNV12\t X \tSYS\tPIX\t16-31,144-159\t1\t\tN/A
mlx5_0\tPXB\tPXB\tSYS\t X \tSYS\t\t\t\t
mlx5_1\tSYS\tSYS\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""
DGX_1V = """        GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 CPU Affinity NUMA Affinity
GPU0 X NV1 NV1 NV2 NV2 SYS SYS SYS 0-19,40-59 0
GPU1 NV1 X NV2 NV1 SYS NV2 SYS SYS 0-19,40-59 0
GPU2 NV1 NV2 X NV2 SYS SYS NV1 SYS 0-19,40-59 0
GPU3 NV2 NV1 NV2 X SYS SYS SYS NV1 0-19,40-59 0
GPU4 NV2 SYS SYS SYS X NV1 NV1 NV2 20-39,60-79 1
GPU5 SYS NV2 SYS SYS NV1 X NV2 NV1 20-39,60-79 1
GPU6 SYS SYS NV1 SYS NV1 NV2 X NV2 20-39,60-79 1
GPU7 SYS SYS SYS NV1 NV2 NV1 NV2 X 20-39,60-79 1
"""


def cables(node, kind):
    return {(cable.one, cable.other): cable for cable in node.cables if cable.kind == kind}


def test_nvswitch_is_seen_where_gpus_have_more_links_than_can_be():
    node = parse_topo(A100)
    assert [part.name for part in node.parts[:5]] == ["gpu0", "gpu1", "gpu2", "nic0", "nic1"]
    assert [part.note for part in node.parts[3:5]] == ["mlx5_0", "mlx5_1"]
    nvlinks = cables(node, "nvlink")
    assert set(nvlinks) == {(f"gpu{n}", "nvswitch") for n in range(3)}
    assert {(cable.lanes, cable.bandwidth) for cable in nvlinks.values()} == {(12, 300e9)}


def test_pix_is_one_switch_and_pxb_several():
    fabric = node_fabric(parse_topo(A100))
    near = fabric.route(2, fabric.end("nic", 1))
    far = fabric.route(0, fabric.end("nic", 0))
    assert (len(near), len(far)) == (
        2,
        4,
    )  # two cables over a switch; up a switch, over one above, and down another
    across = [name.split(">")[1] for name in fabric.route(0, fabric.end("nic", 1))]
    assert sum("cpu" in part for part in across) == 2


def test_switches_stand_where_devices_share_one():
    """Two GPUs and an adapter behind one switch each, both behind a third; the other adapter on the processor."""
    devices = "GPU0 GPU1 NIC0 NIC1 NIC2"
    rows = (
        "X PIX PXB PXB PHB",
        "PIX X PXB PXB PHB",
        "PXB PXB X PIX PHB",
        "PXB PXB PIX X PHB",
        "PHB PHB PHB PHB X",
    )
    lines = (f"{device} {row} 0-7 0" for device, row in zip(devices.split(), rows, strict=True))
    node = parse_topo("\n".join((f" {devices} CPU Affinity NUMA Affinity", *lines)), pcie=30e9)
    assert set(cables(node, "pcie")) == {
        ("pcie0", "cpu0"), ("pcie1", "pcie0"), ("pcie2", "pcie0"), ("gpu0", "pcie1"), ("gpu1", "pcie1"),
        ("nic0", "pcie2"), ("nic1", "pcie2"), ("nic2", "cpu0"),
    }  # fmt: skip
    assert {cable.bandwidth for cable in cables(node, "pcie").values()} == {30e9}


def test_a_file_is_read_by_its_content(tmp_path):
    """Text is a listing; what begins with "<", or ends in .xml, is a topology."""
    (tmp_path / "a.txt").write_text(A100)
    assert read_server(tmp_path / "a.txt").gpus == 3
    xml = "<system version='1'><cpu numaid='0'><pci busid='1:0' class='0x030200'/></cpu></system>"
    (tmp_path / "b.txt").write_text("\n " + xml)
    assert read_server(str(tmp_path / "b.txt")).gpus == 1
    (tmp_path / "c.xml").write_text(A100)
    with pytest.raises(TableError, match=r"c\.xml"):
        read_server(tmp_path / "c.xml")
    cluster = load_cluster("dgx-a100")
    assert given_cluster(cluster) is cluster
    with pytest.raises(PodsimError, match="keys change a cluster that is named"):
        given_cluster(cluster, {"nodes": "2"})


def test_numa_numbers_are_those_printed():
    node = parse_topo(A100)
    assert {part.name: part.numa for part in node.parts if part.kind == "gpu"} == {
        "gpu0": 3,
        "gpu1": 3,
        "gpu2": 1,
    }
    assert node.count("cpu") == 2


def test_dgx_1v_with_spaces_only():
    node = parse_topo(DGX_1V)
    assert node.count("nvswitch") == 0
    nvlinks = cables(node, "nvlink")
    assert len(nvlinks) == 16
    assert nvlinks["gpu0", "gpu3"].lanes == 2
    catalog = {ends: cable.lanes for ends, cable in cables(node_of(load_cluster("dgx-1")), "nvlink").items()}
    assert {ends: cable.lanes for ends, cable in nvlinks.items()} == catalog
    assert node.count("cpu") == 2  # GPUs of which only NVLinks are told, by their NUMA number


@pytest.mark.parametrize(
    "name", ["dgx-a100-80gb", "dgx-1", "dgx-2", "dgx-station-a100", "a100-pcie-server", "dgx-h100"]
)
def test_what_is_written_reads_back(name):
    text = topo_text(node_of(load_cluster(name)))
    node = parse_topo(text)
    assert topo_text(node) == text
    assert parse_topo(text, nvlink=50e9, pcie=63e9, socket=22e9).count("gpu") == node.count("gpu")


def test_what_stands_alone_at_a_processor_has_no_switch():
    """Two GPUs joined by the host bridge: each hangs at the processor; a third on GPU 1's switch hangs there."""
    rows = ["GPU0 GPU1 GPU2", "GPU0 X PHB PHB", "GPU1 PHB X PIX", "GPU2 PHB PIX X"]
    found = {(cable.one, cable.other) for cable in parse_topo("\n".join(rows)).cables}
    assert found == {("gpu0", "cpu0"), ("gpu1", "pcie0"), ("gpu2", "pcie0"), ("pcie0", "cpu0")}


def test_legend_of_adapters_and_old_names():
    text = (
        "\tGPU0\tNIC0\tCPU Affinity\nGPU0\tX\tSOC\t0-7\nNIC0\tSOC\tX\n\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n"
    )
    node = parse_topo(text)
    assert node.parts[1].note == "mlx5_bond_0"
    assert set(cables(node, "pcie")) == {("gpu0", "cpu0"), ("nic0", "cpu1")}  # no switch is told of


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "NV12\tNV12\tPXB\tSYS\t48",
            "NV12\tNVX\tPXB\tSYS\t48",
            "row GPU0, column GPU2: 'NVX'; expected X, NV#, PIX",
        ),
        ("GPU2\tNV12\tNV12\t X ", "GPU2\tNV12\tNV4\t X ", "NV12, but the other way round it is NV4"),
        ("GPU2\tNV12", "GPU3\tNV12", "no row for GPU2"),
        ("mlx5_0\tPXB", "GPU1\tPXB", "a second row for GPU1"),
        ("\tSYS\tPIX\tSYS\t X ", "\tSYS", "column GPU2: 'nothing'"),
        ("GPU0\t X ", "GPU0\tNV12", "X belongs on the diagonal"),
        ("CPU Affinity", "GPU1\tCPU Affinity", "devices must differ"),
    ],
)
def test_bad_cells_are_named(old, new, message):
    assert old in A100
    with pytest.raises(TableError) as error:
        parse_topo(A100.replace(old, new), "listing")
    assert message in str(error.value)
    assert str(error.value).startswith("listing")


def test_cells_at_odds_with_each_other():
    rows = ["GPU0 GPU1 GPU2 CPU Affinity", "GPU0 X PIX SYS", "GPU1 PIX X PIX", "GPU2 SYS PIX X"]
    with pytest.raises(TableError, match="row GPU2, column GPU0: SYS, but other cells put them closer"):
        parse_topo("\n".join(rows))
    uneven = ["GPU0 GPU1 GPU2", "GPU0 X NV12 NV12", "GPU1 NV12 X NV4", "GPU2 NV12 NV4 X"]
    with pytest.raises(TableError, match="24 NVLinks, not the same to all"):
        parse_topo("\n".join(uneven))
    with pytest.raises(TableError, match="NVLinks, one or more, join GPUs"):
        parse_topo("GPU0 NIC0\nGPU0 X NV4\nNIC0 NV4 X")


def test_no_listing_at_all():
    with pytest.raises(TableError, match="no header; expected a line such as GPU0 GPU1"):
        parse_topo("Failed to initialize NVML: Driver/library version mismatch")
    with pytest.raises(TableError, match="rates must be positive"):
        parse_topo(A100, pcie=0.0)
    with pytest.raises(TableError, match="at most 1,048,576 are read"):
        parse_topo("x" * (1 << 21))


@settings(deadline=None, max_examples=150)
@given(
    text=st.sampled_from([A100, DGX_1V]),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 40), st.text(max_size=6)), min_size=1, max_size=4
    ),
)
def test_mutilated_listings_raise_nothing_else(text, cuts):
    for at, size, put in cuts:
        start = int(at * len(text))
        text = text[:start] + put + text[start + size :]
    try:
        node_fabric(parse_topo(text)).routes([0], [0])
    except PodsimError:
        return


_CELLS = st.sampled_from(["X", "NV1", "NV2", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"])


@settings(deadline=None, max_examples=150)
@given(size=st.integers(1, 5), data=st.data())
def test_any_symmetric_matrix_is_read_or_refused(size, data):
    names = [f"GPU{n}" for n in range(size)]
    cells = {(a, b): data.draw(_CELLS) for a in range(size) for b in range(a)}
    rows = [" ".join(names) + " CPU Affinity NUMA Affinity"]
    for a, name in enumerate(names):
        row = ["X" if a == b else cells[max(a, b), min(a, b)] for b in range(size)]
        rows.append(" ".join([name, *row, "0-7", str(data.draw(st.sampled_from(["0", "1", "N/A"])))]))
    try:
        node = parse_topo("\n".join(rows))
    except TableError:
        return
    everyone = list(range(size))
    node_fabric(node).routes([0] * size, everyone)
    for (a, b), cell in cells.items():  # NVLinks read are NVLinks used
        if cell.startswith("NV"):
            assert "pcie" not in node_fabric(node).route(a, b)[0]


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=300))
def test_any_text_raises_nothing_else(text):
    try:
        parse_topo("GPU0 GPU1 CPU Affinity\n" + text)
    except PodsimError:
        return


def test_a_file_of_a_server_is_told_by_its_content(tmp_path):
    listing, xml = tmp_path / "a.txt", tmp_path / "b.xml"
    listing.write_text(DGX_1V)
    assert read_server(listing).gpus == 8
    xml.write_text(DGX_1V)
    with pytest.raises(TableError, match=r"b\.xml"):
        read_server(xml)
    listing.write_bytes(b" " * ((4 << 20) + 1))
    with pytest.raises(TableError, match="no topology is"):
        read_server(listing)
