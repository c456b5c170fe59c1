"""Slices of a torus by hand: shapes, the nearest that exist, and the part of a system that a slice is."""

from __future__ import annotations

import pytest

from podsim.errors import ClusterError, UnitError
from podsim.hardware.catalog import load_system
from podsim.hardware.cluster import load_cluster
from podsim.hardware.cluster_names import server_of
from podsim.hardware.fabrics.builders import host_cluster
from podsim.hardware.parts import System, TorusLinks
from podsim.hardware.torus_slices import (
    cut_system,
    read_torus,
    shape_of,
    shaped_links,
    torus_system,
    twist_shifts,
)


def pod_of(chip: str) -> tuple[System, TorusLinks]:
    system = load_system(server_of(chip))
    assert system.torus is not None
    return system, system.torus


@pytest.mark.parametrize(
    ("chip", "chips", "shape"),
    [
        ("tpu-v4", 4, (2, 2, 1)), ("tpu-v4", 64, (4, 4, 4)), ("tpu-v4", 128, (4, 4, 8)), ("tpu-v4", 512, (8, 8, 8)),
        ("tpu-v4", 4096, (16, 16, 16)), ("tpu-v5e", 256, (16, 16)), ("tpu-v5e", 8, (2, 4)),
    ],
)  # fmt: skip
def test_the_most_cubic_shape(chip: str, chips: int, shape: tuple[int, ...]) -> None:
    assert shape_of(pod_of(chip)[1], chips, chip) == shape


@pytest.mark.parametrize(
    ("chip", "chips", "near"),
    [("tpu-v4", 96, 64), ("tpu-v4", 129, 128), ("tpu-v4", 5000, 4096), ("tpu-v5e", 100, 64)],
)
def test_a_number_that_is_no_slice_has_the_nearest_ones(chip: str, chips: int, near: int) -> None:
    with pytest.raises(ClusterError, match=f"{chips} chips are no slice of {chip}: {near} ") as caught:
        shape_of(pod_of(chip)[1], chips, chip)
    assert ("more are several slices" in str(caught.value)) == (chips == 5000)


@pytest.mark.parametrize(
    ("shape", "twisted", "works"),
    [
        ((4, 4, 8), True, True), ((4, 8, 8), True, True), ((4, 4, 4), True, False), ((4, 4, 12), True, False),
        ((4, 4, 12), False, True), ((4, 4, 6), False, False), ((16, 16, 20), False, False), ((2, 2, 1), False, True),
    ],
)  # fmt: skip
def test_shapes_of_whole_cubes(shape: tuple[int, ...], twisted: bool, works: bool) -> None:
    links = pod_of("tpu-v4")[1]
    if works:
        made = shaped_links(links, shape, twisted, "tpu-v4")
        assert (made.shape, made.twisted) == (shape, twisted)
    else:
        with pytest.raises(ClusterError, match=r"is no slice|cannot be twisted"):
            shaped_links(links, shape, twisted, "tpu-v4")


def test_a_slice_has_its_share_of_the_system() -> None:
    system, _ = pod_of("tpu-v4")
    part = cut_system(system, 10, system.gpus // 4)
    assert (part.gpus, part.nics) == (system.gpus // 4, 3)  # 2.5 adapters
    assert part.memory == pytest.approx(system.memory / 4)
    assert part.power == pytest.approx(system.power / 4)
    assert part.torus is not None
    assert part.torus.shape == shape_of(pod_of("tpu-v4")[1], system.gpus // 4, "tpu-v4")
    server = load_system("dgx-h100")
    assert cut_system(server, 8, 4).memory == server.memory  # no torus: the host keeps its memory


def test_cores_and_slices_in_a_name() -> None:
    assert load_cluster("v5p-1024").gpus == 512  # two cores a chip
    assert load_cluster("v5e-16").gpus == 16
    two = load_cluster("2x v5e-16")
    assert (two.gpus, two.nodes) == (32, 2)


def test_links_that_close_the_rings_of_a_twisted_torus_shift_by_half_a_long_side() -> None:
    assert twist_shifts((4, 4, 8)).tolist() == [[0, 0, 4], [0, 0, 4], [0, 0, 0]]
    assert twist_shifts((4, 8, 8)).tolist() == [[0, 4, 4], [0, 0, 0], [0, 0, 0]]


def test_a_users_text_shapes_a_torus() -> None:
    system, _ = pod_of("tpu-v4")
    made = torus_system(system, " 4x4x8-twisted ")
    assert made.torus is not None
    assert (made.gpus, made.torus.shape, made.torus.twisted) == (128, (4, 4, 8), True)
    server = torus_system(load_system("dgx-h100"), "3x5")
    assert server.torus is not None
    assert (server.gpus, server.torus.shape, server.topology, server.nvswitches) == (15, (3, 5), "torus", 0)
    for text, problem in (("15", "give the chips along each axis"), ("0x4", "give sides of at least 1"),
                          ("1000x1000x2", "1,000,000 chips in all"), ("3x5x7", "is no slice")):  # fmt: skip
        with pytest.raises(ClusterError, match=problem):
            torus_system(system, text)
    with pytest.raises(ClusterError, match="has no links to neighbours"):
        torus_system(load_system("l40s-server"), "2x2")
    assert read_torus("8x8x16", "torus") == "8x8x16"
    for wrong in (8, "8x", "x8"):
        with pytest.raises(UnitError, match=r"torus: .* will not do"):
            read_torus(wrong, "torus")


def test_hosts_of_a_slice_are_its_nodes_for_what_leaves_it() -> None:
    pod = load_cluster("tpu-v4:4x4x8")
    trays = pod.system.trays
    hosts = host_cluster(pod)
    assert (hosts.nodes, hosts.gpus_per_node, hosts.nics) == (trays, 4, 1)
    assert trays == 128 // 4
    assert hosts.system.torus is None
    assert hosts.system.memory * trays == pytest.approx(pod.system.memory)
    assert hosts.system.power * trays == pytest.approx(pod.system.power)
    dgx = load_cluster("dgx-h100:2")
    assert host_cluster(dgx) is dgx
