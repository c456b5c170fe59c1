"""Schedules whose backward pass is one piece: GPipe, 1F1B, interleaved 1F1B and breadth-first.

All are one shape: some forwards to warm up, then one forward and one backward in turn, then the backwards left. They
differ in how many warm up, and in the order in which a rank's chunks take their turns.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Ints, Shaped
from podsim.schedules.actions import Placement, ScheduleTable, Work, loop


def gpipe(p: int, v: int, m: int) -> ScheduleTable:
    """All forwards, then all backwards (Huang et al. 2019), oldest micro-batch first as Megatron-LM draws it."""
    micro = np.arange(m)
    return _interleave("gpipe", m, loop(p, 1), np.full(p, m), (micro * 0, micro), (micro * 0, micro))


def one_f_one_b(p: int, v: int, m: int) -> ScheduleTable:
    """PipeDream-flush (Narayanan et al. 2021): rank r starts p - r - 1 forwards ahead, then one each in turn."""
    micro = np.arange(m)
    return _interleave("1f1b", m, loop(p, 1), np.arange(p)[::-1], (micro * 0, micro), (micro * 0, micro))


def interleaved(p: int, v: int, m: int) -> ScheduleTable:
    """Megatron-LM's interleaved 1F1B: each chunk takes p micro-batches in turn, the last chunk first backwards.

    Rank r starts 2 (p - r - 1) + (v - 1) p forwards ahead.
    """
    turn = np.arange(m * v)
    chunk, micro = turn // p % v, turn // (p * v) * p + turn % p
    warm = 2 * np.arange(p)[::-1] + (v - 1) * p
    return _interleave("interleaved", m, loop(p, v), warm, (chunk, micro), (v - 1 - chunk, micro))


def breadth_first(p: int, v: int, m: int) -> ScheduleTable:
    """Every micro-batch through a chunk before the next chunk (Lamy-Poirier 2023): weights are gathered once a chunk.

    Backwards run from the youngest micro-batch to the oldest, as in torch's ScheduleLoopedBFS.
    """
    chunk, micro = np.repeat(np.arange(v), m), np.tile(np.arange(m), v)
    youngest_first = (v - 1 - chunk, m - 1 - micro)
    return _interleave("breadth-first", m, loop(p, v), np.full(p, m * v), (chunk, micro), youngest_first)


def _interleave(
    name: str,
    m: int,
    placement: Placement,
    warm: Shaped[Ints, "rank"],
    forward: tuple[Ints, Ints],
    backward: tuple[Ints, Ints],
) -> ScheduleTable:
    """`warm` forwards on each rank, then forward and backward in turn, then the backwards left.

    `forward` and `backward`: (chunk of the rank, micro-batch) of each, in order, [actions of a rank / 2].
    """
    parts, stage_rank, stage_part, before, after, chunks = placement
    n, ranks = len(forward[0]), len(warm)
    turn = np.arange(n)
    # a forward's place counts the backwards before it, a backward's the forwards: 2 i is a tie won by the forward
    ahead = 2 * np.maximum(turn - warm[:, None], -1)
    order = np.argsort(
        np.concatenate([ahead, np.broadcast_to(2 * turn + 1, (ranks, n))], axis=1), kind="stable"
    )
    chunk, micro = (np.concatenate(pair)[order] for pair in zip(forward, backward, strict=True))
    return ScheduleTable(
        name=name,
        ranks=ranks,
        micro_batches=m,
        parts=parts,
        stage_rank=stage_rank,
        stage_part=stage_part,
        stage_before=before,
        stage_after=after,
        pointer=2 * n * np.arange(ranks + 1),
        work=np.repeat([Work.FORWARD, Work.BACKWARD], n)[order].ravel().astype(np.int64),
        stage=np.take_along_axis(chunks, chunk, axis=1).ravel(),
        micro=micro.ravel(),
        beside=np.zeros(2 * n * ranks, bool),
    )
