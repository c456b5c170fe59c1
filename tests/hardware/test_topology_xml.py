"""NCCL topology files: real layouts, every default, and nothing but errors with a line for what is wrong."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PodsimError, TableError
from podsim.hardware.fabrics import node_fabric
from podsim.hardware.fabrics.xml_tree import MOST_BYTES, MOST_DEPTH
from podsim.hardware.topology_xml import parse_topology

# The layout of topology/ndv4-topo.xml of Azure/azhpc-images: placement only, GPUs out of order over the NUMA domains.
_NDV4 = ((0, ("0003", "0004"), ("0103", "0104")), (1, ("0001", "0002"), ("0101", "0102")),
         (2, ("000d", "000e"), ("0107", "0108")), (3, ("000b", "000c"), ("0105", "0106")))  # fmt: skip


def ndv4() -> str:
    lines = ['<system version="1">']
    for numa, gpus, nics in _NDV4:
        lines.append(
            f'  <cpu numaid="{numa}" affinity="00000000,00ffffff" arch="x86_64" vendor="AuthenticAMD" familyid="23"'
            ' modelid="49">'
        )
        lines.append(
            f'    <pci busid="ffff:ff:0{numa + 1}.0" class="0x060400" link_speed="16 GT/s" link_width="16"'
            ' vendor="0xffff">'
        )
        for address, kind in [*((gpu, "0x030200") for gpu in gpus), *((nic, "0x020700") for nic in nics)]:
            lines.append(
                f'      <pci busid="{address}:00:00.0" class="{kind}" link_speed="16 GT/s" link_width="16"/>'
            )
        lines += ["    </pci>", "  </cpu>"]
    return "\n".join([*lines, "</system>"])


def dump(gpus: int = 8, *, sm: int = 80, switched: bool = True) -> str:
    """What NCCL writes of a server: GPUs with NVLinks, adapters with their ports."""
    rows = [
        "<system version='1'>",
        "<cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'>",
    ]
    for gpu in range(gpus):
        links = "<nvlink target='0000:c7:00.0' count='12' tclass='0x068000'/>"
        if not switched:
            links = "".join(
                f"<nvlink target='0000:{other:02x}:00.0' count='4' tclass='0x030200'/>"
                for other in range(gpus)
                if other != gpu
            )
        rows.append(
            f"<pci busid='0000:{gpu:02X}:00.0' class='0x030200' link_speed='32.0 GT/s PCIe' link_width='16'>"
            f"<gpu dev='{gpu}' sm='{sm}' rank='{gpu}' gdr='1' mlopart='x'>{links}</gpu></pci>"
        )
    rows.append(
        "<pci busid='0000:90:00.0' class='0x020700' link_speed='32 GT/s' link_width='8'><nic>"
        "<net name='mlx5_0' dev='0' speed='200000' port='1' guid='0x1' maxconn='131072' gdr='1' rail='0'/></nic></pci>"
    )
    return "\n".join([*rows, "</cpu>", "</system>"])


def test_ndv4_skeleton():
    node = parse_topology(ndv4(), "ndv4-topo.xml")
    assert [node.count(kind) for kind in ("gpu", "nic", "cpu", "pcie", "nvswitch")] == [8, 8, 4, 4, 0]
    # numbered by bus address, so that GPU 0 is in NUMA domain 1
    assert [(part.note[:4], part.numa) for part in node.parts[:8]] == [
        ("0001", 1), ("0002", 1), ("0003", 0), ("0004", 0), ("000b", 3), ("000c", 3), ("000d", 2), ("000e", 2),
    ]  # fmt: skip
    assert {cable.bandwidth for cable in node.cables if cable.kind == "pcie"} == {31.5e9}
    sockets = [cable for cable in node.cables if cable.kind == "socket"]
    assert (len(sockets), {cable.bandwidth for cable in sockets}) == (6, {128e9})
    fabric = node_fabric(node)
    assert [name.split(">")[1] for name in fabric.route(0, 1)] == ["node0/pcie1", "node0/gpu1"]
    far = [name.split(">")[1] for name in fabric.route(0, 2)]
    assert far == ["node0/pcie1", "node0/cpu1", "node0/cpu0", "node0/pcie0", "node0/gpu2"]


def test_a_dump_with_nvswitches_and_a_port():
    node = parse_topology(dump(), "dump")
    assert node.count("nvswitch") == 1
    nvlinks = [cable for cable in node.cables if cable.kind == "nvlink"]
    assert len(nvlinks) == 8
    assert {(cable.lanes, cable.bandwidth) for cable in nvlinks} == {(12, 300e9)}
    nic = next(part for part in node.parts if part.kind == "nic")
    assert (nic.name, nic.rate) == ("nic0", 25e9)
    assert nic.note.startswith("mlx5_0")
    rates = {cable.one: cable.bandwidth for cable in node.cables if cable.kind == "pcie"}
    assert (rates["gpu0"], rates["nic0"]) == (63e9, 31.5e9)
    assert node_fabric(node).route(0, 7) == ("node0/gpu0>node0/nvswitch", "node0/nvswitch>node0/gpu7")


def test_nvlinks_from_gpu_to_gpu_are_counted_once():
    node = parse_topology(dump(4, switched=False), "station")
    nvlinks = [cable for cable in node.cables if cable.kind == "nvlink"]
    assert [(cable.lanes, cable.bandwidth) for cable in nvlinks] == [(4, 100e9)] * 6


@pytest.mark.parametrize(("sm", "one"), [(60, 20e9), (70, 25e9), (90, 25e9), (100, 50e9)])
def test_rate_of_an_nvlink_by_generation(sm, one):
    node = parse_topology(dump(2, sm=sm), "dump")
    assert {cable.bandwidth for cable in node.cables if cable.kind == "nvlink"} == {12 * one}


def gpu(attributes: str = "", inside: str = "") -> str:
    device = f"<pci busid='0:0' class='0x030200' {attributes}>{inside}</pci>"
    return f"<system version='1'><cpu numaid='0'>{device}</cpu></system>"


@pytest.mark.parametrize(
    ("attributes", "rate"),
    [
        ("", 15.75e9),
        ("link_speed='' link_width='0'", 15.75e9),
        ("link_speed='Unknown speed' link_width='16'", 15.75e9),
        ("link_speed='2.5 GT/s' link_width='16'", 4e9),
        ("link_speed='5 GT/s PCIe' link_width='4'", 2e9),
        ("link_speed='8 GT/s' link_width='16'", 15.75e9),
        ("link_speed='16.0 GT/s PCIe' link_width='8'", 15.75e9),
        ("link_speed='64 GT/s' link_width='16'", 121e9),
    ],
)
def test_link_speeds(attributes, rate):
    (cable,) = parse_topology(gpu(attributes)).cables
    assert cable.bandwidth == pytest.approx(rate)


@pytest.mark.parametrize(("speed", "rate"), [("-1", 1.25e9), ("0", 1.25e9), ("", 1.25e9), ("400000", 50e9)])
def test_speeds_of_ports(speed, rate):
    text = gpu().replace(
        "</cpu>",
        f"<pci busid='1:0' class='0x020000'><nic><net name='eth0' dev='0' speed='{speed}'/><net name='none'/>"
        "</nic></pci></cpu>",
    )
    (nic,) = [part for part in parse_topology(text).parts if part.kind == "nic"]
    assert nic.rate == rate


def test_two_ports_hang_on_one_card():
    ports = "".join(f"<net name='mlx5_{n}' dev='{n}' speed='100000'/>" for n in range(2))
    text = gpu().replace("</cpu>", f"<pci busid='1:0' class='0x020000'><nic>{ports}</nic></pci></cpu>")
    node = parse_topology(text)
    assert (node.count("nic"), node.count("pcie")) == (2, 1)


@pytest.mark.parametrize(
    ("cpu", "rate"),
    [
        ("arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='79'", 2 * 9.6e9 * 2),
        ("arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='85'", 3 * 10.4e9 * 2),
        ("arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='207'", 4 * 20e9 * 24 / 8),
        ("arch='ppc64' vendor=''", 64e9),
        ("arch='arm64'", 150e9),
    ],
)
def test_rates_between_processors(cpu, rate):
    """Links x transfers a second x bytes, as the processors of a generation have them."""
    device = "<pci busid='0:0' class='0x030200'><gpu dev='0'/></pci>"
    text = f"<system version='1'><cpu {cpu}>{device}</cpu><cpu {cpu}/></system>"
    (socket,) = [cable for cable in parse_topology(text).cables if cable.kind == "socket"]
    assert socket.bandwidth == pytest.approx(rate)


def test_what_is_not_known_is_passed_over():
    text = gpu(
        "colour='red'",
        "<gpu dev='0' sm='80'><nvlink target='9:9' count='4' tclass='0x030200'/><c2c bw='1'/></gpu>",
    )
    node = parse_topology(text.replace("<cpu", "<weather/><cpu"))
    assert [part.name for part in node.parts] == ["gpu0", "cpu0"]


BOMB = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<system version="1"><cpu numaid="&b;"/></system>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "line 2: a document type is not allowed"),
        (
            '<!DOCTYPE system SYSTEM "file:///etc/passwd"><system version="1"/>',
            "a document type is not allowed",
        ),
        ("<system version='1'>\n<cpu>\n</system>", "line 3: not well-formed XML: mismatched tag"),
        ("<system>&nbsp;</system>", "not well-formed XML: undefined entity"),
        ("", "no element found"),
        ("GPU0 GPU1", "not well-formed"),
        ("<graphs version='1'/>", "line 1: the root is <graphs>; expected <system"),
        ("<system version='2'/>", "version '2'; only 1 is known"),
        ("<system version='1'/>", "no GPU; expected <pci> of class 0x030200"),
        (gpu("link_width='wide'"), "line 1: link_width='wide'; expected a whole number from 0 to 64"),
        (gpu().replace("0x030200", "0xgpu"), "class='0xgpu'; expected a number of base 16"),
        (gpu().replace("busid='0:0'", ""), "<pci> without busid"),
        (gpu().replace("</cpu>", "<pci busid='0:0' class='0x0302'/></cpu>"), "busid 0:0 was given in line 1"),
        (gpu("", "<gpu dev='0'><nvlink target='0:0' count='1'/></gpu>"), "an NVLink of 0:0 to itself"),
        (
            gpu("", "<gpu dev='0'><nvlink target='0:0' count='0'/></gpu>"),
            "count='0'; expected a whole number from 1",
        ),
        ("<system>" + "<cpu>" * (MOST_DEPTH + 1), f"elements more than {MOST_DEPTH} deep"),
        ("<system>" + "<cpu/>" * 20_001 + "</system>", "more than 20,000 elements"),
        ("<system>" + " " * MOST_BYTES + "</system>", "at most 4,194,304 are read"),
    ],
)
def test_bad_files_are_refused_with_the_line(text, message):
    with pytest.raises(TableError) as error:
        parse_topology(text, "bad.xml")
    assert message in str(error.value)
    assert str(error.value).startswith("bad.xml")
    assert len(str(error.value)) < 300


def test_encodings():
    assert parse_topology(ndv4(), "ndv4-topo.xml").name == "ndv4-topo.xml"
    assert parse_topology(ndv4().encode("utf-16")).count("gpu") == 8
    with pytest.raises(TableError):
        parse_topology(b"<?xml version='1.0' encoding='klingon'?><system/>")


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.1), st.text(max_size=6)), max_size=4),
)
def test_mutilated_files_raise_nothing_else(seed, cuts):
    text = random.Random(seed).choice([ndv4(), dump(), dump(3, switched=False)])
    for at, size, put in cuts:
        start = int(at * len(text))
        text = text[:start] + put + text[start + int(size * len(text)) :]
    try:
        node = parse_topology(text)
    except PodsimError:
        return
    node_fabric(node).routes([0], [node.count("gpu") - 1])


_VALUES = st.one_of(
    st.text("0123456789abcdefx-. GT/s:", max_size=12), st.sampled_from(["0x030200", "0x020700", "0:1", "16"])
)
_ATTRIBUTES = st.dictionaries(
    st.sampled_from(["busid", "class", "link_speed", "link_width", "dev", "sm", "rank", "target", "count", "tclass",
                     "numaid", "arch", "vendor", "familyid", "modelid", "speed", "name"]),
    _VALUES, max_size=6,
)  # fmt: skip
_ELEMENTS = st.recursive(
    st.tuples(st.sampled_from(["pci", "gpu", "nic", "net", "nvlink", "cpu"]), _ATTRIBUTES, st.just([])),
    lambda inner: st.tuples(
        st.sampled_from(["pci", "gpu", "nic", "cpu"]), _ATTRIBUTES, st.lists(inner, max_size=4)
    ),
    max_leaves=12,
)


def written(element) -> str:
    tag, attributes, inside = element
    given = "".join(f" {key}='{value}'" for key, value in attributes.items())
    return f"<{tag}{given}>{''.join(map(written, inside))}</{tag}>"


@settings(deadline=None, max_examples=200)
@given(st.lists(_ELEMENTS, max_size=4))
def test_any_elements_raise_nothing_else(elements):
    text = written(("system", {"version": "1"}, [("cpu", {}, elements)]))
    try:
        node = parse_topology(text)
    except PodsimError:
        return
    assert node.count("gpu") >= 1


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
def test_anything_else_raises_nothing_else(text):
    with pytest.raises(TableError):
        parse_topology(text)
