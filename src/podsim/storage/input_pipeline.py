"""The input pipeline as one stream of samples through the links of nodes and storage.

A sample uses bytes of ports, servers and drives, and seconds of processor cores, of a waiting reader, and of an
accelerator. Each is a link. The stage runs at the max-min rate (podsim.storage.storage_links.share), and the full link
is its limit. Prefetching overlaps the stages of different samples, so rates count, not sums; only readers x latency
shows the waiting. Data beyond the room of the storage stay on the object store (the least used leave
first) and return each epoch.

Epochs differ by the content of the caches (podsim.storage.cache); the stages are those of podsim.storage.stages.

Source: counting. Known error: MLPerf Storage v1.0, in podsim.storage.mlperf_storage. Stops being true: readers that
hold a lock (Python), network traffic of the training itself on the storage ports, and batches whose slowest sample
counts (UNet3D's sizes vary by half).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.answers.storage import EpochRow
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Link
from podsim.storage.cache import Cache, hits
from podsim.storage.fio import idle_latency
from podsim.storage.speed import Step
from podsim.storage.storage_links import Flow, Links, Stream, access, link_of, share, storage_links
from podsim.storage.storage_parts import StorageSystem
from podsim.storage.stripe import net_capacity, read_work
from podsim.storage.workloads import Workload

_EPOCHS = 100
"""epochs that are looked at"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that an epoch depends on."""

    workload: Workload
    cluster: Cluster
    """The nodes that train."""
    accelerators: int
    """The number of accelerators of one node."""
    step: Step
    system: StorageSystem
    tier: StorageSystem | None
    """The object store behind it."""
    cache: Cache
    shuffle: str
    decode: str
    """The decoder: gpu or cpu."""
    readers: int
    """The number of reading threads of one accelerator."""
    samples: int
    """The number of samples of the training data; 0: the workload's own."""
    cold: float = 0.0
    """share. The share of the data that is on the object store only when training starts."""
    lost: int = 0
    """The number of servers that have failed, with nothing rebuilt."""

    @property
    def overflow(self) -> float:
        """Share of the data that the storage has no room for, and reads from the object store each epoch."""
        room = net_capacity(self.system)
        data = data_bytes(self) / (self.nodes if self.system.local and self.shuffle == "shard" else 1)
        return max(0.0, 1.0 - room / data) if room else 0.0

    @property
    def nodes(self) -> int:
        """Nodes that train."""
        return self.cluster.nodes


def samples_of(setting: Setting) -> int:
    """Samples of the training data; by default MLPerf Storage's rule: 500 steps, and five times the hosts' memory."""
    if setting.samples or setting.workload.samples:
        return setting.samples or setting.workload.samples
    steps = 500 * setting.step.batch * setting.accelerators * setting.nodes
    return max(steps, round(5 * setting.cluster.system.memory * setting.nodes / setting.workload.record))


def data_bytes(setting: Setting) -> float:
    """B of the training data."""
    return samples_of(setting) * setting.workload.record


def links_of(setting: Setting) -> dict[str, Link]:
    """All links, summed over nodes."""
    nodes, kept = setting.nodes, setting.cache
    own = {"accelerators": setting.accelerators, "readers": setting.readers * setting.accelerators}
    own |= {"processor": setting.cluster.system.cores} if setting.cluster.system.cores else {}
    speeds = {"cache read": kept.read, "cache write": kept.write} if kept.size else {}
    links = {name: link_of(name, value * nodes) for name, value in (own | speeds).items()}
    links |= storage_links(setting.system, nodes, alive=setting.system.servers - setting.lost)
    if setting.tier is not None:
        far = storage_links(setting.tier, nodes)
        links |= {f"tier {name}": link for name, link in far.items() if not name.startswith("client")}
    return links


def bytes_use(
    setting: Setting, links: Links, bytes_: float, *, write: bool = False, tier: bool = False
) -> dict[str, float]:
    """What `bytes_` of a sample take of the storage, or of the object store behind it."""
    system = setting.tier if tier else setting.system
    if bytes_ == 0.0 or system is None:
        return {}
    own, factor = links, read_work(system.stripe, system.servers, setting.lost)
    if tier:
        own, factor = _tier_links(links), 1.0
    uses = access(system, own, setting.workload.read_block, write=write, read_factor=factor)
    return {f"tier {name}" if tier else name: use * bytes_ for name, use in uses.items()}


def _tier_links(links: Links) -> dict[str, Link]:
    return {name.removeprefix("tier "): link for name, link in links.items() if name.startswith("tier ")}


def sum_uses(*parts: dict[str, float]) -> dict[str, float]:
    """What several parts take of each link, added up."""
    uses: dict[str, float] = {}
    for part in parts:
        for name, use in part.items():
            uses[name] = uses.get(name, 0.0) + use
    return uses


def train_use(setting: Setting, links: Links, hit: float, cold: float = 0.0) -> dict[str, float]:
    """What a training sample takes of each link: a share `hit` is cached, `cold` comes from the object store."""
    work, record = setting.workload, setting.workload.record
    missed = (1.0 - hit) * record
    waiting = (1.0 - hit) * idle_latency(setting.system, record, write=False)
    own: dict[str, float] = {"accelerators": setting.step.each}
    own["processor"] = work.core_seconds(setting.decode)
    if setting.cache.size:
        own |= {"cache read": hit * record, "cache write": missed if hit < 1.0 else 0.0}
    cold *= 1.0 - hit
    if cold and setting.tier is not None:
        waiting += cold * idle_latency(setting.tier, record, write=False)
    own["readers"] = waiting
    far = sum_uses(
        bytes_use(setting, links, cold * record, tier=True),
        bytes_use(setting, links, cold * record, write=True),
    )
    both = sum_uses(own, bytes_use(setting, links, missed), far)
    return {name: use for name, use in both.items() if name in links and use > 0.0}


def cold_share(setting: Setting, epoch: int) -> float:
    """Share of the data that an epoch finds on the object store only: of the first also what was never brought in."""
    return max(setting.overflow, setting.cold if epoch == 0 else 0.0)


def epoch_flow(setting: Setting, epoch: int) -> tuple[Flow, float]:
    """(flow of one node in an epoch from 0 on, share of the bytes that its cache gives)."""
    links = links_of(setting)
    hit = hits(setting.cache, data_bytes(setting), setting.nodes, epoch, setting.shuffle)
    use = train_use(setting, links, hit, cold_share(setting, epoch))
    return share(links, [Stream(name="train", use=use, copies=setting.nodes)])[0], hit


def most_accelerators(setting: Setting, utilisation: float) -> int:
    """The number of accelerators of a node that the links can feed at a `utilisation`, a share of time; 0 for none.

    The accelerators themselves, and readers, which come with them, are no limit here.
    """
    links, step = links_of(setting), setting.step
    if step.compute < utilisation * step.seconds:
        return 0
    use = train_use(setting, links, 0.0, cold_share(setting, 0))
    fed = {name: value for name, value in use.items() if name not in ("accelerators", "readers")}
    rate = share(links, [Stream(name="train", use=fed, copies=setting.nodes)])[0].rate
    return int(rate * step.compute / step.batch / utilisation * (1 + 1e-12))


def epoch_rows(setting: Setting) -> tuple[EpochRow, ...]:
    """The epochs, with equal ones in one row; the last row continues to the end of training."""
    rows: list[EpochRow] = []
    samples, record = samples_of(setting), setting.workload.record
    for epoch in range(_EPOCHS):
        flow, hit = epoch_flow(setting, epoch)
        rate = flow.rate * setting.nodes
        row = EpochRow(first=epoch, last=epoch, hits=hit, rate=rate, seconds=samples / rate,
                       read=(1.0 - hit) * rate * record, limit=flow.limit)  # fmt: skip
        before = rows[-1] if rows else None
        alike = before is not None and before.first > 0 and abs(row.hits - before.hits) < 0.005
        if (
            before is not None
            and alike
            and row.limit == before.limit
            and abs(row.rate / before.rate - 1.0) < 1e-3
        ):
            rows[-1] = replace(before, last=epoch)
        else:
            rows.append(row)
    return tuple(rows)
