"""Algorithms on trees and hypercubes: few steps, for small messages and many ranks."""

from __future__ import annotations

import numpy as np

from podsim.axes import Ints
from podsim.network.collectives.bricks import Columns, brick, stack
from podsim.network.collectives.table import EVERYWHERE, Table, make_table


def tree_parents(ranks: int) -> Ints:
    """Parent of each rank in NCCL's binary tree, [ranks], -1 for the root 0.

    With b the lowest set bit of a rank, its parent has b cleared and 2 b set, or only b cleared if there is no such
    rank; its children lie b / 2 below and above, so odd ranks are leaves. Source: NCCL src/graph/trees.cc, ncclGetBtree.
    """
    rank = np.arange(ranks)
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    parent = np.where(up < ranks, up, rank ^ bit)
    parent[0] = -1
    return parent


def _depth(parent: Ints) -> Ints:
    """Steps to the root from each rank."""
    depth = np.zeros(len(parent), np.int64)
    at = parent.copy()
    while np.any(at >= 0):
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    return depth


def tree_rows(parent: Ints, pieces: int, base: int, channel: int) -> Columns:
    """Up the tree adding, down the tree copying; pieces follow each other, one step apart."""
    depth = _depth(parent)
    child = np.flatnonzero(parent >= 0)
    deepest = int(depth.max())
    common = {"chunk": base, "repeat": pieces, "turn": int(pieces > 1), "wheel": pieces, "channel": channel}
    up = brick(step=deepest - depth[child], source=child, destination=parent[child], reduce=1, **common)
    down = brick(step=deepest + depth[child] - 1, source=parent[child], destination=child, **common)
    return stack(up, down) if len(child) else stack()


def tree_all_reduce(ranks: int, pieces: int = 1) -> Table:
    """All-reduce up and down one binary tree, in `pieces` that follow each other."""
    rows = tree_rows(tree_parents(ranks), pieces, 0, 0)
    return make_table("tree", "all-reduce", rows, ranks=ranks, chunks=pieces)


def two_trees(ranks: int) -> tuple[Ints, Ints]:
    """Parents in the two trees of a double tree, [ranks] each, -1 for the roots: see double_tree_all_reduce."""
    first = tree_parents(ranks)
    name = ranks - 1 - np.arange(ranks) if ranks % 2 == 0 else (np.arange(ranks) + 1) % ranks
    second = np.empty_like(first)
    second[name] = np.where(first >= 0, name[first], -1)
    return first, second


def double_tree_all_reduce(ranks: int, pieces: int = 1) -> Table:
    """All-reduce over two binary trees, half of the data each: the leaves of one are inside the other.

    The second tree is the first mirrored (even ranks) or shifted by one (odd). Source: P. Sanders, J. Speck, J. L. Traff,
    Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35 (2009); NCCL 2.4.
    """
    first, second = two_trees(ranks)
    rows = stack(tree_rows(first, pieces, 0, 0), tree_rows(second, pieces, pieces, 1))
    return make_table("double tree", "all-reduce", rows, ranks=ranks, chunks=2 * pieces)


def halving_doubling_all_reduce(ranks: int) -> Table:
    """Reduce-scatter by halving and all-gather by doubling, on the largest power of two of the ranks.

    The r ranks beyond a power of two give their data to a neighbour first and get the sum from it last.
    Source: R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication operations in MPICH, Int. J.
    High Perform. Comput. Appl. 19 (2005).
    """
    bits = ranks.bit_length() - 1
    core = 1 << bits
    extra = ranks - core
    index = np.arange(core)
    rank = np.where(index < extra, 2 * index + 1, index + extra)
    spare = np.arange(extra) * 2
    parts: list[Columns] = []
    if extra:
        parts.append(brick(step=0, source=spare, destination=spare + 1, chunk=0, count=core, reduce=1))
    step = int(extra > 0)
    for down in (True, False):
        for bit in reversed(range(bits)) if down else range(bits):
            block = (index >> bit) ^ int(down)
            ends = {"source": rank, "destination": rank[index ^ (1 << bit)]}
            parts.append(brick(step=step, chunk=block << bit, count=1 << bit, reduce=int(down), **ends))
            step += 1
    if extra:
        parts.append(brick(step=step, source=spare + 1, destination=spare, chunk=0, count=core))
    return make_table("halving-doubling", "all-reduce", stack(*parts), ranks=ranks, chunks=core)


def in_network_all_reduce(ranks: int, pieces: int = 4) -> Table:
    """All-reduce by a switch that adds what it receives and sends the sum to all: each rank sends its data once.

    The switch is the extra node `ranks`. Source: R. Graham et al., Scalable Hierarchical Aggregation Protocol (SHARP),
    COMHPC 2016.
    """
    rank = np.arange(ranks)
    common = {"chunk": 0, "repeat": pieces, "turn": int(pieces > 1), "wheel": pieces}
    up = brick(step=0, source=rank, destination=ranks, reduce=1, **common)
    down = brick(step=1, source=ranks, destination=rank, **common)
    return make_table("in-network", "all-reduce", stack(up, down), ranks=ranks, chunks=pieces, switches=1)


def _binomial(ranks: int, root: int, reduce: bool) -> Table:
    steps = (ranks - 1).bit_length()
    parts = []
    for s in range(steps):
        near = np.arange(min(1 << s, ranks - (1 << s)))
        low, high = (root + near) % ranks, (root + near + (1 << s)) % ranks
        ends = {"source": high, "destination": low} if reduce else {"source": low, "destination": high}
        parts.append(brick(step=steps - 1 - s if reduce else s, chunk=0, reduce=int(reduce), **ends))
    kind = "reduce" if reduce else "broadcast"
    return make_table(
        f"binomial {kind}",
        kind,
        stack(*parts),
        ranks=ranks,
        chunks=1,
        home=EVERYWHERE if reduce else root,
        goal=root if reduce else EVERYWHERE,
    )


def binomial_broadcast(ranks: int, root: int = 0) -> Table:
    """Broadcast in which those who have the data double each step: ceil(log2 n) steps of all the data."""
    return _binomial(ranks, root, reduce=False)


def binomial_reduce(ranks: int, root: int = 0) -> Table:
    """Reduce in which those who hold a sum halve each step: ceil(log2 n) steps of all the data."""
    return _binomial(ranks, root, reduce=True)
