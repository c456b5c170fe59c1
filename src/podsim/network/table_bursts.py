"""What token buckets save: a shaped link lets a burst pass at once after a pause, and only then holds its rate.

Source of the law: tc-tbf(8): a bucket fills at the link's rate up to its size; what is in it may be sent at any speed.
"""

from __future__ import annotations

import numpy as np

from podsim.network.collectives.table import Floats, Ints, Table, expand, row_share
from podsim.network.play_links import Fabric

__all__ = ["burst_saving"]


def burst_saving(table: Table, fabric: Fabric, size: float, bursts: Floats, calls: int) -> float:
    """Seconds that a call of `size` bytes is shorter for the buckets of its links, mean over calls made without a pause.

    bursts: B that each link lets pass at once, [links]. Transfers that wait for equally many others make a round. It
    takes what its busiest link needs for what its bucket does not hold; a link that has less to do meanwhile fills
    its bucket again. All start full. Known error: rounds may overlap; their links then pause less, and save less.
    """
    loads = _loads(table, fabric, size)
    if not loads or calls < 1:
        return 0.0
    capacity, held = fabric.capacity, np.array(bursts, np.float64)
    plain = calls * sum(float((load / capacity).max()) for load in loads)
    spent = 0.0
    for _ in range(calls):
        for load in loads:
            seconds = max(float(((load - held) / capacity)[load > 0].max(initial=0.0)), 0.0)
            held = np.minimum(bursts, held + capacity * seconds - load)
            spent += seconds
    return (plain - spent) / calls


def _loads(table: Table, fabric: Fabric, size: float) -> list[Floats]:
    """B over each link, in rounds that wait for one another, [links] each."""
    units, _ = expand(table)
    share = row_share(units, np.arange(len(units.step)), np.zeros(len(units.step), np.int64)) * size
    indptr, links = fabric.routes(units.source, units.destination)
    level = np.repeat(units.step if table.lockstep else _levels(units), np.diff(indptr))
    carried = np.repeat(share, np.diff(indptr))
    return [
        np.bincount(links[level == k], carried[level == k], len(fabric.capacity)).astype(np.float64)
        for k in np.unique(level)
    ]


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
