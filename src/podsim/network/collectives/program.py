"""What one rank has to do for a table: which receives and sends it posts, and what each has to wait for.

A table says what is sent in which step. Here it becomes, for one node, a list of instructions that a transport can follow
without thinking. A rank does not wait for the end of a step: it waits for a receive only when it must send on (or
overwrite) what arrives, and for a send only before it overwrites what is still being read. So transfers whose
data are there from the start are all under way at once, as the table means it.

    RECEIVE k   start receiving transfer k          RECEIVED k  wait until it is there; add or copy it into place
    SEND k      start sending transfer k            SENT k      wait until its data may be overwritten
    BARRIER     wait for all nodes (tables in lockstep, between their steps)

No rank can wait for ever: whatever an instruction of step k waits for was posted in an earlier step, on both ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.axes import Ints
from podsim.errors import LabError
from podsim.network.collectives.table import EVERYWHERE, Table, expand, split

RECEIVE, RECEIVED, SEND, SENT, BARRIER = "receive", "received", "send", "sent", "barrier"
MOST_TRANSFERS = 2_000_000


class Do(NamedTuple):
    """One instruction."""

    what: str
    transfer: int
    """The position in Program.transfers; -1 for a barrier."""


class Span(NamedTuple):
    """Elements first to last - 1 of a buffer, and the rank whose data they are (EVERYWHERE: a sum of all)."""

    first: int
    last: int
    home: int


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Elements that go to or come from another node."""

    peer: int
    sends: bool
    """Whether it goes to the peer; otherwise it comes from it."""
    first: int
    last: int
    reduce: bool
    """Whether the received data are added."""
    own: bool
    """Whether the sent data are the rank's own input."""
    direct: bool
    """Whether the data are received in place; otherwise in a buffer until they may be moved."""
    tag: int
    """The number of the message between these two nodes, from 0."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """What one node does for one call of a collective."""

    node: int
    nodes: int
    elements: int
    """The length of the buffer in elements."""
    transfers: tuple[Transfer, ...]
    order: tuple[Do, ...]
    input: tuple[Span, ...]
    """The chunks that this rank has at the start."""
    output: tuple[Span, ...]
    """The chunks that it must have at the end."""
    keeps_input: bool
    """Whether it sends its own input after it may have been overwritten."""


def programs(table: Table, elements: int, nodes: range | None = None) -> tuple[Program, ...]:
    """The programs of the given nodes (default all) for `size` = elements x 4 B; a buffer may hold more (all-to-all).

    Raises LabError for a table of more than two million transfers.
    """
    if table.transfers > MOST_TRANSFERS:
        raise LabError(
            f"{table.name}: {table.transfers:,} messages in one call; at most {MOST_TRANSFERS:,} are run: "
            "take fewer ranks"
        )
    units, _ = expand(split(table, elements))
    cuts = np.rint(np.concatenate([[0.0], np.cumsum(units.sizes)]) * elements).astype(np.int64)
    tags = _tags(units)
    return tuple(_Compiler(units, cuts, tags, node).program() for node in nodes or range(table.nodes))


def _tags(units: Table) -> Ints:
    """Number of each message among those between the same two nodes, in order of rows."""
    pair = units.source * units.nodes + units.destination
    order = np.argsort(pair, kind="stable")
    _, first, count = np.unique(pair[order], return_index=True, return_counts=True)
    tags = np.empty(len(pair), np.int64)
    tags[order] = np.arange(len(pair)) - np.repeat(first, count)
    return tags


class _Compiler:
    """Walks the rows of one node in order of steps, and keeps what is under way on each chunk."""

    def __init__(self, units: Table, cuts: Ints, tags: Ints, node: int) -> None:
        self.units, self.cuts, self.tags, self.node = units, cuts, tags, node
        self.transfers: list[Transfer] = []
        self.chunks: list[range] = []
        self.order: list[Do] = []
        self.arriving: dict[int, list[int]] = defaultdict(list)
        self.leaving: dict[int, list[int]] = defaultdict(list)

    def program(self) -> Program:
        units = self.units
        size = self.cuts[units.chunk + units.count] - self.cuts[units.chunk]
        here = np.flatnonzero(((units.source == self.node) | (units.destination == self.node)) & (size > 0))
        steps = np.unique(units.step if units.lockstep else units.step[here])
        groups = np.searchsorted(units.step[here], [*steps, np.iinfo(np.int64).max])
        for k in range(len(steps)):
            if units.lockstep and k:
                self._finish_all()
                self.order.append(Do(BARRIER, -1))
            self._step(here[groups[k] : groups[k + 1]])
        self._finish_all()
        return Program(
            node=self.node, nodes=units.nodes, elements=int(self.cuts[-1]), transfers=tuple(self.transfers),
            order=tuple(self.order), input=self._spans(units.home), output=self._spans(units.goal),
            keeps_input=any(t.own for t in self.transfers),
        )  # fmt: skip

    def _step(self, rows: Ints) -> None:
        sends = [int(row) for row in rows if self.units.source[row] == self.node]
        posted = []
        for row in sends:
            if not self.units.own[row]:
                self._finish_arriving(self._chunks(row))
            posted.append(self._add(row, direct=False))
        for row in rows:
            if self.units.destination[row] == self.node:
                chunks = self._chunks(int(row))
                busy = any(self.arriving[c] or self.leaving[c] for c in chunks)
                k = self._add(int(row), direct=not busy and not self.units.reduce[row])
                for c in chunks:
                    self.arriving[c].append(k)
                self.order.append(Do(RECEIVE, k))
        self.order += [Do(SEND, k) for k in posted]

    def _chunks(self, row: int) -> range:
        return range(int(self.units.chunk[row]), int(self.units.chunk[row] + self.units.count[row]))

    def _add(self, row: int, *, direct: bool) -> int:
        """Note one transfer; a send occupies its chunks until it is known to have left."""
        units, chunks = self.units, self._chunks(row)
        sends = units.source[row] == self.node
        self.transfers.append(Transfer(
            peer=int(units.destination[row] if sends else units.source[row]), sends=bool(sends),
            first=int(self.cuts[chunks.start]), last=int(self.cuts[chunks.stop]),
            reduce=bool(units.reduce[row]) and not sends, own=bool(units.own[row]) and bool(sends),
            direct=direct, tag=int(self.tags[row]),
        ))  # fmt: skip
        k = len(self.transfers) - 1
        self.chunks.append(chunks)
        if sends:
            for c in chunks if not units.own[row] else ():
                self.leaving[c].append(k)
        return k

    def _finish_arriving(self, chunks: range) -> None:
        for k in sorted({k for c in chunks for k in self.arriving[c]}):
            self._receive(k)

    def _receive(self, k: int) -> None:
        """Wait for receive k: earlier ones on the same chunks come first, and what is being read leaves before it."""
        if k not in self.arriving[self.chunks[k].start]:
            return
        for before in sorted({j for c in self.chunks[k] for j in self.arriving[c] if j < k}):
            self._receive(before)
        for send in sorted({j for c in self.chunks[k] for j in self.leaving[c]}):
            self._sent(send)
        self.order.append(Do(RECEIVED, k))
        for c in self.chunks[k]:
            self.arriving[c].remove(k)

    def _sent(self, k: int) -> None:
        self.order.append(Do(SENT, k))
        for c in self.chunks[k]:
            if k in self.leaving[c]:
                self.leaving[c].remove(k)

    def _finish_all(self) -> None:
        for k in sorted({k for waiting in self.arriving.values() for k in waiting}):
            self._receive(k)
        known = {do.transfer for do in self.order if do.what == SENT}
        for do in [do for do in self.order if do.what == SEND and do.transfer not in known]:
            self._sent(do.transfer)

    def _spans(self, ranks: Ints) -> tuple[Span, ...]:
        """Chunks whose end (home or goal) is this rank or everywhere, neighbours of one home joined."""
        spans: list[Span] = []
        if self.node >= self.units.ranks:
            return ()
        for c in np.flatnonzero((ranks == EVERYWHERE) | (ranks == self.node)):
            span = Span(int(self.cuts[c]), int(self.cuts[c + 1]), int(self.units.home[c]))
            if spans and spans[-1].last == span.first and spans[-1].home == span.home:
                span = Span(spans.pop().first, span.last, span.home)
            if span.last > span.first:
                spans.append(span)
        return tuple(spans)
