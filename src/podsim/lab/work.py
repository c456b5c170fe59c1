"""What messages and sums cost the processors of the machine that all ranks of an emulated cluster share.

Measured at the start of a run, with every rank at work: messages small enough for the buckets of shaped links, so
that no link holds them up, and sums as the engine makes them.
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

from podsim.lab.wires import Board, Wires

_SMALL, _LARGE = 4 << 10, 96 << 10
"""B of a message; the larger still fits the smallest bucket (128 KiB), with its headers"""
_SUM, _SUMS = 4 << 20, 8
"""B of a buffer that is added, more than a core's own cache; times in a row, longer than a core stays with one rank"""


class Work(NamedTuple):
    """Seconds of the whole machine: all its cores at work."""

    message: float = 0.0
    byte: float = 0.0
    """s. The processor time for each B sent and received."""
    add: float = 0.0
    """s. The processor time for each B added to another."""


def measure_work(wires: Wires, board: Board, pause: float, trips: int = 7) -> Work:
    """What a message, its bytes and a sum take where every rank sends to all others at once, then adds at once.

    pause: s in which the buckets of all links fill. Medians of the slowest rank's times.
    """
    if wires.world < 2:
        return Work()
    small, large = (_exchange(wires, board, size, pause, trips) for size in (_SMALL, _LARGE))
    messages = wires.world * (wires.world - 1)
    byte = max(large - small, 0.0) / (messages * (_LARGE - _SMALL))
    message = max(small / messages - byte * _SMALL, 0.0)
    return Work(message, byte, _add(wires, board, trips) / (wires.world * _SUM * _SUMS))


def _slowest(board: Board, seconds: list[float]) -> float:
    """The median over trips of the slowest rank's seconds, at every rank."""
    reports = board.gather(seconds)
    return float(
        board.tell(None if reports is None else statistics.median(map(max, zip(*reports, strict=True))))
    )


def _exchange(wires: Wires, board: Board, size: int, pause: float, trips: int) -> float:
    """Seconds in which every rank sends `size` B to every other one."""
    distributed, others = wires.torch.distributed, [r for r in range(wires.world) if r != wires.rank]
    data = wires.empty(size // 4).fill_(1.0)
    into = {other: wires.empty(size // 4) for other in others}
    seconds = []
    for _ in range(trips + 1):  # the first makes the connections
        wires.barrier()
        time.sleep(pause)
        wires.barrier()
        start = time.perf_counter()
        works = []
        for other in others:
            down, up = (wires.up, wires.down) if other < wires.rank else (wires.down, wires.up)
            works += [
                distributed.irecv(into[other], other, group=down),
                distributed.isend(data, other, group=up),
            ]
        for work in works:
            work.wait()
        seconds.append(time.perf_counter() - start)
    return _slowest(board, seconds[1:])


def _add(wires: Wires, board: Board, trips: int) -> float:
    """Seconds in which every rank adds a buffer to another."""
    held, received = wires.empty(_SUM // 4).fill_(0.0), wires.empty(_SUM // 4).fill_(1.0)
    seconds = []
    for _ in range(trips + 1):
        wires.barrier()
        start = time.perf_counter()
        for _ in range(_SUMS):
            held.add_(received)
        seconds.append(time.perf_counter() - start)
    return _slowest(board, seconds[1:])
