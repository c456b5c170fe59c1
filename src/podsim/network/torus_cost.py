"""What a collective costs on slices of a torus, in closed form: the tables of podsim.network.collectives.tori.

    gather      each part of the data takes the axes in turn; along n chips it adds (n - 1) times what it holds
                parts that are on one axis at a time share its links
    all-reduce  reduce-scatter, which is a gather backwards, and gather
    all-to-all  max over axes (mean links along the axis x size / links), every pair directly
    latency     that of the links from the first chip of a ring to the last, along all axes

An axis that does not close, or a group of which other groups lie in between, has so much less of the links. Groups that
span slices reduce inside each, exchange what is left over the hosts' adapters (DCN), and gather again.

Source: jax-ml/scaling-book, sharding.md @ 0819a7d8c5; N. Jain, Y. Sabharwal, ICS 2010. Known error: of at least
10 MB within 3 % of the tables played with every flow (tests/network/test_tori.py), of 1 MB up to 26 % too long on small
meshes with unequal sides, as hops overlap there; all-to-alls of twisted tori are 5 to 10 % too short, as routes are not
perfectly even. No measured sweep was found.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from podsim.errors import ClusterError
from podsim.hardware.parts import TorusLinks
from podsim.hardware.torus_slices import twisted_images
from podsim.network.bus import ring_share
from podsim.network.collectives.tori import part_shares
from podsim.network.nccl_group import Candidate, Group, Wires, node_rate

RINGS, PAIRS = "torus", "direct"
"""The tables of podsim.network.collectives that a candidate stands for."""
_TURNS = {"all_gather": (False,), "reduce_scatter": (True,), "all_reduce": (True, False)}
"""Whether each half of a collective goes backwards."""


class GroupAxis(NamedTuple):
    """The chips of a group along one axis."""

    side: int
    apart: int
    """The links from one chip of the group to the next; other groups of its kind share them."""
    closed: bool

    @property
    def rate(self) -> float:
        """links. The number of links that a chip sends over at once."""
        return (2.0 if self.closed else 1.0) / self.apart


def group_axes(links: TorusLinks, members: int, stride: int) -> tuple[GroupAxis, ...]:
    """The axes of a group of chips that are `stride` apart, the last axis counting first.

    A group that fits no grid of the torus is a line over all the links between its chips.
    """
    axes: list[GroupAxis] = []
    left, apart = members, max(stride, 1)
    for side, wraps in zip(reversed(links.shape), reversed(links.wraps), strict=True):
        if left == 1:
            break
        if apart % side == 0:
            apart //= side
            continue
        count = min(left, side // apart)
        if side % apart or left % count:
            return (GroupAxis(members, max(min(stride, side), 1), False),)
        axes.append(GroupAxis(count, apart, wraps and count * apart == side))
        left, apart = left // count, 1
    return tuple(axis for axis in axes if axis.side > 1) or (GroupAxis(max(left, 1), 1, False),)


def torus_candidate(wires: Wires, collective: str, group: Group) -> Candidate:
    """A collective of a group on slices of a torus. Raises ClusterError for one that has no such algorithm."""
    assert wires.torus is not None
    link = wires.nvlink / (2 * len(wires.torus.shape))
    axes = group_axes(wires.torus, group.members, group.stride)
    if collective == "send_recv":
        return _candidate(wires.nvlink_latency, 1 / link) if group.nodes == 1 else _far(wires, group, 1.0)
    if collective == "all_to_all":
        return _exchange(wires, group, axes, link)
    if collective not in _TURNS:
        raise ClusterError(
            f"{collective.replace('_', '-')} has no algorithm for a torus; name one, as --algo binomial"
        )
    turns = _TURNS[collective]
    latency = len(turns) * _half_latency(axes, wires.nvlink_latency)
    per_byte = _fluid_seconds(axes, turns, link)
    steps = len(turns) * (group.nodes - 1)
    far = steps / group.nodes / group.members / _host_rate(wires, group) if steps else 0.0
    return _candidate(latency + steps * wires.network_latency, per_byte + far)


def _candidate(latency: float, per_byte: float, name: str = RINGS) -> Candidate:
    return Candidate(name, "ici", math.inf, latency, 0.0, 1.0, per_byte, 0.0, 1.0, 0.0, 0.0)


def _host_rate(wires: Wires, group: Group) -> float:
    """B/s that one chip of a group sends out of its slice."""
    return node_rate(wires, group, wires.network, math.inf) / group.members


def _far(wires: Wires, group: Group, share: float) -> Candidate:
    """A part of the data of each chip, sent straight to other slices."""
    return _candidate(wires.network_latency, share / _host_rate(wires, group))


def _half_latency(axes: Sequence[GroupAxis], latency: float) -> float:
    """Seconds of the links that a chunk passes from its first chip to its last."""
    return latency * sum(
        axis.apart * (axis.side - 1 if axis.closed else max(2 * axis.side - 3, 0)) for axis in axes
    )


def _fluid_seconds(axes: Sequence[GroupAxis], halves: Sequence[bool], link: float) -> float:
    """Seconds of the last part to end, of 1 B in all: each takes the axes in turn; parts on one axis share its links."""
    count, shares = len(axes), part_shares([axis.rate for axis in axes])
    turns = [turn for back in halves for turn in (reversed(range(count)) if back else range(count))]
    work = [[_turn_work(axes, part, turn) * shares[part] / link for turn in turns] for part in range(count)]
    at, now = [0] * count, 0.0
    while active := [part for part in range(count) if at[part] < len(turns)]:
        on = {part: (part + turns[at[part]]) % count for part in active}
        users = Counter(on.values())
        step = min(work[part][at[part]] * users[on[part]] for part in active)
        now += step
        for part in active:
            work[part][at[part]] -= step / users[on[part]]
            at[part] += work[part][at[part]] <= 1e-9 * step
    return now


def _turn_work(axes: Sequence[GroupAxis], part: int, turn: int) -> float:
    """B over each link, of 1 B of a part in all, when it gathers along its axis of a turn."""
    axis = axes[(part + turn) % len(axes)]
    later = math.prod(axes[(part + after) % len(axes)].side for after in range(turn + 1, len(axes)))
    return float(ring_share(axis.side)) / later / axis.rate


def _exchange(wires: Wires, group: Group, axes: Sequence[GroupAxis], link: float) -> Candidate:
    """An all-to-all, every pair directly: the busiest links carry the mean distance along their axis."""
    loads = [axis.apart * (axis.side**2 // 4) / axis.side / (2.0 if axis.closed else 1.0) for axis in axes]
    hops = sum(axis.apart * (axis.side // 2 if axis.closed else axis.side - 1) for axis in axes)
    links = wires.torus
    if links is not None and links.twisted and group.members == math.prod(links.shape):
        load, hops = _twisted_routes(links.shape)
        loads = [load]
    inside = _candidate(hops * wires.nvlink_latency, max(loads) / link / group.nodes, PAIRS)
    if group.nodes == 1:
        return inside
    far = _far(wires, group, 1 - 1 / group.nodes)
    return _candidate(max(inside.latency, far.latency), max(inside.per_byte, far.per_byte), PAIRS)


@lru_cache(maxsize=64)
def _twisted_routes(shape: tuple[int, ...]) -> tuple[float, int]:
    """(bytes over the busiest link of a twisted torus over those that a chip sends to all, links of the longest route).

    Every chip sees the same torus, and equally close images of a chip share what is sent to it.
    """
    away = np.array(np.unravel_index(np.arange(math.prod(shape)), shape), np.int64)  # [dimension, pair]
    images, closest = twisted_images(shape, away)
    share = closest / closest.sum(axis=0)  # [image, pair]
    ways = [np.maximum(way * images, 0) for way in (1, -1)]
    load = max(float((steps * share[:, None]).sum(axis=(0, 2)).max()) for steps in ways)
    longest = int(np.where(closest, np.abs(images).sum(axis=1), 0).max())
    return load / math.prod(shape), longest
