"""What a storage system is made of: servers, stripes, clients. SI inside: B, B/s, 1/s, s.

Speeds of software are kept as the time of a processor: a byte costs `per_byte` seconds and an operation `per_operation`
seconds of one core (or of one server, where its cores are not told apart). Both follow from two published figures, a
bandwidth at 1 MiB and a rate of operations at 4 KiB, and give every size between.
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
    """s of one core (or server) for a byte"""
    per_operation: float = 0.0
    """s of one core (or server) for an operation"""

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
    """its drives; None where they are not told"""
    ssds: int
    ports: int
    port: float
    """B/s of one port, one direction"""
    read: Software | None
    """what it was shown to do; None where only its parts are known"""
    write: Software | None
    """of its own where one was published; None: the work of striping (podsim.storage.stripe) times that of reading"""


@dataclass(frozen=True, kw_only=True)
class Client:
    """What a compute node has for storage."""

    system: System
    ports: int
    port: float
    """B/s of one port, one direction"""
    cores: int
    """processor cores given to the file system's client; 0 where it is the kernel's and takes what it needs"""
    read: Software | None
    """of one core"""
    write: Software | None
    """of one core"""
    stream: float
    """B/s that one thread was seen to read; infinite where none was published"""


@dataclass(frozen=True, kw_only=True)
class Stripe:
    """How blocks are protected: `data` of them and `parity` more, each on another server."""

    data: int
    parity: int
    spares: int
    """servers' worth of space kept free for rebuilding"""
    usable: float
    """share of the space that is left after what the file system keeps for itself"""

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
    """wekafs, lustre, beegfs, nfs, object, local"""
    servers: int
    """for a local system: of one node, 1"""
    server: Server
    client: Client
    stripe: Stripe | None
    """None where its protection is not told"""
    read_latency: float
    """s of one small read, alone"""
    write_latency: float
    """s of one small write, alone"""
    capacity: float
    """B raw; 0 where it is not told"""
    tier: str = ""
    """the object store behind it, by name; empty for none"""
    measured_clients: int = 0
    """nodes that its figures were measured with; 0 where none were"""
    range_requests: float = 0.0
    """1/s that the whole system takes, whatever their size; 0 for no such limit"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def local(self) -> bool:
        """Whether every node has its own drives, and shares nothing."""
        return self.kind == "local"
