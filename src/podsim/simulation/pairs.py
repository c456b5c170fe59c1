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

import numpy as np

from podsim.jit import njit
from podsim.simulation.drafts import Draft, Floats, Ints
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
    mix = None if piece.mix is None or slice_.mix is None else piece.mix + slice_.mix
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


@njit
def _corners(seconds: Floats, stream: Ints, others: Floats, other_stream: Ints) -> Floats:
    """The way that ends soonest, as rows (ops of the first chain done, of the second, s): both begin their next op there.

    Between two corners both chains go on without a pause, until one waits for the other.
    """
    n, m = len(seconds), len(others)
    done = np.zeros(n + 1)
    done[1:] = np.cumsum(seconds)
    other = np.zeros(m + 1)
    other[1:] = np.cumsum(others)
    best = np.full((n + 1, m + 1), np.inf)
    came = np.zeros((n + 1, m + 1), np.int64)
    best[0, 0] = 0.0
    for i0 in range(n + 1):
        for j0 in range(m + 1):
            time = best[i0, j0]
            if time == np.inf:
                continue
            i, j, x, y = i0, j0, done[i0], other[j0]
            while i < n and j < m and stream[i] != other_stream[j]:
                step, step_other = done[i + 1] - x, other[j + 1] - y
                time += min(step, step_other)
                if step <= step_other:
                    i += 1
                    x = done[i]
                    y += step
                if step_other <= step:
                    j += 1
                    x = done[i] if step == step_other else x + step_other
                    y = other[j]
            here = i0 * (m + 1) + j0
            if i == n or j == m:
                end = time + (done[n] - x if j == m else other[m] - y)
                if (i0 < n or j0 < m) and end < best[n, m]:
                    best[n, m], came[n, m] = end, here
                continue
            # one of the two goes first; the other stops before the op that they meet at
            ahead = best[i0, j0] + max(done[i + 1] - done[i0], other[j] - other[j0])
            if ahead < best[i + 1, j]:
                best[i + 1, j], came[i + 1, j] = ahead, here
            ahead = best[i0, j0] + max(done[i] - done[i0], other[j + 1] - other[j0])
            if ahead < best[i, j + 1]:
                best[i, j + 1], came[i, j + 1] = ahead, here
    way = np.empty((n + m + 2, 3))
    way[0, 0], way[0, 1], way[0, 2] = n, m, best[n, m]
    length = 1
    while way[length - 1, 0] + way[length - 1, 1] > 0:
        here = came[int(way[length - 1, 0]), int(way[length - 1, 1])]
        i, j = here // (m + 1), here % (m + 1)
        way[length, 0], way[length, 1], way[length, 2] = i, j, best[i, j]
        length += 1
    return way[:length][::-1].copy()
