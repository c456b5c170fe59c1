"""A table run on data, its seconds step by step on equal links, and what no table can beat: oracles of the simulation."""

from __future__ import annotations

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from podsim.errors import TableError
from podsim.hardware.parts import Link
from podsim.network.bus import bus_factor
from podsim.network.collectives import Table, check
from podsim.network.collectives.cost import windows
from podsim.network.collectives.prove import _steps, _units
from podsim.network.collectives.table import COLLECTIVES


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


def execute(table: Table, inputs: NDArray[np.generic]) -> NDArray[np.generic]:
    """The buffers after the collective, [ranks, elements]: the table run in numpy on given buffers, [ranks, elements].

    A rank's buffer holds all chunks, cut by `sizes` (so an all-to-all has ranks**2 chunks in it); where a chunk neither
    starts nor passes, it keeps what the input had there. Raises TableError as `check` does, and for a wrong shape.
    """
    if inputs.ndim != 2 or len(inputs) != table.ranks:
        raise TableError(f"{table.name}: inputs of shape {inputs.shape}; expected ({table.ranks}, elements)")
    check(table)
    share = np.concatenate([[0.0], np.cumsum(table.sizes)])
    cuts = np.rint(share / share[-1] * inputs.shape[1]).astype(np.int64)
    held = np.concatenate([inputs, np.zeros((table.switches, inputs.shape[1]), inputs.dtype)])
    units, _ = _units(table, 0, table.chunks)
    for now in _steps(units):
        rows = range(now.start, now.stop)
        span = [slice(cuts[units.chunk[k]], cuts[units.chunk[k] + 1]) for k in rows]
        sent = [
            (inputs if units.own[k] else held)[units.source[k], s].copy()
            for k, s in zip(rows, span, strict=True)
        ]
        for k, s, data in zip(rows, span, sent, strict=True):
            to = held[units.destination[k], s]
            to[...] = to + data if units.reduce[k] else data
    return held[: table.ranks]
