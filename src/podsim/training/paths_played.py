"""The longest path through each of many schedule tables, played side by side with several durations each.

A search plays hundreds of tables. Here ranks of all tables take their next action at once, round by round, so that
numpy is quick enough: loading a compiler takes longer than all the plays.

Axes: R ranks and N nodes of all tables (an action, or some that run beside each other), G actions of a node, A actions
and S stages of all tables, W kinds of work, D durations, Q paths, E actions
and V nodes on paths, X of BESIDE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from podsim.schedules import ScheduleTable
from podsim.schedules.actions import Work
from podsim.training.plan import BESIDE, Array

SAME = 1e-9
"""times within this share of each other are one"""


class Joined:
    """Tables beside each other, as one."""

    def __init__(self, tables: Sequence[ScheduleTable]) -> None:
        """Positions of ranks, stages, nodes and actions count on from table to table."""
        self.tables = tables
        many_A = [len(table) for table in tables]
        self.first_action = _offsets(many_A)
        self.first_rank = _offsets([table.ranks for table in tables])
        self.first_stage = _offsets([table.stages for table in tables])

        def joined(name: str, offsets: Array | None = None) -> Array:
            column = np.concatenate([getattr(table, name) for table in tables])
            return column if offsets is None else column + np.repeat(offsets[:-1], many_A)

        self.work_A, beside_A = joined("work"), joined("beside")
        self.stage_A, self.rank_A = joined("stage", self.first_stage), joined("rank", self.first_rank)
        waits_A, need_A = joined("need") >= 0, joined("need", self.first_action)
        self.lead_N = np.flatnonzero(~beside_A)
        """first action of each node"""
        self.many_N = np.diff(np.append(self.lead_N, len(beside_A)))
        node_A = np.cumsum(~beside_A) - 1
        nodes = len(self.lead_N)
        self.rank_N = self.rank_A[self.lead_N]
        self.first_R = np.searchsorted(self.rank_N, np.arange(self.first_rank[-1] + 1))
        """node that each rank begins with; one more than ranks"""
        self.first_node = self.first_R[self.first_rank]
        """of each table"""
        self.need_GN, self.abroad_GN, self.forward_GN = [], [], []
        """node that each action of a node waits for (N: none), whether on another rank; whether it is a forward pass"""
        for place in range(int(self.many_N.max())):
            action_N = np.minimum(self.lead_N + place, len(beside_A) - 1)
            waits_N = waits_A[action_N] & (place < self.many_N)
            need_N = np.where(waits_N, node_A[need_A[action_N]], nodes)
            self.need_GN.append(need_N)
            self.abroad_GN.append(waits_N & (np.append(self.rank_N, 0)[need_N] != self.rank_N))
            self.forward_GN.append(self.work_A[action_N] == Work.FORWARD)

    @cached_property
    def place_N(self) -> Array:
        """Rank of each node in its own pipeline."""
        return np.asarray(self.rank_N - np.repeat(self.first_rank[:-1], np.diff(self.first_node)))

    @cached_property
    def paired_A(self) -> Array:
        """Whether an action runs beside another."""
        return np.repeat(self.many_N > 1, self.many_N)

    @cached_property
    def holds_first_R(self) -> Array:
        """Whether a rank holds the model's first part."""
        out = np.zeros(self.first_rank[-1], bool)
        for table, offset in zip(self.tables, self.first_rank[:-1].tolist(), strict=True):
            out[offset + table.stage_rank[table.stage_part == 0]] = True
        return out

    @cached_property
    def abroad_S(self) -> Array:
        """Whether a stage has a neighbour on another rank."""
        return np.concatenate([_abroad(table) for table in self.tables])

    @cached_property
    def last_gradient_S(self) -> Array:
        """The last action of each stage that computes gradients of weights."""
        gradient = np.flatnonzero((self.work_A == Work.BACKWARD) | (self.work_A == Work.WEIGHT))
        last = np.full(self.first_stage[-1], -1)
        last[self.stage_A[gradient]] = gradient
        return last

    def seconds_ND(self, seconds_WSD: Array) -> Array:
        """Seconds of each node: what runs beside each other takes as long as one after the other."""
        total_ND = seconds_WSD[self.work_A[self.lead_N], self.stage_A[self.lead_N]]
        for place in range(1, len(self.need_GN)):
            more = np.flatnonzero(self.many_N > place)
            action = self.lead_N[more] + place
            total_ND[more] += seconds_WSD[self.work_A[action], self.stage_A[action]]
        return np.asarray(total_ND)


def _abroad(table: ScheduleTable) -> Array:
    out = np.zeros(table.stages, bool)
    for other in (table.stage_before, table.stage_after):
        out |= (other >= 0) & (table.stage_rank[other] != table.stage_rank)
    return out


def _offsets(sizes: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])


@dataclass(frozen=True)
class Traced:
    """Paths, each from its last action back to its first."""

    path_E: Array
    """which path; grows"""
    action_E: Array
    ahead_Q: Array
    """sends that the path waits for forward"""
    back_Q: Array
    far_XQ: Array
    """of both, those to another node if BESIDE ranks share one each"""


def longest_paths(joined: Joined, seconds_WSD: Array, send_D: Array, *, first: bool) -> Traced:
    """The longest path of each table for each duration, Q = (tables, durations, ends).

    `seconds_WSD` has the durations of each kind of work on each stage of all tables, `send_D` the latency from rank to
    rank. With `first`, the path that ends on a rank with the first part is another end.
    """
    end_ND, before_ND = _play(joined, joined.seconds_ND(seconds_WSD), send_D)
    last_TDX = []
    for low, high in pairwise(joined.first_node.tolist()):
        own = [end_ND[low:high].argmax(axis=0)]
        if first:
            early = joined.holds_first_R[joined.rank_N[low:high]]
            own.append(np.where(early[:, None], end_ND[low:high], -1.0).argmax(axis=0))
        last_TDX.append(np.stack(own, axis=1) + low)
    shape = (len(last_TDX), *last_TDX[0].shape)
    duration_Q = np.broadcast_to(np.arange(send_D.size)[:, None], shape).ravel()
    return _traced(joined, before_ND, np.concatenate(last_TDX).ravel(), duration_Q)


def _play(joined: Joined, seconds_ND: Array, send_D: Array) -> tuple[Array, Array]:
    """(when each node ends, the node before it on its longest path, or N) for each duration (N, D)."""
    nodes, durations = seconds_ND.shape
    end_ND, before_ND = np.zeros((nodes + 1, durations)), np.full((nodes, durations), nodes, dtype=np.int32)
    done_N = np.zeros(nodes + 1, bool)
    done_N[nodes] = True  # what waits for nothing waits for this
    free_RD = np.zeros((joined.first_R.size - 1, durations))
    start_R, stop_R = joined.first_R[:-1], joined.first_R[1:]
    place_R, active = start_R.copy(), np.flatnonzero(start_R < stop_R)
    while active.size:
        at = place_R[active]
        ready = done_N[joined.need_GN[0][at]]
        for need_N in joined.need_GN[1:]:
            ready &= done_N[need_N[at]]
        go, at = active[ready], at[ready]
        assert at.size, "ranks wait for each other"
        free = free_RD.take(go, axis=0)
        begin, arrived = free, []
        for need_N, abroad_N in zip(joined.need_GN, joined.abroad_GN, strict=True):
            arrived.append(end_ND.take(need_N[at], axis=0) + abroad_N[at][:, None] * send_D)
            begin = np.maximum(begin, arrived[-1])
        same = SAME * np.maximum(1.0, begin)
        before = np.full(begin.shape, nodes)
        for need_N, arrival in zip(joined.need_GN, arrived, strict=True):
            need = need_N[at][:, None]
            before = np.where((begin - arrival <= same) & (need < nodes), need, before)
        # the rank's own work first: its sends are then not waited for
        own = (begin - free <= same) & (at > start_R[go])[:, None]
        before_ND[at] = np.where(own, at[:, None] - 1, before)
        end = begin + seconds_ND.take(at, axis=0)
        end_ND[at], free_RD[go], done_N[at] = end, end, True
        place_R[go] += 1
        active = active[place_R[active] < stop_R[active]]
    return end_ND[:-1], before_ND


def _traced(joined: Joined, before_ND: Array, last_Q: Array, duration_Q: Array) -> Traced:
    nodes = len(before_ND)
    ahead_Q, back_Q = np.zeros((2, last_Q.size))
    live, at = np.arange(last_Q.size), last_Q
    paths, along = [], []
    while live.size:
        paths.append(live)
        along.append(at)
        after = before_ND[at, duration_Q[live]]
        on = after < nodes
        live, at, after = live[on], at[on], after[on]
        sent = joined.rank_N[at] != joined.rank_N[after]
        ahead = np.zeros(sent.size, bool)
        for need_N, forward_N in zip(joined.need_GN, joined.forward_GN, strict=True):
            ahead = np.where(need_N[at] == after, forward_N[at], ahead)
        ahead_Q[live] += sent & ahead
        back_Q[live] += sent & ~ahead
        at = after
    path_V, node_V = np.concatenate(paths), np.concatenate(along)
    order = np.argsort(path_V, kind="stable")
    path_V, node_V = path_V[order], node_V[order]
    one_V = path_V[1:] == path_V[:-1]
    far_Q = []
    for beside in BESIDE:
        server_V = joined.place_N[node_V] // beside
        moved_V = one_V & (server_V[1:] != server_V[:-1])
        far_Q.append(np.bincount(path_V[1:][moved_V], minlength=last_Q.size))
    many_V = joined.many_N[node_V]
    path_E = np.repeat(path_V, many_V)
    place_E = np.arange(path_E.size) - np.repeat(np.cumsum(many_V) - many_V, many_V)
    return Traced(
        path_E, np.repeat(joined.lead_N[node_V], many_V) + place_E, ahead_Q, back_Q, np.stack(far_Q)
    )
