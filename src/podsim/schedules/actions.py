"""A pipeline schedule as a table: which rank runs which pass of which micro-batch, in which order.

One table is used three ways: its bubble and its high water of activations are derived (`play`, `held`), it is played in
a simulation, and it is written as the CSV that torch's pipelining runtime loads (`torch_csv`). Nothing in a table is a
time: an order only becomes a bubble when durations are given to it.

Words: a *part* is one of the pieces that the model is cut into; a *stage* is a part in the hands of one rank (a
bidirectional schedule gives each part to two ranks, hence has two stages for it); a *direction* is a chain of stages
that a micro-batch runs through, forward along `stage_after` and backward along `stage_before`.

How the order of a rank is written down: phases of a repeated pattern, from which micro-batch numbers follow.

A pattern is words such as "F0 B1+": forward of the rank's first chunk, then backward of its second, overlapped with it.
Micro-batches run through every chunk in the order 0, 1, 2, …, so that the n-th forward of a chunk is of its n-th
micro-batch, and a pattern need not name any. "W" without a chunk is the weight gradient that has waited longest.

How layers are divided over the chunks of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np

from podsim.axes import Bools, Ints
from podsim.records import dataclass


class Work(IntEnum):
    """What an action does with a micro-batch."""

    FORWARD = 0
    BACKWARD = 1
    """gradients of the input and of the weights together"""
    INPUT = 2
    """gradient of the input only: what the stage before waits for"""
    WEIGHT = 3
    """gradient of the weights only: nobody waits for it"""


LETTERS = "FBIW"
"""of each Work, as torch's schedules write them"""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduleTable:
    """The order of one step (or of a window of an endless run, if `flush` is False) on every pipeline rank."""

    name: str
    ranks: int
    """The number of pipeline ranks, p."""
    micro_batches: int
    """The number of micro-batches, m."""
    parts: int
    """The number of pieces of the model."""
    stage_rank: Ints
    """The rank that holds each stage, [stages]."""
    stage_part: Ints
    """The model part that each stage computes, [stages]."""
    stage_before: Ints
    """The stage whose output it needs; -1 for the first of a direction, [stages]."""
    stage_after: Ints
    """The stage that needs its output; -1 for the last of a direction, [stages]."""
    pointer: Ints
    """The start of each rank's actions: pointer[r] : pointer[r + 1], in order, [ranks + 1]."""
    work: Ints
    """The Work of each action, [actions]."""
    stage: Ints
    """The stage of each action, [actions]."""
    micro: Ints
    """The micro-batch of each action, [actions]."""
    beside: Bools
    """Whether it overlaps with the action before it, [actions]."""
    flush: bool = True
    """Whether weights change only when all micro-batches are done; False: asynchronous, see `version`."""
    version: Ints | None = None
    """The number of updates in the weights that an action uses, [actions]; None: all use the same."""
    update: int = 0
    """The number of micro-batches whose gradients make one update; 0: all of the table."""

    def __post_init__(self) -> None:
        """Columns are of one length."""
        stages = [self.stage_rank, self.stage_part, self.stage_before, self.stage_after]
        assert len({len(column) for column in stages}) == 1, [len(column) for column in stages]
        actions = [self.work, self.stage, self.micro, self.beside]
        actions += [] if self.version is None else [self.version]
        assert len({len(column) for column in actions}) == 1, [len(column) for column in actions]
        assert len(self.pointer) == self.ranks + 1
        assert self.pointer[0] == 0
        assert self.pointer[-1] == len(self.work)

    def __len__(self) -> int:
        """Actions."""
        return len(self.work)

    @property
    def stages(self) -> int:
        """Stages: parts, or twice as many if every part has two homes."""
        return len(self.stage_rank)

    @cached_property
    def rank(self) -> Ints:
        """Rank that runs each action, [actions]."""
        return np.repeat(np.arange(self.ranks), np.diff(self.pointer))

    @cached_property
    def need(self) -> Ints:
        """The action whose output each action needs, -1 if none, [actions].

        A forward needs the forward of the stage before; a backward that of the stage after, or its own forward at the
        end of a direction; a weight gradient its own input gradient. What else a rank must have done, its order holds.
        """
        m = self.micro_batches
        kind = np.where(self.work == Work.BACKWARD, Work.INPUT, self.work)
        key = (kind * self.stages + self.stage) * m + self.micro
        home = np.full(4 * self.stages * m + 1, -1)
        home[key] = np.arange(len(self))
        before, after = self.stage_before[self.stage], self.stage_after[self.stage]
        forward, gradient = kind == Work.FORWARD, kind == Work.INPUT
        source = np.where(forward, before, np.where(gradient & (after >= 0), after, self.stage))
        source_kind = np.where(gradient & (after >= 0) | (kind == Work.WEIGHT), Work.INPUT, Work.FORWARD)
        wanted = (source_kind * self.stages + source) * m + self.micro
        return np.asarray(home[np.where(source < 0, -1, wanted)])

    @cached_property
    def abroad(self) -> Bools:
        """Whether what each action needs comes from another rank, [actions]."""
        return np.asarray((self.need >= 0) & (self.rank[self.need] != self.rank))

    @cached_property
    def direction(self) -> Ints:
        """First stage of the direction that each stage belongs to, [stages]."""
        first = np.arange(self.stages)
        for _ in range(self.stages):
            before = self.stage_before[first]
            if (before < 0).all():
                break
            first = np.where(before < 0, first, before)
        return first

    def row(self, rank: int) -> slice:
        """Where the actions of a rank lie."""
        return slice(int(self.pointer[rank]), int(self.pointer[rank + 1]))


def action_text(table: ScheduleTable, action: int) -> str:
    """One action as torch writes it: stage, letter, micro-batch ("3B0")."""
    work, stage, micro = (int(column[action]) for column in (table.work, table.stage, table.micro))
    return f"{stage}{LETTERS[work]}{micro}"


def updates_before(table: ScheduleTable) -> Ints:
    """Updates that the weights of an action's stage have had when it runs, of an asynchronous table, [actions]."""
    done = (table.work == Work.BACKWARD) | (table.work == Work.WEIGHT)
    out = np.zeros(len(table), np.int64)
    order = np.argsort(table.stage, kind="stable")
    gradients = np.cumsum(done[order])
    starts = np.searchsorted(table.stage[order], table.stage)
    base = np.concatenate([[0], gradients])[starts]
    out[order] = gradients
    return np.asarray((out - done - base) // max(table.update or table.micro_batches, 1))


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


def occurrence_numbers(keys: Ints) -> Ints:
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
    micro = occurrence_numbers(kind * (chunk.max(initial=0) + 2) + chunk + 1)
    waiting = (work == Work.WEIGHT) & (chunk < 0)
    made = np.flatnonzero(work == Work.INPUT)[: int(waiting.sum())]
    chunk, micro = chunk.copy(), micro.copy()
    chunk[waiting], micro[waiting] = chunk[made], micro[made]
    return Program(work=work, chunk=chunk, micro=micro, beside=beside)


Placement: TypeAlias = tuple[int, Ints, Ints, Ints, Ints, Ints]
"""(parts, stage_rank, stage_part, stage_before, stage_after, chunks): the stage of each chunk of each rank"""


def _chain(ranks: Ints, p: int) -> Placement:
    """One direction through ranks in the order of parts."""
    stages = np.arange(len(ranks))
    chunks = np.argsort(ranks, kind="stable").reshape(p, -1)  # [rank, chunk]
    return len(ranks), ranks, stages, stages - 1, np.append(stages[1:], -1), chunks


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
    chunks = np.where(near, np.stack([first, second], 1), np.stack([second, first], 1))  # [rank, chunk]
    return p, stage_rank, np.concatenate([part, part]), before, after, chunks


def assemble(
    name: str, m: int, placement: Placement, of_rank: Callable[[int], Program], *, flush: bool = True
) -> ScheduleTable:
    """The table of a schedule from the program of each rank."""
    parts, stage_rank, stage_part, before, after, chunks = placement
    programs = [of_rank(rank) for rank in range(len(chunks))]
    sizes = [len(order.work) for order in programs]
    stages = [chunks[rank][order.chunk] for rank, order in enumerate(programs)]
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
        work=np.concatenate([order.work for order in programs]),
        stage=np.concatenate(stages),
        micro=np.concatenate([order.micro for order in programs]),
        beside=np.concatenate([order.beside for order in programs]),
        flush=flush,
    )


def chunk_sizes(layers: int, chunks: int) -> list[int]:
    """Layers of each model chunk: equal, or the extra ones in the middle.

    The first chunk also holds the embedding and the last the head, so these two are the last to get an extra layer.
    """
    base, extra = divmod(layers, chunks)
    order = [*range(1, chunks - 1), 0, chunks - 1]
    larger = set(order[:extra])
    return [base + (chunk in larger) for chunk in range(chunks)]
