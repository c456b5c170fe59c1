"""The collective law: hand-worked calls, theorems, bad arguments, errors against measured sweeps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import CatalogError, ClusterError, PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.measured_host import Exchange
from podsim.network import nccl
from podsim.network.bus import bus_factor
from podsim.network.collective_settings import NETWORKS, CollectiveSettings
from podsim.network.nccl import (
    COLLECTIVES,
    LAUNCHES,
    bus_bandwidth,
    send_seconds,
    wires_of,
)
from podsim.network.nccl_between import spanning_candidates
from podsim.network.nccl_constants import ARCHITECTURES, PCIE, load_fabric, load_network
from podsim.network.nccl_group import Group
from podsim.network.nccl_paths import Candidate, candidates, measured_candidate
from podsim.network.nccl_tuner import PROTOCOLS, Belief, beliefs, generation, post_overhead, steps

DGX = load_cluster("dgx-a100-80gb:4")
CLUSTERS = {
    name: load_cluster(name) for name in ("dgx-a100-80gb:64", "dgx-h100:8", "dgx-b200:8", "dgx-1-v100:8")
}
PAGE = {"ranks": 8, "ranks_per_node": 8}


def collective_seconds(
    collective, size, cluster, *, launch="process", version="2.18", detail=False, **members
):
    """Seconds of a collective of these members."""
    return nccl.collective_seconds(
        collective, size, cluster, nccl.Members(**members), launch=launch, version=version, detail=detail
    )


def choice(collective, size, cluster, *, launch="process", version="2.18", **members):
    """NCCL's choice for one call of these members."""
    settings = CollectiveSettings(launch=launch, release=version)
    return nccl.choice(collective, size, cluster, settings=settings, **members)


def changed(cluster: Cluster, nvlink: float = 1.0, network: float = 1.0) -> Cluster:
    return replace(
        cluster,
        nvlink=replace(cluster.nvlink, bandwidth=cluster.nvlink.bandwidth * nvlink),
        network=replace(cluster.network, bandwidth=cluster.network.bandwidth * network),
    )


L40S = load_cluster("l40s-server")

# ------------------------------------------------------------ worked by hand


def belief(group: Group, algorithm: str, protocol: str, release: str = "2.18"):
    channels = 24 if group.nodes == 1 else 16
    found = beliefs(wires_of(DGX), group, "all_reduce", release, channels)
    return next(b for b in found if (b.algorithm, b.protocol) == (algorithm, protocol))


def test_dgx_a100_has_a_bus_of_240_in_a_node_and_192_between_nodes() -> None:
    # 12 links at 20 GB/s; 8 rings over adapters at 24 GB/s. Algorithm bandwidth is bus n / (2 (n - 1)).
    assert belief(Group(8, 8, 1.0), "ring", "Simple").bandwidth == pytest.approx(240e9 * 8 / 14)
    assert belief(Group(32, 8, 1.0), "ring", "Simple").bandwidth == pytest.approx(192e9 * 32 / 62)


def test_latencies_of_rings_and_trees_are_nccl_s() -> None:
    one, two = Group(8, 8, 1.0), Group(16, 8, 1.0)
    assert belief(one, "ring", "LL").latency == pytest.approx((6.6 + 14 * 0.6) * 1e-6)
    assert belief(one, "ring", "Simple").latency == pytest.approx((8.4 + 14 * 3.4) * 1e-6)
    assert belief(one, "tree", "LL", "2.8").latency == pytest.approx((4.4 + 14 * 0.52) * 1e-6)
    # AMD hosts post a message in 2 us, Simple three of them: 28 steps in nodes, 2 between
    assert belief(two, "ring", "Simple").latency == pytest.approx((8.4 + 28 * 6 + 2 * 14) * 1e-6)
    assert belief(two, "tree", "LL128").latency == pytest.approx((14 + 2 * (7 * 1.25 + 8.5)) * 1e-6)


def test_ll_in_a_node_is_capped_by_version() -> None:
    one = Group(8, 8, 1.0)
    assert belief(one, "ring", "LL").bandwidth == pytest.approx(60e9 * 8 / 14)
    assert belief(one, "ring", "LL", "2.20").bandwidth == pytest.approx(87.7e9 * 8 / 14)


def test_rings_win_over_trees_on_two_old_dgx_and_lose_on_two_new_ones() -> None:
    two = Group(16, 8, 1.0)
    for release, ring_wins in (("2.8", True), ("2.18", False)):
        ring = belief(two, "ring", "Simple", release).bandwidth
        assert (ring > belief(two, "tree", "LL128", release).bandwidth) == ring_wins
    old = choice("all_reduce", 2.0**32, DGX, ranks=16, ranks_per_node=8, version="2.8")
    assert (old.algorithm, old.protocol) == ("ring", "Simple")


def test_steps_of_a_ring() -> None:
    assert steps("all_reduce", Group(8, 8, 1.0)) == (14, 0)
    assert steps("all_reduce", Group(16, 8, 1.0)) == (28, 2)
    assert steps("all_gather", Group(16, 8, 1.0)) == (14, 1)
    assert post_overhead(wires_of(DGX), Group(8, 8, 1.0)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("2.4.8", "2.7"),
        ("2.8.4", "2.8"),
        ("2.17.1", "2.8"),
        ("2.18", "2.18"),
        ("2.19.3", "2.18"),
        ("2.2x", "2.20"),
        ("2.27.3", "2.20"),
    ],
)
def test_generations(version: str, known: str) -> None:
    assert generation(version) == known


def test_bus_factors_are_those_of_nccl_tests() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert bus_factor("all_gather", [1, 2, 8]).tolist() == pytest.approx([0, 0.5, 0.875])
    assert bus_factor("broadcast", [1, 8]).tolist() == [0, 1]
    assert bus_bandwidth("all_reduce", 8e9, 0.1, 8) == pytest.approx(140e9)


def test_a_busy_dgx_a100_reaches_what_is_published() -> None:
    one = choice("all_reduce", 2.0**33, DGX, **PAGE)
    assert (one.algorithm, one.protocol, one.channels) == ("ring", "Simple", 24)
    assert one.bus_bandwidth == pytest.approx(235e9, rel=0.02)
    assert one.bus_bandwidth < one.ceiling < 300e9
    assert choice("all_reduce", 8, DGX, **PAGE).protocol == "LL"
    small = choice("all_reduce", 0, DGX, **PAGE)
    assert small.seconds == pytest.approx(24e-6, rel=0.05)


def test_floors_by_way_of_launching() -> None:
    floors = {way: float(collective_seconds("all_reduce", 8, DGX, **PAGE, launch=way)) for way in LAUNCHES}
    assert 20e-6 < floors["thread"] < 23e-6 < floors["process"] < 26e-6
    assert 33e-6 < floors["single"] < 40e-6


def test_one_group_a_rail_gets_one_adapter() -> None:
    # tensor parallel over the node leaves 8 data-parallel groups, each with one rank per node and one adapter
    size = 2.0**32
    seconds = collective_seconds("all_reduce", size, DGX, ranks=4, ranks_per_node=1)
    assert size * 1.5 / seconds == pytest.approx(0.94 * 25e9, rel=0.03)
    halved = collective_seconds("all_reduce", size, replace(DGX, nics=4), ranks=4, ranks_per_node=1)
    assert halved / seconds == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_a_part_of_each_node_has_the_adapters_next_to_its_gpus_even_alone(members: int) -> None:
    # one GPU's slot carries 31.5 GB/s: it could not fill the node's eight adapters of 25 GB/s
    size, ranks = 2.0**32, 4 * members
    seconds = collective_seconds("all_gather", size, DGX, ranks=ranks, ranks_per_node=members, sharing=1)
    wire = size * (ranks - 1) / ranks / (members * load_network("infiniband").share * 25e9)
    assert wire < seconds < 1.1 * wire
    fewer = replace(DGX, nics=2)  # of eight GPUs: one or two use an adapter, as far as it goes
    alone = collective_seconds("all_gather", size, fewer, ranks=ranks, ranks_per_node=members, sharing=1)
    assert alone / seconds == pytest.approx(members / max(1, members / 4), rel=0.05)


@pytest.mark.parametrize(
    ("collective", "need"),  # B that a slot carries for each of the size
    [
        ("all_to_all", 1 - 8 / 32),
        ("send_recv", 1.0),
        ("all_gather", 31 / 32 / 8),
        ("all_reduce", 62 / 32 / 8),
    ],
)
def test_an_adapter_is_no_faster_than_its_slot(collective: str, need: float) -> None:
    size, call = 2.0**32, {"ranks": 32, "ranks_per_node": 8, "sharing": 1}
    fast = replace(DGX, network=replace(DGX.network, bandwidth=100e9))
    seconds = float(collective_seconds(collective, size, fast, **call))
    assert size * need / 31.5e9 < seconds
    if collective in ("all_to_all", "send_recv"):  # the others wait for NVLink
        assert seconds == pytest.approx(size * need / 31.5e9, rel=0.05)
    half = replace(fast, nics=4)  # one for two GPUs: four slots of adapters
    assert float(collective_seconds("all_to_all", size, half, **call)) > 1.9 * size * 0.75 / 31.5e9
    few = load_cluster("dgx-a100-80gb:4", {"gpus_per_node": "4"})  # eight adapters, and four slots of GPUs
    rate = choice("all_gather", size, few, ranks=16, ranks_per_node=4, sharing=1).ceiling
    assert rate == pytest.approx(4 * 31.5e9)
    alone = float(collective_seconds("send_recv", size, few, ranks=16, ranks_per_node=4, sharing=1))
    assert alone == pytest.approx(size / (0.957 * 25e9), rel=0.05)


def test_hopper_reduces_in_its_switches_with_eight_gpus() -> None:
    cluster = CLUSTERS["dgx-h100:8"]
    full = choice("all_reduce", 2.0**33, cluster, **PAGE, version="2.29")
    assert full.algorithm == "nvls"
    assert full.bus_bandwidth == pytest.approx(480e9, rel=0.06)
    assert (
        choice("all_reduce", 2.0**33, cluster, ranks=4, ranks_per_node=4, version="2.29").algorithm == "ring"
    )


def test_all_to_all_across_nodes_waits_for_the_adapters() -> None:
    size = 2.0**30
    seconds = float(collective_seconds("all_to_all", size, DGX, ranks=16, ranks_per_node=8))
    assert seconds == pytest.approx(size * 0.5 / (0.957 * 25e9), rel=0.1)


def test_sends() -> None:
    near, far = send_seconds(1e9, DGX, crosses_node=[False, True])
    assert near == pytest.approx(1e9 / 190e9, rel=0.1)
    assert far == pytest.approx(1e9 / (0.957 * 25e9), rel=0.05)
    shared = float(send_seconds(1e9, DGX, crosses_node=True, sharing=2))
    assert shared / far == pytest.approx(2, rel=0.05)


# ------------------------------------------------------------ theorems

calls = st.fixed_dictionaries(
    {
        "collective": st.sampled_from(COLLECTIVES),
        "cluster": st.sampled_from(sorted(CLUSTERS)),
        "nodes": st.sampled_from([1, 2, 3, 4, 8]),
        "members": st.sampled_from([1, 2, 4, 8]),
        "launch": st.sampled_from(LAUNCHES),
        "version": st.sampled_from(["2.8", "2.18", "2.27"]),
    }
)
sizes = st.floats(0, 1e11)
elements_of_calls = st.tuples(
    st.floats(0, 1e10), st.sampled_from([1, 2, 3, 8, 16, 32, 512]), st.sampled_from([1, 2, 4, 8])
)


def seconds_of(call, size, cluster=None, **kw) -> np.ndarray:
    arguments = {"ranks": call["nodes"] * call["members"], "ranks_per_node": call["members"]}
    return collective_seconds(
        call["collective"], size, cluster or CLUSTERS[call["cluster"]], **arguments,
        launch=call["launch"], version=call["version"], **kw,
    )  # fmt: skip


def picked_of(call, size, cluster=None):
    """NCCL's choice for a call of the strategy `calls`."""
    return choice(
        call["collective"], size, cluster or CLUSTERS[call["cluster"]], ranks=call["nodes"] * call["members"],
        ranks_per_node=call["members"], launch=call["launch"], version=call["version"],
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(calls)
def test_time_grows_with_size_unless_the_protocol_changes(call) -> None:
    sizes = np.geomspace(1, 1e11, 700)
    seconds = seconds_of(call, sizes)
    assert np.isfinite(seconds).all()
    picks = [
        (picked.algorithm, picked.protocol)
        for size in sizes[1:][np.diff(seconds) < -1e-15]
        for picked in (picked_of(call, size), picked_of(call, size * (sizes[0] / sizes[1])))
    ]
    assert all(before != after for after, before in zip(picks[::2], picks[1::2], strict=True))


@settings(max_examples=150, deadline=None)
@given(calls, sizes)
def test_no_link_is_beaten(call, size) -> None:
    cluster = CLUSTERS[call["cluster"]]
    ranks, members = call["nodes"] * call["members"], call["members"]
    seconds = float(seconds_of(call, size))
    if ranks == 1:
        assert seconds == 0
        return
    if call["nodes"] > 1:  # a node must take in what its ranks lack; two nodes trade all they have
        sharing = cluster.gpus_per_node // members
        rate = cluster.nics * cluster.network.bandwidth / sharing
        need = {"all_reduce": 1.0, "broadcast": 1.0, "reduce": 1.0, "all_gather": 1 - 1 / call["nodes"],
                "reduce_scatter": 1 - 1 / call["nodes"], "all_to_all": members * (1 - 1 / call["nodes"]),
                "send_recv": 1.0}[call["collective"]]  # fmt: skip
        need /= 2 if call["collective"] in ("all_reduce", "broadcast", "reduce") else 1
    else:
        rate = cluster.nvlink.bandwidth
        # in-switch reduction needs each byte once; rings as nccl-tests counts
        need = float(bus_factor(call["collective"], ranks)) / (2 if call["collective"] == "all_reduce" else 1)
    assert seconds >= size * need / rate


@settings(max_examples=100, deadline=None)
@given(calls, sizes)
def test_floor_and_rest_add_up(call, size) -> None:
    whole, floor, rest = seconds_of(call, size, detail=True)
    assert whole == pytest.approx(floor + rest)
    assert rest >= 0
    assert floor == seconds_of(call, 0)


@settings(max_examples=100, deadline=None)
@given(calls, sizes)
def test_halved_links_cost_at_most_twice_in_a_node(call, size) -> None:
    call = {**call, "nodes": 1}
    slower = changed(CLUSTERS[call["cluster"]], nvlink=0.5)
    full, half = seconds_of(call, size), seconds_of(call, size, slower)
    assert full <= half * (1 + 1e-12)
    before, after = picked_of(call, size), picked_of(call, size, slower)  # NCCL may give up LL too early
    same = (before.algorithm, before.protocol) == (after.algorithm, after.protocol)
    assert half <= 2 * full + 1e-12 or not same


def test_halved_links_halve_large_messages() -> None:
    arguments = {"ranks": 32, "ranks_per_node": 8}
    slow = collective_seconds("all_reduce", 2.0**34, changed(DGX, network=0.5), **arguments)
    assert slow / collective_seconds("all_reduce", 2.0**34, DGX, **arguments) == pytest.approx(2, rel=0.03)
    slow = collective_seconds("all_reduce", 2.0**34, changed(DGX, nvlink=2 / 3), **PAGE)
    assert slow / collective_seconds("all_reduce", 2.0**34, DGX, **PAGE) == pytest.approx(1.5, rel=0.03)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(COLLECTIVES), st.lists(elements_of_calls, min_size=1, max_size=12))
def test_arrays_give_what_single_calls_give(collective, elements) -> None:
    cluster = CLUSTERS["dgx-a100-80gb:64"]
    size, ranks, members = (np.array(column) for column in zip(*elements, strict=True))
    together = collective_seconds(collective, size, cluster, ranks=ranks, ranks_per_node=members)
    single = [
        float(collective_seconds(collective, s, cluster, ranks=n, ranks_per_node=g)) for s, n, g in elements
    ]
    assert together.tolist() == pytest.approx(single)


def test_shapes_broadcast() -> None:
    seconds = collective_seconds("all_reduce", np.ones((5, 1)), DGX, ranks=[2, 4, 8], ranks_per_node=8)
    assert seconds.shape == (5, 3)
    assert collective_seconds(
        "all_reduce", 1.0, DGX, ranks=np.full((2, 1), 8), ranks_per_node=[8, 4]
    ).shape == (2, 2)
    assert collective_seconds("all_reduce", np.ones(0), DGX, **PAGE).shape == (0,)
    assert collective_seconds("all_reduce", 1.0, DGX, ranks=[8], ranks_per_node=8, detail=True).shape == (
        3,
        1,
    )
    assert collective_seconds("all_reduce", 1.0, DGX, **PAGE).shape == ()


# ------------------------------------------------------------ bad arguments


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"collective": "all_reduse"}, PodsimError, "did you mean all_reduce"),
        ({"launch": "mpi"}, PodsimError, "process"),
        ({"version": "3.1"}, PodsimError, "no NCCL release"),
        ({"version": "2.1"}, PodsimError, "no NCCL release"),
        ({"size": -1.0}, PodsimError, "size=-1"),
        ({"size": math.nan}, PodsimError, "size=nan"),
        ({"ranks": 0}, PodsimError, "ranks=0"),
        ({"ranks": 2.5, "ranks_per_node": 0}, PodsimError, r"ranks=2.5.*ranks_per_node=0"),
        ({"ranks": 16, "ranks_per_node": 16}, ClusterError, "a node has 8 GPUs"),
        ({"sharing": 0}, PodsimError, "sharing=0"),
    ],
)
def test_bad_arguments_are_explained(arguments, error, text) -> None:
    given_ = {"collective": "all_reduce", "size": 1.0, **PAGE, **arguments}
    name, size = given_.pop("collective"), given_.pop("size")
    with pytest.raises(error, match=text):
        collective_seconds(name, size, DGX, **given_)


def test_no_network_no_groups_over_nodes() -> None:
    alone = load_cluster("dgx-station-a100-80gb")
    assert alone.nics == 0
    with pytest.raises(ClusterError, match="no network"):
        collective_seconds("all_reduce", 1.0, alone, ranks=8, ranks_per_node=4)
    with pytest.raises(PodsimError, match="single numbers"):
        choice("all_reduce", np.ones(3), DGX, **PAGE)  # type: ignore[arg-type]
    with pytest.raises(PodsimError, match="sharing"):
        send_seconds(1.0, DGX, crosses_node=True, sharing=0)


def test_every_architecture_has_constants() -> None:
    for architecture in ARCHITECTURES:
        assert load_fabric(architecture).share_simple < 1
    for network in NETWORKS:
        assert 0 < load_network(network).share <= 1
    with pytest.raises(CatalogError, match="known"):
        load_fabric("kepler2")
    with pytest.raises(CatalogError, match="known"):
        load_network("tin-cans")


# ------------------------------------------------------------ PCI Express, and messages from one to one


def test_over_pci_express_nccl_weighs_ll_against_simple_only() -> None:
    for cluster in (L40S, load_cluster("a100-pcie-server")):
        wires = wires_of(cluster)
        assert {one.protocol for one in beliefs(wires, Group(8, 8, 1.0, 2), "all_reduce", "2.20", 2)} == {
            "LL",
            "Simple",
        }
    assert {
        one.protocol for one in beliefs(wires_of(DGX), Group(8, 8, 1.0), "all_reduce", "2.20", 24)
    } == set(PROTOCOLS)


def test_a_wider_part_of_a_server_without_switches_is_slower() -> None:
    """2 GPUs of 8 side by side, 4 of a socket, 8 of two sockets: 20, 5.5 and 1.3 GB/s measured."""
    size, fabric = 2.0**29, load_fabric(PCIE)
    shares = (1.0, fabric.near_share, fabric.far_share)
    for ranks, share in zip((2, 4, 8), shares, strict=True):
        found = choice("all_reduce", size, L40S, ranks=ranks, ranks_per_node=ranks)
        assert (found.algorithm, found.protocol) == ("ring", "Simple")
        assert found.ceiling == pytest.approx(31.5e9 * fabric.share_simple * share)


def test_behind_switches_only_the_way_between_sockets_is_narrower() -> None:
    """EPYC: NCCL counts on 16 GB/s between sockets where it counts on 24 of a slot's 31.5 GB/s."""
    server, share = load_cluster("a100-pcie-server"), load_fabric(PCIE).share_simple
    for ranks, part in ((2, 1.0), (4, 1.0), (8, 16 / 24)):
        found = choice("all_reduce", 2.0**29, server, ranks=ranks, ranks_per_node=ranks)
        assert found.ceiling == pytest.approx(31.5e9 * share * part)
    page = {"ranks": 2, "ranks_per_node": 2, "extent": [2, 4, 5, 8]}
    near, socket, *far = collective_seconds("all_gather", 2.0**29, server, **page)
    assert near == socket < far[0] / 1.4 == far[1] / 1.4
    alone = replace(server, system=replace(server.system, cpus=1))
    assert choice("all_reduce", 2.0**29, alone, **PAGE).ceiling == pytest.approx(31.5e9 * share)


def test_two_gpus_with_others_between_them_are_as_far_apart_as_those() -> None:
    def seconds(extent) -> np.ndarray:
        return collective_seconds("all_reduce", 2.0**26, L40S, ranks=2, ranks_per_node=2, extent=extent)

    near, socket, far = seconds([1, 2, 3, 4, 5, 8])[[0, 2, 4]]
    assert seconds([1, 2, 3, 4, 5, 8]) == pytest.approx([near, near, socket, socket, far, far])
    assert near < socket / 3 < far / 9
    assert seconds(None) == pytest.approx(near)
    assert send_seconds(2.0**26, L40S, crosses_node=False, extent=5) > 9 * send_seconds(
        2.0**26, L40S, crosses_node=False
    )
    page = {"ranks": 2, "ranks_per_node": 2}
    apart = collective_seconds("all_reduce", 2.0**26, DGX, **page, extent=8)
    assert apart == collective_seconds("all_reduce", 2.0**26, DGX, **page)


def test_groups_between_each_others_members_share_what_is_between_the_sockets() -> None:
    server = load_cluster("a100-pcie-server")

    def rates(stride) -> np.ndarray:
        size = 2.0**33
        seconds = collective_seconds("all_gather", size, server, ranks=2, ranks_per_node=2, stride=stride)
        return size / 2 / seconds

    beside, third, fourth = rates([1, 3, 4])
    assert beside == pytest.approx(third, rel=1e-6)  # GPUs 0 and 3 are of one socket
    assert fourth == pytest.approx(beside * 16 / 24 / 4, rel=0.02)


def test_strided_groups_of_a_cube_mesh_have_their_own_rings() -> None:
    """GPUs 0, 2, 4, 6 close two rings, 0 to 3 four; of pairs four apart the worst has one link."""
    cluster = load_cluster("dgx-1-v100-16gb:1")

    def seconds(ranks, stride) -> float:
        return float(
            collective_seconds(
                "all_reduce", 2.0**33, cluster, ranks=ranks, ranks_per_node=ranks, stride=stride
            )
        )

    assert seconds(4, 2) / seconds(4, 1) == pytest.approx(2, rel=0.02)
    assert seconds(2, 4) == seconds(2, 1)


def test_over_pci_express_ll_lasts_as_long_as_nccl_picks_it() -> None:
    """Latencies 8.4 + 14 x 5.7 and 6.6 + 14 us, 13.4 GB/s counted: even at 67.6 us x 13.4 GB/s x 8 / 14 = 517,800 B."""
    page = {"ranks": 8, "ranks_per_node": 8, "version": "2.27", "launch": "thread"}
    assert choice("all_reduce", 2.0**18, L40S, **page).protocol == "LL"
    assert choice("all_reduce", 2.0**19, L40S, **page).protocol == "Simple"


@pytest.mark.parametrize("name", ["dgx-h100", "l40s-server"])
def test_short_messages_to_a_peer_go_by_ll_up_to_32_kib(name: str) -> None:
    cluster = load_cluster(name)
    for ranks in (2, 4, 8):
        page = {"ranks": ranks, "ranks_per_node": ranks, "launch": "thread"}
        last = choice("all_to_all", ranks * 2.0**15, cluster, **page)
        after = choice("all_to_all", ranks * 2.0**15 + 1, cluster, **page)
        assert (last.algorithm, last.protocol, after.protocol) == ("pairs", "LL", "Simple")


def test_what_simple_sets_up_passes_beside_a_long_transfer() -> None:
    """An all-to-all of a GiB takes what its bytes take; the set-up adds nothing that can be seen."""
    fabric, cluster = load_fabric("hopper"), load_cluster("dgx-h100")
    page = {"ranks": 8, "ranks_per_node": 8, "launch": "thread"}
    moved = 2.0**30 * 7 / 8 / (450e9 * fabric.pairs_share / (1 + fabric.pairs_small / 64))
    expected = (
        fabric.pairs_simple - fabric.pairs_hidden + 3 * fabric.pairs_step
        + moved + math.sqrt(fabric.pairs_ramp * moved)
    )  # fmt: skip
    assert choice("all_to_all", 2.0**30, cluster, **page).seconds == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("gpu", ["l40s", "t4", "h100-pcie-80gb"])
def test_gpus_of_every_architecture_have_collectives(gpu: str) -> None:
    cluster = load_cluster("dgx-a100-80gb:2", {"gpu": gpu})
    for ranks in (8, 16):
        assert collective_seconds("all_reduce", 2.0**20, cluster, ranks=ranks, ranks_per_node=8) > 0


def test_a_bridged_pair_uses_its_nvlinks() -> None:
    pair = load_cluster("a100-pcie-pair")
    assert (pair.nvlink.name, pair.nvlink.bandwidth) == ("NVLink", 300e9)
    assert choice("all_reduce", 2.0**32, pair, ranks=2, ranks_per_node=2).bus_bandwidth > 150e9


def test_a_group_of_a_cube_mesh_has_the_bandwidth_of_its_rings() -> None:
    """Two GPUs of a DGX-1 share one link, four have four rings of six: bus bandwidth in these shares of eight's."""
    cluster = load_cluster("dgx-1-v100-16gb:1")
    reached = {
        ranks: choice("all_reduce", 2.0**32, cluster, ranks=ranks, ranks_per_node=ranks).bus_bandwidth
        for ranks in (2, 3, 4, 6, 7, 8)
    }
    links = {ranks: 6 * rate / reached[8] for ranks, rate in reached.items()}
    assert links == pytest.approx({2: 1, 3: 2, 4: 4, 6: 2, 7: 4, 8: 6}, rel=0.03)


def test_an_adapters_latency_is_added_to_the_steps_between_nodes() -> None:
    """161 and 178 us are the measured floors of an all-reduce over two p4de and two p4d."""

    def floor(latency: str | None, nodes: int = 2) -> float:
        changes = {"network.latency": latency} if latency else None
        cluster = load_cluster(f"aws-p4de:{nodes}", changes)
        return float(collective_seconds("all_reduce", 8, cluster, ranks=8 * nodes, ranks_per_node=8))

    assert 161e-6 < floor(None) < 178e-6
    assert floor("86 us") - floor("76 us") == pytest.approx(2 * 10e-6, rel=1e-2)  # up and down a tree
    assert floor("86 us", 4) - floor("76 us", 4) == pytest.approx(4 * 10e-6, rel=1e-2)
    assert floor("0 us") > 0


@pytest.mark.parametrize(
    ("size", "seconds"),
    [(0, 18**0.5), (1, 5.0), (20, (23**2 + 5**2) ** 0.5), (400, (403**2 + 9**2) ** 0.5), (1001, math.inf)],
)
def test_a_cost_worked_by_hand(size: float, seconds: float) -> None:
    # 3 s, and 1 s a byte; the host needs 1 s, and 2 s for each channel: one for every 10 B, 1 to 4 of them
    option = Candidate("ring", "LL", 1000.0, 3.0, 0.0, 10.0, 1.0, 0.0, 4.0, 1.0, 2.0)
    assert nccl.candidate_seconds(
        nccl.candidate_fields((option,)), np.array([float(size)])
    ).item() == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("protocol", "slower", "base"),
    [("ll", 1.0, "base"), ("ll128", 1.25 / 1.9, "base"), ("simple", 4 / 3.4, "base_simple")],
)
def test_a_tree_in_a_node_has_as_many_steps_as_a_ring(protocol: str, slower: float, base: str) -> None:
    ring, tree = (
        nccl.choice(
            "all_reduce", 8, DGX, ranks=8, ranks_per_node=8,
            settings=CollectiveSettings(algorithm=name, protocol=protocol, launch="thread"),
        ).candidate.latency - getattr(load_fabric("ampere"), base)
        for name in ("ring", "tree")
    )  # fmt: skip
    # NCCL's latencies of a step: 0.6 and 0.6, 1.25 and 1.9, 4 and 3.4 us
    assert tree / ring == pytest.approx(slower)


def test_simple_between_nodes_steps_as_ll128_until_a_slice_is_full() -> None:
    """A ring over two nodes of eight: 28 steps inside nodes, and 2 between."""
    fabric, network = load_fabric("ampere"), load_network("infiniband")
    between, wires = network.between, replace(wires_of(DGX), network_latency=network.adapter)
    simple, ll = (
        spanning_candidates(
            wires, "all_reduce", Group(16, 8, 1.0), [(Belief("ring", name, 0.0, 1.0), 1e9)], "2.18", fabric, network
        )[0]
        for name in ("Simple", "LL")
    )  # fmt: skip
    far = {step: 2 * (getattr(between, step) + network.latency) for step in ("step_ll128", "step_simple")}
    short = fabric.base + 28 * fabric.step_ll128 * between.ring_step + far["step_ll128"]
    full = fabric.base_simple + 28 * fabric.step_simple * between.ring_step + far["step_simple"]
    assert simple.latency == pytest.approx(short)
    assert simple.latency + simple.line == pytest.approx(full)
    assert ll.line == 0.0


def test_one_node_asks_nothing_of_a_network() -> None:
    asked = (wires_of(DGX), "all_reduce", Group(8, 8, 1.0), "thread", "2.18", load_fabric("ampere"))
    assert candidates(*asked, load_network("infiniband")) == candidates(*asked, None)


def test_streams_through_switches_grow_by_the_byte() -> None:
    given = CollectiveSettings(sharp=True, network="infiniband", launch="process")
    times = [
        nccl.choice("all_reduce", size, DGX, ranks=32, ranks_per_node=8, settings=given).seconds
        for size in (2.0**30, 2.0**31, 2.0**32)
    ]
    assert times[2] - times[1] == pytest.approx(2 * (times[1] - times[0]))


def test_more_than_two_million_ranks_are_refused() -> None:
    many = load_cluster("dgx-a100-80gb:4")
    collective_seconds("all_reduce", 1.0, many, ranks=2**21, ranks_per_node=8)
    with pytest.raises(PodsimError, match="ranks="):
        collective_seconds("all_reduce", 1.0, many, ranks=2**21 + 8, ranks_per_node=8)


def test_a_measured_machine_takes_what_was_measured() -> None:
    rows = tuple(
        Exchange(collective="all_reduce", ranks=ranks, latency=1e-6 * ranks, per_byte=1e-9 * ranks)
        for ranks in (2, 8)
    )
    wires = replace(wires_of(DGX), exchanges=rows)
    found = [measured_candidate(wires, "all_reduce", Group(ranks, ranks, 1.0)) for ranks in (2, 4, 8)]
    # four lie in the middle of two and eight by their logarithm
    assert [(c.latency, c.per_byte) for c in found] == [
        pytest.approx(pair) for pair in ((2e-6, 2e-9), (5e-6, 5e-9), (8e-6, 8e-9))
    ]
    assert found[0][4:6] + found[0][7:] == (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    alone = measured_candidate(wires, "broadcast", Group(1, 1, 1.0))
    assert (alone.latency, alone.per_byte) == (0.0, 0.0)
    with pytest.raises(ClusterError, match="broadcast was not measured"):
        measured_candidate(wires, "broadcast", Group(2, 2, 1.0))
