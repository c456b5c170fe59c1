"""What a table costs on the links of a fabric, step by step, for all sizes at once.

    seconds = latency + size x per_byte

Each step takes the longest route's latency and what its busiest link needs for the bytes routed over it; the sum over
steps. No step overlaps the next, and no event is simulated: contention inside a step is counted exactly, stalls that
spread from step to step are not (`podsim.network.play` simulates those, and pipelines).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.network.collectives.cost import windows
from podsim.network.collectives.table import Table
from podsim.network.play_links import Fabric


class LinkCost(NamedTuple):
    """Seconds of a table on a fabric: latency + size x per_byte."""

    latency: float
    """s. The latency."""
    per_byte: float
    """s. The time for each byte of `size`."""


def link_cost(table: Table, fabric: Fabric) -> LinkCost:
    """Cost of a table in lockstep, rank r being end r of the fabric.

    Known error: none where steps are alike and their links equally loaded, as in a ring; too long for tables whose
    ranks need not wait for each other. Raises ClusterError for ends that no route joins.
    """
    if not len(table.step):
        return LinkCost(0.0, 0.0)
    pair, lane = np.unique(table.source * table.nodes + table.destination, return_inverse=True)
    indptr, links = fabric.routes(pair // table.nodes, pair % table.nodes)
    hops = np.diff(indptr)
    delay = np.bincount(np.repeat(np.arange(len(pair)), hops), fabric.latency[links], len(pair))
    latency = per_byte = 0.0
    for _, steps, rows, share in windows(table):
        lanes, used = lane[rows], hops[lane[rows]]
        at = np.repeat(indptr[lanes] - np.cumsum(used) + used, used) + np.arange(used.sum())
        carried, index = np.unique(links[at], return_inverse=True)
        load = np.bincount(index, np.repeat(share, used))
        latency += steps * float(delay[lanes].max())
        per_byte += steps * float((load / fabric.capacity[carried]).max())
    return LinkCost(latency, per_byte)
