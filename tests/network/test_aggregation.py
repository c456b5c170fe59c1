"""Reduction in the switches between nodes: its table is an all-reduce, and every byte leaves a node once."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.aggregation import AggregationTree, aggregation_links, aggregation_table, aggregation_tree
from podsim.network.collectives import prove
from podsim.network.play import play, prepare

_SIZE = 2**30


def tree_of(cluster: Cluster) -> AggregationTree:
    return aggregation_tree(fabric_of(cluster), cluster)


def used_links(tree: AggregationTree) -> set[str]:
    """The names of the cables of all its trees, upwards."""
    links = [link for levels in tree.trees for level in levels for link in level.up.tolist()]
    return {tree.fabric.link_name(link) for link in links}


@pytest.mark.parametrize(("nodes", "nics", "levels"), [(3, 2, (1,)), (21, 1, (2, 1))])
def test_the_table_reduces_everywhere(nodes: int, nics: int, levels: tuple[int, ...]) -> None:
    tree = tree_of(load_cluster(f"dgx-a100-80gb:{nodes}", {"nics": nics}))
    assert tree.heads.tolist() == [0, 4][:nics]
    assert tree.levels == levels
    prove(aggregation_table(tree))


def test_trees_follow_the_switches_of_the_fabric() -> None:
    tree = tree_of(load_cluster("selene"))
    assert tree.levels == (28, 2, 1)  # leaves of a rail, a spine of each of its groups, a core
    assert np.bincount(tree.trees[0][0].parents).max() == 20
    names = used_links(tree)
    assert "node559/nic7>leaf223" in names
    assert len({name.split(">")[1] for name in names if ">core" in name}) == 8  # rails end in different cores
    assert tree_of(load_cluster("superpod-a100:2su")).levels == (2, 1)


@pytest.mark.parametrize("name", ["dgx-a100-80gb:2", "dgx-a100-80gb:40"])
def test_every_byte_leaves_a_node_once(name: str) -> None:
    cluster = load_cluster(name)
    tree = tree_of(cluster)
    links = aggregation_links(tree, inside=1.0, outside=1.0)
    played = play(prepare(aggregation_table(tree), links, fold=True), _SIZE)
    outward = [link for levels in tree.trees for link in levels[0].up.tolist()]
    assert played.link_bytes[outward].sum() == pytest.approx(cluster.nodes * _SIZE)
    assert played.seconds >= _SIZE / (8 * 25e9)


def test_trees_avoid_broken_and_slow_cables() -> None:
    cluster = load_cluster("superpod-a100:2su")
    before = used_links(tree_of(cluster))
    spine = next(name for name in before if name.startswith("leaf0>"))
    assert spine not in used_links(tree_of(cluster.without(spine)))
    assert spine not in used_links(tree_of(cluster.degraded(spine, share=0.5)))
    with pytest.raises(PodsimError, match="nic2>leaf2 is broken"):
        tree_of(cluster.without("node0/nic2"))
