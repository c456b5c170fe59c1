"""An interpreter for MSCCL programs that moves names of chunks instead of data, and notes who sent what to whom."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from podsim.errors import TableError
from podsim.network.collectives.table import EVERYWHERE, Table

SENDS, RECEIVES, ADDS = (
    ("s", "rcs", "rrs", "rrcs"),
    ("r", "rcs", "rrc", "rrs", "rrcs"),
    ("rrc", "rrs", "rrcs"),
)
LOCAL = ("nop", "cpy", "re")
MOST_WORK = 20_000_000


class Tick(NamedTuple):
    """One step of a thread block."""

    kind: str
    source: str
    source_at: int
    to: str
    to_at: int
    cnt: int
    block: int
    """The thread block that must have done `step` before; -1 for none."""
    step: int


class Message(NamedTuple):
    """Chunks under way."""

    chunks: tuple[int, ...]
    own: bool
    level: int
    """The earliest step of the transfer."""
    written: tuple[int, ...]
    """The steps in which the source's chunks had been written when it left."""


@dataclass(kw_only=True)
class Block:
    """A thread block and how far it has come."""

    send: int
    receive: int
    channel: int
    ticks: list[Tick]
    at: int = 0


@dataclass
class Machine:
    """All thread blocks of all ranks; `run` gives the table."""

    blank: Table
    own_input: bool
    """Whether inputs stay as they were and sums are made in the outputs."""
    personal: bool
    blocks: dict[tuple[int, int], Block] = field(default_factory=dict)
    held: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """The chunk in (rank, buffer, offset)."""
    wires: dict[tuple[int, int, int], deque[Message]] = field(default_factory=lambda: defaultdict(deque))
    wrote: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    """The last step in which a rank's chunk was written, and whether it was added to."""
    read: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(lambda: -1))
    edge: dict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(lambda: -1))
    """The step of the latest transfer between two ranks on a channel."""
    later: set[tuple[int, str, int]] = field(default_factory=set)
    """The locations whose content is added to another one (`re`) once it is there."""
    parked: dict[tuple[int, str, int], tuple[Block, Message]] = field(default_factory=dict)
    """The data received into those, with their sender; the transfer counts when they are added."""
    of_rank: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    work: int = 0
    rows: list[tuple[int, int, int, int, int, bool, bool, int]] = field(default_factory=list)

    def add(self, rank: int, number: int, send: int, receive: int, channel: int, ticks: list[Tick]) -> None:
        """A thread block; raises TableError for a second one of that number, unknown ranks and kinds of steps."""
        where = f"MSCCL: gpu {rank} tb {number}"
        if (rank, number) in self.blocks:
            raise TableError(f"{where} is there twice")
        for peer in (send, receive):
            if not -1 <= peer < self.blank.ranks:
                raise TableError(
                    f"{where} has peer {peer}; ranks are 0 to {self.blank.ranks - 1}, -1 for none"
                )
        for s, tick in enumerate(ticks):
            if tick.kind not in SENDS + RECEIVES + LOCAL:
                raise TableError(
                    f"{where} step {s} has type {tick.kind[:20]!r}; "
                    f"known: {', '.join(sorted({*SENDS, *RECEIVES, *LOCAL}))}"
                )
            if (
                (tick.kind in SENDS and send < 0)
                or (tick.kind in RECEIVES and receive < 0)
                or not 0 <= tick.cnt <= self.blank.chunks
            ):
                raise TableError(
                    f"{where} step {s} ({tick.kind}, cnt={tick.cnt}): no peer for it, or too many chunks"
                )
        self.work += sum(tick.cnt for tick in ticks)
        if self.work > MOST_WORK:
            raise TableError(f"{where}: more than {MOST_WORK} chunks are moved; that is as far as is read")
        self.later |= {
            (rank, tick.source, tick.source_at + k)
            for tick in ticks
            if tick.kind == "re"
            for k in range(tick.cnt)
        }
        self.of_rank[rank].append((rank, number))
        self.blocks[rank, number] = Block(send=send, receive=receive, channel=channel, ticks=ticks)

    def run(self) -> Table:
        """Run all thread blocks as far as they go; raises TableError if that is not to the end."""
        self._fill()
        ready = dict.fromkeys(self.blocks)
        while ready:
            key = next(iter(ready))
            del ready[key]
            moved = False
            while self._advance(key):
                moved = True
            if moved:
                ready.update(dict.fromkeys(self.of_rank[key[0]]))
                ready.update(dict.fromkeys(self.of_rank[self.blocks[key].send]))
                del ready[key]
        stuck = [(key, block) for key, block in self.blocks.items() if block.at < len(block.ticks)]
        if stuck:
            names = ", ".join(f"gpu {key[0]} tb {key[1]} step {block.at}" for key, block in stuck[:6])
            raise TableError(f"MSCCL: deadlock, {len(stuck)} thread blocks wait for ever: {names}")
        return self._table()

    def _fill(self) -> None:
        """What lies in the buffers at the start."""
        counts: dict[int, int] = defaultdict(int)
        for chunk, home in enumerate(self.blank.home.tolist()):
            if self.personal:
                self.held[home, "i", counts[home]] = chunk
                counts[home] += 1
                continue
            for rank in range(self.blank.ranks) if home == EVERYWHERE else (home,):
                self.held[rank, "o", chunk] = chunk
                self.held[rank, "i", chunk if home == EVERYWHERE else counts[home]] = chunk
            counts[home] += 1

    def _advance(self, key: tuple[int, int]) -> bool:
        """Do the next step of a thread block if it can be done."""
        block = self.blocks[key]
        if block.at >= len(block.ticks):
            return False
        rank, tick = key[0], block.ticks[block.at]
        if tick.block >= 0:
            other = self.blocks.get((rank, tick.block))
            if other is None or other.at <= tick.step:
                return False
        wire = (block.receive, rank, block.channel)
        if tick.kind in RECEIVES:
            if not self.wires[wire]:
                return False
            self._receive(rank, block, tick, self.wires[wire].popleft())
        if tick.kind == "re":
            self._add_parked(rank, tick)
        if tick.kind == "cpy":
            for k in range(tick.cnt):
                self.held[rank, tick.to, tick.to_at + k] = self._chunk(rank, tick.source, tick.source_at + k)
        if tick.kind in SENDS:
            stored = tick.kind in ("rcs", "rrcs")
            self._send(
                rank, block, tick, *((tick.to, tick.to_at) if stored else (tick.source, tick.source_at))
            )
        block.at += 1
        return True

    def _chunk(self, rank: int, buffer: str, at: int) -> int:
        chunk = self.held.get((rank, buffer, at))
        if chunk is None:
            raise TableError(f"MSCCL: gpu {rank} reads {buffer}[{at}], where nothing has been put")
        return chunk

    def _send(self, rank: int, block: Block, tick: Tick, buffer: str, at: int) -> None:
        chunks = tuple(self._chunk(rank, buffer, at + k) for k in range(tick.cnt))
        own = self.own_input and buffer == "i"
        written = tuple(self.wrote.get((rank, chunk), (-1, False))[0] for chunk in chunks)
        wire = (rank, block.send, block.channel)
        level = max([self.edge[wire] + 1, *(0 if own else step + 1 for step in written)])
        self.edge[wire] = level
        for chunk in chunks:
            self.read[rank, chunk] = max(self.read[rank, chunk], -1 if own else level)
        self.wires[wire].append(Message(chunks, own, level, written))

    def _receive(self, rank: int, block: Block, tick: Tick, message: Message) -> None:
        """Put chunks where they belong, and note the transfer in the earliest step that keeps the order of things."""
        adds, level = tick.kind in ADDS, message.level
        if len(message.chunks) != tick.cnt:
            raise TableError(
                f"MSCCL: gpu {rank} receives {tick.cnt} chunks from {block.receive}, which sent {len(message.chunks)}"
            )
        if tick.kind == "r" and any((rank, tick.to, tick.to_at + k) in self.later for k in range(tick.cnt)):
            self._park(rank, block, tick, message)
            return
        for chunk in message.chunks:
            before, added = self.wrote.get((rank, chunk), (-1, True))
            level = max(level, self.read[rank, chunk], before if adds and added else before + 1)
        for k, chunk in enumerate(message.chunks):
            to = (tick.source, tick.source_at) if tick.kind == "rrs" else (tick.to, tick.to_at)
            if adds and self.held.get((rank, tick.source, tick.source_at + k), chunk) != chunk:
                raise TableError(
                    f"MSCCL: gpu {rank} adds chunk {chunk} to another one; a table cannot say that"
                )
            now = self.wrote.get((block.receive, chunk), (-1, False))[0]
            if not message.own and level > message.level and now != message.written[k] and now < level:
                raise TableError(
                    f"MSCCL: chunk {chunk} from gpu {block.receive} to {rank} cannot be put into steps"
                )
            self.held[rank, to[0], to[1] + k] = chunk
            self.wrote[rank, chunk] = (level, adds)
            self.read[block.receive, chunk] = max(
                self.read[block.receive, chunk], -1 if message.own else level
            )
            if k and chunk == message.chunks[k - 1] + 1:
                self.rows[-1] = (*self.rows[-1][:4], self.rows[-1][4] + 1, *self.rows[-1][5:])
            else:
                self.rows.append((level, block.receive, rank, chunk, 1, adds, message.own, block.channel))
        self.edge[block.receive, rank, block.channel] = max(
            self.edge[block.receive, rank, block.channel], level
        )

    def _park(self, rank: int, block: Block, tick: Tick, message: Message) -> None:
        """Keep what is received into places from which it will be added."""
        for k, (chunk, written) in enumerate(zip(message.chunks, message.written, strict=True)):
            part = message._replace(chunks=(chunk,), written=(written,))
            self.parked[rank, tick.to, tick.to_at + k] = block, part

    def _add_parked(self, rank: int, tick: Tick) -> None:
        """A local reduction of what was received: together they are a transfer that adds."""
        for k in range(tick.cnt):
            entry = self.parked.pop((rank, tick.source, tick.source_at + k), None)
            if entry is None:
                raise TableError(
                    f"MSCCL: gpu {rank} adds {tick.source}[{tick.source_at + k}], which it has not received; a table "
                    "cannot say that"
                )
            at = tick.to_at + k
            self._receive(
                rank,
                entry[0],
                tick._replace(kind="rrc", source=tick.to, source_at=at, to_at=at, cnt=1),
                entry[1],
            )

    def _table(self) -> Table:
        rows = np.array(sorted(self.rows, key=lambda row: row[0]), np.int64).reshape(-1, 8)
        _, step = np.unique(rows[:, 0], return_inverse=True)
        ones, zero = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
        return replace(
            self.blank, step=step.astype(np.int64), source=rows[:, 1], destination=rows[:, 2], chunk=rows[:, 3],
            count=rows[:, 4], reduce=rows[:, 5].astype(np.bool_), own=rows[:, 6].astype(np.bool_), channel=rows[:, 7],
            repeat=ones, turn=zero, wheel=ones,
        )  # fmt: skip
