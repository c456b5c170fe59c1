"""Slices of a torus: the shapes that makers list, their share of a pod, and what is no slice."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import ClusterError, UnitError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics.builders import host_cluster
from podsim.hardware.parts import TorusLinks
from podsim.hardware.torus_slices import read_torus, torus_system, twist_shifts, twisted_images


@pytest.mark.parametrize(
    ("text", "shape", "slices"),
    [
        ("v4-8", (2, 2, 1), 1),  # v4 counts cores, two a chip
        ("v4-128", (4, 4, 4), 1), ("tpu-v4:128", (4, 4, 8), 1), ("tpu-v4:192", (4, 4, 12), 1),
        ("tpu-v4:256", (4, 8, 8), 1), ("tpu-v4:512", (8, 8, 8), 1), ("tpu-v4:4096", (16, 16, 16), 1),
        ("v5e-32", (4, 8), 1), ("v6e-256", (16, 16), 1), ("2x v6e-64", (8, 8), 2), ("v4:4x8x8-twisted", (4, 8, 8), 1),
    ],
)  # fmt: skip
def test_a_number_of_chips_has_its_usual_shape(text: str, shape: tuple[int, ...], slices: int) -> None:
    cluster = load_cluster(text)
    assert cluster.system.torus is not None
    assert (cluster.system.torus.shape, cluster.nodes) == (shape, slices)
    assert cluster.system.torus.twisted == text.endswith("twisted")


def test_a_slice_has_its_share_of_the_pod() -> None:
    """64 of 4,096 chips, four to a host: 16 hosts with an adapter each, of 416,768 GB and 1,179.65 kW a 64th."""
    system = load_cluster("tpu-v4:64").system
    assert (system.gpus, system.trays, system.nics) == (64, 16, 16)
    assert system.memory == pytest.approx(416768e9 / 64)
    assert system.power == pytest.approx(1179.65e3 / 64)
    assert load_cluster("v4-8").system.nics == 1


@pytest.mark.parametrize(
    ("text", "message", "gpus"),
    [
        ("tpu-v4:65", "65 chips are no slice of tpu-v4: 64 .4x4x4. or 128 .4x4x8. would be", 128),
        ("tpu-v4:3", "2x2x1. would be", 4), ("v5e-48", "32 .4x8. or 64 .8x8. would be$", 64),
        ("tpu-v5e:512", "256 .16x16. would be; more are several slices, as 2x tpu-v5e:16x16", 256),
        ("v4-7", "counts cores, 2 a chip", None), ("tpu-v4:4x4x6", "multiples of 4", None),
        ("v5e:3x3", "3x3 is no slice of tpu-v5e", None), ("v4:4x4x4-twisted", "cannot be twisted", None),
        ("v4:4x8x16-twisted", "cannot be twisted", None),
    ],
)  # fmt: skip
def test_what_is_no_slice_says_what_is(text: str, message: str, gpus: int | None) -> None:
    with pytest.raises(ClusterError, match=message) as error:
        load_cluster(text)
    assert (error.value.instead or {}).get("gpus") == gpus


def test_servers_on_a_torus_have_a_share_of_each_part() -> None:
    """16 H100 are two servers of eight: twice the adapters and the power, and no switch between them."""
    server = load_cluster("dgx-h100").system
    made = torus_system(server, "4 x 4")
    assert (made.gpus, made.nics, made.power, made.topology) == (16, 16, 2 * server.power, "torus")
    assert (made.nvswitch, made.nvswitches, made.datasheet) == (None, 0, {})
    assert made.torus == TorusLinks(shape=(4, 4), pod=(4, 4), twisted=False)
    slice_ = torus_system(load_cluster("tpu-v4").system, "4x4x8-twisted")
    assert (slice_.gpus, slice_.torus.shape, slice_.torus.twisted) == (128, (4, 4, 8), True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("on", "text", "message"),
    [
        ("dgx-h100", "16", "give the chips along each axis"), ("dgx-h100", "4by4", "give the chips along each axis"),
        ("dgx-h100", "0x4", "a torus of 0x4 chips"), ("dgx-h100", "1001x1000", "1,000,000 chips in all"),
        ("l4-server", "4x4", "has no links to neighbours"), ("tpu-v4", "3x3x3", "is no slice of tpu-v4"),
    ],
)  # fmt: skip
def test_what_is_no_torus(on: str, text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        torus_system(load_cluster(on).system, text)


def test_the_text_of_a_torus() -> None:
    assert read_torus("8x8x16-twisted", "torus") == "8x8x16-twisted"
    for wrong in (5, "8by8", None):
        with pytest.raises(UnitError, match=r"torus: .* will not do; expected the chips along each axis"):
            read_torus(wrong, "torus")


def test_hosts_of_a_slice_are_nodes_of_four_chips() -> None:
    """64 chips of v4 on 16 hosts, each with an adapter, a sixteenth of the memory and of the power."""
    cluster = load_cluster("2x v4-128")
    hosts = host_cluster(cluster)
    assert (hosts.nodes, hosts.gpus_per_node, hosts.nics) == (32, 4, 1)
    assert (hosts.system.torus, hosts.system.trays, hosts.system.cpus) == (None, 1, 1)
    assert hosts.system.memory == pytest.approx(416768e9 / 1024)
    assert hosts.system.power == pytest.approx(1179.65e3 / 1024)
    assert hosts.nvlink.name.startswith("PCIe")
    assert host_cluster(load_cluster("dgx-h100:2")) == load_cluster("dgx-h100:2")


def test_rings_of_a_twisted_torus_close_half_a_long_ring_further() -> None:
    """4 x 4 x 8: a turn round a short axis moves 4 along the long one. So (0, 0, 4) is 4 steps off, and (2, 0, 4) 2."""
    assert twist_shifts((4, 4, 8)).tolist() == [[0, 0, 4], [0, 0, 4], [0, 0, 0]]
    away = np.array([[0, 2, 0, 3], [0, 0, 2, 0], [4, 4, 4, 4]])
    images, closest = twisted_images((4, 4, 8), away)
    length = np.abs(images).sum(axis=1)
    assert length.min(axis=0).tolist() == [4, 2, 2, 1]
    assert closest[:, 3].sum() == 1
