"""DualPipe: micro-batches enter at both ends, and a forward pass overlaps with a backward pass.

Sources: DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.1; the order of each rank is that of
github.com/deepseek-ai/DualPipe (MIT), whose cut-in-half variant is DualPipeV.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.schedules.actions import Phase, Program, ScheduleTable, assemble, program, two_ways, vee


def _program(rank: int, half: int, m: int) -> Program:
    """The order of a rank of `half` ranks, for m micro-batches through each of its two chunks."""
    far = half - rank - 1  # ranks between it and the middle, where the directions meet
    turns = m - 2 * half + rank + 1
    meet: list[Phase] = [(1, "F0 B1 F1 B0+"), (turns - 1, "F0 B1+ F1 B0+")]
    phases: list[Phase] = [
        (2 * far, "F0"),
        (rank + 1, "F0 F1"),
        (far, "I1 W F1"),
        *(meet if far == 0 else [(turns, "F0 B1+ F1 B0+")]),
        (far, "B1 F1 B0+"),
        *_last_backwards(rank),
        (far, "W I0"),
        (rank + 1, "W"),
    ]
    return program(phases)


def _last_backwards(rank: int) -> list[Phase]:
    """rank + 1 backwards of each chunk: whole ones, then, from the middle on, input gradients only."""
    if rank % 2 == 1:
        split = rank // 2 + 1
        return [((rank + 1) // 2, "B1 B0"), (split - (rank + 1) // 2, "I1 I0"), (rank + 1 - split, "I1 I0")]
    return [(rank // 2, "B1 B0"), (1, "B1 I0"), (rank // 2, "I1 I0")]


def dualpipe(p: int, v: int, m: int) -> ScheduleTable:
    """Half of the micro-batches from each end; every rank holds two parts, every part has two homes."""

    def of_rank(rank: int) -> Program:
        near = min(rank, p - 1 - rank)
        order = _program(near, p // 2, m // 2)
        away = order.chunk == (
            0 if rank >= p // 2 else 1
        )  # the chunk of the direction that starts at the last rank
        return replace(order, micro=order.micro + np.where(away, m // 2, 0))

    return assemble("dualpipe", m, two_ways(p), of_rank)


def dualpipe_v(p: int, v: int, m: int) -> ScheduleTable:
    """DualPipe folded in the middle: one direction, down the ranks and up again, each part on one rank."""
    return assemble("dualpipe-v", m, vee(p), lambda rank: _program(rank, p, m))
