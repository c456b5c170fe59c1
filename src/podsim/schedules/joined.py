"""Schedule tables side by side, played at once: when each action runs, and what it waited for longest.

Ranks of all tables take their next actions together, round by round, each when what it needs has arrived. Several
durations are played at once. Large tables of a search are played in C (`training/path_counts.c`), with equal results.

A node is an action, or the actions that a rank runs side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools, Floats, Ints
from podsim.schedules.actions import ScheduleTable, Work

SAME = 1e-9
"""Share of each other within which two times are the same."""


class Joined:
    """Tables side by side, as one; positions of ranks, stages, nodes and actions count on from table to table."""

    def __init__(self, tables: Sequence[ScheduleTable]) -> None:
        """Join the tables' columns."""
        self.tables = tables
        sizes = [len(table) for table in tables]
        self.first_action = _offsets(sizes)
        self.first_rank = _offsets([table.ranks for table in tables])
        self.first_stage = _offsets([table.stages for table in tables])

        def joined(name: str, offsets: Ints | None = None) -> Ints:
            column = np.concatenate([getattr(table, name) for table in tables])
            return column if offsets is None else column + np.repeat(offsets[:-1], sizes)

        self.work, beside = joined("work"), joined("beside")
        """Of each action: its Work; `stage` and `rank` likewise."""
        self.stage, self.rank = joined("stage", self.first_stage), joined("rank", self.first_rank)
        self.lead = np.flatnonzero(~beside)
        """First action of each node."""
        self.size = np.diff(np.append(self.lead, len(beside)))
        """Actions of each node."""
        self.node_rank = self.rank[self.lead]
        self.rank_node = np.searchsorted(self.node_rank, np.arange(self.first_rank[-1] + 1))
        """Node that each rank begins with, [ranks + 1]."""
        self.first_node = self.rank_node[self.first_rank]
        """Node that each table begins with, [tables + 1]."""
        self.needs: list[Ints] = []
        """Of the first, second, ... action of each node: the node that it waits for, the number of nodes for none."""
        self.needs_send: list[Bools] = []
        """Whether that node is on another rank."""
        self.is_forward: list[Bools] = []
        """Whether the action is a forward pass."""
        has_need, need = joined("need") >= 0, joined("need", self.first_action)
        node = np.cumsum(~beside) - 1
        for nth in range(int(self.size.max())):
            action = np.minimum(self.lead + nth, len(beside) - 1)
            waits = has_need[action] & (nth < self.size)
            needed = np.where(waits, node[need[action]], len(self.lead))
            self.needs.append(needed)
            self.needs_send.append(waits & (np.append(self.node_rank, 0)[needed] != self.node_rank))
            self.is_forward.append(self.work[action] == Work.FORWARD)

    @cached_property
    def pipeline_rank(self) -> Ints:
        """Rank of each node in its own pipeline."""
        return np.asarray(self.node_rank - np.repeat(self.first_rank[:-1], np.diff(self.first_node)))

    @cached_property
    def is_paired(self) -> Bools:
        """Whether each action overlaps with another."""
        return np.repeat(self.size > 1, self.size)

    @cached_property
    def holds_first(self) -> Bools:
        """Whether each rank holds the model's first part."""
        out = np.zeros(self.first_rank[-1], bool)
        for table, offset in zip(self.tables, self.first_rank[:-1].tolist(), strict=True):
            out[offset + table.stage_rank[table.stage_part == 0]] = True
        return out

    @cached_property
    def is_sending(self) -> Bools:
        """Whether each stage has a neighbour on another rank."""
        return np.concatenate([is_sending(table) for table in self.tables])

    @cached_property
    def last_gradient(self) -> Ints:
        """The last action of each stage that computes gradients of weights; -1 for none."""
        gradient = np.flatnonzero((self.work == Work.BACKWARD) | (self.work == Work.WEIGHT))
        last = np.full(self.first_stage[-1], -1)
        last[self.stage[gradient]] = gradient
        return last

    def node_seconds(self, seconds: Floats, overlap: float = 0.0) -> Floats:
        """Seconds of each node, [nodes, durations], of those of each Work on each stage, [4, stages, durations].

        Actions side by side take their sum (`overlap` 0), as long as the longest (1), or between. Published drawings of
        DualPipe hide the shorter pass, but a GPU still has the arithmetic of both to do; only communication hides.
        """
        total = seconds[self.work[self.lead], self.stage[self.lead]]
        longest = total.copy() if overlap else total
        for nth in range(1, len(self.needs)):
            more = np.flatnonzero(self.size > nth)
            action = self.lead[more] + nth
            durations = seconds[self.work[action], self.stage[action]]
            total[more] += durations
            if overlap:
                longest[more] = np.maximum(longest[more], durations)
        return np.asarray(overlap * longest + (1.0 - overlap) * total if overlap else total)


def is_sending(table: ScheduleTable) -> Bools:
    """Whether each stage of a table has a neighbour on another rank."""
    out = np.zeros(table.stages, bool)
    for other in (table.stage_before, table.stage_after):
        out |= (other >= 0) & (table.stage_rank[other] != table.stage_rank)
    return out


def _offsets(sizes: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)])


class Play(NamedTuple):
    """When nodes end, [nodes, durations]."""

    end: Floats
    """s. The end, from the start of the step."""
    before: NDArray[np.int32]
    """The node before it on its longest path; the number of nodes for none."""
    is_done: Bools
    """Whether each node could run, [nodes]; the others wait for each other."""


def simulate_nodes(joined: Joined, seconds: Floats, send: Floats) -> Play:
    """The play of all tables, for each duration.

    `seconds` are those of each node, [nodes, durations], `send` those from rank to rank, [durations].
    """
    nodes, durations = seconds.shape
    end, before = np.zeros((nodes + 1, durations)), np.full((nodes, durations), nodes, dtype=np.int32)
    is_done = np.zeros(nodes + 1, bool)
    is_done[nodes] = True  # what waits for nothing waits for this
    free = np.zeros((joined.rank_node.size - 1, durations))
    start, stop = joined.rank_node[:-1], joined.rank_node[1:]
    position, active = start.copy(), np.flatnonzero(start < stop)
    while active.size:
        at = position[active]
        is_ready = is_done[joined.needs[0][at]]
        for need in joined.needs[1:]:
            is_ready &= is_done[need[at]]
        ranks, at = active[is_ready], at[is_ready]
        if not at.size:
            break
        own = free.take(ranks, axis=0)
        begin, arrivals = own, []
        for need, needs_send in zip(joined.needs, joined.needs_send, strict=True):
            arrivals.append(end.take(need[at], axis=0) + needs_send[at][:, None] * send)
            begin = np.maximum(begin, arrivals[-1])
        same = SAME * np.maximum(1.0, begin)
        last = np.full(begin.shape, nodes)
        for need, arrival in zip(joined.needs, arrivals, strict=True):
            needed = need[at][:, None]
            last = np.where((begin - arrival <= same) & (needed < nodes), needed, last)
        # the rank's own work first: its sends are then not waited for
        is_own = (begin - own <= same) & (at > start[ranks])[:, None]
        before[at] = np.where(is_own, at[:, None] - 1, last)
        finish = begin + seconds.take(at, axis=0)
        end[at], free[ranks], is_done[at] = finish, finish, True
        position[ranks] += 1
        active = active[position[active] < stop[active]]
    return Play(end[:-1], before, is_done[:-1])


def begin_seconds(joined: Joined, end: Floats, send: float) -> Floats:
    """When each node begins, of when all end, one duration: [nodes]."""
    begin = np.append(0.0, end[:-1])
    begin[joined.rank_node[joined.rank_node < len(end)]] = 0.0
    padded = np.append(end, 0.0)
    for need, needs_send in zip(joined.needs, joined.needs_send, strict=True):
        begin = np.maximum(begin, padded[need] + needs_send * send)
    return np.asarray(begin)
