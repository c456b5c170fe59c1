"""Reduction in the switches between nodes (SHARP): the aggregation trees of a cluster, as a table and as links.

    GPUs of a node  --NVLink-->  heads, one for each adapter  --adapter-->  leaf switch  -->  …  -->  root, and back

Each rail has a tree of its own, which sums one share of the buffer: every byte leaves a node once and comes back once,
whatever the number of nodes. Inside a node the GPUs send their parts of a share to its head (NCCL's CollNet
direct). Sources: R. Graham et al., Scalable Hierarchical Aggregation Protocol (SHARP), COMHPC 2016; NCCL
src/graph/search.cc.

Limits: switches add at line rate and hold any number of trees; a job has one tree a rail.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.network.collectives import Table, make_table
from podsim.network.collectives.rows import Columns, brick, stack
from podsim.network.collectives.table import Ints
from podsim.network.play_links import Links, make_links

_PORTS = 40
"""Ports of a Quantum switch (QM8700), where the catalog names no switch."""
_HOP = 130e-9
"""s. The latency of such a switch, port to port; its product brief."""
_MOST_SENT = 2_000_000
"""The most transfers of a table; pieces become fewer until it has no more."""
_PIECES = 64
"""The pieces of a share that follow one another through the tree."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregationTree:
    """The tree of one rail over nodes; all rails have the same."""

    nodes: int
    local: int
    """count. The GPUs of a node."""
    heads: Ints
    """The local rank of the head of each rail."""
    levels: tuple[int, ...]
    """count. The switches of a rail by level, leaves first; the last level is the root."""
    fans: tuple[int, ...]
    """count. The members below one switch of each level."""

    @property
    def switches(self) -> int:
        """Switches of one rail."""
        return sum(self.levels)

    def above(self, level: int) -> tuple[Ints, Ints]:
        """(members of a level, their parents), as switches of a rail; level 0 has nodes below its leaves."""
        first = sum(self.levels[:level])
        count = self.levels[level - 1] if level else self.nodes
        member = np.arange(count)
        return member + (first - count if level else 0), first + member // self.fans[level]


def aggregation_tree(cluster: Cluster) -> AggregationTree:
    """The tree of a rail: leaves of a scalable unit, then half of a switch's ports to each level, up to one root."""
    system = cluster.system
    half = (system.switch.ports if system.switch else _PORTS) // 2
    fans = [min(system.unit or half, cluster.nodes)]
    levels = [ceil(cluster.nodes / fans[0])]
    while levels[-1] > 1:
        fans.append(min(half, levels[-1]))
        levels.append(ceil(levels[-1] / fans[-1]))
    count = max(1, min(cluster.nics, cluster.gpus_per_node))
    heads = np.arange(count) * cluster.gpus_per_node // count
    return AggregationTree(
        nodes=cluster.nodes, local=cluster.gpus_per_node, heads=heads, levels=tuple(levels), fans=tuple(fans)
    )


def aggregation_table(tree: AggregationTree) -> Table:
    """The transfers of an all-reduce over such trees: to the heads, up adding, down copying, and back to the GPUs."""
    rails, ranks = len(tree.heads), tree.nodes * tree.local
    pieces = max(1, min(_PIECES, _MOST_SENT // (2 * rails * (ranks + tree.switches))))
    rows: list[Columns] = []
    for rail, head in enumerate(tree.heads):
        node = np.arange(tree.nodes)[:, None] * tree.local
        other = np.setdiff1d(np.arange(tree.local), [head])
        leader, member = (ends.ravel() for ends in np.broadcast_arrays(node + head, node + other))
        common = {
            "chunk": rail * pieces, "repeat": pieces, "turn": int(pieces > 1), "wheel": pieces, "channel": rail,
        }  # fmt: skip
        first, last = ranks + rail * tree.switches, 2 * len(tree.levels) + 1
        rows.append(brick(step=0, source=member, destination=leader, reduce=1, **common))
        for level in range(len(tree.levels)):
            below, parent = tree.above(level)
            lower = first + below if level else np.arange(tree.nodes) * tree.local + head
            rows.append(brick(step=level + 1, source=lower, destination=first + parent, reduce=1, **common))
            rows.append(brick(step=last - level - 1, source=first + parent, destination=lower, **common))
        rows.append(brick(step=last, source=leader, destination=member, **common))
    return make_table(
        "in-network",
        "all-reduce",
        stack(*rows),
        ranks=ranks,
        chunks=rails * pieces,
        switches=rails * tree.switches,
    )


def aggregation_links(cluster: Cluster, tree: AggregationTree, inside: float, outside: float) -> Links:
    """The links of such trees: `inside` B/s of a GPU to others of its node, `outside` B/s of an adapter.

    Raises PodsimError for a cluster with broken links, around which no tree is built.
    """
    if cluster.faults:
        raise PodsimError(f"{cluster.name}: aggregation trees are not built around broken or slow links")
    ranks, rails, switch = tree.nodes * tree.local, len(tree.heads), cluster.system.switch
    heads, switches = tree.nodes * rails, rails * tree.switches
    adapter, trunk = 2 * ranks, 2 * (ranks + heads)
    rail_of = np.full(tree.local, -1)
    rail_of[tree.heads] = np.arange(rails)

    def head_link(rank: Ints) -> Ints:
        return np.asarray(rank // tree.local * rails + rail_of[rank % tree.local], np.int64)

    def route(source: Ints, destination: Ints) -> Ints:
        up, down = source >= ranks, destination >= ranks
        hops = np.full((len(source), 2), -1, np.int64)
        inner = ~up & ~down
        hops[inner] = np.stack([source, ranks + destination], axis=1)[inner]
        into, out = ~up & down, up & ~down
        hops[into, 0] = adapter + head_link(source[into])
        hops[out, 0] = adapter + heads + head_link(destination[out])
        rising, falling = up & down & (source < destination), up & down & (source > destination)
        hops[rising, 0] = trunk + source[rising] - ranks
        hops[falling, 0] = trunk + switches + destination[falling] - ranks
        return hops

    counts = (2 * ranks, 2 * heads, 2 * switches)
    cable = switch.bandwidth if switch else cluster.network.bandwidth
    latency = (cluster.nvlink.latency / 2, cluster.network.latency / 2, switch.latency if switch else _HOP)
    return make_links(np.repeat((inside, outside, cable), counts), np.repeat(latency, counts), route)
