"""Fabrics worked by hand: hops of pairs, counts of links and switches, rates of concrete flows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from fabric_builders import BUILDERS, folded_clos, single_switch

from podsim import flows
from podsim.errors import ClusterError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import (
    Routing,
    fabric_of,
    node_of,
    torus,
)
from podsim.hardware.fabrics.describe import describe
from podsim.hardware.fabrics.node import Cable, Node, Part, even_cable, working_ways
from podsim.hardware.fabrics.server_routes import links_of_alike_servers
from podsim.hardware.fabrics.tree import Switches, rail_tree
from podsim.hardware.fabrics.tree_routes import tree_hops
from podsim.hardware.fabrics.wiring import ServerWiring
from podsim.hardware.fattree import fat_tree
from podsim.hardware.nvlink import CUBE_MESH
from podsim.network.flow import max_min_rates
from podsim.questions.machine.show import show


def hops(fabric, source, destination):
    """Parts along a route, without the node's name where there is one node only."""
    links = [name.split(">") for name in fabric.route(source, destination)]
    return [links[0][0], *(head for _, head in links)] if links else []


def tree_of(fabric, network=0):
    assert isinstance(fabric.wiring, ServerWiring)
    return fabric.wiring.networks[network].tree


# ------------------------------------------------------------------------------------------------- inside a server


def test_dgx_a100_inside():
    fabric = fabric_of(load_cluster("dgx-a100-80gb"))
    assert hops(fabric, 0, 7) == ["node0/gpu0", "node0/nvswitch", "node0/gpu7"]
    nvlinks = fabric.links_of_kind("nvlink")
    assert len(nvlinks) == 16  # 8 GPUs, up and down
    assert set(fabric.capacity[nvlinks]) == {300e9}
    assert fabric.latency[nvlinks].sum() == pytest.approx(8 * load_cluster("dgx-a100-80gb").nvlink.latency)
    nic = fabric.end("nic", 0)
    assert hops(fabric, 0, nic) == ["node0/gpu0", "node0/pcie0", "node0/nic0"]
    assert hops(fabric, 2, nic) == [
        "node0/gpu2", "node0/pcie1", "node0/cpu0", "node0/pcie0", "node0/nic0",
    ]  # fmt: skip
    assert hops(fabric, 7, nic)[1:5] == ["node0/pcie3", "node0/cpu1", "node0/cpu0", "node0/pcie0"]
    counts = {
        kind: fabric.count(kind) for kind in ("gpu", "nic", "storage", "drive", "cpu", "pcie", "nvswitch")
    }
    assert counts == {"gpu": 8, "nic": 8, "storage": 2, "drive": 8, "cpu": 2, "pcie": 6, "nvswitch": 1}
    drive = fabric.end("drive", 7)
    assert hops(fabric, drive, 7) == ["node0/drive7", "node0/pcie3", "node0/gpu7"]
    _, links = fabric.routes([drive], [7])
    assert fabric.capacity[links[0]] == pytest.approx(load_cluster("dgx-a100-80gb").system.ssd.read_bandwidth)


def test_dgx_1_is_a_hybrid_cube_mesh():
    mesh = np.array(CUBE_MESH)
    assert (mesh == mesh.T).all()
    assert (mesh.sum(axis=1) == 6).all()
    assert (mesh > 0).sum() == 8 * 4  # each GPU has four neighbours, two of them by two links
    assert ((mesh == 2).sum(axis=1) == 2).all()
    fabric = fabric_of(load_cluster("dgx-1"))
    assert hops(fabric, 0, 3) == ["node0/gpu0", "node0/gpu3"]
    _, links = fabric.routes([0, 0], [3, 1])
    assert fabric.capacity[links].tolist() == [50e9, 25e9]
    assert hops(fabric, 0, 7) == [
        "node0/gpu0",
        "node0/gpu4",
        "node0/gpu7",
    ]  # 2 links and 2, not over gpu3: 2 and 1
    assert fabric.capacity[fabric.links_of_kind("nvlink")].sum() == pytest.approx(8 * 150e9)


def test_a_cube_mesh_has_eight_gpus():
    cluster = load_cluster("dgx-1")
    with pytest.raises(ClusterError, match="9 GPUs in a cube mesh, which has 8"):
        node_of(replace(cluster, system=replace(cluster.system, gpus=9)))


def test_two_rails_have_their_leaves_in_units():
    """40 nodes of two adapters, 20 a unit: two units of a leaf for each rail."""
    cluster = load_cluster("superpod-a100:2su", {"network.nics": "2"})
    leaves = describe(fabric_of(cluster)).nets[0].layers[1]
    assert (leaves.groups, leaves.group) == ((2, 2), "unit")


def test_a_part_of_a_dgx_1_has_its_closest_gpus():
    node = node_of(load_cluster("dgx-1").subset(2))
    assert [(c.lanes, c.bandwidth) for c in node.cables if c.kind == "nvlink"] == [(2, 50e9)]
    four = node_of(load_cluster("dgx-1").subset(4))
    assert sum(c.lanes for c in four.cables if c.kind == "nvlink") == 9  # 1 + 1 + 2 + 2 + 1 + 2


def test_dgx_2_has_two_boards_of_six_switches():
    fabric = fabric_of(load_cluster("dgx-2"))
    assert hops(fabric, 0, 7) == ["node0/gpu0", "node0/nvswitch0", "node0/gpu7"]
    assert hops(fabric, 0, 15) == ["node0/gpu0", "node0/nvswitch0", "node0/nvswitch1", "node0/gpu15"]
    trunk = fabric.find("node0/nvswitch0<>node0/nvswitch1")
    assert fabric.capacity[trunk].tolist() == [1.2e12, 1.2e12]  # 8 GPUs x 6 links x 25 GB/s


def test_cards_in_pairs_use_their_bridge_and_pcie_beyond():
    fabric = BUILDERS["a100-pcie-pairs"]()
    assert hops(fabric, 0, 1) == ["node0/gpu0", "node0/gpu1"]
    assert fabric.capacity[fabric.find("node0/gpu0>node0/gpu1")].tolist() == [300e9]
    assert hops(fabric, 1, 2) == ["node0/gpu1", "node0/pcie0", "node0/gpu2"]
    plain = fabric_of(load_cluster("a100-pcie-server"))
    assert hops(plain, 0, 1) == ["node0/gpu0", "node0/pcie0", "node0/gpu1"]
    _, links = plain.routes([0], [1])
    assert plain.latency[links].sum() == pytest.approx(plain.wiring.nodes * 1e-6)


def test_dgx_station_joins_each_pair():
    cables = [cable for cable in node_of(load_cluster("dgx-station-a100")).cables if cable.kind == "nvlink"]
    pairs = [(f"gpu{a}", f"gpu{b}") for a in range(4) for b in range(a + 1, 4)]
    assert [(cable.one, cable.other) for cable in cables] == pairs
    assert {(cable.lanes, cable.bandwidth) for cable in cables} == {(4, 100e9)}
    fabric = fabric_of(load_cluster("dgx-station-a100"))
    _, links = fabric.routes([0, 1, 2], [3, 2, 0])
    assert fabric.capacity[links].tolist() == [100e9] * 3


def test_an_override_of_nvlink_is_in_the_fabric():
    fabric = fabric_of(load_cluster("dgx-a100-80gb", {"nvlink.bandwidth": "200 GB/s"}))
    assert set(fabric.capacity[fabric.links_of_kind("nvlink")]) == {200e9}


def test_ways_avoid_a_processor_where_switches_lead_round_it():
    """Over three switches a way is four cables long; over the processor two, which cost ten more."""
    names = ("gpu0", "gpu1", "cpu0", "pcie0", "pcie1", "pcie2")
    ends = [("gpu0", "cpu0"), ("cpu0", "gpu1"), ("gpu0", "pcie0"), ("pcie0", "pcie1"), ("pcie1", "pcie2"),
            ("pcie2", "gpu1")]  # fmt: skip
    parts = tuple(Part(name=name, kind=name[:-1]) for name in names)
    for count, cost in ((6, 4.0), (2, 12.0)):
        cables = tuple(even_cable(one, other, "pcie", 1e9) for one, other in ends[:count])
        ways = working_ways(Node(name="round", parts=parts, cables=cables))
        assert ways.cost[0, 1] == cost
        assert (ways.links[0, 0, 1] >= 0).sum() == (4 if count == 6 else 2)


def test_a_node_that_does_not_fit_together_says_all():
    with pytest.raises(
        ClusterError, match=r"a cable ends at gpu9, which is not a part; .*positive bandwidth"
    ):
        Node(
            name="odd",
            parts=(Part(name="gpu0", kind="gpu"), Part(name="gpu1", kind="gpu")),
            cables=(Cable(one="gpu0", other="gpu9", kind="nvlink", bandwidth=0.0, back=1.0),),
        )


# ------------------------------------------------------------------------------------------------- between servers


def test_superpod_along_a_rail_stays_under_one_leaf():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    assert hops(fabric, 8 * 3 + 2, 8 * 5 + 2) == [
        "node3/gpu2", "node3/pcie1", "node3/nic2", "leaf2", "node5/nic2", "node5/pcie1", "node5/gpu2",
    ]  # fmt: skip
    _, links = fabric.routes([8 * 3 + 2], [8 * 5 + 2])
    assert fabric.latency[links].sum() == pytest.approx(2.7e-6)  # of the network, all in all


def test_pxn_takes_nvlink_to_the_rail_of_the_destination():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    assert hops(fabric, 0, 8 + 5) == [
        "node0/gpu0", "node0/nvswitch", "node0/gpu5", "node0/pcie2", "node0/nic5", "leaf5",
        "node1/nic5", "node1/pcie2", "node1/gpu5",
    ]  # fmt: skip
    direct = hops(fabric.routed(Routing(pxn=False)), 0, 8 + 5)
    assert direct[:4] == ["node0/gpu0", "node0/pcie0", "node0/nic0", "leaf0"]
    assert direct[4].startswith("spine")
    assert direct[5:] == ["leaf5", "node1/nic5", "node1/pcie2", "node1/gpu5"]


def test_superpod_between_units_adds_a_spine():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    route = hops(fabric, 2, 8 * 25 + 2)  # node 25 is in the second unit
    assert route[3] == "leaf2"
    assert route[5] == "leaf10"
    assert int(route[4].removeprefix("spine")) in range(10)
    _, links = fabric.routes([2], [8 * 25 + 2])
    assert fabric.latency[links].sum() == pytest.approx(2.7e-6 + 2 * 130e-9)  # two more switches


@pytest.mark.parametrize("units", range(1, 8))
def test_superpod_counts_are_those_of_the_arithmetic(units):
    tree = tree_of(fabric_of(load_cluster(f"superpod-a100:{units}su")))
    known = fat_tree(nodes=20 * units, rails=8, unit=20, ports=40)
    assert (tree.leaves, tree.spines * tree.groups, tree.cores) == (known.leaves, known.spines, known.cores)
    assert tree.groups == known.groups
    assert (tree.ports, tree.leaf_cables, tree.core_cables) == (
        known.node_cables, known.leaf_cables, known.spine_cables,
    )  # fmt: skip
    assert tree.taper == 1.0


def test_140_nodes_take_56_leaves_80_spines_28_cores():
    fabric = fabric_of(load_cluster("superpod-a100:7su"))
    tree = tree_of(fabric)
    assert (tree.leaves, tree.spines * tree.groups, tree.cores) == (56, 80, 28)
    assert (tree.groups, tree.spines, tree.multiple) == (8, 10, 2)
    assert tree.switches == 164
    for core in (0, 13, 27):  # a core has its 40 ports full, 5 cables to each group
        down = fabric.find(f"core{core}>spine*")
        groups = [int(fabric.link_ends(link)[1].removeprefix("spine")) // 10 for link in down]
        assert np.bincount(groups).tolist() == [5] * 8
    assert len(fabric.find("leaf0>spine*")) == 20
    assert len(fabric.find("spine0<>leaf*")) == 28  # 14 cables down to the leaves of its rail, each way
    assert {fabric.link_ends(link)[1] for link in fabric.find("spine0>leaf*")} == {
        f"leaf{8 * n}" for n in range(7)
    }


def test_rails_of_one_pod_meet_at_the_cores_only():
    fabric = fabric_of(load_cluster("superpod-a100:7su")).routed(Routing(pxn=False))
    route = hops(fabric, 0, 8 * 139 + 7)
    kinds = [part.rstrip("0123456789") for part in route[3:-3]]
    assert kinds == ["leaf", "spine", "core", "spine", "leaf"]


def test_selene():
    fabric = fabric_of(load_cluster("selene"))
    tree = tree_of(fabric)
    assert fabric.gpus == 4480
    assert (tree.leaves, tree.spines * tree.groups, tree.cores) == (224, 320, 112)
    assert tree.groups == 16  # a spine of 40 ports reaches the leaves of at most 20 of 28 units: two pods
    assert show("selene").row("spine switches").how.startswith("16 groups of 20; ")
    tails = [fabric.link_ends(link)[0] for link in fabric.find("core*>spine*")]
    _, cables = np.unique(tails, return_counts=True)
    assert set(cables) == {40}  # every port of every core


def test_routes_of_selene_are_quick():
    fabric = fabric_of(load_cluster("selene"), routing=Routing())
    source = np.repeat(np.arange(4480), 8)
    destination = np.random.default_rng(0).integers(0, 4480, len(source))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        indptr, _ = fabric.routes(source, destination)
        seconds.append(time.perf_counter() - start)
    assert len(indptr) == len(source) + 1
    assert min(seconds) < 0.1  # 0.015 s on an idle core


@pytest.mark.parametrize(
    ("name", "overrides", "choice"),
    [
        ("selene", {}, "adaptive"),
        ("oci-bm-gpu4-8:4", {}, "ecmp"),
        ("selene", {"fabric.routing": "static"}, "static"),
        ("dgx-h100:4", {"fabric": "roce"}, "ecmp"),
    ],
)
def test_infiniband_routes_adaptively_unless_told_otherwise(name, overrides, choice):
    assert fabric_of(load_cluster(name, overrides)).routing.choice == choice


def test_a_file_chooses_routes(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text('inherits = "superpod-a100:2su"\nsource = "lab"\n[fabric]\nrouting = "ecmp"\nseed = 7\n')
    assert fabric_of(load_cluster(path)).routing == Routing(choice="ecmp", seed=7)


def test_flows_between_two_units_keep_their_rate_unless_hashed():
    rows = {row.routing: row for row in flows(on="superpod-a100:2su", shift=160).rows}
    assert all(rows[choice].worst == 25e9 for choice in ("adaptive", "destination", "static"))
    hashed = rows["ecmp"]
    assert hashed.tries == 100
    assert hashed.least <= hashed.worst <= hashed.most < 25e9
    assert rows["adaptive"].is_usual


def test_taper_halves_the_cables_up_and_the_rates():
    cluster = load_cluster("superpod-a100:2su")
    full, half = fabric_of(cluster), fabric_of(cluster, taper=2.0)
    assert tree_of(half).taper == 2.0
    assert tree_of(half).uplinks == 10
    assert tree_of(half).leaf_cables * 2 == tree_of(full).leaf_cables
    source = np.arange(0, 160, 8)  # rail 0 of the first unit
    destination = source + 160  # of the second
    spread = Routing(choice="adaptive")
    rates = [
        max_min_rates(fabric.routed(spread).routes(source, destination), fabric.capacity)
        for fabric in (full, half)
    ]
    assert rates[0] == pytest.approx(np.full(20, 25e9))
    assert rates[1] == pytest.approx(np.full(20, 12.5e9))


def test_ecmp_collides_and_adaptive_does_not():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    source = np.arange(0, 160, 8)
    loads = {}
    for choice in ("ecmp", "adaptive", "destination"):
        _, links = fabric.routed(Routing(choice=choice)).routes(source, source + 160)
        used = np.bincount(links, minlength=fabric.links)
        loads[choice] = used[fabric.links_of_kind("leaf")].max()
    assert loads["adaptive"] == loads["destination"] == 1
    assert loads["ecmp"] > 1  # 20 flows thrown on 20 cables


def test_eight_gpus_of_two_nodes_get_a_rail_each():
    fabric = fabric_of(load_cluster("dgx-a100-80gb:2"))
    rates = max_min_rates(fabric.routes(np.arange(8), np.arange(8, 16)), fabric.capacity)
    assert rates == pytest.approx(np.full(8, 25e9))


def test_two_gpus_of_a_dgx_1_share_an_adapter():
    fabric = fabric_of(load_cluster("dgx-1:2"))
    rates = max_min_rates(fabric.routes(np.arange(8), np.arange(8, 16)), fabric.capacity)
    assert rates == pytest.approx(np.full(8, 6.25e9))  # 4 adapters of 100 Gb/s, 8 GPUs


def test_sixteen_adapters_for_eight_gpus_go_two_by_two():
    fabric = fabric_of(load_cluster("oci-bm-gpu4-8:2"))
    seen = {hops(fabric.routed(Routing(seed=seed)), 3, 11)[2] for seed in range(20)}
    assert seen == {"node0/nic6", "node0/nic7"}


def test_one_adapter_for_all_cards():
    fabric = fabric_of(load_cluster("a100-pcie-server:2"))
    assert hops(fabric, 7, 8) == [
        "node0/gpu7", "node0/pcie1", "node0/cpu1", "node0/cpu0", "node0/pcie0", "node0/nic0", "leaf0",
        "node1/nic0", "node1/pcie0", "node1/gpu0",
    ]  # fmt: skip


def test_a_fast_network_stays_behind_its_slot():
    fabric = fabric_of(load_cluster("dgx-a100-80gb:2", {"network.bandwidth": "400 Gb/s"}))
    assert max_min_rates(fabric.routes([0], [8]), fabric.capacity).tolist() == [31.5e9]


def test_weka_reference_architecture():
    fabric = BUILDERS["weka-a100"]()
    assert (fabric.gpus, fabric.count("server")) == (32, 16)
    for port in range(16):
        route = hops(fabric, fabric.end("server", port), 9)
        assert route[:2] == [f"weka{port // 2}/port{port % 2}", f"storage-leaf{port % 2}"]  # its own plane
        assert route[2] == f"node1/storage{port % 2}"
    servers = np.arange(16) + fabric.end("server", 0)
    source, destination = np.tile(servers, 32), np.repeat(np.arange(32), 16)
    rates = max_min_rates(fabric.routes(source, destination), fabric.capacity)
    assert rates.sum() == pytest.approx(4 * 2 * 12.5e9)  # two ports of 100 Gb/s of four systems
    assert hops(fabric, 0, 31)[3] == "leaf0"


def test_servers_are_alike_until_a_link_of_one_is_slow():
    fabric = fabric_of(load_cluster("dgx-a100-80gb:3"))
    inside = links_of_alike_servers(fabric)
    assert inside == node_of(load_cluster("dgx-a100-80gb")).links
    assert links_of_alike_servers(fabric.degraded("node2/gpu3>node2/nvswitch*", share=0.5)) == 0
    assert links_of_alike_servers(fabric_of(load_cluster("v4-128"))) == 0


def test_a_placed_job_has_ranks_of_its_own():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    job = fabric.placed([17, 250])
    assert job.gpus == 2
    assert job.route(0, 1) == fabric.route(17, 250)
    assert job.end_name(1) == "node31/gpu2"
    with pytest.raises(ClusterError, match="has no end 99999"):
        fabric.placed([99999])


# ------------------------------------------------------------------------------------ other networks


def test_single_switch():
    fabric = single_switch(5, bandwidth=25e9, latency=3e-6)
    assert fabric.links == 10
    assert hops(fabric, 1, 4) == ["node1/gpu", "leaf0", "node4/gpu"]
    _, links = fabric.routes([1], [4])
    assert fabric.latency[links].sum() == pytest.approx(3e-6)


def test_the_textbook_fat_tree_of_4_port_switches():
    tree = tree_of(folded_clos(16, switch_ports=4, bandwidth=1e9))
    assert (tree.leaves, tree.spines * tree.groups, tree.groups, tree.cores) == (8, 8, 4, 4)
    fabric = folded_clos(16, switch_ports=4, bandwidth=1e9)
    lengths = [len(fabric.route(0, other)) for other in (1, 2, 4, 15)]
    assert lengths == [2, 4, 6, 6]
    everyone = np.arange(16)
    static = fabric.routed(
        Routing(choice="destination")
    )  # without collisions where every end shifts by as much
    rates = max_min_rates(static.routes(everyone, (everyone + 8) % 16), fabric.capacity)
    assert rates == pytest.approx(np.full(16, 1e9))  # full bisection


def test_a_clos_with_a_last_pod_in_part_still_reaches_every_core():
    tree = tree_of(BUILDERS["fat tree of 1000"]())
    assert tree.leaves == 125
    assert tree.cores == 64  # one for each of 8 spines and 8 cables
    assert (tree.group_cables >= tree.cores).all()
    assert np.ceil(tree.core_cables / tree.cores) <= 16


def test_rails_with_too_many_groups_for_a_core_have_cores_of_their_own():
    tree = rail_tree(nodes=16, rails=4, unit=2, switches=Switches(ports=4, trunk=1.0), rate=1.0)
    assert (tree.planes, tree.leaves, tree.spines * tree.groups, tree.cores) == (4, 32, 32, 4)
    assert (
        tree.switches == 4 * 20
    )  # each rail is the fat tree of 4 ports: 16 ends, 8 leaves, 8 spines, 4 cores
    assert tree.core_cables == 4 * 16
    port, routing, rate = np.arange(64), Routing(choice="static"), np.ones(tree.links)
    way, lost = tree_hops(
        tree, port, (port + 36) % 64, port, routing, rate
    )  # nine nodes on: another pod of the rail
    assert not lost.any()
    assert (way >= 0).all()
    spines = next(block for block in tree.blocks(0, str) if block.kinds == ("spine",))
    cores = [spines.ends(link - spines.first)[1] for link in way[:, 2].tolist()]
    assert [int(core.removeprefix("core")) // 4 for core in cores] == (port % 4).tolist()
    assert tree_hops(tree, port, (port + 37) % 64, port, routing, rate)[1].all()  # another rail


def test_what_no_tree_can_do_is_said():
    with pytest.raises(ClusterError, match="too many for switches of 4 ports"):
        folded_clos(1000, switch_ports=4, bandwidth=1e9)
    with pytest.raises(ClusterError, match="do not fit a switch of 40 ports"):
        rail_tree(nodes=40, rails=8, unit=30, switches=Switches(ports=40, trunk=1.0), rate=1.0)
    with pytest.raises(ClusterError, match="at least 2"):
        folded_clos(4, switch_ports=1, bandwidth=1.0)


def test_torus_goes_dimension_by_dimension_the_shorter_way():
    fabric = torus((5, 4), bandwidth=1e9, latency=1e-6)
    assert hops(fabric, 0, 4 * 3 + 1) == ["chip0-0", "chip4-0", "chip3-0", "chip3-1"]
    assert hops(fabric, 0, 3) == ["chip0-0", "chip0-3"]
    assert len(fabric.route(0, 2)) == 2  # halfway: either way
    assert fabric.links == 5 * 4 * 4


def test_a_dimension_of_two_chips_has_one_cable():
    fabric = torus((2,), bandwidth=1e9)
    assert (fabric.capacity > 0).sum() == 2
    assert hops(fabric, 0, 1) == ["chip0", "chip1"]


def test_tpu_pods():
    for name, chips, ports in (("tpu-v4", 4096, 6), ("tpu-v5e", 256, 4), ("tpu-v5p", 8960, 6)):
        fabric = fabric_of(load_cluster(name))
        assert (fabric.gpus, fabric.links) == (chips, chips * ports)
    with pytest.raises(ClusterError, match="one to three dimensions"):
        torus((2, 2, 2, 2), bandwidth=1.0)


def test_bad_questions_are_answered():
    fabric = single_switch(4, bandwidth=1e9)
    with pytest.raises(ClusterError, match="has no end 4; it has 0 to 3"):
        fabric.routes([0], [4])
    with pytest.raises(ClusterError, match="give equally many of both"):
        fabric.routes([0, 1], [2])
    with pytest.raises(ClusterError, match="has no nic 0; it has gpu 0 to 3"):
        fabric.end("nic")
    with pytest.raises(ClusterError, match="known: adaptive, ecmp, destination, static"):
        Routing(choice="fastest")
    with pytest.raises(ClusterError, match="has no link 8"):
        fabric.link_name(8)
    odd = load_cluster("dgx-a100-80gb")
    with pytest.raises(ClusterError, match="unknown topology 'ring'"):
        fabric_of(replace(odd, system=replace(odd.system, topology="ring")))


def test_a_way_past_a_processor_is_dearer_than_three_switches_and_a_socket_dearest():
    """gpu0 to nic0: over three switches, or over cpu0 alone; to nic1 only over both processors."""
    parts = ("gpu0", "nic0", "nic1", "cpu0", "cpu1", "pcie0", "pcie1", "pcie2")
    ends = "gpu0 cpu0, nic0 cpu0, nic1 cpu1, gpu0 pcie0, pcie0 pcie1, pcie1 pcie2, pcie2 nic0"
    cables = [
        Cable(one=a, other=b, kind="pcie", bandwidth=1.0, back=1.0)
        for a, b in map(str.split, ends.split(", "))
    ]
    cables.append(Cable(one="cpu0", other="cpu1", kind="socket", bandwidth=1.0, back=1.0))
    node = Node(
        name="odd", parts=tuple(Part(name=part, kind=part[:-1]) for part in parts), cables=tuple(cables)
    )
    ways, at = working_ways(node), node.place
    assert ways.links[0, at["gpu0"], at["nic0"]].tolist() == [6, 8, 10, 12]
    assert ways.cost[at["gpu0"], [at["nic0"], at["nic1"], at["cpu1"]]].tolist() == [
        4,
        1 + 10 + 100 + 10 + 1,
        111,
    ]
    assert ways.cost[at["cpu0"], at["nic1"]] == 100 + 10 + 1  # it passes itself for nothing
