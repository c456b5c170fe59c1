"""A storage system on one page: its parts, its demonstrated speed, and what follows."""

from __future__ import annotations

from podsim.answers.storage import StorageSheet
from podsim.storage.catalog import load_storage
from podsim.storage.mdtest import mdtest_rows
from podsim.storage.storage_links import Stream, access, share, storage_links
from podsim.storage.storage_parts import LARGE, SMALL, Software, StorageSystem
from podsim.storage.stripe import net_capacity
from podsim.units import format_quantity

_TIER = "writes land on flash; a block is on flash only, on both, or on the object store only; the least used leave first"
_SNAPSHOTS = "at no cost when taken; then each 4 KiB block that is overwritten is kept, too"


def storage_sheet(system: StorageSystem, clients: int) -> StorageSheet:
    """The sheet of a system with a number of clients."""
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
    names = _name_rates(system, clients)
    shown = {"files created": "creations", "looked at": "stats", "removed": "removals"}
    figures["metadata, by the law"] = ", ".join(
        f"{what} {format_quantity(names[key], '/s', digits=3)}" for what, key in shown.items()
    )
    if system.kind == "wekafs":
        figures["snapshots"] = _SNAPSHOTS
    if system.tier:
        figures["tier behind it"] = f"{system.tier}: {_TIER}"
        figures["copied to the tier"] = _copy_text(system, clients)
    if system.range_requests:
        figures["requests"] = format_quantity(system.range_requests, "/s")
    return StorageSheet(
        name=system.name, kind=system.kind, clients=clients, figures=figures, values=_values(system) | names,
        notes=dict(system.notes), source=system.source, confirmed=system.confirmed,
    )  # fmt: skip


def _values(system: StorageSystem) -> dict[str, float]:
    """The numbers, SI; what is not known is left out."""
    server, client, stripe = system.server, system.client, system.stripe
    values: dict[str, float] = {
        "servers": system.servers, "server.ssds": server.ssds, "server.ports": server.ports, "server.port": server.port,
        "client.ports": client.ports, "client.port": client.port, "client.cores": client.cores,
        "read_latency": system.read_latency, "write_latency": system.write_latency, "capacity": system.capacity,
        "range_requests": system.range_requests,
    }  # fmt: skip
    for name, part, cores in (("server", server, 1), ("client", client, max(client.cores, 1))):
        for side, software in (("read", part.read), ("write", part.write)):
            if software is not None:
                values[f"{name}.{side}"] = cores * LARGE / software.seconds(LARGE)
        if part.read is not None and part.read.per_operation:
            values[f"{name}.iops"] = cores / part.read.seconds(SMALL)
    values = {key: float(value) for key, value in values.items() if value}
    if stripe is not None:
        values |= {"stripe.data": float(stripe.data), "stripe.parity": float(stripe.parity)}
        values |= {"stripe.spares": float(stripe.spares), "survives": float(stripe.survives)}
        values["net_capacity"] = net_capacity(system)
    return values


def _name_rates(system: StorageSystem, clients: int) -> dict[str, float]:
    """1/s, most operations on names that the system does for its clients."""
    rows = {row.operation: row.rate for row in mdtest_rows(system, clients, 4096 * clients)}
    return {
        "creations": rows["File creation"],
        "stats": rows["File stat"],
        "removals": rows["File removal"],
    }


def _copy_text(system: StorageSystem, clients: int) -> str:
    """How fast, and how long for half its net space: a snapshot of all data, or what leaves flash."""
    tier, _ = load_storage(system.tier)
    links = storage_links(system, clients)
    links |= {f"tier {name}": link for name, link in storage_links(tier, clients).items()}
    use = access(system, links, float(LARGE))
    far = access(tier, storage_links(tier, clients), float(LARGE), write=True)
    use |= {f"tier {name}": value for name, value in far.items() if not name.startswith("client")}
    rate = share(links, [Stream(name="copy", use=use, copies=clients)])[0].rate * clients
    hours = net_capacity(system) / 2 / rate / 3600
    return f"at {format_quantity(rate, 'B/s')}, half its space in {hours:,.0f} h, as a snapshot of all data would"


def _software(whose: str, read: Software | None, write: Software | None) -> dict[str, str]:
    """What software does at 1 MiB and at 4 KiB, as text."""
    texts = {}
    for what, software in (("reads", read), ("writes", write if write != read else None)):
        if software is not None:
            text = format_quantity(LARGE / software.seconds(LARGE), "B/s")
            if software.per_operation:
                text += f", {format_quantity(1.0 / software.seconds(SMALL), 'IOPS')} of 4 KiB"
            texts[f"{whose} {what}"] = text
    return texts
