"""The storage that a job needs, against the guidance for a SuperPOD, and the number of servers of each system.

    read      the smallest rate R at which the run's epochs take (1 + slower) times their time at full speed. An epoch
              takes max(1, misses x full / R) of its full-speed time; the nodes' page caches fill as in
              podsim.storage.cache. If each node keeps its part of the data, R = full / (1 + slower x epochs)
    write     checkpoints: bytes per parameter (MLPerf Storage v2.0: 13.1) in a twentieth of the time between two
    capacity  the data, raw and as records, and ten checkpoints
    tokens    at most peak arithmetic / (6 x active parameters): a bound, not a prediction, and still little to read

The guidance is for 1, 32 and 127 nodes: figures between are interpolated over nodes, beyond them in proportion.
Source: DGX SuperPOD H100 reference architecture, table 6; github.com/mlcommons/storage v2.0 for checkpoints. Known error:
none measured, as the guidance is advice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from podsim.packaged import packaged_toml
from podsim.storage.cache import Cache, hits
from podsim.storage.fio import Job, fio_row
from podsim.storage.storage_parts import StorageSystem
from podsim.storage.stripe import net_capacity
from podsim.units import parse_quantity

CHECKPOINT = 13.1
"""B a parameter of a whole checkpoint (MLPerf Storage v2.0: 105 GB for 8 billion, 5.29 TB for 405 billion)"""
TOKEN = 4.0
"""B of a token on disk"""
INTERVAL = 3600.0
"""s between checkpoints"""
PART = 0.05
"""share of that time that writing one may take"""
MOST = 4096
"""servers that are tried"""


@cache
def _table() -> dict[str, dict[str, list[float]]]:
    tables = packaged_toml("storage/catalog/guidance.toml")
    table = {"nodes": {"nodes": [float(n) for n in tables["nodes"]]}}
    for name in ("good", "better", "best"):
        table[name] = {
            side: [parse_quantity(v, "B/s") for v in tables[name][side]] for side in ("read", "write")
        }
    return table


def guidance(nodes: int) -> dict[str, tuple[float, float]]:
    """(B/s read, B/s written) for a number of nodes, by good, better and best."""
    table = _table()
    at = table["nodes"]["nodes"]

    def value(given: list[float]) -> float:
        return float(np.interp(nodes, at, given)) if nodes <= at[-1] else given[-1] * nodes / at[-1]

    return {
        name: (value(table[name]["read"]), value(table[name]["write"])) for name in ("good", "better", "best")
    }


def tier_of(read: float, write: float, nodes: int) -> str:
    """The least row of the guidance that covers a need; "beyond" above all."""
    fits = (name for name, (r, w) in guidance(nodes).items() if r >= read and w >= write)
    return next(fits, "beyond")


def checkpoint_write(parameters: float) -> float:
    """B/s at which a checkpoint is written within a twentieth of the time between two."""
    return CHECKPOINT * parameters / (PART * INTERVAL)


def read_needed(
    full: float, *, data: float, cache: Cache, nodes: int, epochs: float, slower: float, shuffle: str
) -> float:
    """B/s at which a run of `epochs` takes a share `slower` longer than reading at `full` B/s; see the top."""
    missed = np.array([1.0 - hits(cache, data, nodes, e, shuffle) for e in range(math.ceil(epochs))])
    weight = np.minimum(epochs - np.arange(len(missed)), 1.0)  # the last epoch may be a part

    def longer(part: float) -> float:
        return float(np.maximum(missed / part, 1.0) @ weight) / epochs - 1.0

    low, high = 0.0, 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if longer(middle) <= slower else (middle, high)
    return high * full


def servers_needed(
    build: Callable[[int], StorageSystem],
    nodes: int,
    *,
    read: float,
    write: float,
    capacity: float,
    least: int = 1,
) -> int:
    """Servers that read, write and hold enough for a number of nodes; 0 if more do not help (the nodes are the limit)."""

    def enough(servers: int) -> bool:
        system = build(servers)
        reads = fio_row(system, Job.of("read", 1 << 20), nodes).bandwidth
        writes = fio_row(system, Job.of("write", 1 << 20), nodes).bandwidth
        room = net_capacity(system)
        return (
            reads >= read * (1 - 1e-9) and writes >= write * (1 - 1e-9) and (room >= capacity or room == 0.0)
        )

    low, high = least, max(least, MOST)
    if not enough(high):
        return 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
