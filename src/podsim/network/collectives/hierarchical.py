"""Algorithms in two levels: inside the servers over their fast links, between them over the network.

Rank m * local + l is rank l of server m. Chunk l * nodes + m is part m of the share that local rank l takes across.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Ints
from podsim.network.collectives.bricks import Columns, brick, others, ring_rows, stack
from podsim.network.collectives.table import Table, make_table


def _local_pairs(nodes: int, local: int) -> tuple[Ints, Ints, Ints]:
    """All ordered pairs inside all servers: (first rank, second rank, second's local rank)."""
    first, second = others(local)
    shift = np.arange(nodes)[:, None] * local
    return (shift + first).ravel(), (shift + second).ravel(), np.tile(second, nodes)


def hierarchical_all_reduce(nodes: int, local: int) -> Table:
    """Reduce-scatter in the server, a ring across for each local rank (its rail), all-gather in the server."""
    ranks = nodes * local
    first, second, index = _local_pairs(nodes, local)
    step = int(local > 1)
    rails = np.arange(nodes) * local + np.arange(local)[:, None]
    last = step + 2 * (nodes - 1)
    rows = stack(
        brick(step=0, source=first, destination=second, chunk=index * nodes, count=nodes, reduce=1),
        ring_rows(rails, start=step, reduce=True),
        ring_rows(rails, start=step + nodes - 1, reduce=False),
        brick(step=last, source=second, destination=first, chunk=index * nodes, count=nodes),
    )
    return make_table("hierarchical", "all-reduce", rows, ranks=ranks, chunks=ranks)


def server_ring_all_reduce(nodes: int, local: int) -> Table:
    """A parameter server in each server (its local rank 0), a ring across these, and back."""
    leader = np.repeat(np.arange(nodes) * local, local - 1)
    worker = leader + np.tile(np.arange(1, local), nodes)
    step = int(local > 1)
    ring = np.arange(nodes) * local
    rows = stack(
        brick(step=0, source=worker, destination=leader, chunk=0, count=nodes, reduce=1),
        ring_rows(ring, start=step, reduce=True),
        ring_rows(ring, start=step + nodes - 1, reduce=False),
        brick(step=step + 2 * (nodes - 1), source=leader, destination=worker, chunk=0, count=nodes),
    )
    return make_table("server ring", "all-reduce", rows, ranks=nodes * local, chunks=nodes)


def hierarchical_all_to_all(nodes: int, local: int) -> Table:
    """First inside the server to the rank on the destination's rail, then along the rail.

    Fewer and larger messages across: each rank talks to nodes - 1 ranks outside its server instead of ranks - local.
    """
    ranks = nodes * local
    first, second, index = _local_pairs(nodes, local)
    away = np.arange(nodes)
    inner: Columns = brick(
        step=np.repeat((second - first) % local - 1, nodes),
        source=np.repeat(first, nodes),
        destination=np.repeat(second, nodes),
        chunk=(first[:, None] * ranks + away * local + index[:, None]).ravel(),
    )
    here, there = others(nodes)
    rail, origin = np.arange(local)[:, None], np.arange(local)
    source = here[:, None, None] * local + rail + 0 * origin
    destination = there[:, None, None] * local + rail + 0 * origin
    outer = brick(
        step=np.broadcast_to(
            ((there - here) % nodes - 1 + max(local - 1, 0))[:, None, None], source.shape
        ).ravel(),
        source=source.ravel(),
        destination=destination.ravel(),
        chunk=((here[:, None, None] * local + origin) * ranks + destination).ravel(),
    )
    return make_table(
        "hierarchical all-to-all", "all-to-all", stack(inner, outer), ranks=ranks, chunks=ranks**2
    )
