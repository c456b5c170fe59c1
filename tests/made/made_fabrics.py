"""Fabrics for tests and benchmarks of the network."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Ints
from podsim.errors import ClusterError
from podsim.network.play_links import Links, make_links


def leaf_spine(
    *,
    nodes: int,
    local: int = 1,
    inside: float = np.inf,
    outside: float,
    leaf: int,
    taper: float = 1.0,
    uplinks: int = 1,
    rails: bool = True,
    inside_latency: float = 0.0,
    outside_latency: float = 0.0,
    spine_latency: float = 0.0,
) -> Links:
    """Servers of `local` ranks, each rank with a port to the others of its server and an adapter to a leaf switch.

    inside, outside: B/s of those two ports. A leaf switch joins `leaf` servers; with `rails`, each local rank has leaf
    switches of its own. Its links to the spine carry `taper` times what its adapters do, as `uplinks` links of which a
    transfer takes number destination mod uplinks. Ranks of one server use the inside; others the adapters, over the
    spine unless on one leaf switch. Latencies are of a whole way: inside, over a leaf, and what the spine adds.
    Raises ClusterError for counts below 1.
    """
    if min(nodes, local, leaf, uplinks) < 1 or not taper > 0.0:
        raise ClusterError(
            f"leaf_spine: {nodes=}, {local=}, {leaf=}, {uplinks=}, {taper=}; all must be at least 1 (taper > 0)"
        )
    ranks, groups = nodes * local, -(-nodes // leaf)
    leaves = groups * (local if rails else 1)
    trunk = taper * outside * leaf * (1 if rails else local) / uplinks

    def leaf_of(rank: Ints) -> Ints:
        group = rank // local // leaf
        return group * local + rank % local if rails else group

    def route(source: Ints, destination: Ints) -> Ints:
        near = source // local == destination // local
        here, there = leaf_of(source), leaf_of(destination)
        high = ~near & (here != there)
        lane = destination % uplinks
        up, down = 4 * ranks + here * uplinks + lane, 4 * ranks + (leaves + there) * uplinks + lane
        first = np.where(near, source, 2 * ranks + source)
        last = np.where(near, ranks + destination, 3 * ranks + destination)
        return np.stack([first, np.where(high, up, -1), np.where(high, down, -1), last], axis=1)

    sizes = (2 * ranks, 2 * ranks, 2 * leaves * uplinks)
    capacity = np.repeat([inside, outside, trunk], sizes)
    latency = np.repeat([inside_latency / 2.0, outside_latency / 2.0, spine_latency / 2.0], sizes)
    return make_links(capacity, latency, route)


def single_switch(
    ranks: int, bandwidth: ArrayLike, latency: float = 0.0, *, down: ArrayLike | None = None
) -> Links:
    """One switch, a link up (number r) and a link down (ranks + r) for each rank r; node `ranks` is the switch itself.

    bandwidth: B/s up, one number or [ranks]; down: the same, default as up. latency: s between two ranks, half a link.
    """
    rates = [
        np.broadcast_to(np.asarray(rate, np.float64), ranks)
        for rate in (bandwidth, bandwidth if down is None else down)
    ]

    def route(source: Ints, destination: Ints) -> Ints:
        hops = np.stack([source, ranks + destination], axis=1)
        hops[source >= ranks, 0] = -1
        hops[destination >= ranks, 1] = -1
        return hops

    return make_links(np.concatenate(rates), latency / 2.0, route)
