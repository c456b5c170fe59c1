"""Reduction in the NVSwitches of each node, and a double tree over the nodes (NVLSTree), as a table and as links.

    GPUs of a node  --NVLink-->  NVSwitch  --adapters of the node-->  NVSwitch of the parent node, and back

Each tree has half of the buffer. The GPU that hands a rail's share to its adapter is left out: the share of NVLink's
rate that was fitted for NVSwitches counts its bytes. Sources: NCCL src/device/all_reduce.h, src/graph/trees.cc.
Limits: the switches between nodes hold nobody up.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Ints
from podsim.hardware.cluster import Cluster
from podsim.network.collectives import Table, make_table
from podsim.network.collectives.bricks import Columns, brick, stack
from podsim.network.collectives.trees import tree_rows, two_trees
from podsim.network.play_links import Links, make_links

_MOST_SENT = 2_000_000
"""The most transfers of a table; pieces become fewer until it has no more."""
_PIECES = 256
"""The pieces of a tree's half that follow one another."""


def switch_tree_table(nodes: int, local: int) -> Table:
    """The transfers of an all-reduce: node m's switch is node `nodes * local + m` of the table."""
    ranks = nodes * local
    rank, pieces = np.arange(ranks), max(1, min(_PIECES, _MOST_SENT // (6 * ranks)))
    rows: list[Columns] = []
    for tree, parent in enumerate(two_trees(nodes)):
        common = {
            "chunk": tree * pieces, "repeat": pieces, "turn": int(pieces > 1), "wheel": pieces, "channel": tree,
        }  # fmt: skip
        above = np.concatenate([np.full(ranks, -1), np.where(parent >= 0, parent + ranks, -1)])
        across = tree_rows(above, pieces, tree * pieces, tree)
        across["step"] = across["step"] + 1
        last = int(across["step"].max(initial=0)) + 1
        rows += [
            brick(step=0, source=rank, destination=ranks + rank // local, reduce=1, **common),
            across,
            brick(step=last, source=ranks + rank // local, destination=rank, **common),
        ]
    return make_table("nvlstree", "all-reduce", stack(*rows), ranks=ranks, chunks=2 * pieces, switches=nodes)


def switch_trees(cluster: Cluster, inside: float, outside: float) -> tuple[Table, Links]:
    """Table and links of a cluster: `inside` B/s of a GPU to its switch, `outside` B/s of all adapters of a node."""
    ranks, nodes = cluster.gpus, cluster.nodes

    def route(source: Ints, destination: Ints) -> Ints:
        hops = np.full((len(source), 2), -1, np.int64)
        up, down = source < ranks, destination < ranks
        hops[up, 0] = source[up]
        hops[down, 0] = ranks + destination[down]
        across = ~up & ~down
        hops[across] = np.stack([ranks + source, ranks + nodes + destination], axis=1)[across]
        return hops

    counts = (2 * ranks, 2 * nodes)
    latency = (cluster.nvlink.latency, cluster.network.latency / 2)
    links = make_links(np.repeat((inside, outside), counts), np.repeat(latency, counts), route)
    return switch_tree_table(nodes, cluster.gpus_per_node), links
