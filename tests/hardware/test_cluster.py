"""Clusters by name, by file and by changed keys."""

from __future__ import annotations

import os
import pickle
import time
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import CatalogError, ClusterError, PodsimError
from podsim.foreign_files import read_toml
from podsim.hardware import catalog
from podsim.hardware.cluster import CLUSTER_KEYS, FABRICS, cluster_names, load_cluster
from podsim.hardware.fattree import fat_tree
from podsim.hardware.userfile import LONGEST, user_file

LAB = """
inherits = "dgx-a100-80gb"
nodes = 16
source = "our lab"
[gpu]
memory = "64 GB"
[network]
bandwidth = "100 Gb/s"
nics = 4
"""


def write(tmp_path, text, name="lab.toml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_dgx_a100_by_hand():
    cluster = load_cluster("dgx-a100-80gb:64")
    assert (cluster.nodes, cluster.gpus_per_node, cluster.gpus) == (64, 8, 512)
    assert (cluster.nvlink.bandwidth, cluster.network.bandwidth, cluster.nics) == (300e9, 25e9, 8)
    assert cluster.node_bandwidth == 200e9
    assert cluster.fabric == "infiniband"
    assert cluster.gpu is catalog.load_gpu("a100")
    assert cluster.name == "dgx-a100-80gb:64"
    assert "64 x 8 a100-sxm4-80gb = 512 GPUs" in cluster.summary
    assert load_cluster("DGX-A100").nodes == 1


@pytest.mark.parametrize(
    ("spec", "gpus", "inside", "nics", "port", "fabric"),
    [
        ("selene", 4480, 300e9, 8, 25e9, "infiniband"),
        ("selene:280", 2240, 300e9, 8, 25e9, "infiniband"),
        ("superpod-a100", 160, 300e9, 8, 25e9, "infiniband"),
        ("superpod-a100:7su", 1120, 300e9, 8, 25e9, "infiniband"),
        ("superpod-h100:2SU", 512, 450e9, 8, 50e9, "infiniband"),
        ("dgx-1-v100:2", 16, 150e9, 4, 12.5e9, "infiniband"),
        ("dgx-2", 16, 150e9, 8, 12.5e9, "infiniband"),
        ("p4de:4", 32, 300e9, 4, 12.5e9, "efa"),
        ("oci-bm-gpu4-8:2", 16, 300e9, 16, 12.5e9, "roce"),
        ("a100-pcie-server:2", 16, 31.5e9, 1, 25e9, "infiniband"),
        ("l40s-server:2", 16, 31.5e9, 1, 25e9, "infiniband"),
        ("a100-pcie-pair", 2, 300e9, 0, 0.0, "none"),
        ("hgx-a800", 8, 200e9, 8, 25e9, "infiniband"),
        ("dgx-station-a100", 4, 300e9, 0, 0.0, "none"),
        ("dgx-b200", 8, 900e9, 8, 50e9, "infiniband"),
        ("dgx-b300:2", 16, 900e9, 8, 100e9, "infiniband"),
        ("gb200-nvl72", 72, 900e9, 72, 50e9, "infiniband"),
        ("gb300-nvl72:2", 144, 900e9, 72, 100e9, "infiniband"),
    ],
)
def test_catalog_clusters(spec, gpus, inside, nics, port, fabric):
    cluster = load_cluster(spec)
    assert cluster.gpus == gpus
    assert cluster.nvlink.bandwidth == pytest.approx(inside)
    assert (cluster.nics, cluster.network.bandwidth, cluster.fabric) == (nics, port, fabric)


@pytest.mark.parametrize(
    ("gpus", "nodes", "per", "hosts"),
    [(64, 1, 64, 16), (256, 4, 64, 64), (1024, 16, 64, 256), (144, 2, 72, 36)],
)
def test_a_job_on_racks_takes_as_many_trays_of_each(gpus, nodes, per, hosts):
    part = load_cluster("gb200-nvl72:16").subset(gpus)
    assert (part.nodes, part.gpus_per_node, part.nics, part.hosts, part.rails) == (nodes, per, per, hosts, 4)


def test_a_rack_has_a_leaf_for_each_rail_of_its_trays():
    racks = load_cluster("gb200-nvl72:8")
    tree = fat_tree(nodes=racks.hosts, rails=racks.rails, unit=racks.hosts_per_leaf, ports=64)
    assert (tree.leaves, tree.node_cables) == (32, 576)
    with pytest.raises(ClusterError, match="70 GPUs are neither"):
        load_cluster("dgx-h100:16").subset(70)


@pytest.mark.parametrize("name", cluster_names())
def test_every_system_and_cluster_of_the_catalog_loads(name):
    cluster = load_cluster(name)
    assert cluster.source
    assert cluster.fabric in FABRICS
    assert cluster.gpus >= 1
    assert hash(cluster) == hash(load_cluster(name))
    assert pickle.loads(pickle.dumps(cluster)) == cluster


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("dgx-a110", CatalogError, "did you mean dgx-a100"),
        ("a100:64", ClusterError, r"64 GPUs or 64 servers: --on a100 --gpus 64, or --on dgx-a100-80gb:64"),
        ("connectx-7", CatalogError, "is a nic; a cluster is h100, dgx-h100:8 or selene"),
        ("some/where", CatalogError, r"must end in \.toml"),
        ("", CatalogError, "cannot read ''"),
        (":3", CatalogError, "cannot read ':3'"),
        ("dgx-a100:1:2", CatalogError, "cannot read"),
        ("dgx-a100:", ClusterError, "expected a number"),
        ("dgx-a100:many", ClusterError, "cannot read 'many'"),
        ("dgx-a100:0", ClusterError, "expected a whole number from 1 to 100000"),
        ("dgx-a100:-4", ClusterError, "expected a whole number from 1 to 100000"),
        ("dgx-a100:1.5", ClusterError, "expected a whole number"),
        ("dgx-a100:1e30", ClusterError, r"1e\+30 will not do"),
        ("dgx-a100:" + "9" * 5000, ClusterError, "cannot read"),
        ("dgx-a100:2su", ClusterError, "is counted in nodes, as dgx-a100:2; for units: superpod-a100:2su"),
        ("superpod-a100:8su", ClusterError, "1 to 7 scalable units of 20 nodes; asked for 8"),
        (
            "superpod-a100:40",
            ClusterError,
            "counted in scalable units: superpod-a100:1su to superpod-a100:7su",
        ),
        ("selene:561", ClusterError, "selene has 1 to 560 nodes"),
        ("selene:2su", ClusterError, "selene has 1 to 560 nodes"),
        ("dgx-station-a100:2", ClusterError, "2 nodes have no network between them"),
    ],
)
def test_wrong_specs(spec, error, message):
    with pytest.raises(error, match=message):
        load_cluster(spec)


# ------------------------------------------------------------------------------------------ changed by keys


def test_overrides():
    cluster = load_cluster(
        "dgx-a100:2",
        {
            "gpu.memory": "64GB",
            "gpu.peaks.bf16": "400 TFLOP/s",
            "network.bandwidth": "100 Gb/s",
            "network.nics": "4",
            "nvlink.latency": "2 us",
            "nodes": "3",
            "fabric": "roce",
            "power": "5 kW",
        },
    )
    assert (cluster.gpu.memory, cluster.gpu.peaks["bf16"], cluster.nodes) == (64e9, 400e12, 3)
    assert (cluster.nics, cluster.node_bandwidth, cluster.fabric) == (4, 50e9, "roce")
    assert (cluster.nvlink.latency, cluster.nvlink.bandwidth, cluster.system.power) == (2e-6, 300e9, 5e3)
    assert (cluster.system.nics, cluster.system.nic.bandwidth) == (4, 12.5e9)
    assert "nodes: the user" in cluster.source
    assert cluster.notes["nics"] == "set by the user"


def test_another_gpu_brings_its_own_links_unless_they_are_set():
    assert load_cluster("dgx-a100", {"gpu": "h100"}).nvlink.bandwidth == 450e9
    assert load_cluster("dgx-a100", {"gpu": "h100", "gpu.memory": "96 GB"}).gpu.memory == 96e9
    assert (
        load_cluster("a100-pcie-pair", {"gpu.memory": "64 GB"}).nvlink.bandwidth == 300e9
    )  # its bridge stays
    assert load_cluster("dgx-a100", {"gpu.nvlinks": "4"}).nvlink.bandwidth == 100e9
    assert load_cluster("dgx-a100", {"gpu": "h100", "nvlink.bandwidth": "1 TB/s"}).nvlink.bandwidth == 1e12
    card = load_cluster("dgx-a100", {"gpu": "l40s"})
    assert (card.nvlink.name, card.system.topology, card.system.nvswitch) == ("PCIe 4.0 x16", "pcie", None)
    assert (
        load_cluster("dgx-a100", {"gpu": "a100-pcie"}).nvlink.bandwidth == 31.5e9
    )  # a bridge joins two cards only
    assert load_cluster("dgx-h100", {"gpu": "t4"}).nvlink.bandwidth == 15.75e9  # the older of card and slot
    assert load_cluster("dgx-1-v100", {"gpus_per_node": "4"}).nvlink.bandwidth == pytest.approx(100e9)


def test_a_network_may_be_taken_away_or_given():
    bare = load_cluster("dgx-a100", {"fabric": "none"})
    assert (bare.nics, bare.node_bandwidth, bare.system.nic) == (0, 0.0, None)
    station = load_cluster(
        "dgx-station-a100", {"nodes": 2, "nics": 1, "network.bandwidth": "10 Gb/s", "fabric": "roce"}
    )
    assert (station.gpus, station.node_bandwidth) == (8, 1.25e9)
    with pytest.raises(ClusterError, match="do not go together; a network needs all three"):
        load_cluster("dgx-station-a100", {"nics": 1})
    with pytest.raises(ClusterError, match="2 nodes have no network"):
        load_cluster("dgx-a100:2", {"fabric": "none"})


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("gpu.memry", "1 GB", CatalogError, "unknown key 'gpu.memry': did you mean gpu.memory"),
        ("gpu", "h1000", CatalogError, "unknown gpu 'h1000': did you mean h100"),
        ("gpu", "", ClusterError, "expected a text"),
        ("gpu.memory", "64", ClusterError, "64 B is out of reach; expected 100 kB to 100 EB"),
        ("gpu.memory", "64 GB/s", ClusterError, "is in B/s"),
        ("gpu.memory", "-64 GB", ClusterError, "out of reach"),
        ("gpu.peaks.bf16", "0", ClusterError, "out of reach"),
        ("gpu.sms", "1e30", ClusterError, "from 1 to 10000"),
        ("nodes", "0", ClusterError, "from 1 to 100000"),
        ("nodes", "1e30", ClusterError, "from 1 to 100000"),
        ("gpus_per_node", "1.5", ClusterError, "from 1 to 1000"),
        ("network.bandwidth", "nan", ClusterError, "cannot read"),
        ("network.bandwidth", float("inf"), ClusterError, "not finite"),
        ("network.latency", "1 h", ClusterError, "out of reach"),
        ("fabric", "token ring", ClusterError, "expected infiniband, roce, efa, slingshot, ethernet, none"),
        ("nics", 10**400, ClusterError, "out of reach"),
        ("nics", None, ClusterError, "NoneType is not a quantity"),
    ],
)
def test_wrong_overrides(key, value, error, message):
    with pytest.raises(error, match=message):
        load_cluster("dgx-a100:2", {key: value})


def test_all_wrong_overrides_are_told_at_once():
    with pytest.raises(CatalogError, match=r"nodes: 0 will not do.*unknown key 'x'.*fabric"):
        load_cluster("dgx-a100:2", {"nodes": "0", "x": "1", "fabric": "1"})
    with pytest.raises(CatalogError, match="300 keys given; there are"):
        load_cluster("dgx-a100:2", {f"key{i}": "1" for i in range(300)})


# ---------------------------------------------------------------------------------------- parts of clusters


def test_parts_of_a_cluster():
    cluster = load_cluster("dgx-a100:4")
    half = cluster.subset(gpus=4)
    assert (half.nodes, half.gpus_per_node, half.nics, half.nvlink) == (1, 4, 4, cluster.nvlink)
    assert cluster.subset(gpus=16).nodes == 2
    assert cluster.subset(gpus=32) is cluster
    assert cluster.subset(gpus=8).subset(gpus=1).gpus == 1
    assert load_cluster("dgx-1-v100").subset(gpus=2).nvlink.bandwidth == pytest.approx(50e9)
    assert load_cluster("dgx-1-v100").subset(gpus=4).nvlink.bandwidth == pytest.approx(100e9)
    assert load_cluster("dgx-station-a100").subset(gpus=2).nvlink.bandwidth == pytest.approx(100e9)


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (33, "33 GPUs asked of dgx-a100-80gb:4, which has 32"),
        (0, "ask for 1 to 32"),
        (-8, "ask for 1 to 32"),
        (12, r"neither a part of a node .* \(1 to 8\) nor whole nodes: 8 or 16 would work"),
    ],
)
def test_parts_that_cannot_be(gpus, message):
    with pytest.raises(ClusterError, match=message):
        load_cluster("dgx-a100:4").subset(gpus=gpus)


@settings(deadline=None)
@given(st.sampled_from(catalog.names("system")), st.data())
def test_a_part_has_the_gpus_asked_for_and_no_faster_links(name, data):
    cluster = load_cluster(name)
    links = cluster.system.torus
    sizes = [prod(shape) for shape in (*links.slices, links.pod)] if links else range(1, cluster.gpus + 1)
    gpus = data.draw(st.sampled_from([size for size in sizes if size <= cluster.gpus]))
    part = cluster.subset(gpus=gpus)
    assert part.gpus == gpus
    assert part.nvlink.bandwidth <= cluster.nvlink.bandwidth
    assert part.node_bandwidth <= cluster.node_bandwidth


# --------------------------------------------------------------------------------------------- user's files


def test_a_users_file(tmp_path):
    path = write(tmp_path, LAB)
    cluster = load_cluster(path)
    assert (cluster.name, cluster.nodes, cluster.gpu.memory) == ("lab", 16, 64e9)
    assert (cluster.nics, cluster.network.bandwidth) == (4, 12.5e9)
    assert "gpu.memory: our lab" in cluster.source
    assert cluster.notes["gpu.memory"] == "set by our lab"
    late = load_cluster(path, {"nodes": "2", "nics": "8"})
    assert (late.nodes, late.nics, late.gpu.memory) == (2, 8, 64e9)
    assert late.notes["nodes"] == "set by the user"


def test_a_users_file_may_inherit_from_part_of_a_cluster(tmp_path):
    text = 'name = "mine"\ninherits = "superpod-a100:2su"\nsource = "us"\n[gpu.peaks]\nbf16 = "300 TFLOP/s"\n'
    cluster = load_cluster(write(tmp_path, text))
    assert (cluster.name, cluster.gpus, cluster.gpu.peaks["bf16"]) == ("mine", 320, 300e12)
    plain = load_cluster(write(tmp_path, 'inherits = "selene"\nsource = "us"\n'))
    assert (plain.gpus, plain.published) == (4480, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "inherits must be a text.*; source must be a text"),
        ('inherits = "dgx-a100"', "source must be a text"),
        ('source = "us"', "inherits must be a text"),
        ("inherits = 3\nsource = true", "inherits must be a text.*; source must be a text"),
        ('inherits = "other.toml"\nsource = "us"', "not another file"),
        ('inherits = "dgx-z"\nsource = "us"', r"lab\.toml: unknown cluster, system or GPU 'dgx-z'"),
        (LAB.replace("nodes", "nodse"), "unknown key 'nodse': did you mean nodes"),
        (LAB.replace('"64 GB"', "[64]"), "list is not a quantity"),
        (LAB.replace('"64 GB"', "2020-01-01"), "date is not a quantity"),
        (LAB.replace('"64 GB"', "{}"), "dict is not a quantity"),
        (LAB.replace("16", "1" + "0" * 900), "out of reach"),
        (LAB[:-40], "is not TOML"),
        ("= = =", "is not TOML"),
        ("a = " + "[\n" * 20_000, "is not TOML"),
        (
            ".".join("a" * 20_000) + " = 1",
            "a line of 40,003 characters; at most 1,000",
        ),
        (LAB + "\n[a.b.c.d.e]\nf = 1", "unknown key 'a.b.c.d'"),
        (b"\xff\xfe\x00\x01", "is not UTF-8 text"),
        (b"\x00" * 64, "is not TOML"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    with pytest.raises((CatalogError, ClusterError), match=message):
        load_cluster(write(tmp_path, text))


def test_files_that_are_none(tmp_path):
    with pytest.raises(CatalogError, match="no such file"):
        load_cluster(str(tmp_path / "missing.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(CatalogError, match="it is a folder"):
        load_cluster(str(tmp_path / "folder.toml"))
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(CatalogError, match="inherits must be"):
        load_cluster(str(tmp_path / "pipe.toml"))
    with pytest.raises(CatalogError, match=r"no such file|cannot be read"):
        load_cluster("a\0b.toml")
    with pytest.raises(CatalogError, match=r"no such file|cannot be read"):
        load_cluster("x" * 5000 + ".toml")
    big = tmp_path / "big.toml"
    with big.open("wb") as out:
        out.truncate(100_000_000)  # sparse: takes no room
    with pytest.raises(CatalogError, match="larger than 64,000 bytes"):
        load_cluster(str(big))


@settings(deadline=None)
@given(st.one_of(st.text(max_size=300), st.integers(0, len(LAB)).map(lambda cut: LAB[:cut])))
def test_any_text_is_a_users_file_or_refused(text):
    try:
        user_file(read_toml(text, name="x.toml", error=CatalogError, longest=LONGEST), "x.toml", "x")
    except PodsimError:
        return


NUMBERS = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.builds(
        "{}{}".format, st.floats(), st.sampled_from(["", " GB", " Gb/s", "TFLOP/s", " us", " W", "MHz"])
    ),
)
KEYS = st.one_of(st.sampled_from([*CLUSTER_KEYS, "gpu", "network.nics"]), st.text(max_size=20))


@settings(deadline=None)
@given(st.dictionaries(KEYS, NUMBERS, max_size=4))
def test_any_overrides_make_a_cluster_or_are_refused(overrides):
    try:
        cluster = load_cluster("dgx-a100:2", overrides)
    except PodsimError:
        return
    assert cluster.gpus >= 1
    assert cluster.nvlink.bandwidth > 0
    assert cluster.nodes == 1 or cluster.node_bandwidth > 0


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_spec_makes_a_cluster_or_is_refused(spec):
    try:
        assert load_cluster(spec).gpus >= 1
    except PodsimError:
        return


def test_loading_is_quick_once_the_catalog_is_read():
    load_cluster("selene")
    start = time.perf_counter()
    for _ in range(20):
        load_cluster("dgx-a100:64", {"gpu.memory": "64 GB"})
    assert (time.perf_counter() - start) / 20 < 0.05
