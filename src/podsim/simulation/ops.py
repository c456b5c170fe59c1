"""Ops on streams, after other ops, over links: one by one, or as classes of equal rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, Shaped, SmallInts


def no_ops() -> SmallInts:
    """No op."""
    return np.empty(0, np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfers:
    """Kinds of transfer: how fast each is alone, and which links it uses. L links, T kinds."""

    peak: Floats
    """B/s. The rate at full speed, [T]."""
    latency: Floats
    """s. The time before the first byte moves, [T]."""
    routes: tuple[Ints, Ints]
    """The routes, as (indptr [T + 1], links)."""
    use: Floats
    """factor. The bytes over each link of a route for each byte of the transfer."""
    capacity: Floats
    """B/s. The capacity of each link, [L]."""


NO_TRANSFERS = Transfers(
    peak=np.empty(0), latency=np.empty(0), routes=(np.zeros(1, np.int64), np.empty(0, np.int64)), use=np.empty(0),
    capacity=np.empty(0),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Streams:
    """How streams slow each other: a stream that `slows` takes `share` of the speed of ops on `slowed` streams."""

    domain: NDArray[np.int32]
    """The domain of each stream, [S]; streams of one domain share processors."""
    slows: NDArray[np.bool_]
    slowed: NDArray[np.bool_]
    share: float
    """share. The share of its speed that an op loses while another slows it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ops:
    """N ops, E edges: op after[e] starts when op before[e] has ended."""

    stream: SmallInts
    """The stream of each op, from 0, [N]; ops of one stream run in the order of their numbers."""
    seconds: Floats
    """s. The work without slowdown, [N]; for a transfer, its bytes over its peak."""
    before: SmallInts
    """The op before of each edge, [E]."""
    after: SmallInts
    """The op after of each edge, [E]."""
    join: SmallInts = field(default_factory=no_ops)
    """The join of each op, [N]: ops with the same number start together (a collective); -1: alone; empty: all alone."""
    transfer: SmallInts = field(default_factory=no_ops)
    """The kind of transfer of each op, [N]; -1: none; empty: no op is one."""
    transfers: Transfers = NO_TRANSFERS
    streams: Streams | None = None
    """The streams; None: no stream slows another."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiled:
    """Ops of C classes, each of which has those of a row."""

    rows: list[Ops]
    """The ops of each row by themselves. Their join is place x groups + group: the place among those ops that a class
    does in one of its groups. Their kinds of transfer are those of a class."""
    row_of: Ints
    """The row of each class, [C]."""
    joins: Shaped[SmallInts, "class group"]
    """The first join of each group of each class; -1: the class does it alone."""
    join_size: SmallInts
    """The number of ops of each join."""
    sends: tuple[SmallInts, SmallInts]
    """The edges between classes, as (before, after), from ops of any class counted one after the other."""
    kinds: int
    """The number of kinds of transfer of each class."""
    transfers: Transfers
    streams: Streams
    """The streams of the classes, one class after the other."""
    seconds: Floats | None = None
    """s. The work of each op; None: that of its row, [N]."""

    @cached_property
    def base(self) -> Ints:
        """The start of the ops of each class, [C + 1]."""
        sizes = np.array([len(row.stream) for row in self.rows])
        return np.concatenate([[0], np.cumsum(sizes[self.row_of])])

    def each(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """A column of all ops from those of the rows."""
        return np.concatenate([columns[r] for r in self.row_of])

    @property
    def join(self) -> SmallInts:
        """The join of each op; -1: alone, [N]."""
        number = self.each([row.join for row in self.rows])
        owner = np.repeat(np.arange(len(self.row_of)), np.diff(self.base))
        within, group = np.divmod(number, self.joins.shape[1])
        first = self.joins[owner, group]
        return np.where((number >= 0) & (first >= 0), first + within, -1).astype(np.int32)

    def flat(self) -> Ops:
        """The ops one by one."""
        width = len(self.streams.domain) // len(self.row_of)
        classes = [(self.rows[r], c, int(self.base[c])) for c, r in enumerate(self.row_of)]
        before = np.concatenate([*(row.before + start for row, _, start in classes), self.sends[0]])
        after = np.concatenate([*(row.after + start for row, _, start in classes), self.sends[1]])
        order = np.argsort(before, kind="stable")
        kind = [np.where(row.transfer >= 0, row.transfer + c * self.kinds, -1) for row, c, _ in classes]
        return Ops(
            stream=np.concatenate([row.stream + c * width for row, c, _ in classes]), before=before[order],
            seconds=self.each([row.seconds for row in self.rows]) if self.seconds is None else self.seconds,
            after=after[order], join=self.join, transfer=np.concatenate(kind).astype(np.int32),
            transfers=self.transfers, streams=self.streams,
        )  # fmt: skip
