"""The schema of the storage catalog. It rejects unknown keys, missing keys and wrong values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from podsim.hardware.catalog.schema import Bytes, Count, Entry, PerSecond, Positive, Rate, Seconds, Table

Share = Annotated[float, Field(gt=0.0, le=1.0)]


class ServerEntry(Table):
    """One storage server."""

    ssd: str = ""
    ssds: Count = 0
    ports: Count = 0
    port: Rate | None = None
    read: Rate | None = None
    write: Rate | None = None
    iops: PerSecond | None = None


class ClientEntry(Table):
    """A node's way to the storage; read, write and iops of all its cores together."""

    system: str
    ports: Count = 0
    port: Rate | None = None
    cores: Count = 0
    read: Rate | None = None
    write: Rate | None = None
    iops: PerSecond | None = None
    stream: Rate | None = None


class StripeEntry(Table):
    """Data and parity blocks of a stripe."""

    data: Annotated[int, Field(ge=1, le=16)]
    parity: Annotated[int, Field(ge=0, le=4)]
    spares: Count = 0
    usable: Share = 1.0


class StorageEntry(Entry):
    """A storage system."""

    kind: Literal["wekafs", "lustre", "beegfs", "nfs", "object", "local"]
    servers: Positive
    server: ServerEntry
    client: ClientEntry
    stripe: StripeEntry | None = None
    capacity: Bytes | None = None
    read_latency: Seconds
    write_latency: Seconds
    tier: str = ""
    measured_clients: Count = 0
    range_requests: PerSecond | None = None
