"""The cost of a table, from the table alone: rounds, bytes, fan-in, seconds on equal links, and the lower bound of any
table.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import TableError
from podsim.hardware.parts import Link
from podsim.network.bus import bus_factor
from podsim.network.collectives.table import COLLECTIVES, Table, row_share
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A table in figures; bytes for the `size` asked for."""

    rounds: int
    """The number of steps in which something is sent."""
    transfers: int
    total: float
    """B. The bytes sent by all nodes together."""
    sent_most: float
    """B. The bytes sent by the rank that sends most."""
    sent_mean: float
    """B. The bytes sent by a rank on average."""
    peak: float
    """B. The bytes into (or out of) the busiest node in its busiest step."""
    fan_in: int
    """The most nodes that one node receives from in a step."""
    fan_out: int
    """The most nodes that one node sends to in a step."""


def windows(table: Table) -> Iterator[tuple[int, int, Ints, Floats]]:
    """Runs of equal steps: (first step, how many, rows under way, their transfers' shares of `size`)."""
    if not len(table.step):
        return
    last = table.step + table.repeat
    trains = np.flatnonzero(table.repeat > 1)
    even = np.all(table.sizes == table.sizes[0])
    edges = np.unique(np.concatenate([table.step, last]))
    if len(trains) and not even:
        edges = np.arange(edges[0], edges[-1] + 1)
    singles = np.flatnonzero(table.repeat == 1)
    singles = singles[np.argsort(table.step[singles], kind="stable")]
    bounds = np.searchsorted(table.step[singles], edges)
    for k in range(len(edges) - 1):
        moving = trains[(table.step[trains] <= edges[k]) & (last[trains] > edges[k])]
        rows = np.concatenate([singles[bounds[k] : bounds[k + 1]], moving])
        if len(rows):
            yield (
                int(edges[k]),
                int(edges[k + 1] - edges[k]),
                rows,
                row_share(table, rows, edges[k] - table.step[rows]),
            )


def _fan(nodes: int, ends: Ints, away: Ints) -> int:
    """Most different `away` nodes at one of the `ends`."""
    pairs = np.unique(ends * nodes + away)
    return int(np.bincount(pairs // nodes).max())


def summary(table: Table, size: float = 1.0) -> Summary:
    """The table in figures: for `size` = 1, bytes are shares of the buffer. Time: transfers of trains count once."""
    sent, rounds, transfers, peak, fan_in, fan_out = np.zeros(table.nodes), 0, 0, 0.0, 0, 0
    for _, steps, rows, share in windows(table):
        source, destination = table.source[rows], table.destination[rows]
        out = np.bincount(source, share, table.nodes)
        sent += steps * out
        rounds += steps
        transfers += steps * len(rows)
        peak = max(peak, out.max(), np.bincount(destination, share, table.nodes).max())
        fan_in = max(fan_in, _fan(table.nodes, destination, source))
        fan_out = max(fan_out, _fan(table.nodes, source, destination))
    ranks = sent[: table.ranks]
    return Summary(
        rounds=rounds, transfers=transfers, total=size * float(sent.sum()), sent_most=size * float(ranks.max()),
        sent_mean=size * float(ranks.mean()), peak=size * float(peak), fan_in=fan_in, fan_out=fan_out,
    )  # fmt: skip


def cost(table: Table, size: float, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of the table in lockstep, each rank on one full-duplex port of `bandwidth` B/s, `latency` s a step.

    A step takes the latency plus the bytes of its busiest port; the sum over steps. A switch has a port for each of its
    neighbours, so it holds nobody up. Limits: no link is shared by two ranks, no step overlaps the next; the
    simulation (`podsim.network.play`) knows better.
    """
    if not (bandwidth > 0.0 and latency >= 0.0 and size >= 0.0):
        raise TableError(
            f"size {size} B, bandwidth {bandwidth} B/s, latency {latency} s: must not be negative or no link"
        )
    seconds = 0.0
    for _, steps, rows, share in windows(table):
        sent = np.bincount(table.source[rows], share, table.nodes)[: table.ranks]
        received = np.bincount(table.destination[rows], share, table.nodes)[: table.ranks]
        seconds += steps * (latency + size * max(sent.max(), received.max()) / bandwidth)
    return float(seconds)


def lower_bound(
    collective: str, ranks: int, size: float, link: Link, *, fan: int = 1, in_network: bool = False
) -> float:
    """Seconds that no algorithm can beat, each rank on one full-duplex link: max(rounds x latency, latency + bytes).

    Bytes: what one link must carry, as a share of `size`: the bus factor, or 1 for an all-reduce if the network adds.
    Rounds: those that know a rank's data multiply by at most 1 + fan a step, ranks sending to `fan` others at once:
    ceil(log(n) / log(1 + fan)), 2 if the network adds. Raises TableError for an unknown collective or no ranks.
    """
    if collective not in COLLECTIVES or ranks < 1 or fan < 1:
        raise TableError(
            f"{collective!r} over {ranks} ranks, fan {fan}: known are {', '.join(COLLECTIVES)}; at least 1"
        )
    if ranks == 1:
        return 0.0
    share = float(bus_factor(collective, ranks))
    if collective == "all-reduce" and in_network:
        share = 1.0
    rounds = 1 if collective == "send-recv" else ceil(log(ranks) / log(1 + fan) - 1e-9)
    rounds = 2 if in_network else rounds
    return max(rounds * link.latency, link.latency + share * size / link.bandwidth)
