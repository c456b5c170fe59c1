"""Every algorithm, as a function of the number of ranks: one more line here, and it inherits all tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from podsim.network.collectives.direct import (
    direct_all_gather,
    direct_all_reduce,
    direct_all_to_all,
    direct_gather,
    direct_reduce_scatter,
    direct_scatter,
    naive_all_reduce,
    parameter_server_all_reduce,
    pipelined_naive_all_reduce,
    send_recv,
)
from podsim.network.collectives.hierarchical import (
    hierarchical_all_reduce,
    hierarchical_all_to_all,
    server_ring_all_reduce,
)
from podsim.network.collectives.rings import (
    chain_broadcast,
    chain_reduce,
    multi_ring_all_reduce,
    rail_orders,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from podsim.network.collectives.table import Table
from podsim.network.collectives.tori import (
    cubic_axes,
    torus_all_gather,
    torus_all_reduce,
    torus_all_to_all,
    torus_reduce_scatter,
)
from podsim.network.collectives.trees import (
    binomial_broadcast,
    binomial_reduce,
    double_tree_all_reduce,
    halving_doubling_all_reduce,
    in_network_all_reduce,
    tree_all_reduce,
)


class Algorithm(NamedTuple):
    """A named way to do a collective."""

    name: str
    collective: str
    build: Callable[[int], Table]
    """The table for a number of ranks, with the usual options."""


def servers(ranks: int, largest: int = 8) -> tuple[int, int]:
    """(servers, ranks in each): the largest equal servers of at most `largest` ranks."""
    local = max(size for size in range(1, largest + 1) if ranks % size == 0)
    return ranks // local, local


_BUILD: tuple[tuple[str, str, Callable[[int], Table]], ...] = (
    ("parameter server", "all-reduce", parameter_server_all_reduce),
    ("naive", "all-reduce", naive_all_reduce),
    ("pipelined naive", "all-reduce", pipelined_naive_all_reduce),
    ("partitioned", "all-reduce", direct_all_reduce),
    ("ring", "all-reduce", ring_all_reduce),
    (
        "multi-ring",
        "all-reduce",
        lambda ranks: multi_ring_all_reduce(rail_orders(*servers(ranks))),
    ),
    ("tree", "all-reduce", tree_all_reduce),
    ("pipelined tree", "all-reduce", lambda ranks: tree_all_reduce(ranks, pieces=4)),
    ("double tree", "all-reduce", lambda ranks: double_tree_all_reduce(ranks, pieces=4)),
    ("halving-doubling", "all-reduce", halving_doubling_all_reduce),
    ("hierarchical", "all-reduce", lambda ranks: hierarchical_all_reduce(*servers(ranks))),
    ("server ring", "all-reduce", lambda ranks: server_ring_all_reduce(*servers(ranks))),
    ("in-network", "all-reduce", in_network_all_reduce),
    ("ring reduce-scatter", "reduce-scatter", ring_reduce_scatter),
    ("direct reduce-scatter", "reduce-scatter", direct_reduce_scatter),
    ("ring all-gather", "all-gather", ring_all_gather),
    ("direct all-gather", "all-gather", direct_all_gather),
    ("binomial broadcast", "broadcast", binomial_broadcast),
    ("chain broadcast", "broadcast", chain_broadcast),
    ("binomial reduce", "reduce", binomial_reduce),
    ("chain reduce", "reduce", chain_reduce),
    ("direct gather", "gather", direct_gather),
    ("direct scatter", "scatter", direct_scatter),
    ("direct all-to-all", "all-to-all", direct_all_to_all),
    ("hierarchical all-to-all", "all-to-all", lambda n: hierarchical_all_to_all(*servers(n))),
    ("send-recv", "send-recv", send_recv),
    ("torus", "all-reduce", lambda n: torus_all_reduce(cubic_axes(n))),
    ("torus reduce-scatter", "reduce-scatter", lambda n: torus_reduce_scatter(cubic_axes(n))),
    ("torus all-gather", "all-gather", lambda n: torus_all_gather(cubic_axes(n))),
    ("torus all-to-all", "all-to-all", lambda n: torus_all_to_all(cubic_axes(n))),
)

ALGORITHMS: tuple[Algorithm, ...] = tuple(map(Algorithm._make, _BUILD))
