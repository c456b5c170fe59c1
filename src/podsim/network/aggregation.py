"""Reduction in the switches between nodes (SHARP): the aggregation trees of a fabric, as a table and as routes.

    GPUs of a node  --NVLink-->  heads, one for each adapter  --adapter-->  leaf  -->  spine  -->  core, and back

Each adapter of a node has a tree of its own, which sums one share of the buffer: every byte leaves a node once and
comes back once, whatever the number of nodes. The tree is made of the fabric's own switches and cables: the leaves of
that adapter's rail, the spine (or the core, and the spines below it) whose slowest cable is fastest, so that broken and
slow cables are avoided where others are left. Inside a node the GPUs send their parts of a share to its head (NCCL's
CollNet direct). Sources: R. Graham et al., Scalable Hierarchical Aggregation Protocol (SHARP), COMHPC 2016; NCCL
src/graph/search.cc.

Limits: switches add at line rate and hold any number of trees; a job has one tree an adapter.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric, Routing
from podsim.hardware.fabrics.tree import Tree
from podsim.hardware.fabrics.wiring import ServerWiring
from podsim.network.collectives import Table, make_table
from podsim.network.collectives.bricks import Columns, brick, stack
from podsim.network.play_links import Links
from podsim.records import dataclass, replace

_MOST_SENT = 20_000_000
"""The most transfers of a table; pieces become fewer until it has no more."""
_PIECES = 256
"""The pieces of a share that follow one another through the tree."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """The members of one level of a tree, nodes first, and their ways to the switches above."""

    parents: Ints
    """The switch above each member, numbered within its level."""
    up: Ints
    """The link from each member to the switch above."""
    down: Ints
    """The link from that switch to each member."""

    @property
    def switches(self) -> int:
        """The number of switches above."""
        return int(self.parents.max()) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregationTree:
    """The trees of a job on all GPUs of a fabric."""

    fabric: Fabric
    nodes: int
    local: int
    """count. The GPUs of a node."""
    heads: Ints
    """The local rank of the head of each tree."""
    adapters: Ints
    """The adapter of each tree, numbered within its node."""
    trees: tuple[tuple[Level, ...], ...]
    """The levels of each tree, from the nodes up; the last switch is the root."""

    @property
    def ranks(self) -> int:
        """The number of GPUs."""
        return self.nodes * self.local

    @property
    def levels(self) -> tuple[int, ...]:
        """count. The switches of the first tree by level, leaves first."""
        return tuple(level.switches for level in self.trees[0])

    @property
    def switches(self) -> tuple[int, ...]:
        """count. The switches of each tree."""
        return tuple(sum(level.switches for level in tree) for tree in self.trees)


def aggregation_tree(fabric: Fabric, cluster: Cluster) -> AggregationTree:
    """The trees over all nodes of a cluster's fabric.

    Raises PodsimError for a tree whose leaf or root no working cables reach.
    """
    wiring = fabric.wiring
    assert isinstance(wiring, ServerWiring)
    count = max(1, min(cluster.nics, cluster.gpus_per_node))
    adapters = np.arange(count) * cluster.nics // count
    trees = tuple(
        _tree(
            wiring.networks[0].tree,
            fabric.capacity,
            wiring.first_link[0],
            np.arange(cluster.nodes) * cluster.nics + n,
        )
        for n in adapters.tolist()
    )
    for adapter, tree in zip(adapters.tolist(), trees, strict=True):
        cables = np.concatenate([[*level.up, *level.down] for level in tree]).astype(np.int64)
        for cable in cables[fabric.capacity[cables] == 0][:1].tolist():
            raise PodsimError(
                f"{cluster.name}: {fabric.link_name(cable)} is broken, so the switches cannot reduce what adapter"
                f" {adapter} of each node sends; take --algo ring or tree"
            )
    heads = np.arange(count) * cluster.gpus_per_node // count
    return AggregationTree(
        fabric=fabric, nodes=cluster.nodes, local=cluster.gpus_per_node, heads=heads, adapters=adapters, trees=trees
    )  # fmt: skip


def _tree(tree: Tree, capacity: Floats, base: int, ports: Ints) -> tuple[Level, ...]:
    """The levels above these ports, one of each node."""
    first = {kind: base + number for kind, number in tree.first.items()}
    leaves, leaf_of = np.unique(tree.leaf[ports], return_inverse=True)
    levels = [Level(parents=leaf_of, up=first["port_up"] + ports, down=first["port_down"] + ports)]
    if len(leaves) == 1:
        return tuple(levels)
    if not tree.uplinks:
        raise PodsimError(
            f"{len(leaves)} leaves of one rail are not joined, so no tree of switches spans them"
        )
    roots = tree.cores or tree.spines
    turn = int(tree.rail[ports[0]])  # rails begin at different switches
    ways = [_above(tree, first, leaves, (turn + n) % roots) for n in range(roots)]
    slowest = [min(capacity[[*level.up, *level.down]].min() for level in way) for way in ways]
    return (*levels, *ways[int(np.argmax(slowest))])


def _above(tree: Tree, first: dict[str, int], leaves: Ints, root: int) -> tuple[Level, ...]:
    """The levels from leaves to a root: a spine, or with cores a core and one spine of each group."""
    group_of_leaf = tree.group[leaves]
    groups, group_of = np.unique(group_of_leaf, return_inverse=True)
    cable = spine = np.full(len(groups), root)
    if tree.cores:
        start = tree.first_cables[groups]
        cable = start + (root - start) % tree.cores
        spine = (cable - start) // (tree.group_cables[groups] // tree.spines)
    lower = leaves * tree.uplinks + spine[group_of]
    levels = [Level(parents=group_of, up=first["leaf_up"] + lower, down=first["leaf_down"] + lower)]
    if len(groups) > 1:
        top = np.zeros(len(groups), np.int64)
        levels.append(Level(parents=top, up=first["core_up"] + cable, down=first["core_down"] + cable))
    return tuple(levels)


def aggregation_table(tree: AggregationTree) -> Table:
    """The transfers of an all-reduce over such trees: to the heads, up adding, down copying, and back to the GPUs."""
    shares, ranks = len(tree.heads), tree.ranks
    pieces = max(1, min(_PIECES, _MOST_SENT // (2 * (shares * ranks + sum(tree.switches)))))
    rows: list[Columns] = []
    first = ranks
    for share, (head, levels) in enumerate(zip(tree.heads, tree.trees, strict=True)):
        node = np.arange(tree.nodes)[:, None] * tree.local
        other = np.setdiff1d(np.arange(tree.local), [head])
        leader, member = (ends.ravel() for ends in np.broadcast_arrays(node + head, node + other))
        common = {
            "chunk": share * pieces, "repeat": pieces, "turn": int(pieces > 1), "wheel": pieces, "channel": share,
        }  # fmt: skip
        last = 2 * len(levels) + 1
        rows.append(brick(step=0, source=member, destination=leader, reduce=1, **common))
        lower = np.arange(tree.nodes) * tree.local + head
        for height, level in enumerate(levels):
            parent = first + level.parents
            rows.append(brick(step=height + 1, source=lower, destination=parent, reduce=1, **common))
            rows.append(brick(step=last - height - 1, source=parent, destination=lower, **common))
            lower = first + np.arange(level.switches)
            first += level.switches
        rows.append(brick(step=last, source=leader, destination=member, **common))
    return make_table(
        "in-network", "all-reduce", stack(*rows), ranks=ranks, chunks=shares * pieces, switches=first - ranks
    )  # fmt: skip


def aggregation_links(tree: AggregationTree, inside: float, outside: float) -> Links:
    """The fabric's links as the table numbers its ends, at shares of their rates: of NVLinks, and of adapters."""
    fabric = tree.fabric.routed(Routing())
    capacity = fabric.capacity.copy()
    capacity[fabric.links_of_kind("nvlink")] *= min(inside, 1.0)
    capacity[fabric.links_of_kind("adapter")] *= outside
    return Links(
        capacity=capacity, latency=fabric.latency, route=partial(_hops, replace(tree, fabric=fabric))
    )


def _hops(tree: AggregationTree, source: Ints, destination: Ints) -> Ints:
    """The links of each pair: inside a node, between a head and its leaf, or between two switches; -1 for none."""
    falling, rising = source >= tree.ranks, destination >= tree.ranks
    into, out, between = rising & ~falling, falling & ~rising, rising & falling
    begin, end = np.where(between, 0, source), np.where(between, 0, destination)
    end[into], begin[out] = _adapter(tree, source[into]), _adapter(tree, destination[out])
    indptr, links = tree.fabric.routes(begin, end)
    length = np.diff(indptr)
    hops = np.full((len(source), int(length.max(initial=0)) + 2), -1, np.int64)
    position = np.arange(len(links)) - np.repeat(indptr[:-1], length)
    hops[np.repeat(np.arange(len(source)), length), 1 + position] = links
    hops[into, -1], hops[out, 0] = _cable(tree, source[into], "up"), _cable(tree, destination[out], "down")
    up, down = (_trunks(tree, way) for way in ("up", "down"))
    lower, higher = between & (source < destination), between & (source > destination)
    hops[lower, 0] = up[source[lower] - tree.ranks]
    hops[higher, 0] = down[destination[higher] - tree.ranks]
    return hops


def _share(tree: AggregationTree, head: Ints) -> Ints:
    """The number of the tree of each head."""
    return np.searchsorted(tree.heads, head % tree.local)


def _adapter(tree: AggregationTree, head: Ints) -> Ints:
    """The end of the adapter that each head uses."""
    adapters = tree.fabric.count("nic") // tree.nodes
    return tree.fabric.end("nic") + head // tree.local * adapters + tree.adapters[_share(tree, head)]


def _cable(tree: AggregationTree, head: Ints, way: str) -> Ints:
    """The link between each head's adapter and its leaf."""
    links = np.array([getattr(levels[0], way) for levels in tree.trees], np.int64)
    return np.asarray(links[_share(tree, head), head // tree.local])


def _trunks(tree: AggregationTree, way: str) -> Ints:
    """The link between each switch and the one above, in the order of the table; -1 for a root."""
    links = [[*(getattr(level, way) for level in levels[1:]), np.full(1, -1)] for levels in tree.trees]
    return np.concatenate([part for parts in links for part in parts])
