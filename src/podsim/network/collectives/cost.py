"""The figures of a table, from the table alone: rounds, bytes, fan-in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from podsim.axes import Floats, Ints
from podsim.network.collectives.table import Table, row_share
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
