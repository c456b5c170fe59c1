"""The play of a table as a kernel: every rank runs its actions in order, each when what it needs has arrived."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podsim.schedules.actions import Bools, Ints

Floats = NDArray[np.float64]


def play_kernel(
    pointer: Ints,
    need: Ints,
    feed: Ints,
    owner: Ints,
    beside: Bools,
    seconds: Floats,
    arrival: Floats,
    overlap: float,
    start: Floats,
    end: Floats,
) -> int:
    """Fill start and end of every action; how many could be played (fewer than all: the rest wait for each other).

    `need` and `feed` are the action that an action waits for and the one that waits for it (-1 none), `arrival` the
    seconds from the end of `need` until it is felt. A rank runs until it must wait; whoever ends what it waits for
    puts it back on the stack, so that each action is looked at once or twice.
    """
    ranks = len(pointer) - 1
    place = pointer[:-1].copy()
    free = np.zeros(ranks)
    stack = np.arange(ranks)[::-1].copy()
    stacked = np.ones(ranks, np.bool_)
    depth, done = ranks, 0
    ended = np.zeros(len(need), np.bool_)
    while depth > 0:
        depth -= 1
        rank = stack[depth]
        stacked[rank] = False
        while place[rank] < pointer[rank + 1]:
            first = place[rank]
            last = first + 1
            while last < pointer[rank + 1] and beside[last]:
                last += 1
            begin, total, longest, waits = free[rank], 0.0, 0.0, False
            for action in range(first, last):
                other = need[action]
                if other >= 0:
                    if not ended[other]:
                        waits = True
                        break
                    begin = max(begin, end[other] + arrival[action])
                total += seconds[action]
                longest = max(longest, seconds[action])
            if waits:
                break
            finish = begin + overlap * longest + (1.0 - overlap) * total
            for action in range(first, last):
                start[action], end[action], ended[action] = begin, finish, True
                other = feed[action]
                if other >= 0 and not stacked[owner[other]]:
                    stack[depth] = owner[other]
                    stacked[owner[other]] = True
                    depth += 1
            free[rank] = finish
            place[rank] = last
            done += last - first
    return done
