"""How the order of a rank is written down: phases of a repeated pattern, from which micro-batch numbers follow.

A pattern is words such as "F0 B1+": forward of the rank's first chunk, then backward of its second, overlapped with it.
Micro-batches run through every chunk in the order 0, 1, 2, …, so that the n-th forward of a chunk is of its n-th
micro-batch, and a pattern need not name any. "W" without a chunk is the weight gradient that has waited longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from podsim.schedules.actions import LETTERS, Bools, Ints, ScheduleTable, Work

Phase: TypeAlias = tuple[int, str]
"""(how often, pattern)"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """The actions of one rank; chunks are numbered within the rank."""

    work: Ints
    chunk: Ints
    micro: Ints
    beside: Bools

    def keep(self, wanted: Bools) -> Program:
        """Some of the actions, in the same order."""
        return Program(
            work=self.work[wanted],
            chunk=self.chunk[wanted],
            micro=self.micro[wanted],
            beside=self.beside[wanted],
        )


def counted(keys: Ints) -> Ints:
    """How often each value occurred before: [3, 5, 3, 3] gives [0, 0, 1, 2]."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.flatnonzero(np.diff(ordered, prepend=-1))
    starts = np.repeat(new, np.diff(new, append=len(keys)))
    out = np.empty(len(keys), np.int64)
    out[order] = np.arange(len(keys)) - starts
    return out


def repeat(phases: Sequence[Phase]) -> tuple[Ints, Ints, Bools]:
    """(work, chunk, beside) of phases written out; the chunk of a plain "W" is -1."""
    rows: list[Ints] = [np.empty((0, 3), np.int64)]
    for many, pattern in phases:
        words = [
            (LETTERS.index(w[0]), int(w[1:].rstrip("+") or -1), w.endswith("+")) for w in pattern.split()
        ]
        rows.append(np.tile(np.array(words, np.int64).reshape(-1, 3), (max(many, 0), 1)))
    table = np.concatenate(rows)
    return table[:, 0], table[:, 1], table[:, 2].astype(bool)


def program(phases: Sequence[Phase]) -> Program:
    """Phases with their micro-batches: the n-th pass of a chunk is of micro-batch n."""
    work, chunk, beside = repeat(phases)
    kind = np.where(work == Work.BACKWARD, Work.INPUT, work)  # both take the next gradient that comes in
    micro = counted(kind * (chunk.max(initial=0) + 2) + chunk + 1)
    waiting = (work == Work.WEIGHT) & (chunk < 0)
    made = np.flatnonzero(work == Work.INPUT)[: int(waiting.sum())]
    chunk, micro = chunk.copy(), micro.copy()
    chunk[waiting], micro[waiting] = chunk[made], micro[made]
    return Program(work=work, chunk=chunk, micro=micro, beside=beside)


Placement: TypeAlias = tuple[int, Ints, Ints, Ints, Ints, Ints]
"""(parts, stage_rank, stage_part, stage_before, stage_after, chunks_RC): the stage of each chunk of each rank"""


def _chain(ranks: Ints, p: int) -> Placement:
    """One direction through ranks in the order of parts."""
    stages = np.arange(len(ranks))
    chunks_RC = np.argsort(ranks, kind="stable").reshape(p, -1)
    return len(ranks), ranks, stages, stages - 1, np.append(stages[1:], -1), chunks_RC


def loop(p: int, v: int) -> Placement:
    """Part s on rank s mod p: chunks of a rank are p parts apart (Narayanan et al. 2021)."""
    return _chain(np.arange(p * v) % p, p)


def vee(p: int) -> Placement:
    """Down the ranks and up again: rank r holds parts r and 2p - 1 - r (Qi et al. 2023)."""
    return _chain(np.concatenate([np.arange(p), np.arange(p)[::-1]]), p)


def two_ways(p: int) -> Placement:
    """Every part twice: stages 0 … p-1 from the first rank to the last, p … 2p-1 from the last to the first.

    The first chunk of a rank is the one that is nearer to its direction's start.
    """
    part = np.arange(p)
    stage_rank = np.concatenate([part, part[::-1]])
    before = np.concatenate([part - 1, np.where(part > 0, p + part - 1, -1)])
    after = np.concatenate([np.append(part[1:], -1), np.append(p + part[1:], -1)])
    first, second = part, 2 * p - 1 - part
    near = (part < p // 2)[:, None]
    chunks_RC = np.where(near, np.stack([first, second], 1), np.stack([second, first], 1))
    return p, stage_rank, np.concatenate([part, part]), before, after, chunks_RC


def assemble(
    name: str, m: int, placement: Placement, of_rank: Callable[[int], Program], *, flush: bool = True
) -> ScheduleTable:
    """The table of a schedule from the program of each rank."""
    parts, stage_rank, stage_part, before, after, chunks_RC = placement
    programs = [of_rank(rank) for rank in range(len(chunks_RC))]
    sizes = [len(one.work) for one in programs]
    stages = [chunks_RC[rank][one.chunk] for rank, one in enumerate(programs)]
    return ScheduleTable(
        name=name,
        ranks=len(programs),
        micro_batches=m,
        parts=parts,
        stage_rank=stage_rank,
        stage_part=stage_part,
        stage_before=before,
        stage_after=after,
        pointer=np.concatenate([[0], np.cumsum(sizes)]),
        work=np.concatenate([one.work for one in programs]),
        stage=np.concatenate(stages),
        micro=np.concatenate([one.micro for one in programs]),
        beside=np.concatenate([one.beside for one in programs]),
        flush=flush,
    )
