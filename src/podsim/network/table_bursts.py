"""What token buckets save, and processors cost: a table on shaped links, all ends of which are on one machine.

A shaped link lets a burst pass at once after a pause, and only then holds its rate. Source of the law: tc-htb(8): a
bucket fills at its rate up to its size; what is in it may be sent at any speed, and counts against the buckets above
it. At any speed means: as fast as the processors pass it on, which all ranks share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.network.collectives.table import Floats, Ints, Table, expand, row_share
from podsim.network.play_links import Fabric


class Processors(NamedTuple):
    """What work costs a machine, s of all its cores together."""

    message: float = 0.0
    byte: float = 0.0
    """s. The time for each B that is sent and received."""
    add: float = 0.0
    """s. The time for each B that is added to another."""
    cores: float = 1.0
    """count. The ranks that add at full speed together."""


class Rounds(NamedTuple):
    """Seconds of a call, mean over calls."""

    plain: float
    """s. The time if links hold their rates."""
    shaped: float
    """s. The time if buckets let bursts pass."""
    worked: float
    """s. The time if processors also pass on and add what arrives."""


IDLE = Processors()


class Buckets(NamedTuple):
    """The token buckets of links."""

    bursts: Floats
    """B. The bytes that each link passes at once, as a whole and for each pair of ranks, [links]."""
    leaves: Ints
    """The number of pairs that each link has a bucket for; they fill at equal shares of its rate, [links]."""
    kept: float = 0.0
    """share. The share of a link's rate that no pair is guaranteed."""


def shaped_rounds(
    table: Table,
    fabric: Fabric,
    size: float,
    buckets: Buckets,
    calls: int,
    *,
    processors: Processors = IDLE,
    copied: float = 0.0,
) -> Rounds:
    """How long a call of `size` bytes takes without and with the buckets of its links, and with processors.

    calls: made without a pause, the buckets full before the first; copied: B that all ranks copy before they begin.
    Transfers that wait for equally many others make a round, which takes what its busiest link needs, and no
    less than processors need for its messages; then sums are added, while buckets fill. A pair may send what its own
    bucket holds even if the link's is empty; the link then owes it, and until it has paid lends nothing of what is
    kept: it carries bytes beyond the pairs' buckets at (1 - kept) of its rate, or beyond its own at all of it,
    whichever is sooner.
    Known error: rounds may overlap; their links then pause less, and save less, and sums are hidden.
    """
    pair_link, rounds = _rounds(table, fabric, size)
    if not rounds or calls < 1:
        return Rounds(0.0, 0.0, 0.0)
    links, capacity = len(fabric.capacity), fabric.capacity
    plain = sum(float((np.bincount(pair_link, step.load, links) / capacity).max()) for step in rounds)
    bursts = np.asarray(buckets.bursts, np.float64)
    bucket, fill = bursts[pair_link], (capacity / np.maximum(buckets.leaves, 1))[pair_link]

    def spent(cost: Processors) -> float:
        held, own, seconds = bucket, bursts, 0.0
        for _ in range(calls):
            copying = copied * cost.add
            held, own = (
                np.minimum(held + fill * copying, bucket),
                np.minimum(own + capacity * copying, bursts),
            )
            seconds += copying
            for step in rounds:
                total = np.bincount(pair_link, step.load, links)
                beyond = np.bincount(pair_link, np.maximum(step.load - held, 0.0), links)
                took = float(
                    (np.minimum(beyond / (1.0 - buckets.kept), np.maximum(total - own, 0.0)) / capacity).max()
                )
                late = _late_seconds(step, held, bucket, took, cost)
                took += cost.add * max(float(step.added.sum()), float(step.added.max()) * cost.cores)
                held = np.clip(held + fill * took - step.load, 0.0, bucket)
                own = np.minimum(own + capacity * took - total, bursts)
                seconds += took + late
        return seconds / calls

    return Rounds(plain, spent(IDLE), spent(processors))


def _late_seconds(step: _Round, held: Floats, bucket: Floats, took: float, cost: Processors) -> float:
    """Seconds by which processors delay a round, given the seconds of its links.

    A full bucket gains nothing while it waits for a processor, so what goes out at once comes on top; another makes the
    time good. In all a round takes at least what its messages cost.
    """
    full = held >= bucket
    load = max(float(step.load.sum()), 1e-300)
    first = float(step.load[full].sum()) / load * step.messages * cost.message
    at_once = float(np.minimum(step.load, held)[full].sum()) / load * step.sent * cost.byte
    return max(first + at_once, step.messages * cost.message + step.sent * cost.byte - took)


class _Round(NamedTuple):
    """Transfers that wait for equally many others."""

    load: Floats
    """B. The bytes of each pair of ranks on each link, [pairs]."""
    messages: int
    sent: float
    """B. The bytes in all."""
    added: Floats
    """B. The bytes that each node adds, [nodes]."""


def _rounds(table: Table, fabric: Fabric, size: float) -> tuple[Ints, list[_Round]]:
    """The link of each pair of ranks on each link, [pairs]; what is sent in rounds that wait for one another."""
    units, _ = expand(table)
    share = row_share(units, np.arange(len(units.step)), np.zeros(len(units.step), np.int64)) * size
    indptr, links = fabric.routes(units.source, units.destination)
    hops = np.diff(indptr)
    ends = np.repeat(units.source * units.nodes + units.destination, hops)
    pairs, index = np.unique(links * units.nodes**2 + ends, return_inverse=True)
    of_row = units.step if table.lockstep else _levels(units)
    level, carried = np.repeat(of_row, hops), np.repeat(share, hops)
    rounds = []
    for k in np.unique(of_row):
        rows, on_links = of_row == k, level == k
        added = np.bincount(units.destination[rows], (share * units.reduce)[rows], units.nodes)
        rounds.append(_Round(
            np.bincount(index[on_links], carried[on_links], len(pairs)).astype(np.float64), int(rows.sum()),
            float(share[rows].sum()), added.astype(np.float64),
        ))  # fmt: skip
    return pairs // units.nodes**2, rounds


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
