"""A pass as ops: a chain of pieces one after the other, and the ops that overlap with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from podsim.axes import Ints
from podsim.simulation.pieces import Piece

Ticket: TypeAlias = tuple[str, int, int]


@dataclass
class Draft:
    """Ops in the order in which their streams run them."""

    pieces: list[Piece] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    tickets: dict[Ticket, int] = field(default_factory=dict)
    """The op of each thing that others may wait for."""
    waits: list[tuple[int, Ticket]] = field(default_factory=list)
    """The pairs (op, what it waits for that another draft holds)."""
    sent: list[int] = field(default_factory=list)
    """The op that sends the output of each action on; -1 if none."""
    heads: list[int] = field(default_factory=list)
    """The first op of each action."""
    first: int = -1
    """The first op of the chain."""
    last: int = -1
    """The last op of the chain."""
    pending: list[int] = field(default_factory=list)
    """The ops that the next one of the chain waits for."""
    loose: list[int] = field(default_factory=list)
    """The ops outside the chain."""

    def chain(self, pieces: Iterable[Piece]) -> None:
        """Continue with pieces one after the other; those marked `beside` overlap with the next."""
        for piece in pieces:
            if piece.beside:
                self.add_aside(piece)
                continue
            at = len(self.pieces)
            self.pieces.append(piece)
            self.edges += [(op, at) for op in self.pending]
            self.pending = []
            if self.last >= 0 and self.pieces[self.last].stream != piece.stream:
                self.edges.append((self.last, at))
            self.first = at if self.first < 0 else self.first
            self.last = at

    def add_aside(self, piece: Piece) -> int:
        """A piece that starts when the chain has come here and that the chain does not wait for; its op."""
        self.pieces.append(piece)
        at = len(self.pieces) - 1
        self.loose.append(at)
        if self.last >= 0:
            self.edges.append((self.last, at))
        else:
            self.waits.append((at, ("before", 0, 0)))
        return at


class Catalog:
    """Distinct pieces, numbered."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.pieces: list[Piece] = []
        self._number: dict[tuple[str, str, float, int], int] = {}

    def number(self, piece: Piece) -> int:
        """The number of a piece; a new one if there is none like it."""
        key = (piece.name, piece.kind, piece.seconds, int(piece.stream))
        if key not in self._number:
            self._number[key] = len(self.pieces)
            self.pieces.append(piece)
        return self._number[key]


class Packed(NamedTuple):
    """A draft in arrays."""

    what: Ints
    stream: Ints
    before: Ints
    after: Ints
    first: int
    last: int
    sent: list[int]
    heads: list[int]
    pending: list[int]
    waits: list[tuple[int, Ticket]]
    tickets: dict[Ticket, int]


def pack(draft: Draft, catalog: Catalog) -> Packed:
    """The draft in arrays, its pieces entered in the catalog."""
    edges = np.array(sorted(set(draft.edges)), np.int64).reshape(-1, 2)
    return Packed(
        what=np.array([catalog.number(piece) for piece in draft.pieces], np.int64),
        stream=np.array([piece.stream for piece in draft.pieces], np.int64),
        before=edges[:, 0], after=edges[:, 1], first=draft.first, last=draft.last, sent=draft.sent, heads=draft.heads,
        pending=draft.pending, waits=draft.waits, tickets=draft.tickets,
    )  # fmt: skip
