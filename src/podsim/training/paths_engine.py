"""The longest path through a played table, as a kernel."""

from __future__ import annotations

import numpy as np

from podsim.training.plan import Array

__all__ = ["longest"]

SAME = 1e-9
"""times within this share of each other are one"""


def longest(
    start: Array,
    end: Array,
    need: Array,
    rank: Array,
    pointer: Array,
    beside: Array,
    forward: Array,
    send: float,
    last: int,
) -> tuple[Array, int, int]:
    """(actions on the longest path, last first; sends on it forward; and back).

    Each action began when what stands before it on the path was over. Actions that run beside each other are on it
    together. `forward`: whether an action is a forward pass; `last`: the action that the path ends with.
    """
    path = np.empty(len(start), np.int64)
    n, ahead, back = 0, 0, 0
    while last >= 0:
        own = rank[last]
        low, high = last, last + 1
        while beside[low]:
            low -= 1
        while high < pointer[own + 1] and beside[high]:
            high += 1
        last, sent, kind = -1, 0, True
        for at in range(low, high):
            path[n] = at
            n += 1
            if need[at] >= 0:
                abroad = rank[need[at]] != own
                arrival = end[need[at]] + (send if abroad else 0.0)
                if abs(arrival - start[low]) <= SAME * max(1.0, start[low]):
                    last, sent, kind = need[at], int(abroad), forward[at]
        if low > pointer[own] and abs(end[low - 1] - start[low]) <= SAME * max(1.0, start[low]):
            last, sent = low - 1, 0  # the rank's own work first: its sends are then not waited for
        if kind:
            ahead += sent
        else:
            back += sent
    return path[:n], ahead, back
