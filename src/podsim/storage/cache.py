"""The share of the data that nodes find in their caches, epoch by epoch.

    global    every node draws from all the data each epoch. After e epochs a share 1 - (1 - 1/N)^e has passed through
              it, and it keeps what fits its cache:        hits = min(cache / data, 1 - (1 - 1/N)^e)
    shard     a node reads the same N-th each epoch:       hits = min(cache / (data / N), 1) from the second epoch on

Source: counting. Known error: none is measured. Stops being true: a cache that evicts the data that is read next (under
one fixed order, least recently used keeps none of the excess), and memory that the job takes from the page cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.errors import StorageError, check_name
from podsim.hardware.parts import System
from podsim.units import format_quantity

CACHES = ("page", "nvme", "none")
SHUFFLES = ("global", "shard")
PAGE = 0.5
"""share of a node's memory that is left to the page cache, unless told"""
NVME = 0.9
"""share of the cache drives that cachefilesd fills before it culls (bcull 10 %)"""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """What one node keeps data in."""

    kind: str
    size: float
    """B. The size on one node."""
    read: float
    """B/s. The read bandwidth of one node."""
    write: float
    """B/s. The write bandwidth of one node."""


def cache_of(system: System, kind: str, size: float | None) -> Cache:
    """The cache of a node. Raises StorageError for an unknown kind and a size beyond the memory or the drives."""
    check_name("cache", kind, CACHES, StorageError)
    if kind == "none":
        if size:
            raise StorageError(
                f"cache size {format_quantity(size, 'B')} of no cache; give --cache page or nvme"
            )
        return Cache(kind=kind, size=0.0, read=0.0, write=0.0)
    ssd = system.ssd
    if kind == "nvme" and (ssd is None or not system.ssds):
        raise StorageError(f"{system.name} has no data drives to cache on; take --cache page or none")
    room = system.memory if kind == "page" or ssd is None else ssd.capacity * system.ssds
    if size is not None and not 0.0 < size <= room:
        what = "memory" if kind == "page" else "drives"
        raise StorageError(
            f"a cache of {format_quantity(size, 'B')}: the {what} of {system.name} hold {format_quantity(room, 'B')}; "
            f"give more than 0, and at most that"
        )
    if kind == "page" or ssd is None:
        speed = system.cpu.memory_bandwidth * system.cpus if system.cpu else 100e9
        return Cache(kind=kind, size=PAGE * room if size is None else size, read=speed, write=speed)
    return Cache(
        kind=kind, size=NVME * room if size is None else size, read=ssd.read_bandwidth * system.ssds,
        write=ssd.write_bandwidth * system.ssds,
    )  # fmt: skip


def hits(cache: Cache, data: float, nodes: int, epoch: int, shuffle: str) -> float:
    """Share of the bytes of an epoch (from 0) that a node finds in its cache. StorageError on an unknown shuffle."""
    check_name("shuffle", shuffle, SHUFFLES, StorageError)
    if epoch == 0 or cache.size == 0.0:
        return 0.0
    if shuffle == "shard":
        return min(cache.size * nodes / data, 1.0)
    return min(cache.size / data, 1.0 - (1.0 - 1.0 / nodes) ** epoch)
