"""Drawings: the text as it should be, SVG that is well formed, for every fabric."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from fabric_builders import BUILDERS

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of, node_fabric
from podsim.hardware.fabrics.describe import describe
from podsim.hardware.topology_xml import parse_topology
from podsim.report.fabric_svg import fabric_svg
from podsim.report.fabric_text import fabric_text, ranges

A100 = """\
dgx-a100-80gb: 8 GPUs

Inside a server (dgx-a100-80gb)
  nvswitch: 12 NVLinks, 300 GB/s, to each of gpu0 to gpu7
  cpu0 (epyc-7742)
  ├─ pcie0  31.5 GB/s
  │  ├─ storage-card0  31.5 GB/s
  │  │  └─ storage0  25 GB/s
  │  ├─ gpu0, gpu1, nic0, nic1  31.5 GB/s
  │  └─ drive0, drive1  6.5 GB/s
  └─ pcie1  31.5 GB/s
     ├─ gpu2, gpu3, nic2, nic3  31.5 GB/s
     └─ drive2, drive3  6.5 GB/s
"""
SELENE = """\
Compute fabric
  core     112  qm8790
                │ 4,480 cables of 200 Gb/s
  spine    320  qm8790, 16 groups of 20
                │ 4,480 cables of 200 Gb/s
  leaf     224  qm8790, 28 units of 8
                │ 4,480 cables of 200 Gb/s
  node     560  28 units of 20
  as much bandwidth up from a full leaf as down; 56 TB/s between halves, one way
"""


@pytest.mark.parametrize("name", BUILDERS)
def test_every_fabric_can_be_drawn(name):
    drawing = describe(BUILDERS[name]())
    text = fabric_text(drawing)
    assert text.startswith(drawing.title)
    assert max(map(len, text.splitlines())) <= 100
    root = ET.fromstring(fabric_svg(drawing))
    width, height = (float(root.attrib[key]) for key in ("width", "height"))
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        if "x" in rect.attrib:
            assert -1 <= float(rect.attrib["x"]) <= width
            assert 0 <= float(rect.attrib["y"]) <= height


def test_text_of_a_server():
    assert fabric_text(describe(fabric_of(load_cluster("dgx-a100-80gb")))).startswith(A100)


def test_text_of_the_layers_of_selene():
    assert SELENE in fabric_text(describe(fabric_of(load_cluster("selene"))))


@pytest.mark.parametrize(("taper", "bisection"), [(1.0, 4e12), (2.0, 2e12)])
def test_half_the_ends_send_what_the_cables_up_carry(taper, bisection):
    """40 servers of eight ports of 25 GB/s, 8 TB/s in all; half as many cables up carry half of that."""
    drawing = describe(fabric_of(load_cluster("superpod-a100:2su"), taper=taper))
    assert drawing.nets[0].bisection == bisection


def test_svg_has_a_box_for_every_part_and_switch():
    drawing = describe(fabric_of(load_cluster("superpod-a100:7su")))
    root = ET.fromstring(fabric_svg(drawing))
    kinds = [
        rect.attrib.get("class", "").split()[:2] for rect in root.iter("{http://www.w3.org/2000/svg}rect")
    ]
    boxes = [kind[1] for kind in kinds if kind[:1] == ["box"]]
    assert {kind: boxes.count(kind) for kind in ("gpu", "nic", "cpu", "nvswitch", "drive", "storage")} == {
        "gpu": 8, "nic": 8, "cpu": 2, "nvswitch": 1, "drive": 8, "storage": 2,
    }  # fmt: skip
    switches = [kind[0] for kind in kinds if len(kind) == 1]
    counts = {kind: switches.count(kind) for kind in ("leaf", "spine", "core", "node")}
    assert counts == {"leaf": 56, "spine": 80, "core": 28, "node": 140}


def test_the_first_of_each_layer_shows_how_it_is_wired():
    drawing = describe(fabric_of(load_cluster("superpod-a100:7su")))
    node, leaf, spine, core = drawing.nets[0].layers
    assert node.first == tuple(range(8))  # eight rails, eight leaves
    assert leaf.first == tuple(range(10))  # the spines of its rail
    assert spine.first == tuple(range(14))  # half of the cores
    assert core.first == ()


def test_faults_are_listed():
    fabric = (
        fabric_of(load_cluster("dgx-a100-80gb:2")).without("node0/nic2").degraded("leaf1>spine0", share=0.25)
    )
    text = fabric_text(describe(fabric))
    assert "Broken or slow: 9 links" in text
    assert "node0/nic2>node0/pcie1: broken" in text
    assert "leaf1>spine0: 25% of its bandwidth" in text
    assert 'class="box nic fault"' in fabric_svg(describe(fabric))


def test_names_are_escaped():
    text = "<system version='1'><cpu vendor='a&lt;b'><pci busid='0:0' class='0x030200'/></cpu></system>"
    ET.fromstring(fabric_svg(describe(node_fabric(parse_topology(text, "<odd> & name")))))


def test_a_server_with_bridges_above_bridges_is_drawn():
    devices = "<pci busid='3:{0}' class='0x030200'/><pci busid='4:{0}' class='0x020700'/>"
    inner = f"<pci busid='2:{{0}}' class='0x060400'>{devices}</pci>"
    text = (
        "<system version='1'><cpu numaid='0'><pci busid='1:0' class='0x060400'>"
        + "".join(inner.format(n) for n in range(2))
        + "</pci></cpu></system>"
    )
    drawing = describe(node_fabric(parse_topology(text, "nested")))
    assert fabric_svg(drawing).count('class="box pcie"') == 3
    assert "│  └─ gpu0, nic0" in fabric_text(drawing)


def test_ranges():
    assert ranges(["gpu0", "gpu1", "gpu2", "nic0", "nic1", "cpu"]) == "gpu0 to gpu2, nic0, nic1, cpu"
    assert ranges([]) == ""
