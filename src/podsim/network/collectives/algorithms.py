"""Every algorithm, as a function of the number of ranks: one more line here, and it inherits all tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsim.network.collectives import direct, hierarchical, rings, trees
from podsim.network.collectives.table import Table


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A named way to do a collective."""

    name: str
    collective: str
    build: Callable[[int], Table]
    """the table for so many ranks, with the usual options"""


def servers(ranks: int, largest: int = 8) -> tuple[int, int]:
    """(servers, ranks in each): the largest equal servers of at most `largest` ranks."""
    local = max(size for size in range(1, largest + 1) if ranks % size == 0)
    return ranks // local, local


_BUILD: tuple[tuple[str, str, Callable[[int], Table]], ...] = (
    ("parameter server", "all-reduce", direct.parameter_server_all_reduce),
    ("naive", "all-reduce", direct.naive_all_reduce),
    ("pipelined naive", "all-reduce", direct.pipelined_naive_all_reduce),
    ("partitioned", "all-reduce", direct.direct_all_reduce),
    ("ring", "all-reduce", rings.ring_all_reduce),
    (
        "multi-ring",
        "all-reduce",
        lambda ranks: rings.multi_ring_all_reduce(rings.rail_orders(*servers(ranks))),
    ),
    ("tree", "all-reduce", trees.tree_all_reduce),
    ("pipelined tree", "all-reduce", lambda ranks: trees.tree_all_reduce(ranks, pieces=4)),
    ("double tree", "all-reduce", lambda ranks: trees.double_tree_all_reduce(ranks, pieces=4)),
    ("halving-doubling", "all-reduce", trees.halving_doubling_all_reduce),
    ("hierarchical", "all-reduce", lambda ranks: hierarchical.hierarchical_all_reduce(*servers(ranks))),
    ("server ring", "all-reduce", lambda ranks: hierarchical.server_ring_all_reduce(*servers(ranks))),
    ("in-network", "all-reduce", trees.in_network_all_reduce),
    ("ring reduce-scatter", "reduce-scatter", rings.ring_reduce_scatter),
    ("direct reduce-scatter", "reduce-scatter", direct.direct_reduce_scatter),
    ("ring all-gather", "all-gather", rings.ring_all_gather),
    ("direct all-gather", "all-gather", direct.direct_all_gather),
    ("binomial broadcast", "broadcast", trees.binomial_broadcast),
    ("chain broadcast", "broadcast", rings.chain_broadcast),
    ("binomial reduce", "reduce", trees.binomial_reduce),
    ("chain reduce", "reduce", rings.chain_reduce),
    ("direct gather", "gather", direct.direct_gather),
    ("direct scatter", "scatter", direct.direct_scatter),
    ("direct all-to-all", "all-to-all", direct.direct_all_to_all),
    ("hierarchical all-to-all", "all-to-all", lambda n: hierarchical.hierarchical_all_to_all(*servers(n))),
    ("send-recv", "send-recv", direct.send_recv),
)

ALGORITHMS: tuple[Algorithm, ...] = tuple(
    Algorithm(name=name, collective=collective, build=build) for name, collective, build in _BUILD
)
