"""The longest path through each of many schedule tables, and what lies on it, as counts.

A search plays hundreds of tables, each with several sets of durations. Here the ranks of all tables take their next
action together, round by round, so that numpy is quick enough: loading a compiler takes longer than all the plays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from podsim.axes import Shaped
from podsim.schedules import ScheduleTable
from podsim.schedules.actions import Work
from podsim.training.plan import BESIDE, Array

SAME = 1e-9
"""times within this share of each other are equal"""
_WORKS = len(Work)
_FAR = tuple(f"far{stages}" for stages in BESIDE)
_NUMBERS = (
    "forward_sends",
    "backward_sends",
    "charges",
    "closing",
    "staying",
    "passes_after",
    "pairs",
    "first",
    *_FAR,
)


class JoinedTables:
    """Tables one behind the other, as one: positions of ranks, stages, nodes and actions count on from table to table.

    A node is an action, or some that run side by side.
    """

    def __init__(self, tables: Sequence[ScheduleTable]) -> None:
        """Join the tables."""
        self.tables = tables
        actions = [len(table) for table in tables]
        self.first_action = _offsets(actions)
        """of each table, and one more than all"""
        self.first_rank = _offsets([table.ranks for table in tables])
        self.first_stage = _offsets([table.stages for table in tables])

        def joined(name: str, offsets: Array | None = None) -> Shaped[Array, "action"]:
            column = np.concatenate([getattr(table, name) for table in tables])
            return column if offsets is None else column + np.repeat(offsets[:-1], actions)

        self.work, beside = joined("work"), joined("beside")
        self.stage, self.rank = joined("stage", self.first_stage), joined("rank", self.first_rank)
        waits, need = joined("need") >= 0, joined("need", self.first_action)
        self.node_action: Shaped[Array, "node"] = np.flatnonzero(~beside)
        """first action of each node"""
        self.node_size: Shaped[Array, "node"] = np.diff(np.append(self.node_action, len(beside)))
        """actions of each node"""
        self.node_rank: Shaped[Array, "node"] = self.rank[self.node_action]
        self.rank_node: Shaped[Array, "rank"] = np.searchsorted(
            self.node_rank, np.arange(self.first_rank[-1] + 1)
        )
        """node that each rank begins with; one more than ranks"""
        self.first_node = self.rank_node[self.first_rank]
        nodes, node_of = len(self.node_action), np.cumsum(~beside) - 1
        self.needs: list[Shaped[Array, "node"]] = []
        """node that each action of a node waits for, first action by first; one more than nodes: none"""
        self.is_need_abroad: list[Shaped[Array, "node"]] = []
        """whether that is on another rank"""
        self.is_forward: list[Shaped[Array, "node"]] = []
        """whether the action is a forward pass"""
        for position in range(int(self.node_size.max())):
            action = np.minimum(self.node_action + position, len(beside) - 1)
            has_need = waits[action] & (position < self.node_size)
            needed = np.where(has_need, node_of[need[action]], nodes)
            self.needs.append(needed)
            self.is_need_abroad.append(has_need & (np.append(self.node_rank, 0)[needed] != self.node_rank))
            self.is_forward.append(self.work[action] == Work.FORWARD)

    @cached_property
    def rank_in_pipeline(self) -> Shaped[Array, "node"]:
        """Rank of each node in its own pipeline."""
        return np.asarray(self.node_rank - np.repeat(self.first_rank[:-1], np.diff(self.first_node)))

    @cached_property
    def is_paired(self) -> Shaped[Array, "action"]:
        """Whether an action runs beside another."""
        return np.repeat(self.node_size > 1, self.node_size)

    @cached_property
    def holds_first(self) -> Shaped[Array, "rank"]:
        """Whether a rank holds the model's first part."""
        out = np.zeros(self.first_rank[-1], bool)
        for table, offset in zip(self.tables, self.first_rank[:-1].tolist(), strict=True):
            out[offset + table.stage_rank[table.stage_part == 0]] = True
        return out

    @cached_property
    def sends_abroad(self) -> Shaped[Array, "stage"]:
        """Whether a stage has a neighbour on another rank."""
        return np.concatenate([_sends_abroad(table) for table in self.tables])

    @cached_property
    def last_gradient(self) -> Shaped[Array, "stage"]:
        """The last action of each stage that computes gradients of weights."""
        gradient = np.flatnonzero((self.work == Work.BACKWARD) | (self.work == Work.WEIGHT))
        last = np.full(self.first_stage[-1], -1)
        last[self.stage[gradient]] = gradient
        return last

    def node_seconds(self, seconds: Shaped[Array, "work stage duration"]) -> Shaped[Array, "node duration"]:
        """Seconds of each node: actions side by side take as long as one after the other."""
        total = seconds[self.work[self.node_action], self.stage[self.node_action]]
        for position in range(1, len(self.needs)):
            larger = np.flatnonzero(self.node_size > position)
            action = self.node_action[larger] + position
            total[larger] += seconds[self.work[action], self.stage[action]]
        return np.asarray(total)


def _sends_abroad(table: ScheduleTable) -> Shaped[Array, "stage"]:
    out = np.zeros(table.stages, bool)
    for other in (table.stage_before, table.stage_after):
        out |= (other >= 0) & (table.stage_rank[other] != table.stage_rank)
    return out


def _offsets(sizes: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])


@dataclass(frozen=True, kw_only=True)
class TracedPaths:
    """Paths, each from its last action back to its first, one path after the other."""

    path: Shaped[Array, "action"]
    """the path that an action lies on; grows"""
    action: Shaped[Array, "action"]
    forward_sends: Shaped[Array, "path"]
    """sends of activations that the path waits for"""
    backward_sends: Shaped[Array, "path"]
    """sends of gradients that it waits for"""
    far_sends: Shaped[Array, "sharing path"]
    """of both, those to another node if that number of ranks (BESIDE) shares one"""


def longest_paths(
    joined: JoinedTables,
    seconds: Shaped[Array, "work stage duration"],
    send: Shaped[Array, "duration"],
    *,
    first: bool,
) -> TracedPaths:
    """The longest path of each table for each duration; of tables in order, of each its durations, of each its ends.

    `seconds`: durations of each kind of work on each stage of all tables; `send`: latency from rank to rank. With
    `first`, the path that ends on a rank with the first part is another end.
    """
    end, before = _play(joined, joined.node_seconds(seconds), send)
    last = []
    for low, high in pairwise(joined.first_node.tolist()):
        own = [end[low:high].argmax(axis=0)]
        if first:
            early = joined.holds_first[joined.node_rank[low:high]]
            own.append(np.where(early[:, None], end[low:high], -1.0).argmax(axis=0))
        last.append(np.stack(own, axis=1) + low)
    duration = np.broadcast_to(np.arange(send.size)[:, None], (len(last), *last[0].shape))
    return _trace(joined, before, np.concatenate(last).ravel(), duration.ravel())


def _play(
    joined: JoinedTables, seconds: Shaped[Array, "node duration"], send: Shaped[Array, "duration"]
) -> tuple[Shaped[Array, "node duration"], Shaped[Array, "node duration"]]:
    """(when each node ends, the node before it on its longest path, or one more than nodes)."""
    nodes, durations = seconds.shape
    end, before = np.zeros((nodes + 1, durations)), np.full((nodes, durations), nodes, dtype=np.int32)
    done = np.zeros(nodes + 1, bool)
    done[nodes] = True  # what waits for nothing waits for this
    rank_free = np.zeros((joined.rank_node.size - 1, durations))
    rank_start, rank_stop = joined.rank_node[:-1], joined.rank_node[1:]
    rank_next, active = rank_start.copy(), np.flatnonzero(rank_start < rank_stop)
    while active.size:
        node = rank_next[active]
        ready = done[joined.needs[0][node]]
        for needed in joined.needs[1:]:
            ready &= done[needed[node]]
        rank, node = active[ready], node[ready]
        assert node.size, "ranks wait for each other"
        free = rank_free.take(rank, axis=0)
        arrivals = [
            end.take(needed[node], axis=0) + abroad[node][:, None] * send
            for needed, abroad in zip(joined.needs, joined.is_need_abroad, strict=True)
        ]
        begin = np.maximum.reduce([free, *arrivals])
        same = SAME * np.maximum(1.0, begin)
        cause = np.full(begin.shape, nodes)
        for needed, arrival in zip(joined.needs, arrivals, strict=True):
            need = needed[node][:, None]
            cause = np.where((begin - arrival <= same) & (need < nodes), need, cause)
        # the rank's own work first: its sends are then not waited for
        own = (begin - free <= same) & (node > rank_start[rank])[:, None]
        before[node] = np.where(own, node[:, None] - 1, cause)
        stop = begin + seconds.take(node, axis=0)
        end[node], rank_free[rank], done[node] = stop, stop, True
        rank_next[rank] += 1
        active = active[rank_next[active] < rank_stop[active]]
    return end[:-1], before


def _trace(
    joined: JoinedTables,
    before: Shaped[Array, "node duration"],
    last: Shaped[Array, "path"],
    duration: Shaped[Array, "path"],
) -> TracedPaths:
    """Paths from their last nodes back, all of them a node at a time."""
    forward_sends, backward_sends = np.zeros((2, last.size))
    live, node = np.arange(last.size), last
    live_paths, live_nodes = [], []
    while live.size:
        live_paths.append(live)
        live_nodes.append(node)
        cause = before[node, duration[live]]
        on = cause < len(before)
        live, node, cause = live[on], node[on], cause[on]
        is_sent = joined.node_rank[node] != joined.node_rank[cause]
        is_forward = np.zeros(is_sent.size, bool)
        for needed, forward in zip(joined.needs, joined.is_forward, strict=True):
            is_forward = np.where(needed[node] == cause, forward[node], is_forward)
        forward_sends[live] += is_sent & is_forward
        backward_sends[live] += is_sent & ~is_forward
        node = cause
    path, node = np.concatenate(live_paths), np.concatenate(live_nodes)
    order = np.argsort(path, kind="stable")
    path, node = path[order], node[order]
    size = joined.node_size[node]
    action = np.repeat(joined.node_action[node] - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return TracedPaths(
        path=np.repeat(path, size),
        action=action,
        forward_sends=forward_sends,
        backward_sends=backward_sends,
        far_sends=_far_sends(joined, path, node, last.size),
    )


def _far_sends(joined: JoinedTables, path: Array, node: Array, paths: int) -> Shaped[Array, "sharing path"]:
    """Moves to another server along each path, if some numbers of ranks share one."""
    same_path = path[1:] == path[:-1]
    counts = []
    for ranks in BESIDE:
        server = joined.rank_in_pipeline[node] // ranks
        moved = same_path & (server[1:] != server[:-1])
        counts.append(np.bincount(path[1:][moved], minlength=paths))
    return np.stack(counts)


class PathCounts:
    """What lies on paths, by its name: a view of a table with one column a count."""

    def __init__(self, table: Shaped[Array, "... count"], width: int) -> None:
        """Divide the columns of a table; `width`: blocks of the model."""
        shape, cuts = table.shape[:-1], np.cumsum([_WORKS * width, _WORKS * width, _WORKS])
        works, paired, actions, numbers = np.split(table, cuts, axis=-1)
        self.works: Shaped[Array, "... work block"] = works.reshape(*shape, _WORKS, width)
        """passes of each kind through each block"""
        self.paired: Shaped[Array, "... work block"] = paired.reshape(*shape, _WORKS, width)
        """of these, those beside another"""
        self.actions: Shaped[Array, "... work"] = actions
        self.far_sends: Shaped[Array, "... sharing"] = numbers[..., -len(BESIDE) :]
        self._numbers = numbers

    def __getattr__(self, name: str) -> Array:
        """One of the plain numbers."""
        if name not in _NUMBERS:
            raise AttributeError(name)
        return self._numbers[..., _NUMBERS.index(name)]


def _count_table(
    works: Shaped[Array, "path work block"],
    paired: Shaped[Array, "path work block"],
    actions: Shaped[Array, "path work"],
    numbers: dict[str, Shaped[Array, "path"]],
) -> Shaped[Array, "path count"]:
    """The table that PathCounts reads."""
    columns = np.stack([numbers[name] for name in _NUMBERS], axis=1)
    paths = len(columns)
    return np.hstack([works.reshape(paths, -1), paired.reshape(paths, -1), actions, columns])


def single_rank_counts(blocks: Shaped[Array, "block"], micro_batches: int) -> Shaped[Array, "path count"]:
    """Counts of the one path of a pipeline of a single rank, which holds these copies of each block."""
    works, actions = np.zeros((1, _WORKS, len(blocks))), np.zeros((1, _WORKS))
    works[0, : Work.BACKWARD + 1] = micro_batches * blocks
    actions[0, : Work.BACKWARD + 1] = micro_batches
    numbers = dict.fromkeys(_NUMBERS, np.zeros(1)) | {"first": np.ones(1)}
    return _count_table(works, np.zeros_like(works), actions, numbers)


def path_counts(
    joined: JoinedTables, traced: TracedPaths, blocks: Shaped[Array, "stage block"]
) -> Shaped[Array, "path count"]:
    """Counts of traced paths; `blocks`: copies of each block in each stage."""
    path, action = traced.path, traced.action
    paths, width = traced.forward_sends.size, blocks.shape[1]
    work, stage, rank = joined.work[action], joined.stage[action], joined.rank[action]

    def by_path(values: Shaped[Array, "action"]) -> Shaped[Array, "path"]:
        return np.bincount(path, weights=values, minlength=paths)

    def by_work(chosen: Shaped[Array, "action"]) -> Shaped[Array, "path work block"]:
        key, held = _WORKS * path[chosen] + work[chosen], blocks[stage[chosen]]
        counts = [np.bincount(key, weights=column, minlength=_WORKS * paths) for column in held.T]
        return np.stack(counts, axis=1).reshape(paths, _WORKS, width)

    is_paired, is_closing = joined.is_paired[action], joined.last_gradient[stage] == action
    begins = np.append(True, path[1:] != path[:-1])
    staying, passes_after = _stays(is_closing, rank, begins, traced)
    sends = traced.forward_sends + traced.backward_sends
    numbers = {
        "forward_sends": traced.forward_sends,
        "backward_sends": traced.backward_sends,
        "charges": by_path(joined.sends_abroad[stage] & (work != Work.WEIGHT)) - sends,
        "closing": np.maximum(by_path(is_closing) - 1, 0),
        "staying": staying,
        "passes_after": passes_after,
        "pairs": by_path(is_paired) / 2.0,
        "first": joined.holds_first[rank[begins]].astype(float),
        **dict(zip(_FAR, traced.far_sends, strict=True)),
    }
    actions = np.bincount(_WORKS * path + work, minlength=_WORKS * paths).reshape(paths, _WORKS).astype(float)
    return _count_table(by_work(np.full(path.size, True)), by_work(is_paired), actions, numbers)


def _stays(
    is_closing: Shaped[Array, "action"],
    rank: Shaped[Array, "action"],
    begins: Shaped[Array, "action"],
    traced: TracedPaths,
) -> tuple[Shaped[Array, "path"], Shaped[Array, "path"]]:
    """(closing passes after which a path stays on their rank, passes that follow there at least before another).

    Paths go from their last action back, and begin where `begins`.
    """
    path, paths = traced.path, traced.forward_sends.size
    position = np.arange(path.size)
    # passes that follow are those back to where the rank changed, another closing pass was, or the path begins
    is_broken = begins | is_closing | np.append(rank[1:] != rank[:-1], True)
    following = position[1:] - np.maximum.accumulate(np.where(is_broken, position, 0))[:-1]
    stays = np.flatnonzero(is_closing[1:] & ~begins[1:] & (rank[1:] == rank[:-1]))
    staying = np.bincount(path[1:][stays], minlength=paths).astype(float)
    least = np.full(paths, np.inf)
    np.minimum.at(least, path[1:][stays], following[stays])
    return staying, np.where(staying > 0, least, 0.0)
