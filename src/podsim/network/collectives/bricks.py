"""Rows of tables as columns, to be put one under the other: the bricks of the algorithms."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Ints
from podsim.network.collectives.table import ROW_FIELDS, USUAL

Columns: TypeAlias = dict[str, NDArray[np.int64]]


def brick(**columns: ArrayLike) -> Columns:
    """Columns of rows, scalars spread over all of them, those left out as usual; names as in `Table`."""
    full = np.broadcast_arrays(*(np.atleast_1d(np.asarray((USUAL | columns)[key])) for key in ROW_FIELDS))
    return {key: np.asarray(row, np.int64) for key, row in zip(ROW_FIELDS, full, strict=True)}


def stack(*bricks: Columns) -> Columns:
    """One brick under the other; without any, no rows."""
    empty = np.empty(0, np.int64)
    return {key: np.concatenate([empty, *(part[key] for part in bricks)]) for key in ROW_FIELDS}


def others(ranks: int) -> tuple[Ints, Ints]:
    """All ordered pairs of different ranks: (first, second), second = first + 1, first + 2, ... around the circle."""
    first = np.repeat(np.arange(ranks), ranks - 1)
    return first, (first + np.tile(np.arange(1, ranks), ranks)) % ranks


def ring_rows(
    order: ArrayLike, *, start: int, reduce: bool, base: int = 0, count: int = 1, channel: ArrayLike = 0
) -> Columns:
    """Half an all-reduce on a ring: n - 1 steps from `start`, each rank passing blocks of `count` chunks on.

    order: ranks as the ring visits them, [n] or [rings, n]; ring j works on the wheel of n * count chunks from
    base + j * n * count. Reducing, the rank at place i ends with block i summed; copying, it starts with block i.
    Source: P. Patarasuk, X. Yuan, Bandwidth optimal all-reduce algorithms, J. Parallel Distrib. Comput. 69 (2009).
    """
    orders = np.atleast_2d(np.asarray(order, np.int64))  # [ring, rank]
    rings, n = orders.shape
    if n < 2:
        return stack()
    block = (np.arange(n) - (1 if reduce else 0)) % n
    wheels = base + np.arange(rings)[:, None] * (n * count)
    return brick(
        step=start,
        source=orders.ravel(),
        destination=np.roll(orders, -1, axis=1).ravel(),
        chunk=(wheels + block * count).ravel(),
        count=count,
        reduce=int(reduce),
        channel=np.repeat(np.broadcast_to(np.asarray(channel, np.int64), rings), n),
        repeat=n - 1,
        turn=-1 if n > 2 else 0,
        wheel=n * count if n > 2 else 1,
    )
