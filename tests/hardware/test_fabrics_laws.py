"""What holds of every fabric in the table, and of fabrics with something broken."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from fabric_builders import BUILDERS, folded_clos
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import ClusterError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import Fabric, Routing, fabric_of, torus
from podsim.hardware.fabrics.fabric_links import islands

ROUTINGS = [
    Routing(),
    Routing(seed=7, pxn=False),
    Routing(choice="destination"),
    Routing(choice="adaptive"),
]


@cache
def built(name: str) -> Fabric:
    return BUILDERS[name]()


def some_pairs(fabric: Fabric, count: int = 150):
    """GPUs with GPUs, and with ends of every other kind."""
    rng = np.random.default_rng(1)
    gpus = rng.integers(0, fabric.gpus, (2, count))
    others = [
        np.stack([rng.integers(0, fabric.gpus, 12), ends.first + rng.integers(0, ends.count, 12)])
        for ends in fabric.ends
        if ends.kind in ("nic", "storage", "drive", "cpu", "server")
    ]
    return np.concatenate([gpus, *others, *(pairs[::-1] for pairs in others)], axis=1)


def check_routes(fabric: Fabric, source, destination) -> list[list[int]]:
    """Each route starts and ends right, hangs together, visits nothing twice, uses nothing broken."""
    indptr, links = fabric.routes(source, destination)
    assert indptr.dtype == links.dtype == np.int64
    assert indptr[0] == 0
    assert indptr[-1] == len(links)
    assert (fabric.capacity[links] > 0).all()
    routes = [links[a:b].tolist() for a, b in pairwise(indptr)]
    for start, end, route in zip(source, destination, routes, strict=True):
        if start == end:
            assert route == []
            continue
        ends = [fabric.link_ends(link) for link in route]
        parts = [ends[0][0], *(head for _, head in ends)]
        assert (parts[0], parts[-1]) == (fabric.end_name(start), fabric.end_name(end))
        assert [tail for tail, _ in ends] == parts[:-1]
        assert len(set(parts)) == len(parts)
    return routes


def refusal(fabric: Fabric, source, destination) -> str:
    """What is said where there is no route; empty where all is well."""
    try:
        check_routes(fabric, source, destination)
    except ClusterError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("routing", ROUTINGS, ids=["ecmp", "no pxn", "destination", "adaptive"])
def test_routes_lead_from_end_to_end(name, routing):
    fabric = built(name).routed(routing)
    source, destination = some_pairs(fabric)
    check_routes(fabric, source, destination)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_way_back_has_the_same_kinds_of_links(name):
    fabric = built(name)
    source, destination = some_pairs(fabric, 60)[:, :60]
    there = check_routes(fabric, source, destination)
    back = check_routes(fabric, destination, source)
    for one, other in zip(there, back, strict=True):
        assert Counter(map(fabric.kind, one)) == Counter(map(fabric.kind, other))


@pytest.mark.parametrize("name", BUILDERS)
def test_a_route_depends_on_its_ends_alone(name):
    fabric = built(name)
    source, destination = some_pairs(fabric, 40)[:, :40]
    together = check_routes(fabric, source, destination)
    for pair in (0, 17, 39):
        _, links = fabric.routes(source[pair : pair + 1], destination[pair : pair + 1])
        assert links.tolist() == together[pair]


@pytest.mark.parametrize("name", BUILDERS)
def test_links_come_in_pairs_of_one_capacity_each_way(name):
    fabric = built(name)
    step = max(fabric.links // 500, 1)
    assert len(fabric.capacity) == len(fabric.latency) == sum(block.count for block in fabric.blocks)
    rates: Counter[tuple[str, str]] = Counter()
    for block in fabric.blocks:
        for place in range(0, block.count, step):
            link = block.first + place
            if fabric.capacity[link] > 0 and fabric.kind(link) != "drive":
                rates[fabric.link_ends(link)] += fabric.capacity[link]
    if step == 1:
        for (tail, head), rate in rates.items():
            assert rates[head, tail] == pytest.approx(rate)


@pytest.mark.parametrize("name", BUILDERS)
def test_everything_hangs_together(name):
    fabric = built(name)
    parts = [
        group
        for group in islands(fabric)
        if any(end.rpartition("/")[2].startswith(("gpu", "chip")) for end in group)
    ]
    assert len(parts) == 1


def test_every_pair_of_a_small_pod_is_reached_each_way():
    fabric = built("dgx-a100-80gb:4")
    source, destination = (grid.ravel() for grid in np.meshgrid(np.arange(32), np.arange(32)))
    check_routes(fabric, source, destination)


@settings(deadline=None, max_examples=60)
@given(
    ends=st.integers(2, 400),
    ports=st.integers(2, 20),
    taper=st.sampled_from([1.0, 1.5, 2.0, 4.0]),
    seed=st.integers(0, 9),
)
def test_any_folded_clos_either_works_or_says_why(ends, ports, taper, seed):
    try:
        fabric = folded_clos(ends, switch_ports=ports, bandwidth=1e9, taper=taper)
    except ClusterError:
        assert ends > 2 * (ports // 2) ** 3 / taper  # more than three layers of full leaves take
        return
    tree = fabric.wiring.networks[0].tree  # type: ignore[attr-defined]
    assert tree.spines == 0 or tree.multiple * tree.spines == tree.uplinks
    used = Counter()
    for link in range(fabric.links):
        used.update(part for part in fabric.link_ends(link) if not part.startswith("node"))
    assert max(used.values()) <= 2 * ports  # a port is a link each way
    rng = np.random.default_rng(seed)
    check_routes(fabric.routed(Routing(seed=seed)), *rng.integers(0, ends, (2, 40)))


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=3), data=st.data())
def test_torus_routes_are_shortest_and_go_around_what_is_broken(shape, data):
    fabric = torus(tuple(shape), bandwidth=1e9)
    chips = fabric.gpus
    pairs = np.array(
        data.draw(st.lists(st.tuples(*[st.integers(0, chips - 1)] * 2), min_size=1, max_size=8))
    ).T
    routes = check_routes(fabric, *pairs)
    at = np.array(np.unravel_index(pairs, shape))
    apart = np.abs(at[:, 0] - at[:, 1])
    shortest = np.minimum(apart, np.array(shape)[:, None] - apart).sum(axis=0)
    assert [len(route) for route in routes] == shortest.tolist()
    cut = [route[0] for route in routes if route][:2]
    if cut:
        names = [fabric.link_name(link) for link in cut]
        text = refusal(fabric.without(*names), *pairs)
        if text:  # a ring cut twice, or a single cable
            assert "no route" in text
            assert max(shape) <= 2 or sum(size > 1 for size in shape) == 1


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_routes_go_around_whatever_is_broken(data):
    fabric = built("superpod-a100:2su, 2:1")
    names = data.draw(
        st.lists(
            st.one_of(
                st.builds("node{}/nic{}".format, st.integers(0, 3), st.integers(0, 7)),
                st.builds("node{}/gpu{}>node*/nvswitch".format, st.integers(0, 3), st.integers(0, 7)),
                st.builds("leaf{}".format, st.integers(0, 15)),
                st.builds("spine{}".format, st.integers(0, 4)),
                st.builds("leaf{}>spine{}".format, st.integers(0, 15), st.integers(0, 4)),
                st.builds("node{}/pcie{}<>node*/cpu*".format, st.integers(0, 3), st.integers(0, 3)),
            ),
            min_size=1,
            max_size=5,
        )
    )
    broken = fabric.without(*names).routed(data.draw(st.sampled_from(ROUTINGS)))
    source = np.array(data.draw(st.lists(st.integers(0, 31), min_size=1, max_size=12)))
    destination = np.array([data.draw(st.sampled_from([0, 5, 9, 31, 160, 319])) for _ in source])
    text = refusal(broken, source, destination)
    assert not text or "no route" in text


def test_broken_parts_of_one_server_leave_the_others_alone():
    fabric = fabric_of(load_cluster("superpod-a100:2su"))
    broken = fabric.without("node3/nic2")
    source, destination = np.arange(32, 160), np.arange(160, 288)
    for mine, theirs in zip(
        fabric.routes(source, destination), broken.routes(source, destination), strict=True
    ):
        assert (mine == theirs).all()
