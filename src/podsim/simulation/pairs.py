"""Simultaneous passes on one GPU, as in DualPipe: the order of their kernels and exchanges.

A pass is a chain of work on the compute stream and of exchanges on another. Which order lets two chains end soonest is
the job shop of two jobs, which has an exact answer: the shortest path around the places where both want the same
stream (S. Akers, A graphical approach to production scheduling problems, Operations Research 4, 1956). Orders of this
kind are tuned by hand where they are used (DeepSeek-AI 2024, arXiv 2412.19437, section 3.2), so the best one is taken.
Long kernels give way to each other in between: they do so at every wave of thread blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Ints
from podsim.native import c_function
from podsim.simulation.drafts import Draft
from podsim.simulation.pieces import Piece, Stream, merge_pieces

WAVE = 25e-6
"""s of a slice of a kernel, between which another kernel may run: a tile of 128 x 256 over k = 1,024 takes an SM of an
A100 (312 TFLOP/s over 108) so long"""
SLICES = 400
"""slices that a pass is cut into at most; longer passes have longer slices"""
_MEETING = Piece(name="beside each other", kind="compute", seconds=0.0)
"""when both passes can begin, and when both are over"""


def pair_drafts(drafts: list[Draft], *, kernels: bool) -> Draft:
    """Two simultaneous actions as one, their pieces in the order that ends soonest.

    Both begin when both can, and are over when both are. `kernels` false: what no exchange parts is one piece, which
    changes no time.
    """
    assert len(drafts) == 2, len(drafts)  # no schedule has more
    cut = [_Cut.from_draft(draft) for draft in drafts]
    starts = shortest_starts(cut[0].seconds, cut[0].stream, cut[1].seconds, cut[1].stream)
    rows = sorted(
        (float(time), d, at)
        for d, pieces in enumerate(cut)
        for at, time in enumerate(pieces.start_seconds(starts[d], drafts[d]))
    )
    return _join_slices(drafts, cut, [(d, at) for _, d, at in rows], kernels)


@dataclass(frozen=True)
class _Cut:
    """A draft with its kernels cut into slices, its chain separate from the ops that overlap with it."""

    piece: list[int]
    """The piece of each slice."""
    share: list[float]
    """share. The share of the piece in each slice."""
    chain: list[int]
    """The slices that follow one another."""
    seconds: Floats
    """s. The time of the chain."""
    stream: Ints

    @classmethod
    def from_draft(cls, draft: Draft) -> _Cut:
        """Kernels cut, exchanges whole."""
        busy = sum(p.seconds for p in draft.pieces if p.stream == Stream.COMPUTE)
        wave = max(WAVE, busy / SLICES)
        piece: list[int] = []
        share: list[float] = []
        for at, item in enumerate(draft.pieces):
            parts = max(int(np.ceil(item.seconds / wave)), 1) if item.stream == Stream.COMPUTE else 1
            piece += [at] * parts
            share += [1 / parts] * parts
        loose = _side_ops(draft)
        chain = [i for i, at in enumerate(piece) if at not in loose]
        seconds = np.array([draft.pieces[piece[i]].seconds * share[i] for i in chain])
        stream = np.array([int(draft.pieces[piece[i]].stream) for i in chain], np.int64)
        return cls(piece, share, chain, seconds, stream)

    def start_seconds(self, starts: Floats, draft: Draft) -> list[float]:
        """The start of each slice; ops outside the chain start as soon as the chain is there."""
        out = [0.0] * len(self.piece)
        for position, i in enumerate(self.chain):
            out[i] = float(starts[position])
        ends = dict(zip(self.chain, (starts + self.seconds).tolist(), strict=True))
        last = 0.0
        for i in range(len(self.piece)):
            last = ends.get(i, last)
            if i not in ends:
                out[i] = last
        return out


def _side_ops(draft: Draft) -> set[int]:
    """Ops that overlap with the chain, except those that its very next op waits for: these are part of it."""
    loose, edges = set(draft.loose), set(draft.edges)
    following = len(draft.pieces)
    for at in range(len(draft.pieces) - 1, -1, -1):
        if at not in draft.loose:
            following = at
        elif (at, following) in edges or (following == len(draft.pieces) and at in draft.pending):
            loose.discard(at)
    return loose


def _join_slices(drafts: list[Draft], cut: list[_Cut], order: list[tuple[int, int]], kernels: bool) -> Draft:
    """One draft of the slices in their order, those that follow each other undisturbed as one piece."""
    after = [{a for a, _ in draft.edges} for draft in drafts]
    waiting = [
        {z for _, z in draft.edges} | {op for op, _ in draft.waits} | set(draft.heads) for draft in drafts
    ]
    out = Draft(pieces=[_MEETING], heads=[0, 0], first=0)
    first: list[dict[int, int]] = [{}, {}]
    last: list[dict[int, int]] = [{}, {}]
    previous: dict[int, tuple[int, int, int]] = {}
    """stream -> (draft, slice, op) that it ran last"""
    for d, i in order:
        at = cut[d].piece[i]
        piece = drafts[d].pieces[at]
        piece = piece if cut[d].share[i] == 1.0 else piece.times(cut[d].share[i])
        owner, before, op = previous.get(int(piece.stream), (-1, -1, -1))
        same = owner == d and cut[d].piece[before] == at
        free = owner == d and not kernels and cut[d].piece[before] not in after[d] and at not in waiting[d]
        if piece.stream == Stream.COMPUTE and (same or free):
            out.pieces[op] = _extend_piece(out.pieces[op], piece, same)
        else:
            op = len(out.pieces)
            out.pieces.append(piece)
        previous[int(piece.stream)] = (d, i, op)
        first[d].setdefault(at, op)
        last[d][at] = op
    for d, draft in enumerate(drafts):
        out.edges += [(0, first[d][op]) for op in draft.heads]
        out.edges += [(last[d][a], first[d][z]) for a, z in draft.edges]
        out.waits += [(first[d][op], ticket) for op, ticket in draft.waits]
        out.pending += [last[d][op] for op in (*draft.pending, draft.last)]
    out.chain([_MEETING])
    return out


def _extend_piece(piece: Piece, slice_: Piece, same: bool) -> Piece:
    """A piece that continues with a slice: of itself, or of what follows it."""
    if not same:
        return merge_pieces([piece, slice_])[0]
    mix = None if piece.mix is None and slice_.mix is None else piece.parts + slice_.parts
    return replace(piece, seconds=piece.seconds + slice_.seconds, mix=mix)


def shortest_starts(
    seconds: Floats, stream: Ints, others: Floats, other_stream: Ints
) -> tuple[Floats, Floats]:
    """When each op of two chains starts so that both end soonest, s; ops of one stream never run at once."""
    corners = _corners(seconds, stream, others, other_stream)
    out = (np.zeros(len(seconds)), np.zeros(len(others)))
    for (i, j, time), (i_next, j_next, _) in pairwise(corners):
        for starts, work, low, high in ((out[0], seconds, i, i_next), (out[1], others, j, j_next)):
            done = np.cumsum(work[int(low) : int(high)])
            starts[int(low) : int(high)] = time + np.concatenate([[0.0], done[:-1]]) if len(done) else time
    return out


class Chains(NamedTuple):
    """Two chains of ops, and what is known of their corners."""

    done: Floats
    """s. The work of the first chain before each of its ops, and in all."""
    stream: Ints
    other: Floats
    """s. The same of the second chain."""
    other_stream: Ints
    best: Floats
    """s. The least time of each corner, [(ops + 1) (other ops + 1)]."""
    came: Ints
    """The corner before each."""
    ops: int
    other_ops: int


_find_corners = c_function("pair_corners", Chains, Floats, result=int)


def _corners(seconds: Floats, stream: Ints, others: Floats, other_stream: Ints) -> Floats:
    """The way that ends soonest, as rows (ops of the first chain done, of the second, s): both begin their next op there.

    Between two corners both chains go on without a pause, until one waits for the other.
    """
    n, m = len(seconds), len(others)
    best = np.full((n + 1) * (m + 1), np.inf)
    best[0] = 0.0
    done, other = (np.concatenate([[0.0], np.cumsum(work)]) for work in (seconds, others))
    chains = Chains(done, stream, other, other_stream, best, np.zeros(len(best), np.int64), n, m)
    way = np.empty((n + m + 2, 3))
    return way[: _find_corners(chains, way)][::-1].copy()
