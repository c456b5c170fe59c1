"""A storage system on one page: what it has, what it was shown to do, and what follows."""

from __future__ import annotations

from podsim.storage.parts import LARGE, SMALL, Software, StorageSystem
from podsim.storage.stripe import net_capacity
from podsim.storage_results import StorageSheet
from podsim.units import format_quantity

__all__ = ["storage_sheet"]

_TIER = "writes land on flash; a block is on flash only, on both, or on the object store only; the least used leave first"
_SNAPSHOTS = "at no cost when taken; then each 4 KiB block that is overwritten is kept, too"


def storage_sheet(system: StorageSystem, clients: int) -> StorageSheet:
    """The sheet of a system with so many clients."""
    server, client, stripe = system.server, system.client, system.stripe
    figures = {"servers": "the node itself" if system.local else str(system.servers)}
    if server.ssd is not None:
        figures["drives of a server"] = f"{server.ssds} x {server.ssd.name}"
    if server.ports:
        figures["ports of a server"] = f"{server.ports} x {format_quantity(server.port * 8, 'b/s')}"
    figures |= _software("a server", server.read, server.write)
    figures["client"] = client.system.name
    if client.ports:
        figures["ports of a client"] = f"{client.ports} x {format_quantity(client.port * 8, 'b/s')}"
    if client.cores:
        figures["cores of a client for it"] = str(client.cores)
        figures |= _software("one such core", client.read, client.write)
    figures["small read, small write"] = ", ".join(
        format_quantity(value, "s") for value in (system.read_latency, system.write_latency)
    )
    if system.capacity:
        figures["raw capacity"] = format_quantity(system.capacity, "B")
    if stripe is not None:
        figures["stripes"] = f"{stripe.data}+{stripe.parity}, space of {stripe.spares} server(s) kept free"
        figures["net capacity"] = format_quantity(net_capacity(system), "B")
        figures["servers that may fail at once"] = str(stripe.survives)
    if system.kind == "wekafs":
        figures["snapshots"] = _SNAPSHOTS
    if system.tier:
        figures["tier behind it"] = f"{system.tier}: {_TIER}"
    if system.range_requests:
        figures["requests"] = format_quantity(system.range_requests, "/s")
    return StorageSheet(
        name=system.name, kind=system.kind, clients=clients, figures=figures, notes=dict(system.notes),
        source=system.source, confirmed=system.confirmed,
    )  # fmt: skip


def _software(whose: str, read: Software | None, write: Software | None) -> dict[str, str]:
    """What software does at 1 MiB and at 4 KiB, as text."""
    found = {}
    for what, one in (("reads", read), ("writes", write if write != read else None)):
        if one is not None:
            text = format_quantity(LARGE / one.seconds(LARGE), "B/s")
            if one.per_operation:
                text += f", {format_quantity(1.0 / one.seconds(SMALL), 'IOPS')} of 4 KiB"
            found[f"{whose} {what}"] = text
    return found
