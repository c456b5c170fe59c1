"""Switches and cables against published counts, and what holds of every fat tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import ClusterError
from podsim.hardware.fattree import fat_tree

# Units, leaves, spines, cores, cables below the spines. Reference architecture of the B200 SuperPOD, 32 nodes
# a unit, switches of 64 ports: docs.nvidia.com/dgx-superpod, architecture page.
PUBLISHED_64 = [
    (2, 16, 8, 0, 512),
    (4, 32, 16, 0, 1024),
    (8, 64, 32, 0, 2048),
    (16, 128, 128, 64, 4096),
    (32, 256, 256, 128, 8192),
    (64, 512, 512, 256, 16384),
]
# 20 nodes a unit, switches of 40 ports; only the last is printed (unconfirmed), the others follow by hand.
BY_HAND_40 = [
    (1, 8, 4, 0, 160),
    (2, 16, 10, 0, 320),
    (3, 24, 20, 0, 480),
    (4, 32, 20, 0, 640),
    (5, 40, 20, 0, 800),
    (6, 48, 80, 24, 960),
    (7, 56, 80, 28, 1120),
]


@pytest.mark.parametrize(
    ("unit", "ports", "row"), [(32, 64, row) for row in PUBLISHED_64] + [(20, 40, row) for row in BY_HAND_40]
)
def test_published_counts(unit, ports, row):
    units, leaves, spines, cores, cables = row
    tree = fat_tree(nodes=units * unit, rails=8, unit=unit, ports=ports)
    assert (tree.units, tree.leaves, tree.spines, tree.cores) == (units, leaves, spines, cores)
    assert tree.node_cables == tree.leaf_cables == cables
    assert tree.spine_cables == (cables if cores else 0)
    assert tree.switches == leaves + spines + cores
    assert tree.cables == cables * (3 if cores else 2)


def test_nodes_below_a_leaf_and_below_a_group_of_spines() -> None:
    """560 nodes of 28 units: 20 a leaf, and two groups of spines a rail, with 14 units each. 140 are one group."""
    found = [fat_tree(nodes=nodes, rails=8, unit=20, ports=40).tiers for nodes in (560, 140, 40, 20)]
    assert found == [(20, 280), (20,), (20,), ()]


@settings(deadline=None)
@given(
    nodes=st.integers(1, 5000),
    rails=st.integers(1, 16),
    half=st.integers(1, 64),
    data=st.data(),
)
def test_ports_suffice_and_nothing_is_oversubscribed(nodes, rails, half, data):
    unit = data.draw(st.integers(1, half))
    tree = fat_tree(nodes=nodes, rails=rails, unit=unit, ports=2 * half)
    assert tree.units * unit >= nodes > (tree.units - 1) * unit
    assert tree.leaf_cables >= tree.node_cables
    assert tree.leaf_cables + tree.spine_cables <= tree.spines * 2 * half
    assert tree.spine_cables <= tree.cores * 2 * half
    assert tree.spine_cables in (0, tree.leaf_cables)


def test_a_unit_must_leave_ports_for_uplinks():
    with pytest.raises(ClusterError, match="21 nodes per unit do not fit a switch of 40 ports; 1 to 20"):
        fat_tree(nodes=20, rails=8, unit=21, ports=40)
