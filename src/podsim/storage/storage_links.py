"""A storage system as links, and streams of bytes, operations and processor time through them.

Each limit is a link with a capacity: ports in B/s, software in cores (seconds of work per second), drives in B/s and in
operations per second. A stream uses an amount of each link per unit of its rate. Rates follow the max-min law of
podsim.network.flow. A stream's limit is the full link on its way.

Files are striped over all servers, so equal servers are one link with their total capacity. Equal clients are one stream
with copies. Unknown links are left out, so the answer covers the known parts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.errors import StorageError
from podsim.hardware.parts import Link
from podsim.storage.storage_parts import SMALL, Client, Software, StorageSystem
from podsim.storage.stripe import write_work

Links = Mapping[str, Link]
"""links by name; a link's bandwidth is in what it carries: B/s, operations a second, cores"""

FULL = 1.0 - 1e-9


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Something that flows: bytes, operations, samples."""

    name: str
    use: Mapping[str, float]
    """factor. The use of each link, by name, for a unit of the stream's rate."""
    copies: int = 1
    """The number of equal streams, one for each client."""
    weight: float = 1.0
    """factor. The weight against others on a full link."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What one of the copies of a stream gets."""

    rate: float
    """1/s. The rate in units."""
    limit: str
    """The full link that limits it; the first of them in its order."""
    loads: Mapping[str, float]
    """share. The share of each of its links in use, by all streams."""


def share(links: Links, streams: Sequence[Stream]) -> list[Flow]:
    """The flows of streams that share links, under the max-min law. A full link limits a stream.

    One stream alone gets its bottleneck, which is the same and needs no filling (a test holds the two together).
    Raises StorageError for a stream through a link of no capacity.
    """
    taken = [{name: use for name, use in stream.use.items() if use > 0.0} for stream in streams]
    if dead := sorted({name for use in taken for name in use if links[name].bandwidth <= 0.0}):
        raise StorageError(f"nothing goes through {', '.join(dead)}: it has no capacity")
    rates = [bottleneck(links, streams[0])] if len(streams) == 1 else _shared_rates(links, streams, taken)
    load = dict.fromkeys(links, 0.0)
    for stream, use, rate in zip(streams, taken, rates, strict=True):
        for name, value in use.items():
            load[name] += value * rate * stream.copies / links[name].bandwidth
    return [
        Flow(
            rate=rate,
            limit=next((name for name in use if load[name] >= FULL), ""),
            loads={name: load[name] for name in use},
        )
        for rate, use in zip(rates, taken, strict=True)
    ]


def bottleneck(links: Links, stream: Stream) -> float:
    """Rate of one copy of a stream that has the links to itself."""
    return min(links[name].bandwidth / (use * stream.copies) for name, use in stream.use.items() if use > 0.0)


def _shared_rates(
    links: Links, streams: Sequence[Stream], taken: Sequence[Mapping[str, float]]
) -> list[float]:
    """Rates of one copy of each stream, by podsim.network.flow."""
    import numpy as np

    from podsim.network.flow import max_min_rates

    position = {name: k for k, name in enumerate(links)}
    ends = np.cumsum([0, *(len(use) for use in taken)])
    entries = [position[name] for use in taken for name in use]
    rates = max_min_rates(
        (ends, entries),
        [link.bandwidth for link in links.values()],
        [stream.weight for stream in streams],
        copies=[stream.copies for stream in streams],
        use=[value for use in taken for value in use.values()],
    )
    return [float(rate) for rate in rates]


def storage_links(
    system: StorageSystem, clients: int, *, alive: int | None = None, parts_only: bool = False
) -> dict[str, Link]:
    """The links that `clients` nodes and the servers that are alive have together.

    `parts_only` leaves out what servers were shown to do, and so gives the most that ports and drives allow.
    """
    client, server = system.client, system.server
    n = clients if system.local else system.servers if alive is None else alive
    capacities = _client_links(client, clients)
    if server.ports:
        capacities["server ports in"] = capacities["server ports out"] = n * server.ports * server.port
    if server.read is not None and not parts_only:
        capacities["servers"] = float(n)
    if server.ssd is not None:
        capacities["drives read"] = n * server.ssds * server.ssd.read_bandwidth
        capacities["drives write"] = n * server.ssds * server.ssd.write_bandwidth
        for name, rate in (("drive reads", server.ssd.read_iops), ("drive writes", server.ssd.write_iops)):
            if rate is not None:
                capacities[name] = n * server.ssds * rate
    if system.range_requests:
        capacities["requests"] = system.range_requests
    return {name: link_of(name, capacity) for name, capacity in capacities.items()}


def link_of(name: str, capacity: float) -> Link:
    """A link by its name and what it carries in a second."""
    return Link(name=name, bandwidth=float(capacity))


def _client_links(client: Client, clients: int) -> dict[str, float]:
    capacities = {}
    if client.ports:
        capacities["client ports in"] = capacities["client ports out"] = clients * client.ports * client.port
    if client.read is not None:
        capacities["client cores"] = float(clients * max(client.cores, 1))
    return capacities


def access(
    system: StorageSystem,
    links: Links,
    block: float,
    *,
    write: bool = False,
    sequential: bool = True,
    read_factor: float = 1.0,
) -> dict[str, float]:
    """The use of each link by a byte of an access of `block` bytes, in the order from client to drive.

    `read_factor`: bytes read from servers for one asked for (podsim.storage.stripe.read_work). Sequential accesses are
    gathered before they reach the drives, random ones are operations of at least 4 KiB there.
    """
    client, server, stripe = system.client, system.server, system.stripe
    side = "out" if write else "in"
    uses: dict[str, float] = {f"client ports {side}": 1.0}
    software = client.write if write else client.read
    if software is not None:
        uses["client cores"] = software.seconds(block) / block
    bytes_, operations = write_work(stripe) if write else (read_factor, read_factor)
    own = server.write if write else None
    if own is None and server.read is not None:
        uses["servers"] = _worked(server.read, block, bytes_, operations)
    elif own is not None:
        uses["servers"] = own.seconds(block) / block
    uses |= _server_use(block, write, sequential, bytes_, stripe.width / stripe.data if stripe else 1.0)
    return {name: use for name, use in uses.items() if name in links}


def _worked(software: Software, block: float, bytes_: float, operations: float) -> float:
    """Seconds of a server for a byte."""
    return software.per_byte * bytes_ + software.per_operation * operations / block


def _server_use(
    block: float, write: bool, sequential: bool, bytes_: float, stored: float
) -> dict[str, float]:
    """What a byte takes of the ports and drives of the servers; `stored`: bytes kept for a byte written."""
    operations = 0.0 if sequential else 1.0 / max(min(block, float(1 << 17)), 1.0)
    if write:
        return {
            "server ports in": 1.0 + (bytes_ - 1.0) / 2.0,
            "server ports out": (bytes_ - 1.0) / 2.0,
            "drives write": stored,
            "drive writes": stored * operations,
            "requests": 1.0 / block,
        }
    return {
        "server ports out": bytes_,
        "server ports in": bytes_ - 1.0,
        "drives read": bytes_ * max(1.0, SMALL / block),
        "drive reads": bytes_ * operations,
        "requests": 1.0 / block,
    }
