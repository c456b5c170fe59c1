"""Schedules whose backward pass is one piece: GPipe, 1F1B, interleaved 1F1B and breadth-first.

All are one shape: some forwards to warm up, then one forward and one backward in turn, then the backwards left. They
differ in how many warm up, and in the order in which a rank's chunks take their turns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.training.schedules.programs import Program, assemble, counted, loop, program
from podsim.training.schedules.table import Ints, ScheduleTable, Work

__all__ = ["breadth_first", "gpipe", "interleaved", "one_f_one_b"]


def gpipe(p: int, v: int, m: int) -> ScheduleTable:
    """All forwards, then all backwards (Huang et al. 2019), oldest micro-batch first as Megatron-LM draws it."""
    return assemble("gpipe", m, loop(p, 1), lambda rank: program([(m, "F0"), (m, "B0")]))


def one_f_one_b(p: int, v: int, m: int) -> ScheduleTable:
    """PipeDream-flush (Narayanan et al. 2021): rank r starts p - r - 1 forwards ahead, then one each in turn."""

    def of_rank(rank: int) -> Program:
        warm = min(p - rank - 1, m)
        return program([(warm, "F0"), (m - warm, "F0 B0"), (warm, "B0")])

    return assemble("1f1b", m, loop(p, 1), of_rank)


def interleaved(p: int, v: int, m: int) -> ScheduleTable:
    """Megatron-LM's interleaved 1F1B: each chunk takes p micro-batches in turn, the last chunk first backwards.

    Rank r starts 2 (p - r - 1) + (v - 1) p forwards ahead.
    """
    turn = np.arange(m * v)
    chunk = turn // p % v

    def of_rank(rank: int) -> Program:
        warm = min(2 * (p - rank - 1) + (v - 1) * p, m * v)
        return _in_turn(chunk, v - 1 - chunk, warm)

    return assemble("interleaved", m, loop(p, v), of_rank)


def breadth_first(p: int, v: int, m: int) -> ScheduleTable:
    """Every micro-batch through a chunk before the next chunk (Lamy-Poirier 2023): weights are gathered once a chunk.

    Backwards run from the youngest micro-batch to the oldest, as in torch's ScheduleLoopedBFS.
    """
    chunk = np.repeat(np.arange(v), m)

    def of_rank(rank: int) -> Program:
        plain = _in_turn(chunk, v - 1 - chunk, m * v)
        youngest_first = np.where(plain.work == Work.BACKWARD, m - 1 - plain.micro, plain.micro)
        return replace(plain, micro=youngest_first)

    return assemble("breadth-first", m, loop(p, v), of_rank)


def _in_turn(forward: Ints, backward: Ints, warm: int) -> Program:
    """`warm` forwards, then forward and backward in turn, then the backwards left; both given as chunks in order."""
    n = len(forward)
    # a forward's place counts the backwards before it, a backward's the forwards: 2 i is a tie won by the forward
    place = np.concatenate([2 * np.maximum(np.arange(n) - warm, -1), 2 * np.arange(n) + 1])
    order = np.argsort(place, kind="stable")
    work = np.repeat([Work.FORWARD, Work.BACKWARD], n)[order].astype(np.int64)
    chunk = np.concatenate([forward, backward])[order]
    micro = counted(2 * chunk + work)
    return Program(work=work, chunk=chunk, micro=micro, beside=np.zeros(2 * n, bool))
