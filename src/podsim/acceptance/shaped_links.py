"""A collective on the shaped links of an emulated cluster: what links, messages, buckets and processors take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.answers.lab import Emulated, MeasuredCollectives
from podsim.answers.trained import MeasuredDdp
from podsim.lab.links import MTU
from podsim.network.collectives import Table
from podsim.network.play_links import Links, make_links
from podsim.simulation.rank_ops import RankOps
from podsim.simulation.shaped_play import IDLE, Buckets, Processors, simulate_shaped

_HEADERS = (52, 14)
"""B of a packet that are no data, inside its MTU and before it: IP and TCP with a timestamp; Ethernet"""


_CALLS = 3
"""calls in a row that are played; further ones take as long as the last of them"""


class Parts(NamedTuple):
    """A prediction by kind, s."""

    links: float
    messages: float
    burst: float = 0.0
    processors: float = 0.0


def on_shaped_links(run: MeasuredCollectives | MeasuredDdp, table: Table, size: float, calls: int) -> Parts:
    """Seconds of one of several calls in a row: links as shaped, messages as measured, buckets as set.

    Processors are counted where the run measured what they cost.
    """
    made = run.emulated
    assert made is not None
    buckets, work, add = emulated_buckets(made), IDLE, 0.0
    if isinstance(run, MeasuredCollectives):
        work = Processors(run.message_work, run.byte_work)
        add = run.add_work * min(run.cores, run.ranks)
    bare, real = emulated_fabric(made), emulated_fabric(made, run.message)
    empty = buckets._replace(bursts=np.zeros(len(bare.capacity)))

    def seconds(fabric: Links, full: Buckets, cost: Processors = IDLE, adding: float = 0.0) -> float:
        entered = RankOps(run.ranks)
        last = {rank: entered.compute(rank, 0.0) for rank in range(run.ranks)}
        ends: list[int] = []
        for _ in range(min(calls, _CALLS)):
            last = entered.collective(table, size, range(run.ranks), last, table.name, add=adding)
            last = dict.fromkeys(last, entered.compute(0, 0.0, list(last.values()), lane=2))
            ends.append(last[0])
        end = simulate_shaped(entered.ops(fabric), full, cost)[1][ends]
        more = (calls - len(end)) * (end[-1] - end[-2]) if calls > len(end) else 0.0
        return float(end[-1] + more) / calls

    links = seconds(bare, empty)
    messages = seconds(real, empty)
    bursts = seconds(real, buckets)
    worked = seconds(real, buckets, work, add) if work != IDLE or add else bursts
    return Parts(links, messages - links, bursts - messages, worked - bursts)


def emulated_buckets(made: Emulated) -> Buckets:
    """The buckets of the links of `emulated_fabric`."""
    own = np.arange(2 * made.ranks + 2 * made.servers * max(made.nics, 1)) < 2 * made.ranks
    return Buckets(
        np.where(own, made.inside_burst, made.between_burst),
        np.where(own, made.local - 1, made.ranks - made.local),
    )


def emulated_fabric(made: Emulated, latency: float = 0.0) -> Links:
    """The links of an emulated cluster as the simulation takes them; latency: s of a message between any two ranks.

    Links: of each rank in its server, up and down; of each adapter of each server, up and down. A link carries what
    its packets hold besides their headers.
    """
    ranks, local, adapters = made.ranks, made.local, made.servers * max(made.nics, 1)
    payload = (MTU - _HEADERS[0]) / (MTU + _HEADERS[1])
    capacity = payload * np.repeat([made.inside, max(made.between, 1.0)], [2 * ranks, 2 * adapters])

    def route(source: np.ndarray, destination: np.ndarray) -> np.ndarray:
        near = source // local == destination // local
        up, down = (
            rank // local * made.nics + rank % local * made.nics // local for rank in (source, destination)
        )
        first = np.where(near, source, 2 * ranks + up)
        return np.stack([first, np.where(near, ranks + destination, 2 * ranks + adapters + down)], axis=1)

    return make_links(capacity, latency / 2.0, route)
