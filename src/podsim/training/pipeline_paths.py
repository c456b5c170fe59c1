"""The longest paths through the schedule tables of pipelines, as counts of what lies on them."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.native import c_function
from podsim.records import dataclass, fields
from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.joined import Joined, is_sending, simulate_nodes
from podsim.training.plan_values import BESIDE, Array

_WORKS = len(Work)


@dataclass(frozen=True, kw_only=True)
class TracedPaths:
    """Paths, each from its last action back to its first, one path after the other."""

    path: Shaped[Array, "action"]
    """The path of each action; grows."""
    action: Shaped[Array, "action"]
    """The position of the action among those of all tables."""
    forward_sends: Shaped[Array, "path"]
    """The sends of activations that the path waits for."""
    backward_sends: Shaped[Array, "path"]
    """The sends of gradients that it waits for."""
    far_sends: Shaped[Array, "sharing path"]
    """The sends to another node, for each number of ranks that may share a node (BESIDE)."""


def longest_paths(
    joined: Joined,
    seconds: Shaped[Array, "work stage duration"],
    send: Shaped[Array, "duration"],
    *,
    first: bool,
) -> TracedPaths:
    """The longest path of each table for each duration and end, in this order.

    `seconds`: the duration of each kind of work on each stage of all tables; `send`: the latency from rank to rank. With
    `first`, each table has two ends: its last node, and the last on a rank with the model's first part.
    """
    play = simulate_nodes(joined, joined.node_seconds(seconds), send)
    assert play.is_done.all(), "ranks wait for each other"
    last = []
    for low, high in pairwise(joined.first_node.tolist()):
        own = [play.end[low:high].argmax(axis=0)]
        if first:
            early = joined.holds_first[joined.node_rank[low:high]]
            own.append(np.where(early[:, None], play.end[low:high], -1.0).argmax(axis=0))
        last.append(np.stack(own, axis=1) + low)
    duration = np.broadcast_to(np.arange(send.size)[:, None], (len(last), *last[0].shape))
    return _trace(joined, play.before, np.concatenate(last).ravel(), duration.ravel())


def _trace(
    joined: Joined,
    before: Shaped[Array, "node duration"],
    last: Shaped[Array, "path"],
    duration: Shaped[Array, "path"],
) -> TracedPaths:
    """Paths from their last nodes back, one node of every path at a time."""
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
    size = joined.size[node]
    action = np.repeat(joined.lead[node] - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return TracedPaths(
        path=np.repeat(path, size),
        action=action,
        forward_sends=forward_sends,
        backward_sends=backward_sends,
        far_sends=_far_sends(joined, path, node, last.size),
    )


def _far_sends(joined: Joined, path: Array, node: Array, paths: int) -> Shaped[Array, "sharing path"]:
    """Sends to another server along each path, for each number of ranks that may share one."""
    same_path = path[1:] == path[:-1]
    counts = []
    for ranks in BESIDE:
        server = joined.pipeline_rank[node] // ranks
        moved = same_path & (server[1:] != server[:-1])
        counts.append(np.bincount(path[1:][moved], minlength=paths))
    return np.stack(counts)


@dataclass(frozen=True, kw_only=True)
class PathCounts:
    """What lies on paths. Rounds of micro-batches add the same to all counts, so they also form one table."""

    works: Shaped[Array, "... work block"]
    """The passes of each kind through each block."""
    paired: Shaped[Array, "... work block"]
    """The passes of these that run at the same time as another."""
    actions: Shaped[Array, "... work"]
    """The actions of each kind."""
    far_sends: Shaped[Array, "... sharing"]
    """The sends to another node, as in TracedPaths; the next two counts are also defined there."""
    forward_sends: Shaped[Array, "..."]
    backward_sends: Shaped[Array, "..."]
    charges: Shaped[Array, "..."]
    """The charged sends, as in layout.Paths; the next counts are also defined there."""
    closing: Shaped[Array, "..."]
    staying: Shaped[Array, "..."]
    passes_after: Shaped[Array, "..."]
    pairs: Shaped[Array, "..."]
    ends_first: Shaped[Array, "..."]

    def table(self) -> Shaped[Array, "path count"]:
        """All counts of each path as one row."""
        paths = len(self.charges)
        return np.hstack([getattr(self, field.name).reshape(paths, -1) for field in fields(self)])

    @classmethod
    def from_table(cls, table: Shaped[Array, "... count"], width: int) -> PathCounts:
        """The counts in the rows of a table; `width`: the distinct blocks of the model."""
        shapes = {"works": (_WORKS, width), "paired": (_WORKS, width), "actions": (_WORKS,)}
        shapes["far_sends"] = (len(BESIDE),)
        columns, start = {}, 0
        for field in fields(cls):
            shape = shapes.get(field.name, ())
            stop = start + prod(shape)
            columns[field.name] = table[..., start:stop].reshape(*table.shape[:-1], *shape)
            start = stop
        return cls(**columns)


class Pipeline(NamedTuple):
    """A schedule table as the C core plays it: its columns, and what its stages hold and take."""

    pointer: Ints
    work: Ints
    stage: Ints
    micro: Ints
    beside: Bools
    before: Ints
    after: Ints
    is_sending: Bools
    blocks: Floats
    """The copies of each block in each stage, [stages, blocks]."""
    seconds: Floats
    """s. The duration of each kind of work on each stage, [works, stages, durations]."""
    send: Floats
    """s. The latency from rank to rank, [durations]."""
    holds_first: Bools
    """Whether each rank holds the model's first part."""
    ranks: int
    stages: int
    micro_batches: int
    width: int
    """The number of distinct blocks."""
    durations: int
    ends: int
    """2 if the last node on a rank with the model's first part ends a path, too; 1 otherwise."""


_path_counts = c_function("path_counts", Pipeline, Floats, int, result=int)


def simulated_counts(
    table: ScheduleTable,
    blocks: Shaped[Array, "stage block"],
    seconds: Shaped[Array, "work stage duration"],
    send: Shaped[Array, "duration"],
    *,
    first: bool,
) -> Shaped[Array, "path count"]:
    """Counts of the longest paths of one table, by the C core: what `path_counts` gives of its `longest_paths`.

    Raises NativeError where the installation has no C core and no compiler.
    """
    width, ends = blocks.shape[1], 2 if first else 1
    holds_first = np.zeros(table.ranks, bool)
    holds_first[table.stage_rank[table.stage_part == 0]] = True
    pipeline = Pipeline(
        pointer=table.pointer, work=table.work, stage=table.stage, micro=table.micro, beside=table.beside,
        before=table.stage_before, after=table.stage_after, is_sending=is_sending(table),
        blocks=np.ascontiguousarray(blocks, dtype=float), seconds=np.ascontiguousarray(seconds), send=send,
        holds_first=holds_first, ranks=table.ranks, stages=table.stages, micro_batches=table.micro_batches,
        width=width, durations=send.size, ends=ends,
    )  # fmt: skip
    counts = np.zeros((send.size * ends, 2 * _WORKS * width + _WORKS + len(BESIDE) + 8))
    assert _path_counts(pipeline, counts, counts.shape[1]), "ranks wait for each other"
    return counts


def single_rank_counts(blocks: Shaped[Array, "block"], micro_batches: int) -> Shaped[Array, "path count"]:
    """Counts of the one path of a pipeline of a single rank, which holds these copies of each block."""
    works, actions, none = np.zeros((1, _WORKS, len(blocks))), np.zeros((1, _WORKS)), np.zeros(1)
    works[0, : Work.BACKWARD + 1] = micro_batches * blocks
    actions[0, : Work.BACKWARD + 1] = micro_batches
    return PathCounts(
        works=works,
        paired=np.zeros_like(works),
        actions=actions,
        far_sends=np.zeros((1, len(BESIDE))),
        forward_sends=none,
        backward_sends=none,
        charges=none,
        closing=none,
        staying=none,
        passes_after=none,
        pairs=none,
        ends_first=np.ones(1),
    ).table()


def path_counts(
    joined: Joined, traced: TracedPaths, blocks: Shaped[Array, "stage block"]
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
    staying, passes_after = _stay_counts(is_closing, rank, begins, traced)
    sends = traced.forward_sends + traced.backward_sends
    actions = np.bincount(_WORKS * path + work, minlength=_WORKS * paths).reshape(paths, _WORKS)
    return PathCounts(
        works=by_work(np.full(path.size, True)),
        paired=by_work(is_paired),
        actions=actions.astype(float),
        far_sends=traced.far_sends.T,
        forward_sends=traced.forward_sends,
        backward_sends=traced.backward_sends,
        charges=by_path(joined.is_sending[stage] & (work != Work.WEIGHT)) - sends,
        closing=np.maximum(by_path(is_closing) - 1, 0),
        staying=staying,
        passes_after=passes_after,
        pairs=by_path(is_paired) / 2.0,
        ends_first=joined.holds_first[rank[begins]].astype(float),
    ).table()


def _stay_counts(
    is_closing: Shaped[Array, "action"],
    rank: Shaped[Array, "action"],
    begins: Shaped[Array, "action"],
    traced: TracedPaths,
) -> tuple[Shaped[Array, "path"], Shaped[Array, "path"]]:
    """(closing passes after which a path stays on their rank, the fewest passes that follow there before another).

    The actions of a path lie in reverse order, from where it `begins`.
    """
    path, paths = traced.path, traced.forward_sends.size
    position = np.arange(path.size)
    # the passes that follow end where the rank changes, another closing pass comes, or the path ends
    is_broken = begins | is_closing | np.append(rank[1:] != rank[:-1], True)
    following = position[1:] - np.maximum.accumulate(np.where(is_broken, position, 0))[:-1]
    stays = np.flatnonzero(is_closing[1:] & ~begins[1:] & (rank[1:] == rank[:-1]))
    staying = np.bincount(path[1:][stays], minlength=paths).astype(float)
    least = np.full(paths, np.inf)
    np.minimum.at(least, path[1:][stays], following[stays])
    return staying, np.where(staying > 0, least, 0.0)
