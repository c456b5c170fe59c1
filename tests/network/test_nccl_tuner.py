"""What NCCL believes, worked by hand from its src/graph/tuning.cc: latencies, caps, and what it takes off trees."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from podsim.network.nccl_group import Group, Wires, layout_numbers
from podsim.network.nccl_tuner import (
    Belief,
    beliefs,
    channel_rate,
    chosen_until,
    collnet_seconds,
    graph_channels,
    network_step,
    post_overhead,
)

ENDLESS = 1e18
WIRES = Wires(
    architecture="ampere", topology="nvswitch", fabric="infiniband", vendor="intel", gpus=8, nvlink=ENDLESS,
    nvlink_latency=0.6e-6, nics=8, network=ENDLESS, network_latency=2.7e-6,
)  # fmt: skip
PAIRS = Group(4, 2, 1.0)
"""two nodes of two GPUs: a ring has 4 steps inside nodes and 2 between, a tree one of each up, and down"""


def believed(wires: Wires, group: Group, release: str, collective: str = "all_reduce") -> dict[str, Belief]:
    """Beliefs of 16 channels by algorithm and protocol."""
    found = beliefs(wires, group, collective, release, 16)
    return {f"{belief.algorithm} {belief.protocol}": belief for belief in found}


@pytest.mark.parametrize(
    ("topology", "release", "ring", "tree"),  # us, by protocol; PCI Express has no LL128
    [
        ("nvswitch", "2.7", (3.6 + 4 * 0.47 * 1.8 + 2 * 2.7, 10 + 4 * 1.9 + 2 * 4, 8.4 + 4 * 3.4 + 2 * 9.6),
         (4.4 + 2 * (0.52 * 1.8 + 5), 4.4 + 2 * (1.25 + 8.5), 2 * (28 + 50))),
        ("nvswitch", "2.8", (3.6 + 4 * 0.47 * 1.8 + 2 * 2.7, 10 + 4 * 1.9 + 2 * 4, 8.4 + 4 * 3.4 + 2 * 9.6),
         (4.4 + 2 * (0.52 * 1.8 + 5), 4.4 + 2 * (1.25 + 8.5), 2 * (28 + 28))),
        ("nvswitch", "2.18", (6.6 + 4 * 1.0 + 2 * 2.7, 14 + 4 * 1.9 + 2 * 4, 8.4 + 4 * 3.4 + 2 * 14),
         (6.8 + 2 * (0.6 + 5), 14 + 2 * (1.25 + 8.5), 2 * (4 + 14))),
        ("nvswitch", "2.20", (6.6 + 4 * 1.0 + 2 * 2.7, 14 + 4 * 1.9 + 2 * 4, 8.4 + 4 * 3.4 + 2 * 14),
         (6.8 + 2 * (0.6 + 5), 14 + 2 * (1.25 + 8.5), 8.4 + 2 * (4 + 14))),
        ("pcie", "2.8", (3.6 + 4 * 1.0 * 1.8 + 2 * 2.7, 8.4 + 4 * 5.7 + 2 * 9.6),
         (4.4 + 2 * (1.0 * 1.8 + 5), 2 * (28 + 28))),
        ("pcie", "2.18", (6.6 + 4 * 1.0 + 2 * 2.7, 8.4 + 4 * 5.7 + 2 * 14), (6.8 + 2 * (1 + 5), 2 * (6 + 14))),
        ("pcie", "2.20", (6.6 + 4 * 1.0 + 2 * 2.7, 8.4 + 4 * 5.7 + 2 * 14), (6.8 + 2 * (1 + 5), 8.4 + 2 * (4 + 14))),
    ],
)  # fmt: skip
def test_latencies_between_two_nodes(
    topology: str, release: str, ring: tuple[float, ...], tree: tuple[float, ...]
) -> None:
    found = beliefs(replace(WIRES, topology=topology), PAIRS, "all_reduce", release, 16)
    assert [1e6 * belief.latency for belief in found] == pytest.approx([*ring, *tree])


def test_pcie_steps_inside_a_node() -> None:
    # 14 steps of 1 us (LL) and of 5.7 us (Simple); the host posts nothing
    found = believed(replace(WIRES, topology="pcie"), Group(8, 8, 1.0), "2.20")
    assert 1e6 * found["ring LL"].latency == pytest.approx(6.6 + 14 * 1.0)
    assert 1e6 * found["ring Simple"].latency == pytest.approx(8.4 + 14 * 5.7)


def test_one_gpu_a_node_steps_as_trees_do() -> None:
    found = believed(WIRES, Group(3, 1, 1.0), "2.18")
    assert 1e6 * found["ring LL"].latency == pytest.approx(6.6 + 4 * 5.0)
    assert 1e6 * found["ring LL128"].latency == pytest.approx(14 + 4 * 8.5)


def test_slow_adapters_count_from_2_18_on() -> None:
    slow = replace(WIRES, network_latency=20e-6)
    times = {release: [network_step(slow, p, 10.0, release) for p in range(3)] for release in ("2.8", "2.18")}
    assert times["2.8"] == [10.0, 10.0, 10.0]
    assert times["2.18"] == pytest.approx([27.3, 27.3, 44.6])


@pytest.mark.parametrize(
    ("vendor", "group", "microseconds"),
    [("intel", Group(8, 8, 1.0), (0, 0, 0)), ("intel", PAIRS, (1, 1, 3)), ("amd", PAIRS, (2, 2, 6))],
)
def test_hosts_post_what_crosses_nodes(vendor: str, group: Group, microseconds: tuple[float, ...]) -> None:
    found = post_overhead(replace(WIRES, vendor=vendor), group)
    assert [1e6 * each for each in found] == pytest.approx(microseconds)


@pytest.mark.parametrize(
    ("architecture", "nodes", "ring", "tree"),
    # GB/s, links being endless: LL of a ring; of a tree LL, LL128 and Simple, whose Simple may cap the others:
    # LL at 1 / 3.8 of it, LL128 at 7 / 9 in a node, at 120 / 128 between nodes
    [
        ("volta", 1, (39.0, 16 * 20), (39.0, 16 * 20, 16 * 26.5)),
        ("volta", 2, (39.0, 16 * 20), (39.0, 16 * 18.5 * 120 / 128, 16 * 18.5)),
        ("volta", 3, (20.4, 16 * 20), (20.4, 16 * 10 * 120 / 128, 16 * 10)),
        ("ampere", 1, (87.7, 16 * 20), (87.7, 16 * 24 * 7 / 9, 16 * 24)),
        ("ampere", 2, (39.0, 16 * 20), (39.0, 16 * 20, 16 * 23.6)),
        ("ampere", 3, (20.4, 16 * 20), (20.4, 16 * 17.8 * 120 / 128, 16 * 17.8)),
        ("hopper", 1, (141.0, 16 * 36.7), (141.0, 16 * 38.7 * 7 / 9, 16 * 38.7)),
        ("hopper", 2, (45.0, 16 * 36.7), (45.0, 16 * 36.7, 16 * 41.4)),
        ("hopper", 3, (35.0, 16 * 36.7), (35.0, 16 * 29.0, 16 * 36.0)),
        ("blackwell", 1, (282.0, 16 * 40), (282.0, 16 * 70 * 7 / 9, 16 * 70)),
        ("blackwell", 2, (90.0, 16 * 40), (90.0, 16 * 31.67, 16 * 42.8)),
        ("blackwell", 3, (70.0, 16 * 40), (70.0, 16 * 20.0, 16 * 24.0)),
    ],
)
def test_caps_of_endless_links(
    architecture: str, nodes: int, ring: tuple[float, ...], tree: tuple[float, ...]
) -> None:
    group = Group(8 * nodes, 8, 1.0)
    found = believed(replace(WIRES, architecture=architecture), group, "2.20")
    share = group.ranks / (2 * (group.ranks - 1))
    rings = [found[f"ring {name}"].bandwidth / share / 1e9 for name in ("LL", "LL128")]
    trees = [2 * found[f"tree {name}"].bandwidth / 1e9 for name in ("LL", "LL128", "Simple")]
    assert rings == pytest.approx(ring)
    top = tree[-1]
    assert trees == pytest.approx([min(tree[0], top / 3.8), *tree[1:]])


@pytest.mark.parametrize(
    ("release", "nodes", "latency", "share"),  # us; share of 0.8 of NVLink, 0.85 of it by 15 of 16 channels
    [
        ("2.18", 2, 23 + 2 * 1 * 19, 0.7 * 2 / 2),
        ("2.18", 4, 23 + 2 * 3 * 19, 0.7 * 4 / 6),
        ("2.20", 2, 25 + 2 * 1 * 20.9, 1),
        ("2.20", 4, 25 + 2 * 2 * 20.9, 1),
    ],
)
def test_switches_reduce_inside_nodes_of_hopper(
    release: str, nodes: int, latency: float, share: float
) -> None:
    wires = replace(WIRES, architecture="hopper", nvlink=450e9)
    found = believed(wires, Group(8 * nodes, 8, 1.0), release)["nvlstree Simple"]
    assert found.latency == pytest.approx(latency * 1e-6)
    assert found.bandwidth == pytest.approx(share * 0.8 * 450e9 * 0.85 * 15 / 16)
    assert "nvlstree Simple" not in believed(wires, Group(8 * nodes, 8, 1.0), "2.8")


@pytest.mark.parametrize(("protocol", "least"), [("LL", 0.4), ("LL128", 0.6), ("Simple", 0.5)])
@pytest.mark.parametrize("doublings", range(24))
def test_trees_lose_a_part_of_their_bandwidth(protocol: str, least: float, doublings: int) -> None:
    # a tree of 1 B/s takes `size` s at its full bandwidth; the other takes a fixed time, whatever the size
    size, tree = 64.0 * 2**doublings, Belief("tree", protocol, 0.0, 1.0)

    def until(fixed: float) -> float:
        other = Belief("ring", "LL", fixed, math.inf)
        return chosen_until([tree, other], WIRES, PAIRS, "all_reduce", "2.18", 16)[0]

    assert until(0.999 * size) < size
    assert until(1.001 * size / least) > size


@pytest.mark.parametrize(("apart", "counted"), [(0, 24.0), (1, 20.0), (2, 13.4)])
def test_what_root_complexes_let_through(apart: int, counted: float) -> None:
    wires = replace(WIRES, topology="pcie-root", nvlink=31.5e9)
    found = believed(wires, Group(4, 4, 1.0, apart), "2.18")["ring Simple"]
    assert found.bandwidth == pytest.approx(counted * 1e9 * 4 / 6)


@pytest.mark.parametrize(
    ("wires", "members", "layouts"),  # of strides 0, 1, 2 and 8
    [
        (WIRES, 4, [0, 0, 0, 0]),
        (replace(WIRES, rings=((1.0,), (0.5,))), 2, [0, 0, 4, 4]),
        (replace(WIRES, topology="pcie-root"), 2, [0, 0, 1, 2]),
        (replace(WIRES, topology="pcie", socket=20e9), 3, [0, 0, 6, 14]),
    ],
)
def test_where_groups_lie(wires: Wires, members: int, layouts: list[int]) -> None:
    assert [int(layout_numbers(wires, members, stride, None)) for stride in (0, 1, 2, 8)] == layouts


@pytest.mark.parametrize(
    ("architecture", "nics", "gigabits", "channels"),
    [
        ("ampere", 8, 200, 8),  # 24 GB/s a channel: not split, as in nccl's own DGX A100 graph
        ("ampere", 4, 100, 4), ("hopper", 8, 400, 8),  # more than four stay whole from Hopper on
        ("hopper", 4, 400, 8), ("volta", 1, 100, 1), ("blackwell", 72, 400, 32),  # half of MAXCHANNELS
    ],
)  # fmt: skip
def test_a_graph_has_a_channel_for_each_adapter(
    architecture: str, nics: int, gigabits: float, channels: int
) -> None:
    wires = replace(WIRES, architecture=architecture, gpus=8, nics=nics, network=gigabits * 1e9 / 8)
    assert graph_channels(wires, Group(16, 8, 1.0)) == channels


def test_two_nodes_with_four_adapters_run_rings_and_with_slow_ones_trees() -> None:
    # of a buffer: ring 96 x 16/30 = 51 GB/s, tree 4 channels x 23.6 / 2 = 47; at 12 GB/s 25.6, and 96 x 0.92 / 2 = 44
    for network, rate, winner in ((25e9, 51.2, "ring"), (12.5e9, 44.2, "tree")):
        wires = replace(WIRES, nvlink=300e9, nics=4, network=network)
        group = Group(16, 8, 1.0)
        found = beliefs(wires, group, "all_reduce", "2.18", graph_channels(wires, group))
        best = max(found, key=lambda belief: belief.bandwidth)
        assert (best.algorithm, best.bandwidth / 1e9) == (winner, pytest.approx(rate, rel=0.01))


def test_channels_carry_what_was_measured_of_one() -> None:
    wires = replace(WIRES, nics=2, network=25e9)
    sixteen = Group(128, 8, 1.0)
    assert channel_rate(wires, sixteen, "tree", "Simple") == pytest.approx(2 * 17.8e9)
    assert channel_rate(wires, sixteen, "ring", "LL128") == pytest.approx(2 * 20e9)
    assert channel_rate(wires, sixteen, "ring", "Simple") == math.inf
    assert channel_rate(replace(wires, architecture="hopper"), sixteen, "tree", "LL128") == math.inf


@pytest.mark.parametrize(("release", "microseconds"), [("2.8", 24.3), ("2.18", 33.7), ("2.20", 44.0)])
def test_a_reduction_in_the_network_by_nccls_own_count(release: str, microseconds: float) -> None:
    # 2 (step + 7 further GPUs) + a step between nodes
    assert 1e6 * collnet_seconds(Group(32, 8, 1.0), release) == pytest.approx(microseconds)


def test_short_messages_leave_the_switches_where_a_tree_is_forecast_faster() -> None:
    wires = replace(WIRES, nvlink=300e9, network=25e9, sharp=True)
    two = Group(16, 8, 1.0)
    first = {}
    for release in ("2.8", "2.20"):
        channels = graph_channels(wires, two)
        found = beliefs(wires, two, "all_reduce", release, channels)
        until = chosen_until(found, wires, two, "all_reduce", release, channels)
        first[release] = min(
            (last, belief.algorithm) for belief, last in zip(found, until, strict=True) if last
        )[1]
    assert first == {"2.8": "collnet", "2.20": "tree"}
