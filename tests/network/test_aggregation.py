"""Reduction in the switches between nodes: its table is an all-reduce, and every byte leaves a node once."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.network.aggregation import aggregation_links, aggregation_table, aggregation_tree
from podsim.network.collectives import prove
from podsim.network.play import play, prepare

_SIZE = 2**30


def test_the_table_reduces_everywhere() -> None:
    cluster = load_cluster("dgx-a100-80gb:3", {"nics": 2})
    tree = aggregation_tree(cluster)
    assert tree.heads.tolist() == [0, 4]
    prove(aggregation_table(tree))


def test_trees_end_in_one_root() -> None:
    tree = aggregation_tree(load_cluster("selene"))
    assert tree.levels == (28, 2, 1)
    assert tree.nodes <= tree.levels[0] * tree.fans[0]
    _, parents = tree.above(0)
    assert np.bincount(parents).max() == 20


@pytest.mark.parametrize("nodes", [2, 40])
def test_every_byte_leaves_a_node_once(nodes: int) -> None:
    cluster = load_cluster(f"dgx-a100-80gb:{nodes}")
    tree = aggregation_tree(cluster)
    links = aggregation_links(cluster, tree, inside=1e12, outside=25e9)
    played = play(prepare(aggregation_table(tree), links, fold=True), _SIZE)
    heads = nodes * len(tree.heads)
    outward = played.link_bytes[2 * cluster.gpus :][:heads]
    assert outward.sum() == pytest.approx(nodes * _SIZE)
    assert played.seconds >= _SIZE / (8 * 25e9)


def test_no_tree_around_broken_links() -> None:
    cluster = load_cluster("dgx-a100-80gb:2").without("node0/nic2")
    tree = aggregation_tree(cluster)
    with pytest.raises(PodsimError, match="broken"):
        aggregation_links(cluster, tree, 1e12, 25e9)
