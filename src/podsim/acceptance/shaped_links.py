"""A collective on the shaped links of an emulated cluster: what links, messages, buckets and processors take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.lab.links import KEPT, MTU
from podsim.lab.program import programs
from podsim.network.collectives import Table
from podsim.network.play import play
from podsim.network.play_links import Links, make_links
from podsim.network.table_bursts import IDLE, Buckets, Processors, shaped_rounds
from podsim.results.lab import Emulated, MeasuredCollectives
from podsim.results.trained import MeasuredDdp

_FLOAT = 4
_HEADERS = (52, 14)
"""B of a packet that are no data, inside its MTU and before it: IP and TCP with a timestamp; Ethernet"""


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
    bare, real = emulated_fabric(made), emulated_fabric(made, run.message)
    links = play(table, size, bare).seconds
    own = np.arange(len(bare.capacity)) < 2 * made.ranks
    buckets = Buckets(
        np.where(own, made.inside_burst, made.between_burst),
        np.where(own, made.local - 1, made.ranks - made.local),
        KEPT,
    )
    work = IDLE
    if isinstance(run, MeasuredCollectives):
        work = Processors(run.message_work, run.byte_work, run.add_work, min(run.cores, run.ranks))
    elements = int(size) // _FLOAT
    inputs = (part for program in programs(table, elements, range(run.ranks)) for part in program.input)
    rounds = shaped_rounds(
        table, bare, size, buckets, calls, processors=work,
        copied=_FLOAT * float(sum(last - first for first, last, _ in inputs)),
    )  # fmt: skip
    messages = play(table, size, real).seconds - links
    return Parts(links, messages, rounds.shaped - rounds.plain, rounds.worked - rounds.shaped)


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
