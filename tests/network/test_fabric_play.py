"""Collectives played on the fabrics of clusters: worked by hand, against the closed form, and where that cannot know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from table_laws import cost

from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import Routing, fabric_of
from podsim.network.bus import bus_factor
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.collectives import make_table, prove
from podsim.network.collectives.bricks import ring_rows
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.collectives.rings import multi_ring_all_reduce, rail_orders, ring_all_reduce
from podsim.network.nccl import choice
from podsim.network.nccl_table import nccl_fabric, nccl_table, switch_tree_rates
from podsim.network.play import play
from podsim.network.switch_trees import switch_tree_table, switch_trees
from podsim.network.table_cost import link_cost

SIZE = 2.0**30
NVLINK, NIC = 300e9, 25e9
NEAR, FAR = 0.6e-6, 2.7e-6
"""s from GPU to GPU: inside a server, and to another on the same leaf switch"""


def no_latency(fabric):
    return replace(fabric, latency=np.zeros_like(fabric.latency))


def test_ring_in_a_server():
    played = play(ring_all_reduce(8), SIZE, fabric_of(load_cluster("dgx-a100-80gb")))
    assert played.seconds == pytest.approx(14 * (SIZE / 8 / NVLINK + NEAR))


def test_hierarchical_on_four_servers():
    played = play(hierarchical_all_reduce(4, 8), SIZE, fabric_of(load_cluster("dgx-a100-80gb:4")))
    inside = 7 / 8 * SIZE / NVLINK + NEAR  # seven flows of SIZE / 8 share a GPU's NVLinks
    across = 6 * (SIZE / 32 / NIC + FAR)
    assert played.seconds == pytest.approx(2 * inside + across)


def test_eight_rings_fill_eight_adapters():
    fabric = no_latency(fabric_of(load_cluster("dgx-a100-80gb:4")))
    played = play(multi_ring_all_reduce(rail_orders(4, 8)), SIZE, fabric)
    assert played.seconds == pytest.approx(2 * 31 / 32 * SIZE / (8 * NIC))


def test_hierarchical_on_selene_folded_and_in_full():
    fabric, table = fabric_of(load_cluster("selene")), hierarchical_all_reduce(560, 8)
    full, folded = play(table, SIZE, fabric), play(table, SIZE, fabric, fold=True)
    assert full.simulated == full.events == folded.events == 5_071_360
    assert folded.simulated < full.simulated
    assert folded.seconds == pytest.approx(full.seconds, rel=1e-9)
    inside = 7 / 8 * SIZE / NVLINK
    across = 2 * 559 / 560 * SIZE / 8 / NIC
    assert full.seconds == pytest.approx(2 * inside + across + 1118 * FAR, rel=0.01)


def sends(source, destination):
    columns = {"step": 0, "source": source, "destination": destination, "chunk": np.arange(len(source))}
    ranks = int(max(np.max(source), np.max(destination))) + 1
    return make_table("sends", "broadcast", columns, ranks=ranks, chunks=len(source))


@pytest.mark.parametrize(("taper", "rate"), [(1.0, 25e9), (2.0, 12.5e9)])
def test_a_tapered_tree_halves_what_leaves_a_leaf(taper, rate):
    # GPU 0 of the 20 servers of one unit to that of the other unit: 20 flows up from one leaf, over 20 or 10 cables
    fabric = fabric_of(load_cluster("superpod-a100:2su"), taper=taper, routing=Routing(choice="adaptive"))
    one = np.arange(20) * 8
    played = play(sends(one, one + 160), 20 * SIZE, no_latency(fabric))
    assert played.seconds == pytest.approx(SIZE / rate)


def test_collisions_of_ecmp_are_those_of_the_fullest_cable():
    fabric = no_latency(fabric_of(load_cluster("superpod-a100:2su"), routing=Routing(choice="ecmp")))
    one = np.arange(20) * 8
    _, links = fabric.routes(one, one + 160)
    fullest = np.bincount(links).max()
    assert fullest > 1
    assert play(sends(one, one + 160), 20 * SIZE, fabric).seconds == pytest.approx(fullest * SIZE / NIC)


def test_a_slow_adapter_slows_its_rail_and_through_it_all():
    table = hierarchical_all_reduce(4, 8)
    fabric = no_latency(fabric_of(load_cluster("dgx-a100-80gb:4")))
    slow = fabric.degraded("node1/nic3>leaf3", share=0.5)
    inside = 7 / 8 * SIZE / NVLINK
    across = 6 * SIZE / 32
    assert play(table, SIZE, fabric).seconds == pytest.approx(2 * inside + across / NIC)
    # rail 3 is last; its GPUs then send their share to seven others over their own NVLinks, as long as all at once
    played = play(table, SIZE, slow).seconds
    assert 2 * inside + across / (NIC / 2) == pytest.approx(played, rel=1e-9)


def test_two_groups_on_one_adapter_share_it():
    # aws-p4d has one adapter for two GPUs: the groups of local GPU 0 and of local GPU 1 meet on it
    fabric = no_latency(fabric_of(load_cluster("aws-p4d:2")))
    nic = load_cluster("aws-p4d").network.bandwidth
    rows = {
        key: np.concatenate([a, b])
        for (key, a), b in zip(
            ring_rows([[0, 1], [2, 3]], start=0, reduce=True).items(),
            ring_rows([[0, 1], [2, 3]], start=1, reduce=False).values(),
            strict=True,
        )
    }
    both = make_table("two groups", "all-reduce", rows, ranks=4, chunks=4)
    together = play(both, 2 * SIZE, fabric.placed([0, 8, 1, 9])).seconds  # SIZE for each group
    alone = play(ring_all_reduce(2), SIZE, fabric.placed([0, 8])).seconds
    assert alone == pytest.approx(SIZE / nic)
    assert together == pytest.approx(2 * SIZE / nic)


@pytest.mark.parametrize(
    ("on", "collective", "algorithm"),
    [
        ("dgx-a100-80gb", "all_reduce", "ring"),
        ("dgx-a100-80gb", "all_gather", "ring"),
        ("dgx-a100-80gb:4", "all_reduce", "ring"),
        ("dgx-a100-80gb:4", "reduce_scatter", "ring"),
        ("dgx-a100-80gb:4", "all_to_all", "pairs"),
        ("dgx-a100-80gb", "send_recv", "pairs"),
        ("dgx-a100-80gb:4", "send_recv", "pairs"),
        ("aws-p4d:2", "send_recv", "pairs"),
        ("dgx-a100-80gb:8", "all_reduce", "tree"),
        ("dgx-2", "all_reduce", "ring"),
        ("dgx-h100", "all_reduce", "nvls"),
        ("dgx-h100:4", "all_gather", "ring"),
        ("aws-p4d:4", "all_reduce", "ring"),
        ("dgx-a100-80gb", "broadcast", "ring"),
    ],
)
@pytest.mark.parametrize("size", [2.0**30, 2.0**32])
def test_the_table_that_nccl_runs_takes_what_the_closed_form_says(on, collective, algorithm, size):
    """The bandwidth term: bytes over the ceiling. Both know the efficiency of the wires, only one counts the bytes."""
    cluster = load_cluster(on)
    group = {"ranks": cluster.gpus, "ranks_per_node": cluster.gpus_per_node}
    held = CollectiveSettings(algorithm="ring") if on == "dgx-h100:4" else None  # else NCCL takes NVLSTree
    picked = choice(collective, size, cluster, **group, sharing=1, settings=held)
    if algorithm != "tree":
        assert picked.algorithm == algorithm
    protocol = "LL128" if algorithm == "tree" else picked.protocol
    ceiling = picked.ceiling if algorithm != "tree" else trees_ceiling(cluster)
    name = collective.replace("_", "-")
    table = nccl_table(name, algorithm, nodes=cluster.nodes, local=cluster.gpus_per_node)
    fabric = no_latency(nccl_fabric(fabric_of(cluster), cluster, collective, algorithm, protocol, **group))
    if table.switches:
        fabric = fabric.placed([*range(table.ranks), fabric.end("nvswitch")])
    term = size * float(bus_factor(collective, cluster.gpus)) / ceiling
    assert play(table, size, fabric, fold=True).seconds == pytest.approx(term, rel=0.05)


@pytest.mark.parametrize("nodes", [2, 4, 9])
def test_trees_of_nvswitches_take_what_the_closed_form_says(nodes):
    cluster, size = load_cluster(f"dgx-h100:{nodes}"), 2.0**34
    group = {"ranks": cluster.gpus, "ranks_per_node": 8}
    picked = choice("all_reduce", size, cluster, **group, sharing=1)
    assert picked.algorithm == "nvlstree"
    table, links = switch_trees(cluster, *switch_tree_rates(cluster, **group))
    term = size * float(bus_factor("all_reduce", cluster.gpus)) / picked.ceiling
    assert play(table, size, links, fold=True).seconds == pytest.approx(term, rel=0.12)


def test_trees_of_nvswitches_reduce_everywhere():
    for nodes in (2, 3, 5):
        prove(switch_tree_table(nodes, 3))


TREES = CollectiveSettings(algorithm="tree", protocol="ll128")


@pytest.mark.parametrize("on", ["dgx-a100-80gb:2", "dgx-2:2"])
def test_trees_on_two_servers_which_fill_the_nvlinks_take_what_the_closed_form_says(on):
    # NCCL counts 2 bytes over each GPU's links for each of the buffer, where a chain of 8 carries 2 x 7 / 8
    cluster, size = load_cluster(on), 2.0**30
    group = {"ranks": cluster.gpus, "ranks_per_node": cluster.gpus_per_node}
    picked = choice("all_reduce", size, cluster, **group, sharing=1, settings=TREES)
    assert picked.algorithm == "tree"
    table = nccl_table("all-reduce", "tree", nodes=2, local=cluster.gpus_per_node)
    links = nccl_fabric(fabric_of(cluster), cluster, "all_reduce", "tree", picked.protocol, **group)
    term = size * float(bus_factor("all_reduce", cluster.gpus)) / picked.ceiling
    assert play(table, size, no_latency(links), fold=True).seconds == pytest.approx(term, rel=0.05)


def trees_ceiling(cluster):
    """Bus bandwidth of trees whose channels are full, LL128, whether NCCL picks them or not."""
    picked = choice(
        "all_reduce", 2.0**32, load_cluster("selene"), ranks=4480, ranks_per_node=8, sharing=1, settings=TREES
    )
    assert (picked.algorithm, picked.protocol) == ("tree", "LL128")
    return (
        picked.ceiling / float(bus_factor("all_reduce", 4480)) * float(bus_factor("all_reduce", cluster.gpus))
    )


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all-reduce", "ring"), ("all-gather", "ring"), ("reduce-scatter", "ring"), ("broadcast", "ring"),
        ("reduce", "ring"), ("all-to-all", "pairs"), ("send-recv", "pairs"), ("all-reduce", "tree"),
    ],
)  # fmt: skip
def test_the_tables_of_nccl_do_what_they_promise(collective, algorithm, nodes):
    prove(nccl_table(collective, algorithm, nodes=nodes, local=2))


def test_what_has_no_table_of_nccl_says_so():
    with pytest.raises(PodsimError, match="nvls"):
        nccl_table("all-reduce", "nvls", nodes=2, local=8)
    with pytest.raises(PodsimError, match="3,"):
        nccl_table("all-reduce", "tree", nodes=560, local=8)
    cluster = load_cluster("dgx-1-v100-32gb")
    with pytest.raises(PodsimError, match="NVSwitch"):
        nccl_fabric(fabric_of(cluster), cluster, "all_reduce", "ring", "Simple", ranks=8, ranks_per_node=8)


def test_cost_on_links_is_that_of_equal_ports_on_equal_ports():
    fabric = fabric_of(load_cluster("dgx-a100-80gb"))
    for table in (ring_all_reduce(8), hierarchical_all_reduce(1, 8)):
        found = link_cost(table, fabric)
        assert found.latency + SIZE * found.per_byte == pytest.approx(cost(table, SIZE, NVLINK, NEAR))
    assert link_cost(ring_all_reduce(1), fabric) == (0.0, 0.0)


@pytest.mark.parametrize("table", [hierarchical_all_reduce(4, 8), multi_ring_all_reduce(rail_orders(4, 8))])
def test_the_simulation_is_never_slower_than_lockstep(table):
    fabric = fabric_of(load_cluster("dgx-a100-80gb:4")).degraded("node1/nic3>leaf3", share=0.3)
    found = link_cost(table, fabric)
    assert (
        play(replace(table, lockstep=True), SIZE, fabric).seconds
        <= (found.latency + SIZE * found.per_byte) * 1.0001
    )
