from __future__ import annotations

import pytest

from podsim.hardware.cluster import load_cluster
from podsim.hardware.nvlink import CUBE_MESH, ring_shares, rings


@pytest.mark.parametrize(("gpus", "count"), [(2, 1), (3, 2), (4, 4), (5, 2), (6, 2), (7, 4), (8, 6)])
def test_rings_of_the_first_gpus_of_a_dgx_1(gpus: int, count: int) -> None:
    """By hand: GPU 4 has two links to GPU 0 and none to 1, 2, 3, so among five GPUs 0 passes on what 4 exchanges."""
    assert rings(tuple(row[:gpus] for row in CUBE_MESH[:gpus])) == count


def test_rings_of_all_to_all_wiring_use_every_link() -> None:
    for gpus in (3, 4):
        lanes = tuple(tuple(4 * (a != b) for b in range(gpus)) for a in range(gpus))
        assert rings(lanes) == 4 * (gpus - 1)


def test_shares_are_of_the_links_that_a_gpu_has_in_its_part() -> None:
    whole = load_cluster("dgx-1-v100-16gb:1")
    assert ring_shares(whole.system)[0] == pytest.approx([1 / 6, 2 / 6, 4 / 6, 2 / 6, 2 / 6, 4 / 6, 1])
    assert ring_shares(whole.subset(4).system)[0] == pytest.approx([0.5, 0.5, 1.0])
    assert ring_shares(whole.subset(2).system) == ((1.0,),)
    assert ring_shares(load_cluster("dgx-station-a100:1").system)[0] == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_groups_with_others_between_have_the_rings_of_the_worst_of_them() -> None:
    """GPUs 0 and 4 have two links, 2 and 6 one; 0, 2, 4, 6 close one ring of links; 0, 2, 4 none, nor with help."""
    near, second, third, fourth = ring_shares(load_cluster("dgx-1-v100-16gb:1").system)
    assert near[2] == pytest.approx(4 / 6)
    assert second == pytest.approx([1 / 6, 0.5 / 6, 2 / 6])
    assert third == pytest.approx([2 / 6])
    assert fourth == pytest.approx([1 / 6])


@pytest.mark.parametrize("name", ["dgx-a100-80gb", "dgx-2", "a100-pcie-server"])
def test_switches_and_slots_reach_all_alike(name: str) -> None:
    assert ring_shares(load_cluster(f"{name}:1").system) == ()
