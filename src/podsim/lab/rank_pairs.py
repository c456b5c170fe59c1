"""How fast each rank is by itself, and each pair of ranks: to find the one that is slower than its peers."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from podsim.answers.lab import MeasuredPair, MeasuredRanks
from podsim.lab import usage
from podsim.lab.emulated_links import emulated_links
from podsim.lab.host_rates import timed
from podsim.lab.ranks import Note, Task
from podsim.lab.wires import Board, Wires

PRODUCT = 512
"""rows and columns of the products on processors; on GPUs sixteen times as many"""
_SECONDS = 0.2
_FLOAT = 4
_TRIES = 3


def task_of(ranks: int, size: int, timeout: float, backend: str) -> Task:
    """The measurement as ranks do it."""
    return Task(
        work=partial(measure_pairs, size),
        nodes=ranks,
        timeout=timeout,
        backend=backend,
    )


def measure_pairs(size: int, wires: Wires, note: Note) -> MeasuredRanks | None:
    """Products of each rank while all are busy, then `size` B between each pair of ranks alone, there and back.

    The result is at rank 0, None at the others. Of some tries the fastest counts.
    """
    board, started = Board(wires), usage.now_text()
    processes = board.gather(usage.this_process())
    note("products of each rank")
    side = PRODUCT * (16 if wires.backend == "nccl" else 1)
    left, right = (wires.torch.ones(side, side, device=wires.device) for _ in range(2))
    best = min(timed(wires, lambda: wires.torch.mm(left, right), _SECONDS) for _ in range(_TRIES))
    products = board.gather(2.0 * side**3 / best)
    data = wires.empty(max(size // _FLOAT, 1)).fill_(1.0)
    rows = []
    for source in range(wires.world):
        for destination in range(source + 1, wires.world):
            note(f"ranks {source} and {destination} of {wires.world}")
            seconds = [_trip(wires, data, source, destination) for _ in range(_TRIES)]
            heard = board.gather(min(seconds[1:]))
            if heard is not None:
                rows.append(
                    MeasuredPair(source=source, destination=destination, bandwidth=2.0 * size / heard[source])
                )
    if processes is None or products is None:
        return None
    made = emulated_links(os.environ)
    return MeasuredRanks(
        hosts=tuple(each["host"] for each in processes), backend=wires.backend, software=wires.software, size=float(size),
        started=started, products=tuple(products), rows=tuple(rows), local=made.local if made else 0,
    )  # fmt: skip


def _trip(wires: Wires, data: Any, source: int, destination: int) -> float:
    """Seconds from one rank to another and back; other ranks wait."""
    wires.barrier()
    return max(wires.round_trip(data, source, destination), 1e-9)
