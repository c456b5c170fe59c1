"""The longest path through each of many schedule tables, with several durations each, as the actions on it.

Axes: Q paths, E actions and V nodes on paths, X of BESIDE.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from podsim.schedules.joined import Joined, play_nodes
from podsim.training.plan import BESIDE, Array


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


def longest_paths(joined: Joined, seconds: Array, send: Array, *, first: bool) -> Traced:
    """The longest path of each table for each duration, Q = (tables, durations, ends).

    `seconds` has the durations of each kind of work on each stage of all tables, [4, stages, durations], `send` the
    latency from rank to rank, [durations]. With `first`, the path that ends on a rank with the first part is another end.
    """
    play = play_nodes(joined, joined.node_seconds(seconds), send)
    assert play.is_done.all(), "ranks wait for each other"
    ends = []
    for low, high in pairwise(joined.first_node.tolist()):
        own = [play.end[low:high].argmax(axis=0)]
        if first:
            early = joined.holds_first[joined.node_rank[low:high]]
            own.append(np.where(early[:, None], play.end[low:high], -1.0).argmax(axis=0))
        ends.append(np.stack(own, axis=1) + low)
    shape = (len(ends), *ends[0].shape)
    duration_Q = np.broadcast_to(np.arange(send.size)[:, None], shape).ravel()
    return _traced(joined, play.before, np.concatenate(ends).ravel(), duration_Q)


def _traced(joined: Joined, before: Array, last_Q: Array, duration_Q: Array) -> Traced:
    nodes = len(before)
    ahead_Q, back_Q = np.zeros((2, last_Q.size))
    live, at = np.arange(last_Q.size), last_Q
    paths, along = [], []
    while live.size:
        paths.append(live)
        along.append(at)
        after = before[at, duration_Q[live]]
        on = after < nodes
        live, at, after = live[on], at[on], after[on]
        sent = joined.node_rank[at] != joined.node_rank[after]
        ahead = np.zeros(sent.size, bool)
        for need, is_forward in zip(joined.needs, joined.is_forward, strict=True):
            ahead = np.where(need[at] == after, is_forward[at], ahead)
        ahead_Q[live] += sent & ahead
        back_Q[live] += sent & ~ahead
        at = after
    path_V, node_V = np.concatenate(paths), np.concatenate(along)
    order = np.argsort(path_V, kind="stable")
    path_V, node_V = path_V[order], node_V[order]
    one_V = path_V[1:] == path_V[:-1]
    far_Q = []
    for beside in BESIDE:
        server_V = joined.pipeline_rank[node_V] // beside
        moved_V = one_V & (server_V[1:] != server_V[:-1])
        far_Q.append(np.bincount(path_V[1:][moved_V], minlength=last_Q.size))
    many_V = joined.size[node_V]
    path_E = np.repeat(path_V, many_V)
    place_E = np.arange(path_E.size) - np.repeat(np.cumsum(many_V) - many_V, many_V)
    return Traced(path_E, np.repeat(joined.lead[node_V], many_V) + place_E, ahead_Q, back_Q, np.stack(far_Q))
