"""The parts of a storage system: servers, stripes, clients. SI inside: B, B/s, 1/s, s.

Speeds of software are processor times: a byte costs `per_byte` seconds and an operation `per_operation` seconds of one
core (or of one server without separate cores). Both follow from two published figures, a bandwidth at 1 MiB and a rate
of operations at 4 KiB, and cover all sizes between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.hardware.parts import Ssd, System

SMALL = 4096
"""B of the accesses that rates of operations are given for"""
LARGE = 1 << 20
"""B of the accesses that bandwidths are given for"""


@dataclass(frozen=True, kw_only=True)
class Software:
    """Processor seconds that moving data costs."""

    per_byte: float
    """s. The time of one core (or server) per byte."""
    per_operation: float = 0.0
    """s. The time of one core (or server) per operation."""

    def seconds(self, block: float) -> float:
        """Seconds of one access of `block` bytes."""
        return self.per_operation + block * self.per_byte

    @classmethod
    def through(cls, bandwidth: float, operations: float | None) -> Software:
        """The costs that give `bandwidth` (B/s) at 1 MiB and `operations` (1/s) at 4 KiB.

        Without a rate of operations all the time is the bytes'.
        """
        if operations is None:
            return cls(per_byte=1.0 / bandwidth)
        per_byte = (LARGE / bandwidth - 1.0 / operations) / (LARGE - SMALL)
        return cls(per_byte=per_byte, per_operation=1.0 / operations - SMALL * per_byte)


@dataclass(frozen=True, kw_only=True)
class Server:
    """One storage server, controller pair or appliance."""

    ssd: Ssd | None
    """The drives; None if unknown."""
    ssds: int
    ports: int
    port: float
    """B/s. The bandwidth of one port, in one direction."""
    read: Software | None
    """The demonstrated speed of reads; None if only its parts are known."""
    write: Software | None
    """The published speed of writes; None: that of reads, times the work of striping (podsim.storage.stripe)."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """What a compute node has for storage."""

    system: System
    ports: int
    port: float
    """B/s. The bandwidth of one port, in one direction."""
    cores: int
    """The number of cores for the file system's client; 0 if it runs in the kernel and takes what it needs."""
    read: Software | None
    """The speed of reads on one core."""
    write: Software | None
    """The speed of writes on one core."""
    stream: float
    """B/s. The demonstrated read bandwidth of one thread; infinite if none was published."""


@dataclass(frozen=True, kw_only=True)
class Stripe:
    """How blocks are protected: `data` of them and `parity` more, each on another server."""

    data: int
    parity: int
    spares: int
    """The number of servers whose space is kept free for rebuilding."""
    usable: float
    """share. The share of the space that is left after the file system's own use."""

    @property
    def width(self) -> int:
        """Blocks of a stripe."""
        return self.data + self.parity

    @property
    def survives(self) -> int:
        """Servers that may fail at once: two, with two or four parity blocks (Weka documentation); one with one."""
        return min(self.parity, 2)


@dataclass(frozen=True, kw_only=True)
class StorageSystem:
    """A storage system and the nodes that mount it."""

    name: str
    kind: str
    """The kind: wekafs, lustre, beegfs, nfs, object, local."""
    servers: int
    """The number of servers; 1, of one node, for a local system."""
    server: Server
    client: Client
    stripe: Stripe | None
    """The protection of its blocks; None if unknown."""
    read_latency: float
    """s. The latency of one small read, alone."""
    write_latency: float
    """s. The latency of one small write, alone."""
    capacity: float
    """B. The raw capacity; 0 if unknown."""
    tier: str = ""
    """The name of the object store behind it; empty for none."""
    measured_clients: int = 0
    """The number of nodes in the measurement of its figures; 0 without one."""
    range_requests: float = 0.0
    """1/s. The rate of range requests of the whole system, whatever their size; 0 for no such limit."""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def local(self) -> bool:
        """Whether every node has its own drives, and shares nothing."""
        return self.kind == "local"
