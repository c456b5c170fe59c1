"""The lab's loader and its checkpoints on a storage system: podsim.storage.input_pipeline's law, for processes.

A sample uses bytes of the store or of the cache, the time of a worker that waits and computes, a core of the processor,
and a part of a step. All flow at once, so rates count. One worker reads the first batch while all others wait for it:

    seconds = samples / rate + batch x (latency + processor seconds of a sample)
    rate    = max-min share of every link; workers / (latency + processor seconds) is one of them

A checkpoint's parts flow through the links that all ranks share:

    written   bytes / rate + latency + processor seconds of a rank     the copy to the page cache, then the flush
    read      max(bytes / rate, processor seconds of a rank) + latency     the kernel reads ahead while a rank copies

Processor seconds come from the measured run: the law predicts the storage's share of the time.

Source: counting. Known error: `podsim compare` prints it, run by run. Stops being true: checkpoints beyond a tenth of
memory, which the kernel flushes while a rank still copies (written is then too slow), drives that slow down when their
cache is full, and a store with other users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.hardware.parts import Link
from podsim.storage.fio import idle_latency
from podsim.storage.input_pipeline import sum_uses
from podsim.storage.storage_links import Stream, access, link_of, share, storage_links
from podsim.storage.storage_parts import StorageSystem


@dataclass(frozen=True, kw_only=True)
class Load:
    """An epoch as a loader reads it."""

    samples: int
    record: float
    """B. The mean size of a sample."""
    batch: int
    workers: int
    cores: int
    processor: float
    """s. The processor time of a worker for a sample."""
    compute: float
    """s. The time of all steps."""
    stored: float
    """share. The share of the bytes from the store; the rest comes from the cache."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Seconds, by kind, and what holds them back."""

    parts: Mapping[str, float]
    limit: str

    @property
    def seconds(self) -> float:
        """Of all kinds together."""
        return sum(self.parts.values())


def epoch_time(load: Load, system: StorageSystem, cache: StorageSystem | None) -> Timed:
    """Seconds of an epoch: compute, and the additions of reading, of waiting for answers, and of the processor."""
    links: dict[str, Link] = dict(storage_links(system, 1))
    if cache is not None:
        links |= {f"cache {name}": link for name, link in storage_links(cache, 1).items()}
    links |= {"workers": link_of("workers", load.workers), "processor": link_of("processor", load.cores)}
    links["accelerator"] = link_of("accelerator", 1.0)
    moved, waits = _bytes(load, system, cache)
    compute = {"accelerator": load.compute / load.samples}
    latency = {"workers": waits}
    work = {"workers": load.processor, "processor": load.processor}
    total, before, parts, limit = 0.0, load.compute, {"compute": load.compute}, "accelerator"
    uses = compute
    for kind, more in (("read", moved), ("wait", latency), ("processor", work)):
        uses = sum_uses(uses, more)
        total, limit = _seconds(links, uses, load.samples)
        parts[kind] = total - before if total > before * (1.0 + 1e-9) else 0.0
        before = max(total, before)
    parts["wait"] += load.batch * waits
    parts["processor"] += load.batch * load.processor
    return Timed(parts=parts, limit=limit)


def _seconds(links: Mapping[str, Link], uses: Mapping[str, float], samples: int) -> tuple[float, str]:
    taken = {name: use for name, use in uses.items() if use > 0.0}
    if not taken:
        return 0.0, ""
    flow = share(links, [Stream(name="load", use=taken)])[0]
    return samples / flow.rate, flow.limit


def _bytes(load: Load, system: StorageSystem, cache: StorageSystem | None) -> tuple[dict[str, float], float]:
    """(a sample's use of each link, s that a worker waits for it in addition to the links' own time)."""
    stored, kept = load.stored * load.record, (1.0 - load.stored) * load.record
    own = access(system, storage_links(system, 1), load.record)
    uses = {name: use * stored for name, use in own.items()}
    waits = load.stored * idle_latency(system, load.record, write=False)
    if cache is not None:
        links = storage_links(cache, 1)
        for bytes_, write in ((kept, False), (stored, True)):
            part = {
                f"cache {name}": use * bytes_
                for name, use in access(cache, links, load.record, write=write).items()
            }
            uses = sum_uses(uses, part)
        waits += (1.0 - load.stored) * idle_latency(cache, load.record, write=False)
    return {name: use for name, use in uses.items() if use > 0.0}, waits


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Bytes that all ranks write and flush, or read."""

    size: float
    """B. The size of all ranks together."""
    ranks: int
    clients: int
    cores: int
    """The number of cores of one client."""
    block: float
    """B. The bytes that a rank requests at once."""
    processor: float
    """s. The processor time of all ranks."""
    is_write: bool
    has_waiting_blocks: bool
    """Whether a block is asked for when the one before has come, as of an object store; else the file system gathers
    them."""


def transfer_time(system: StorageSystem, transfer: Transfer) -> Timed:
    """Seconds until every rank's part is written and flushed, or read."""
    size, clients, block, write = transfer.size, transfer.clients, transfer.block, transfer.is_write
    links = storage_links(system, clients)
    use = access(system, links, block, write=write)
    flow = share(links, [Stream(name="checkpoint", use=use)])[0]
    moving, latency = size / flow.rate, system.write_latency if write else system.read_latency
    part = size / transfer.ranks
    waiting = latency * max(part / block, 1.0) if transfer.has_waiting_blocks else latency
    computing = transfer.processor / min(transfer.ranks, transfer.cores * clients)
    kind = "write" if write else "read"
    added = computing if write else max(computing - moving, 0.0)
    return Timed(parts={kind: moving, "wait": waiting, "processor": added}, limit=flow.limit)
