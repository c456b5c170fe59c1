"""Collectives on tori: what they promise, and their closed form against every flow."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import ClusterError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives import prove
from podsim.network.collectives.direct import direct_all_to_all
from podsim.network.collectives.tori import (
    Axes,
    cubic_axes,
    torus_all_gather,
    torus_all_reduce,
    torus_all_to_all,
    torus_reduce_scatter,
)
from podsim.network.nccl import Members, collective_seconds, wires_of
from podsim.network.nccl_group import Group
from podsim.network.play import play
from podsim.network.torus_cost import GroupAxis, group_axes, torus_candidate

TABLES = {
    "all_gather": torus_all_gather,
    "reduce_scatter": torus_reduce_scatter,
    "all_reduce": torus_all_reduce,
    "all_to_all": lambda axes: direct_all_to_all(axes.ranks),
}


def axes_of(name: str) -> Axes:
    cluster = load_cluster(name)
    links = cluster.system.torus
    assert links is not None
    return Axes(links.shape, links.wraps, cluster.nodes)


@pytest.mark.parametrize(
    "axes",
    [
        Axes((1, 1), (False, False)), Axes((2, 4), (False, False)), Axes((3, 5), (True, True), 2),
        Axes((4, 1, 4), (True, False, True)), Axes((2, 3, 4), (False, True, True), 3), Axes((5,), (False,)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "build", [torus_all_gather, torus_reduce_scatter, torus_all_reduce, torus_all_to_all]
)
def test_tables_do_what_they_promise(build, axes):
    prove(build(axes))


@pytest.mark.parametrize("name", ["v4-4x4x4", "v5e-32", "v6e-128", "2x v5e-16", "v4-4x4x8"])
@pytest.mark.parametrize("collective", TABLES)
def test_the_closed_form_is_what_is_played(collective, name):
    cluster, axes = load_cluster(name), axes_of(name)
    members = Members(ranks=cluster.gpus, ranks_per_node=cluster.gpus_per_node)
    seconds = float(collective_seconds(collective, 1e9, cluster, members))
    played = play(TABLES[collective](axes), 1e9, fabric_of(cluster), fold=True).seconds
    assert seconds == pytest.approx(played, rel=0.03)


def test_a_whole_pod_is_played_with_every_flow():
    cluster = load_cluster("tpu-v4")
    played = play(torus_all_reduce(axes_of("tpu-v4")), 1e9, fabric_of(cluster))
    members = Members(ranks=4096, ranks_per_node=4096)
    assert played.events == played.simulated * 15
    assert played.seconds == pytest.approx(
        float(collective_seconds("all_reduce", 1e9, cluster, members)), rel=0.03
    )


def test_twisted_links_shorten_exchanges_as_published():
    """1.63 times on 4x4x8, 1.31 on 4x8x8: arxiv.org/abs/2304.01433."""
    for shape, published in (("4x4x8", 1.63), ("4x8x8", 1.31)):
        loads = []
        for name in (f"v4-{shape}", f"v4-{shape}-twisted"):
            fabric = fabric_of(load_cluster(name))
            pairs = [(one, other) for one in range(fabric.gpus) for other in range(fabric.gpus)]
            _, links = fabric.routes(*zip(*pairs, strict=True))
            loads.append(int(np.bincount(links).max()))
        assert loads[0] / loads[1] == pytest.approx(published, rel=0.05)


def test_groups_lie_along_axes():
    links = load_cluster("v5p-1024").system.torus
    assert links is not None
    assert [(axis.side, axis.closed) for axis in group_axes(links, 8, 1)] == [(8, True)]
    assert [(axis.side, axis.apart) for axis in group_axes(links, 64, 8)] == [(8, 1), (8, 1)]
    assert [(axis.side, axis.apart, axis.closed) for axis in group_axes(links, 4, 2)] == [(4, 2, True)]


@pytest.mark.parametrize(
    ("name", "chips", "shape"),
    [
        ("tpu-v4:64", 64, (4, 4, 4)), ("v5p-1024", 512, (8, 8, 8)), ("v6e-256", 256, (16, 16)),
        ("2x v6e-256", 512, (16, 16)), ("v4-8", 4, (2, 2, 1)), ("TPU v5p:8x16x48", 6144, (8, 16, 48)),
    ],
)  # fmt: skip
def test_slices_by_name(name, chips, shape):
    cluster = load_cluster(name)
    assert cluster.system.torus is not None
    assert (cluster.gpus, cluster.system.torus.shape) == (chips, shape)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tpu-v4:100", r"no slice of tpu-v4: 64 \(4x4x4\) or 128 \(4x4x8\) would be"),
        ("v5e-512", "several slices, as 2x"), ("v5p-3", "counts cores, 2 a chip"),
        ("v4:5x5x5", "multiples of 4"), ("v4:4x4x12-twisted", "cannot be twisted"),
    ],
)  # fmt: skip
def test_what_is_no_slice(name, text):
    with pytest.raises(ClusterError, match=text):
        load_cluster(name)


def test_a_file_may_state_a_torus(tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text('inherits = "tpu-v5p"\nsource = "us"\ntorus = "4x4x8-twisted"\n')
    links = load_cluster(file).system.torus
    assert links is not None
    assert (links.shape, links.twisted) == ((4, 4, 8), True)
    assert load_cluster("dgx-h100", {"torus": "3x5"}).gpus == 15
    with pytest.raises(ClusterError, match="is no slice of tpu-v5p"):
        load_cluster("tpu-v5p", {"torus": "3x5x7"})


@pytest.mark.parametrize(
    ("ranks", "sides"),
    [
        (1, (1, 1, 1)), (2, (1, 1, 2)), (4, (1, 2, 2)), (7, (1, 1, 7)), (8, (2, 2, 2)), (12, (2, 2, 3)),
        (16, (2, 2, 4)), (27, (3, 3, 3)), (36, (3, 3, 4)), (64, (4, 4, 4)),
    ],
)  # fmt: skip
def test_the_most_cubic_torus(ranks, sides):
    assert cubic_axes(ranks) == Axes(sides, tuple(side > 2 for side in sides))


@pytest.mark.parametrize(
    ("sides", "wraps", "together"),
    [((4, 4), True, True), ((2, 2, 2), False, True), ((3, 3), False, False), ((2, 4), True, False), ((1, 5), True, True)],
)  # fmt: skip
def test_equal_rings_go_step_by_step(sides, wraps, together):
    # rings of one length end each step at once; a line's steps are of one link or of two
    assert torus_all_gather(Axes(sides, (wraps,) * len(sides))).lockstep == together


def test_two_chips_are_a_line_of_one_link():
    links = load_cluster("v5p-1024").system.torus
    assert links is not None
    assert group_axes(links, 2, 1) == (GroupAxis(2, 1, False),)
    assert group_axes(links, 1, 1) == (GroupAxis(1, 1, False),)
    assert group_axes(links, 16, 1) == (GroupAxis(8, 1, True), GroupAxis(2, 1, False))


def test_lone_chips_of_slices_wait_for_the_network_alone():
    wires = wires_of(load_cluster("2x v6e-256"))
    found = torus_candidate(wires, "all_gather", Group(2, 1, 1.0))
    assert found.latency == pytest.approx(wires.network_latency)


def test_a_twisted_exchange_is_as_much_faster_as_published():
    """1.63 times on 4x4x8: arxiv.org/abs/2304.01433; the longest route is shorter, too: 4 + 4 links, not 2 + 2 + 4."""
    plain, twisted = (
        torus_candidate(wires_of(load_cluster(name)), "all_to_all", Group(128, 128, 1.0))
        for name in ("v4-4x4x8", "v4-4x4x8-twisted")
    )
    assert plain.per_byte / twisted.per_byte == pytest.approx(1.63, rel=0.12)
    assert twisted.latency < plain.latency
