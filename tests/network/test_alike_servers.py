"""One rail between two exchanges against the simulation of every flow, and by hand."""

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.alike_servers import hierarchical_player
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.play import play
from podsim.network.sweep_rows import sweep_setting, table_rows


@pytest.mark.parametrize("name", ["dgx-h100:2", "dgx-h100:70", "selene:45", "p5:40", "dgx-b200:10"])
@pytest.mark.parametrize("size", [1e3, 2.0**30])
def test_one_rail_tells_of_all(name, size):
    cluster = load_cluster(name)
    nodes, local, fabric = cluster.nodes, cluster.gpus_per_node, fabric_of(cluster)
    player = hierarchical_player(fabric, nodes, local)
    every = play(hierarchical_all_reduce(nodes, local), size, fabric)
    assert player(size) == pytest.approx(every.seconds, rel=1e-12)


def test_four_servers_of_eight_by_hand():
    player = hierarchical_player(fabric_of(load_cluster("dgx-a100-80gb:4")), 4, 8)
    inside = 7 / 8 * 1e9 / 300e9 + 0.6e-6  # seven flows of an eighth share a GPU's NVLinks
    assert player(1e9) == pytest.approx(2 * inside + 6 * (1e9 / 32 / 25e9 + 2.7e-6), rel=1e-12)


@pytest.mark.parametrize("part", ["node1/gpu3>node1/nvswitch", "node2/gpu0>node2/pcie0", "node1/nic2>leaf2"])
def test_a_slow_link_makes_gpus_differ(part):
    cluster = load_cluster("dgx-a100-80gb:4")
    slow = fabric_of(cluster).degraded(part, share=0.5)
    assert hierarchical_player(slow, 4, 8) is None


@pytest.mark.parametrize("name", ["dgx-1-v100:5", "dgx-2:5", "dgx-a100-80gb"])
def test_gpus_that_are_not_joined_alike_are_simulated_flow_by_flow(name):
    cluster = load_cluster(name)
    assert hierarchical_player(fabric_of(cluster), cluster.nodes, cluster.gpus_per_node) is None


def test_a_hundred_thousand_gpus_answer_as_their_rings_do():
    setting = sweep_setting("dgx-h100:12500", None, None, None)
    (row,), how = table_rows(setting, "all-reduce", (1 << 30,), "hierarchical", simulate=True)
    ring = 2 * 12_499 * ((1 << 30) / 100_000 / 50e9 + 2.7e-6)  # the adapters' rate, two hops on a leaf
    assert ring < row.seconds < 1.2 * ring
    assert row.algorithm == "hierarchical"
    assert "simulated on the links" in how
    assert np.isfinite(row.bus_bandwidth)
