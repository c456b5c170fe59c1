"""A storage system with lost servers: the rates of its clients, and the time in danger.

The remaining servers carry every stream, and reads of lost blocks read the rest of their stripe
(podsim.storage.stripe). A rebuild reads D blocks and writes one for each lost block, from and to all servers at once. It
starts with the stripes that no further failure may touch. Its time is that of the servers' software and drives without
other work. Source: the documentation's rules (any-to-any rebuild, most exposed first). Known error: none is measured.
Stops being true: a throttled rebuild, and clients that saturate the servers meanwhile.
"""

from __future__ import annotations

from podsim.answers.storage import FailRow
from podsim.storage.storage_links import Stream, access, share, storage_links
from podsim.storage.storage_parts import LARGE, SMALL, StorageSystem
from podsim.storage.stripe import Damage, damage, kept_bytes, read_work


def fail_row(system: StorageSystem, clients: int, failed: int, fill: float) -> FailRow:
    """The system with `failed` servers lost and nothing rebuilt yet. Raises StorageError as `damage` does."""
    hurt = damage(system, failed, fill=fill)
    alive = system.servers - failed
    if alive == 0:
        return _nothing(hurt)
    work = read_work(system.stripe, system.servers, failed)
    read, limit = _rate(system, clients, alive, LARGE, work)
    best, _ = _rate(system, clients, alive, LARGE, 1.0)
    small, _ = _rate(system, clients, alive, SMALL, work)
    written, _ = _rate(system, clients, alive, LARGE, 1.0, write=True)
    rebuild = _seconds(system, alive, hurt.moved)
    return FailRow(
        failed=failed, reads=hurt.lost == 0.0, read=read, read_best=best,
        write=written if _writes(system, alive) else 0.0,
        iops=small / SMALL, limit=limit, lost=hurt.lost, exposed=hurt.exposed,
        exposed_seconds=_seconds(system, alive, _exposed_bytes(system, hurt, fill)), rebuild_seconds=rebuild,
        verdict=_verdict(system, hurt, alive),
    )  # fmt: skip


def _nothing(hurt: Damage) -> FailRow:
    return FailRow(
        failed=hurt.failed, reads=False, read=0.0, read_best=0.0, write=0.0, iops=0.0, limit="", lost=1.0, exposed=0.0,
        exposed_seconds=0.0, rebuild_seconds=0.0, verdict="no server is left",
    )  # fmt: skip


def _rate(
    system: StorageSystem, clients: int, alive: int, block: float, work: float, *, write: bool = False
) -> tuple[float, str]:
    links = storage_links(system, clients, alive=alive)
    use = access(system, links, block, write=write, sequential=block >= LARGE, read_factor=work)
    flow = share(links, [Stream(name="all", use=use, copies=clients)])[0]
    return flow.rate * clients, flow.limit


def _writes(system: StorageSystem, alive: int) -> bool:
    """Whether a stripe still finds a server for each data block and at least one of parity."""
    return system.stripe is None or alive > system.stripe.data


def _exposed_bytes(system: StorageSystem, hurt: Damage, fill: float) -> float:
    """B that servers move until every stripe may lose one more server: one block of each exposed stripe."""
    stripe = system.stripe
    if stripe is None or not hurt.restores or not hurt.exposed:
        return 0.0
    return hurt.exposed * kept_bytes(system, fill) / stripe.width * (stripe.data + 1)


def _seconds(system: StorageSystem, alive: int, moved: float) -> float:
    """Seconds in which the remaining servers move a number of bytes, reads and writes alike."""
    if moved == 0.0:
        return 0.0
    server = system.server
    limits = [server.ports * server.port]
    if server.read is not None:
        limits.append(1.0 / server.read.seconds(LARGE) * LARGE)
    if server.ssd is not None:
        limits.append(server.ssds * min(server.ssd.read_bandwidth, server.ssd.write_bandwidth))
    return moved / (alive * min(limit for limit in limits if limit > 0))


def _verdict(system: StorageSystem, hurt: Damage, alive: int) -> str:
    stripe = system.stripe
    assert stripe is not None
    if not hurt.failed:
        return "whole"
    if hurt.lost:
        return f"data loss: {hurt.lost:.1%} of the stripes have lost more than {stripe.data}+{stripe.parity} can restore"
    if hurt.failed > stripe.survives:
        return "beyond what its protection promises, though every stripe can still be read"
    if not hurt.restores:
        return f"reads go on; {alive} servers are too few to rebuild stripes of {stripe.width} blocks: replace one"
    more = stripe.survives - hurt.failed
    return f"reads go on; {more if more else 'no'} further server may fail before the rebuild ends"
