"""Algorithms in which ranks send straight to each other, or through one server: few steps, many flows at once."""

from __future__ import annotations

import numpy as np

from podsim.errors import TableError
from podsim.network.collectives.bricks import brick, others, stack
from podsim.network.collectives.table import Table, make_table


def parameter_server_all_reduce(ranks: int, server: int = 0) -> Table:
    """All send all data to the server, which adds and sends the sum to all: two steps, all through one port."""
    workers = np.delete(np.arange(ranks), server)
    rows = stack(
        brick(step=0, source=workers, destination=server, chunk=0, reduce=1),
        brick(step=1, source=server, destination=workers, chunk=0),
    )
    return make_table("parameter server", "all-reduce", rows if ranks > 1 else stack(), ranks=ranks, chunks=1)


def naive_all_reduce(ranks: int) -> Table:
    """Every rank in its turn sends all its data to all others, who add: n steps in lockstep, n (n - 1) times the data."""
    source, destination = others(ranks)
    rows = brick(step=source, source=source, destination=destination, chunk=0, reduce=1, own=1)
    return make_table("naive", "all-reduce", rows, ranks=ranks, chunks=1, lockstep=True)


def pipelined_naive_all_reduce(ranks: int) -> Table:
    """The naive broadcasts, all under way at once: in step k each rank sends all its data to the (k + 1)th after it."""
    source, destination = others(ranks)
    step = (destination - source - 1) % ranks
    rows = brick(step=step, source=source, destination=destination, chunk=0, reduce=1, own=1)
    return make_table("pipelined naive", "all-reduce", rows, ranks=ranks, chunks=1)


def direct_all_reduce(ranks: int) -> Table:
    """Partitioned: rank c sums chunk c of everybody and sends it to everybody; two steps, each rank its own server."""
    first, second = others(ranks)
    rows = stack(
        brick(step=0, source=first, destination=second, chunk=second, reduce=1),
        brick(step=1, source=first, destination=second, chunk=first),
    )
    return make_table("partitioned", "all-reduce", rows, ranks=ranks, chunks=ranks)


def direct_reduce_scatter(ranks: int) -> Table:
    """Rank c receives chunk c from everybody in one step, and adds."""
    first, second = others(ranks)
    rows = brick(step=0, source=first, destination=second, chunk=second, reduce=1)
    return make_table("direct reduce-scatter", "reduce-scatter", rows, ranks=ranks, chunks=ranks)


def direct_all_gather(ranks: int) -> Table:
    """Rank c sends chunk c to everybody in one step."""
    first, second = others(ranks)
    rows = brick(step=0, source=first, destination=second, chunk=first)
    return make_table("direct all-gather", "all-gather", rows, ranks=ranks, chunks=ranks)


def direct_all_to_all(ranks: int) -> Table:
    """Every rank sends its chunk straight to each other one, in step k to the (k + 1)th after it."""
    first, second = others(ranks)
    step, chunk = (second - first - 1) % ranks, first * ranks + second
    rows = brick(step=step, source=first, destination=second, chunk=chunk)
    return make_table("direct all-to-all", "all-to-all", rows, ranks=ranks, chunks=ranks**2)


def direct_gather(ranks: int, root: int = 0) -> Table:
    """Every rank sends its chunk to the root in one step."""
    away = np.delete(np.arange(ranks), root)
    rows = brick(step=0, source=away, destination=root, chunk=away) if ranks > 1 else stack()
    return make_table("direct gather", "gather", rows, ranks=ranks, chunks=ranks, goal=root)


def direct_scatter(ranks: int, root: int = 0) -> Table:
    """The root sends each rank its chunk in one step."""
    away = np.delete(np.arange(ranks), root)
    rows = brick(step=0, source=root, destination=away, chunk=away) if ranks > 1 else stack()
    return make_table("direct scatter", "scatter", rows, ranks=ranks, chunks=ranks, home=root)


def send_recv(ranks: int, source: int = 0, destination: int | None = None) -> Table:
    """One rank sends a buffer to one other (default: the next). A lone rank has nobody to send to: no rows."""
    to = (source + 1) % ranks if destination is None else destination
    if to == source and ranks > 1:
        raise TableError(f"send-recv from rank {source} to itself; give another destination")
    rows = brick(step=0, source=source, destination=to, chunk=0) if ranks > 1 else stack()
    return make_table("send-recv", "send-recv", rows, ranks=ranks, chunks=1, home=source, goal=to)


def shift(ranks: int) -> Table:
    """Every rank sends a whole buffer to the next, all at once, as sendrecv of nccl-tests does."""
    rank = np.arange(ranks)
    after = (rank + 1) % ranks
    rows = brick(step=0, source=rank, destination=after, chunk=rank) if ranks > 1 else stack()
    return make_table("shift", "send-recv", rows, ranks=ranks, chunks=ranks, home=rank, goal=after, sizes=1.0)
