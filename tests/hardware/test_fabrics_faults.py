"""Broken and slow links: where traffic goes instead, and what is said of an island."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fabric_builders import folded_clos

from podsim.errors import ClusterError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import Routing, fabric_of, torus
from podsim.hardware.fabrics.fabric_links import islands
from podsim.network.flow import max_min_rates


@pytest.fixture(scope="module")
def pod():
    return fabric_of(load_cluster("superpod-a100:2su"))


def parts(fabric, source, destination):
    return [name.split(">")[1] for name in fabric.route(source, destination)]


def test_a_pattern_names_links_or_parts(pod):
    assert len(pod.find("node3/nic2")) == 4  # slot and cable, each way
    assert [pod.link_name(link) for link in pod.find("node3/nic2>leaf2")] == ["node3/nic2>leaf2"]
    assert len(pod.find("node3/nic2<>leaf2")) == 2
    assert len(pod.find("leaf5")) == 2 * (20 + 20)
    assert len(pod.find("leaf5>spine*", "leaf5>spine1")) == 20
    assert len(pod.find("node[01]/gpu*>node*/nvswitch")) == 16


def test_an_unknown_part_is_refused_with_names_that_are_close(pod):
    with pytest.raises(ClusterError, match=r"no link or part 'node3/nick2'; there are .*node3/nic2"):
        pod.without("node3/nick2")
    with pytest.raises(ClusterError, match="share 2 of a link's capacity; it must be 0"):
        pod.degraded("leaf5", share=2.0)


def test_a_gpu_without_nvlink_falls_back_to_pcie():
    fabric = fabric_of(load_cluster("dgx-a100-80gb")).without("node0/gpu0>node0/nvswitch")
    assert parts(fabric, 0, 1) == ["node0/pcie0", "node0/gpu1"]
    assert parts(fabric, 1, 0) == ["node0/nvswitch", "node0/gpu0"]  # the other direction works


def test_a_dgx_1_goes_around_a_broken_link():
    fabric = fabric_of(load_cluster("dgx-1"))
    assert parts(fabric.without("node0/gpu0>node0/gpu3"), 0, 3) in (
        ["node0/gpu2", "node0/gpu3"],
        ["node0/gpu1", "node0/gpu3"],
    )


def test_a_missing_adapter_is_stood_in_for_by_the_nearest(pod):
    broken = pod.without("node0/nic0")
    assert "node0/nic1" in parts(broken.routed(Routing(pxn=False)), 0, 8)
    two = pod.without("node0/nic0", "node0/nic1").routed(Routing(pxn=False))
    assert parts(two, 0, 8)[:4] == ["node0/pcie0", "node0/cpu0", "node0/pcie1", "node0/nic2"]
    assert parts(two, 1, 9)[3] == "node0/nic3"  # and the other GPU gets the other one


def test_an_adapter_down_at_the_far_end_brings_traffic_in_by_its_neighbour(pod):
    route = parts(pod.without("node1/nic3"), 3, 8 + 3)
    assert "node1/nic2" in route
    assert route[-1] == "node1/gpu3"
    assert "leaf2" in route  # and it stays on one rail: over NVLink to GPU 2 first
    assert route[:2] == ["node0/nvswitch", "node0/gpu2"]


def test_a_cable_broken_one_way_takes_the_adapter_down(pod):
    broken = pod.without("leaf0>node1/nic0")
    assert "node1/nic1" in parts(broken, 0, 8)
    assert "node1/nic1" in parts(broken, 8, 0)


def test_a_dead_leaf_moves_a_rail(pod):
    broken = pod.without("leaf0")
    route = parts(broken, 0, 8)
    assert "leaf0" not in route
    assert "leaf1" in route  # GPU 0 has the second adapter of its switch left


def test_a_dead_spine_spreads_over_the_others(pod):
    broken = pod.without("spine3", "spine4")
    source = np.tile(np.arange(0, 160, 8), 50)
    used = {
        name
        for seed in range(3)
        for link in np.unique(broken.routed(Routing(seed=seed)).routes(source, source + 160)[1])
        for name in broken.link_ends(link)
        if name.startswith("spine")
    }
    assert used == {f"spine{n}" for n in (0, 1, 2, 5, 6, 7, 8, 9)}


@pytest.mark.parametrize("choice", ["ecmp", "adaptive", "destination"])
def test_the_last_cable_is_found(choice):
    """All but one of the cables up from a leaf are gone, and all but one way over the cores."""
    fabric = folded_clos(1000, switch_ports=16, bandwidth=1e9)
    ups = [f"leaf0>spine{n}" for n in range(8) if n != 5]
    cores = {fabric.link_name(link) for link in fabric.find("spine5>core*")} - {"spine5>core43"}
    broken = fabric.without(*ups, *sorted(cores)).routed(Routing(choice=choice))
    for other in (900, 999, 100):
        route = parts(broken, 0, other)
        assert route[1] == "spine5"
        assert route[2] == "core43"
    far = [fabric.link_name(link) for link in range(len(fabric.capacity) - 8, len(fabric.capacity))]
    for source in range(1, 7):  # cables that are broken elsewhere take no end down
        assert parts(broken.without(*far), source, 100)[1:3] == ["spine5", "core43"]


def test_an_island_is_named(pod):
    cut = pod.without("node3/nic*")
    assert parts(cut, 24, 25) == ["node3/nvswitch", "node3/gpu1"]
    with pytest.raises(
        ClusterError, match=r"no route from node0/gpu0 to node3/gpu1; node3/gpu0, node3/gpu1, .*island"
    ):
        cut.routes([0, 0], [8, 25])
    assert ("node3/nic5",) in islands(cut)
    assert len(islands(pod)) == 1
    assert any(group[:2] == ("node3/gpu0", "node3/gpu1") for group in islands(cut))


def test_an_island_of_half_the_machine():
    fabric = fabric_of(load_cluster("superpod-a100:2su"), taper=2.0)
    cut = fabric.without(*(f"leaf{n}<>spine*" for n in range(8, 16)))
    assert parts(cut, 160, 168)
    with pytest.raises(ClusterError, match="more are an island that no route reaches"):
        cut.routes([0], [160])


def test_links_one_way_only_are_no_island_but_no_route(pod):
    cut = pod.without("node3/nic*>leaf*")
    with pytest.raises(ClusterError, match="links join them, but broken links block every"):
        cut.routes([24], [0])


def test_a_torus_cut_in_two():
    ring = torus((6,), bandwidth=1e9)
    assert len(ring.without("chip0>chip1").route(0, 1)) == 5  # the long way round
    cut = ring.without("chip0<>chip1", "chip3<>chip4")
    with pytest.raises(ClusterError, match="chip1, chip2, chip3 are an island"):
        cut.routes([0], [2])


def test_a_torus_goes_by_another_row_where_a_ring_is_cut():
    plane = torus((4, 4), bandwidth=1e9).without("chip0-0>chip0-1", "chip0-0>chip0-3")
    assert [name.split(">")[1] for name in plane.route(0, 1)] in (
        ["chip1-0", "chip1-1", "chip0-1"], ["chip3-0", "chip3-1", "chip0-1"],
    )  # fmt: skip
    assert len(plane.route(1, 0)) == 1  # the way back is sound


def test_a_torus_goes_by_another_row_where_a_whole_ring_is_cut():
    """Both links out of chip 0-0 along its ring of three are broken: one step aside, one along, one back."""
    cut = torus((3, 3), bandwidth=1e9).without("chip0-0>chip0-1", "chip0-0>chip0-2")
    names = [cut.link_name(link).split(">") for link in cut.routes([0], [1])[1]]
    assert [len(names), names[0][0], names[-1][1]] == [3, "chip0-0", "chip0-1"]
    assert all(one[1] == other[0] for one, other in pairwise(names))
    assert (cut.capacity[cut.routes([0], [1])[1]] > 0).all()


def test_a_slow_link_is_the_bottleneck(pod):
    slow = pod.degraded("node0/nic0>leaf0", share=0.5)
    rates = max_min_rates(slow.routes(np.arange(8), np.arange(8, 16)), slow.capacity)
    assert rates == pytest.approx([12.5e9] + [25e9] * 7)
    assert (slow.latency == pod.latency).all()
    assert pod.capacity[pod.find("node0/nic0>leaf0")] == 25e9  # the fabric it came from is as it was


def test_adaptive_routing_avoids_slow_cables():
    fabric = folded_clos(40, switch_ports=20, bandwidth=1e9)
    slow = fabric.degraded("leaf0>spine0", share=0.1).routed(Routing(choice="adaptive"))
    _, links = slow.routes(np.arange(5), np.arange(20, 25))
    assert slow.capacity[links].min() == 1e9


def test_faults_are_part_of_a_cluster():
    cluster = (
        load_cluster("superpod-a100:2su").without("node3/nic2", "leaf5").degraded("leaf0>spine*", share=0.5)
    )
    fabric = fabric_of(cluster)
    assert (fabric.capacity[fabric.find("node3/nic2", "leaf5")] == 0).all()
    assert set(fabric.capacity[fabric.find("leaf0>spine*")]) == {12.5e9}
    assert cluster.gpus == 320
    assert load_cluster("superpod-a100:2su") != cluster
    assert hash(cluster)


def test_a_part_of_a_cluster_keeps_the_faults_of_its_nodes():
    cluster = load_cluster("dgx-a100-80gb:4").without("node0/nic2", "node3/nic2")
    for nodes, broken in (
        (1, 2),
        (2, 4),
        (3, 4),
        (4, 8),
    ):  # two cables each, both ways; of one node alone, one
        assert (fabric_of(cluster.subset(8 * nodes)).capacity == 0).sum() == broken
    fabric = fabric_of(cluster.subset(16))
    assert (fabric.capacity == 0).sum() == 4
    three = fabric_of(cluster.without("node2/nic2").subset(24))  # nodes 0 to 2: node3 is not of it
    assert (three.capacity == 0).sum() == 8
    two = fabric_of(cluster.without("node2/nic2").subset(16))
    assert (two.capacity == 0).sum() == 4


def test_faults_that_cannot_be_are_refused_at_once():
    cluster = load_cluster("dgx-a100-80gb:4")
    with pytest.raises(ClusterError, match=r"node7/nic2: .* has nodes 0 to 3"):
        cluster.without("node7/nic2")
    with pytest.raises(ClusterError, match="it must be 0 to 1"):
        cluster.degraded("node0/nic0", share=-1.0)
    with pytest.raises(ClusterError, match="no link or part 'node0/nic9'"):
        fabric_of(cluster.without("node0/nic9"))
