"""What token buckets save: a shaped link lets a burst pass at once after a pause, and only then holds its rate.

Source of the law: tc-htb(8): a bucket fills at its rate up to its size; what is in it may be sent at any speed, and
counts against the buckets above it.
"""

from __future__ import annotations

import numpy as np

from podsim.network.collectives.table import Floats, Ints, Table, expand, row_share
from podsim.network.play_links import Fabric

__all__ = ["burst_saving"]


def burst_saving(
    table: Table, fabric: Fabric, size: float, bursts: Floats, calls: int, *, leaves: Ints, kept: float = 0.0
) -> float:
    """Seconds that a call of `size` bytes is shorter for the buckets of its links, mean over calls made without a pause.

    bursts: B that each link lets pass at once, as a whole and for each pair of ranks, [links]; leaves: how many pairs it
    has a bucket for, which fill at equal shares of its rate, [links]; kept: share of its rate that no pair is guaranteed.
    Transfers that wait for equally many others make a round, which takes what its busiest link needs. A pair may send
    what its own bucket holds even if the link's is empty; the link then owes it, and until it has paid lends nothing of
    what is kept: it carries bytes beyond the pairs' buckets at (1 - kept) of its rate, or beyond its own at all of it,
    whichever is sooner. All start full.
    Known error: rounds may overlap; their links then pause less, and save less.
    """
    pair_link, loads = _loads(table, fabric, size)
    if not loads or calls < 1:
        return 0.0
    links, capacity = len(fabric.capacity), fabric.capacity
    whole = np.asarray(bursts, np.float64)
    bucket, fill = whole[pair_link], (capacity / np.maximum(leaves, 1))[pair_link]
    held, own, spent = bucket.copy(), whole.copy(), 0.0
    for _ in range(calls):
        for load in loads:
            total = np.bincount(pair_link, load, links)
            beyond = np.bincount(pair_link, np.maximum(load - held, 0.0), links)
            took = float((np.minimum(beyond / (1.0 - kept), np.maximum(total - own, 0.0)) / capacity).max())
            held = np.clip(held + fill * took - load, 0.0, bucket)
            own = np.minimum(own + capacity * took - total, whole)
            spent += took
    plain = sum(float((np.bincount(pair_link, load, links) / capacity).max()) for load in loads)
    return plain - spent / calls


def _loads(table: Table, fabric: Fabric, size: float) -> tuple[Ints, list[Floats]]:
    """The link of each pair of ranks on each link, [pairs]; B of each, in rounds that wait for one another, [pairs]."""
    units, _ = expand(table)
    share = row_share(units, np.arange(len(units.step)), np.zeros(len(units.step), np.int64)) * size
    indptr, links = fabric.routes(units.source, units.destination)
    hops = np.diff(indptr)
    ends = np.repeat(units.source * units.nodes + units.destination, hops)
    pairs, place = np.unique(links * units.nodes**2 + ends, return_inverse=True)
    level = np.repeat(units.step if table.lockstep else _levels(units), hops)
    carried = np.repeat(share, hops)
    loads = [
        np.bincount(place[level == k], carried[level == k], len(pairs)).astype(np.float64)
        for k in np.unique(level)
    ]
    return pairs // units.nodes**2, loads


def _levels(units: Table) -> Ints:
    """How many transfers, one after another, must have arrived before each row may start; rows in order of steps."""
    ready: dict[tuple[int, int], int] = {}
    level = np.zeros(len(units.step), np.int64)
    for step in np.unique(units.step):
        rows = np.flatnonzero(units.step == step).tolist()
        spans = [range(int(units.chunk[row]), int(units.chunk[row] + units.count[row])) for row in rows]
        for row, span in zip(rows, spans, strict=True):
            if not units.own[row]:
                level[row] = max(ready.get((int(units.source[row]), chunk), 0) for chunk in span)
        for row, span in zip(rows, spans, strict=True):
            for chunk in span:
                key = (int(units.destination[row]), chunk)
                ready[key] = max(ready.get(key, 0), int(level[row]) + 1)
    return level
