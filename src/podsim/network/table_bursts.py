"""What token buckets save: a shaped link lets a burst pass at once after a pause, and only then holds its rate.

Source of the law: tc-tbf(8): a bucket fills at the link's rate up to its size; what is in it may be sent at any speed.
"""

from __future__ import annotations

import numpy as np

from podsim.network.collectives.cost import windows
from podsim.network.collectives.table import Floats, Table
from podsim.network.play_links import Fabric

__all__ = ["burst_saving"]


def burst_saving(table: Table, fabric: Fabric, size: float, bursts: Floats, calls: int) -> float:
    """Seconds that a call of `size` bytes is shorter for the buckets of its links, mean over calls made without a pause.

    bursts: B that each link lets pass at once, [links]. Steps in lockstep: each takes what its busiest link needs for
    what its bucket does not hold; a link that has less to do meanwhile fills its bucket again. All start full.
    Known error: as table_cost's, for tables whose steps overlap; their links pause less, and save less.
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
    """B over each link, step by step, [links] each."""
    found: list[Floats] = []
    for _, steps, rows, share in windows(table):
        indptr, links = fabric.routes(table.source[rows], table.destination[rows])
        load = np.bincount(links, np.repeat(share * size, np.diff(indptr)), len(fabric.capacity))
        found += [load.astype(np.float64)] * steps
    return found
