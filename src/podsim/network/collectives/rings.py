"""Algorithms on rings and chains: bandwidth-optimal, with as many steps as ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Ints
from podsim.errors import TableError
from podsim.network.collectives.bricks import brick, ring_rows, stack
from podsim.network.collectives.table import EVERYWHERE, Table, make_table


def _order(ranks: int, order: ArrayLike | None) -> Ints:
    """The order in which a ring visits the ranks; raises TableError unless it is a permutation of them."""
    visits = np.arange(ranks) if order is None else np.asarray(order, np.int64)
    if not np.array_equal(np.sort(visits, axis=-1), np.broadcast_to(np.arange(ranks), visits.shape)):
        raise TableError(f"ring order {str(order)[:60]}: it must visit ranks 0 to {ranks - 1} once each")
    return visits


def ring_all_reduce(ranks: int, order: ArrayLike | None = None) -> Table:
    """All-reduce on one ring: 2 (n - 1) steps of 1/n of the data each; as trains, 2 n rows."""
    visits = _order(ranks, order)
    halves = (
        ring_rows(visits, start=0, reduce=True),
        ring_rows(visits, start=ranks - 1, reduce=False),
    )
    return make_table("ring", "all-reduce", stack(*halves), ranks=ranks, chunks=ranks)


def rail_orders(nodes: int, local: int, rings: int | None = None) -> Ints:
    """Ring orders over nodes of `local` ranks, [rings, ranks]: ring j enters every node at its local rank j.

    Inside the node it goes j, j + 1, ..., around; between nodes, from the last of those to rank j of the next node.
    """
    visit = (np.arange(rings or local)[:, None] + np.arange(local)) % local
    return (np.arange(nodes)[None, :, None] * local + visit[:, None, :]).reshape(len(visit), nodes * local)


def multi_ring_all_reduce(orders: ArrayLike) -> Table:
    """All-reduce over several rings at once, each with its share of the data; orders: [rings, ranks]."""
    order = np.atleast_2d(np.asarray(orders, np.int64))  # [ring, rank]
    rings, ranks = order.shape
    _order(ranks, order)
    channel = np.arange(rings)
    halves = (
        ring_rows(order, start=0, reduce=True, channel=channel),
        ring_rows(order, start=ranks - 1, reduce=False, channel=channel),
    )
    return make_table("multi-ring", "all-reduce", stack(*halves), ranks=ranks, chunks=rings * ranks)


def ring_reduce_scatter(ranks: int, order: ArrayLike | None = None) -> Table:
    """Reduce-scatter on one ring, n - 1 steps; chunk c ends at the rank in place c of the order."""
    visits = _order(ranks, order)
    rows = ring_rows(visits, start=0, reduce=True)
    return make_table("ring reduce-scatter", "reduce-scatter", rows, ranks=ranks, chunks=ranks, goal=visits)


def ring_all_gather(ranks: int, order: ArrayLike | None = None) -> Table:
    """All-gather on one ring, n - 1 steps; chunk c starts at the rank in place c of the order."""
    visits = _order(ranks, order)
    rows = ring_rows(visits, start=0, reduce=False)
    return make_table("ring all-gather", "all-gather", rows, ranks=ranks, chunks=ranks, home=visits)


def _chain(ranks: int, root: int, pieces: int, reduce: bool) -> Table:
    line = (root + np.arange(ranks)) % ranks
    near, far, hop = line[:-1], line[1:], np.arange(ranks - 1)
    rows = brick(
        step=hop[::-1] if reduce else hop,
        source=far if reduce else near,
        destination=near if reduce else far,
        chunk=0,
        reduce=int(reduce),
        repeat=pieces,
        turn=int(pieces > 1),
        wheel=pieces,
    )
    kind = "reduce" if reduce else "broadcast"
    return make_table(
        f"chain {kind}",
        kind,
        rows if ranks > 1 else stack(),
        ranks=ranks,
        chunks=pieces,
        home=EVERYWHERE if reduce else root,
        goal=root if reduce else EVERYWHERE,
    )


def chain_broadcast(ranks: int, root: int = 0, pieces: int = 4) -> Table:
    """Broadcast from the root along a line of ranks, in `pieces` that follow each other: n - 2 + pieces steps."""
    return _chain(ranks, root, pieces, reduce=False)


def chain_reduce(ranks: int, root: int = 0, pieces: int = 4) -> Table:
    """Reduce to the root along a line of ranks, in `pieces` that follow each other: n - 2 + pieces steps."""
    return _chain(ranks, root, pieces, reduce=True)
