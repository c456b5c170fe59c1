"""Collectives on a torus: rings along each axis in turn (the bucket algorithm), and exchanges axis by axis.

The data are cut into two parts for each axis, one for each way round. Part j gathers along axis j, then j + 1, and so
on around, so at any time all axes carry something; a reduce-scatter is the same backwards. Slices of a torus that a
network joins are one more axis, which every part takes first, while it holds least. An axis that does not close to a
ring is visited every second chip up and the others down, so no step is longer than two links.

Source: N. Jain, Y. Sabharwal, Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Ints, Shaped
from podsim.network.collectives.bricks import Columns, brick, stack
from podsim.network.collectives.table import Table, make_table


class Axes(NamedTuple):
    """The axes of slices of a torus."""

    sides: tuple[int, ...]
    """count. The chips along each axis."""
    wraps: tuple[bool, ...]
    """Whether each axis closes to a ring."""
    slices: int = 1

    @property
    def ranks(self) -> int:
        """The number of chips of all slices."""
        return self.slices * prod(self.sides)


def cubic_axes(ranks: int) -> Axes:
    """The most cubic torus of a number of chips, with rings along axes of more than two."""
    triples = ((a, b, ranks // a // b) for a in range(1, int(ranks ** (1 / 3)) + 2) if ranks % a == 0
               for b in range(a, int((ranks // a) ** 0.5) + 1) if ranks // a % b == 0)  # fmt: skip
    sides = min(triples, key=sum)
    return Axes(sides, tuple(side > 2 for side in sides))


def part_shares(rates: Sequence[float]) -> Floats:
    """The share of the data of each part, by the bandwidth of the axis that it takes last, when it holds most."""
    return np.roll(np.asarray(rates, float), -len(rates) + 1) / sum(rates)


def _ring_order(side: int, closed: bool, back: bool) -> Ints:
    """The coordinates of an axis in the order of its ring."""
    order = np.arange(side)
    if not closed:
        order = np.concatenate([order[::2], order[1::2][::-1]])
    return order[::-1] if back else order


class _Part(NamedTuple):
    """One part of the data: its axes in the order of the gather, and where each chip stands in their rings."""

    sides: tuple[int, ...]
    position: Shaped[Ints, "dimension chip"]
    """The place of each chip in the ring of each axis."""
    following: Shaped[Ints, "dimension chip"]
    """The next chip along the ring of each axis."""
    share: float

    @property
    def chunk(self) -> Shaped[Ints, "chip"]:
        """The chunk of each chip: its places, those of the first axis counting first."""
        return np.asarray(np.ravel_multi_index(tuple(self.position[::-1]), self.sides[::-1]), np.int64)


def _parts(axes: Axes) -> list[_Part]:
    """The parts of the data, two for each axis of more than one chip."""
    used = [axis for axis, side in enumerate(axes.sides) if side > 1]
    sides, ranks = (axes.slices, *axes.sides), axes.ranks
    at = np.array(np.unravel_index(np.arange(ranks), sides), np.int64)  # [dimension, chip]
    shares = part_shares([1.0 + axes.wraps[axis] for axis in used]) if used else np.ones(1)
    parts = []
    for number in range(max(len(used), 1)):
        turned = used[number:] + used[:number]
        for back in (False, True):
            own, places, after = [], [], []
            for axis in [0] * (axes.slices > 1) + [axis + 1 for axis in turned]:
                order = _ring_order(sides[axis], axis == 0 or axes.wraps[axis - 1], back)
                position = np.argsort(order)
                to = at.copy()  # [dimension, chip]
                to[axis] = order[(position[at[axis]] + 1) % sides[axis]]
                own.append(sides[axis])
                places.append(position[at[axis]])
                after.append(np.ravel_multi_index(tuple(to), sides))
            parts.append(_Part(tuple(own), np.array(places), np.array(after), float(shares[number]) / 2))
    return parts


def _axis_rows(part: _Part, number: int, axis: int, start: int, reduce: bool) -> Columns:
    """The rows of one part along one of its axes: a ring through every chip."""
    side, count = part.sides[axis], prod(part.sides[:axis])
    ranks, wheel = part.position.shape[1], side * count
    later = part.chunk // wheel * wheel
    block = (part.position[axis] - reduce) % side
    return brick(
        step=start, source=np.arange(ranks), destination=part.following[axis],
        chunk=number * ranks + later + block * count, count=count, reduce=int(reduce), channel=number,
        repeat=side - 1, turn=-1 if side > 2 else 0, wheel=wheel if side > 2 else 1,
    )  # fmt: skip


def _half(axes: Axes, parts: list[_Part], start: int, reduce: bool) -> Columns:
    """A reduce-scatter, or an all-gather, from a step on."""
    bricks = []
    depth = len(parts[0].sides)
    for turn in range(depth):
        axis = depth - 1 - turn if reduce else turn
        bricks += [_axis_rows(part, number, axis, start, reduce) for number, part in enumerate(parts)]
        start += max(part.sides[axis] for part in parts) - 1
    return stack(*bricks)


def _table(name: str, collective: str, axes: Axes, halves: Sequence[bool]) -> Table:
    ranks, parts = axes.ranks, _parts(axes)
    steps = sum(max(part.sides[axis] for part in parts) - 1 for axis in range(len(parts[0].sides)))
    rows = stack(*(_half(axes, parts, number * steps, reduce) for number, reduce in enumerate(halves)))
    owner = np.concatenate(
        [np.argsort(part.chunk) if part.sides else np.zeros(1, np.int64) for part in parts]
    )
    used = [side for side in axes.sides if side > 1]
    is_even = axes.slices == 1 and len(set(used)) <= 1 and (all(axes.wraps) or used[:1] == [2])
    return make_table(
        name, collective, rows, ranks=ranks, chunks=len(parts) * ranks, lockstep=is_even,
        home=owner if collective == "all-gather" else None,
        goal=owner if collective == "reduce-scatter" else None,
        sizes=np.repeat([part.share for part in parts], ranks) / ranks,
    )  # fmt: skip


def torus_all_gather(axes: Axes) -> Table:
    """All-gather along every axis in turn, both ways round, all axes at once."""
    return _table("torus all-gather", "all-gather", axes, (False,))


def torus_reduce_scatter(axes: Axes) -> Table:
    """Reduce-scatter along every axis in turn, both ways round, all axes at once."""
    return _table("torus reduce-scatter", "reduce-scatter", axes, (True,))


def torus_all_reduce(axes: Axes) -> Table:
    """A reduce-scatter and an all-gather on a torus."""
    return _table("torus", "all-reduce", axes, (True, False))


def torus_all_to_all(axes: Axes) -> Table:
    """All-to-all axis by axis: along each, chips exchange what is for their coordinates. Fewer and larger messages.

    Chunks are dealt out over the orders of the axes, so all axes carry something at any time.
    """
    sides, ranks = (axes.slices, *axes.sides), axes.ranks
    used = [axis + 1 for axis, side in enumerate(axes.sides) if side > 1] or [0]
    source, goal = np.divmod(np.arange(ranks * ranks), ranks)
    part = (source + goal // len(used) + goal) % len(used)
    at = np.array(np.unravel_index(source, sides), np.int64)  # [dimension, chunk]
    to = np.array(np.unravel_index(goal, sides), np.int64)  # [dimension, chunk]
    bricks, start = [], 0
    for turn in range(len(used) + (axes.slices > 1 and used != [0])):
        axis = np.array(used)[(part + turn) % len(used)] if turn < len(used) else np.zeros_like(part)
        position = np.arange(len(part))
        moved = at.copy()  # [dimension, chunk]
        moved[axis, position] = to[axis, position]
        away = (to[axis, position] - at[axis, position]) % np.array(sides)[axis]
        moving = np.flatnonzero(away)
        here, there = (np.ravel_multi_index(tuple(chip[:, moving]), sides) for chip in (at, moved))
        bricks.append(brick(step=start + away[moving] - 1, source=here, destination=there, chunk=moving))
        at, start = moved, start + int(away.max(initial=0))
    return make_table("torus all-to-all", "all-to-all", stack(*bricks), ranks=ranks, chunks=ranks * ranks)
