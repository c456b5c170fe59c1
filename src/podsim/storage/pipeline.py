"""The input pipeline as one stream of samples through the links of nodes and storage.

A sample takes bytes of ports, servers and drives, seconds of processor cores, of a reader that waits for it, and of an
accelerator. Each is a link; the stage runs at the max-min rate (podsim.storage.links.share), and the link that is full
says what limits it. Prefetching makes the stages of one sample overlap with those of others, so rates, not sums, count;
readers x latency is the one place where waiting shows. Data beyond the room of the storage stay on the object store (the
least used leave first) and come back each epoch.

Six stages, each alone: ingest (raw samples written), transform (read, packed, written), train (the first epoch),
validate, inference, tiering (records copied to the object store). Epochs differ by what the caches
hold (podsim.storage.cache).

Source: the stages are those of the reference architecture; the law is counting. Known error: MLPerf Storage v1.0, in
podsim.storage.mlperf. Stops being true: readers that hold a lock (Python), network traffic of the training itself on the
storage ports, batches whose slowest sample counts (UNet3D's sizes vary by half).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.errors import StorageError
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Link
from podsim.storage.cache import Cache, hits
from podsim.storage.fio import idle_latency
from podsim.storage.links import Flow, Links, Stream, access, link_of, share, storage_links
from podsim.storage.parts import StorageSystem
from podsim.storage.speed import Step, evaluation_share
from podsim.storage.stripe import net_capacity
from podsim.storage.workloads import Workload
from podsim.storage_results import EpochRow, ShrinkRow, StageRow

__all__ = ["Setting", "data_bytes", "epoch_flow", "epoch_rows", "samples_of", "shrink_rows", "stage_rows"]

_EPOCHS = 100
"""epochs that are looked at"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that an epoch depends on."""

    workload: Workload
    cluster: Cluster
    """the nodes that train"""
    accelerators: int
    """of one node"""
    step: Step
    system: StorageSystem
    tier: StorageSystem | None
    """the object store behind it"""
    cache: Cache
    shuffle: str
    decode: str
    """gpu or cpu"""
    readers: int
    """reading threads of one accelerator"""
    samples: int
    """of the training data; 0: the workload's own"""
    cold: float = 0.0
    """share of the data that lies on the object store only when training starts"""

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


def _cores(setting: Setting) -> int:
    system = setting.cluster.system
    return system.cpu.cores * system.cpus if system.cpu else 0


def links_of(setting: Setting) -> dict[str, Link]:
    """All links, nodes together."""
    nodes, kept = setting.nodes, setting.cache
    own = {"accelerators": setting.accelerators, "readers": setting.readers * setting.accelerators}
    own |= {"processor": _cores(setting)} if _cores(setting) else {}
    speeds = {"cache read": kept.read, "cache write": kept.write} if kept.size else {}
    links = {name: link_of(name, value * nodes) for name, value in (own | speeds).items()}
    links |= storage_links(setting.system, nodes)
    if setting.tier is not None:
        far = storage_links(setting.tier, nodes)
        links |= {f"tier {name}": link for name, link in far.items() if not name.startswith("client")}
    return links


def _bytes_use(
    setting: Setting, links: Links, bytes_: float, *, write: bool = False, tier: bool = False
) -> dict[str, float]:
    """What `bytes_` of a sample take of the storage, or of the object store behind it."""
    system = setting.tier if tier else setting.system
    if bytes_ == 0.0 or system is None:
        return {}
    found = access(system, _untiered(links) if tier else links, setting.workload.read_block, write=write)
    return {f"tier {name}" if tier else name: use * bytes_ for name, use in found.items()}


def _untiered(links: Links) -> dict[str, Link]:
    return {name.removeprefix("tier "): link for name, link in links.items() if name.startswith("tier ")}


def _together(*parts: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        for name, use in part.items():
            found[name] = found.get(name, 0.0) + use
    return found


def train_use(setting: Setting, links: Links, hit: float, cold: float = 0.0) -> dict[str, float]:
    """What a training sample takes of each link: a share `hit` is cached, `cold` comes from the object store."""
    work, record = setting.workload, setting.workload.record
    missed = (1.0 - hit) * record
    waiting = (1.0 - hit) * idle_latency(setting.system, record, write=False)
    own: dict[str, float] = {"accelerators": setting.step.each}
    cpu = work.cpu if setting.decode == "cpu" else work.cpu_gpu_decode
    own["processor"] = cpu
    if setting.cache.size:
        own |= {"cache read": hit * record, "cache write": missed if hit < 1.0 else 0.0}
    cold *= 1.0 - hit
    if cold and setting.tier is not None:
        waiting += cold * idle_latency(setting.tier, record, write=False)
    own["readers"] = waiting
    far = _together(
        _bytes_use(setting, links, cold * record, tier=True),
        _bytes_use(setting, links, cold * record, write=True),
    )
    both = _together(own, _bytes_use(setting, links, missed), far)
    return {name: use for name, use in both.items() if name in links and use > 0.0}


def _cold(setting: Setting, epoch: int) -> float:
    """Share of the data that an epoch finds on the object store only: of the first also what was never brought in."""
    return max(setting.overflow, setting.cold if epoch == 0 else 0.0)


def epoch_flow(setting: Setting, epoch: int) -> tuple[Flow, float]:
    """(flow of one node in an epoch from 0 on, share of the bytes that its cache gives)."""
    links = links_of(setting)
    hit = hits(setting.cache, data_bytes(setting), setting.nodes, epoch, setting.shuffle)
    use = train_use(setting, links, hit, _cold(setting, epoch))
    return share(links, [Stream(name="train", use=use, copies=setting.nodes)])[0], hit


def epoch_rows(setting: Setting) -> tuple[EpochRow, ...]:
    """The epochs, those that run alike together: the last row goes on for as long as training does."""
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


def stage_rows(setting: Setting) -> tuple[StageRow, ...]:
    """Each stage alone, at the rate of the whole cluster."""
    work, links = setting.workload, links_of(setting)
    samples, held = samples_of(setting), max(work.validation, 0)
    cpu = work.cpu if setting.decode == "cpu" else work.cpu_gpu_decode
    read = _bytes_use(setting, links, work.record)
    waited = read | {"readers": idle_latency(setting.system, work.record, write=False)}
    found = [
        _stage(setting, links, "ingest", samples, work.raw, 0.0, _bytes_use(setting, links, work.raw, write=True)),
        _stage(
            setting, links, "transform", samples, work.raw + work.record, work.transform_cpu,
            _together(_bytes_use(setting, links, work.raw), _bytes_use(setting, links, work.record, write=True)),
        ),
        _stage(setting, links, "train", samples, work.record, cpu, train_use(setting, links, 0.0, _cold(setting, 0))),
    ]  # fmt: skip
    if work.transform_cpu == 0.0:
        del found[1]  # records are read as they arrive
    if held:
        each = setting.step.each * evaluation_share(work)
        found.append(
            _stage(setting, links, "validate", held, work.record, cpu, read | {"accelerators": each})
        )
    if work.inference:
        use = waited | {"accelerators": 1.0 / work.inference}
        found.append(_stage(setting, links, "inference", samples, work.record, cpu, use))
    if setting.tier is not None:
        use = _together(read, _bytes_use(setting, links, work.record, write=True, tier=True))
        found.append(_stage(setting, links, "tiering", samples, work.record, 0.0, use))
    return tuple(found)


def _stage(
    setting: Setting, links: Links, name: str, samples: float, bytes_: float, cpu: float,
    use: dict[str, float],
) -> StageRow:  # fmt: skip
    whole = use | ({"processor": cpu} if cpu and "processor" in links else {})
    if not whole:
        raise StorageError(f"{name}: nothing is known of {setting.system.name} that would limit it")
    flow = share(links, [Stream(name=name, use=whole, copies=setting.nodes)])[0]
    rate = flow.rate * setting.nodes
    return StageRow(
        stage=name, samples=float(samples), bytes_per_sample=bytes_, cpu=cpu, rate=rate, seconds=samples / rate,
        limit=flow.limit,
    )  # fmt: skip


def shrink_rows(setting: Setting) -> tuple[ShrinkRow, ...]:
    """How far each resource may shrink, alone, before the first epoch is slower than the accelerators would be."""
    links = links_of(setting)
    use = train_use(setting, links, 0.0, _cold(setting, 0))
    wanted = setting.accelerators * setting.nodes / setting.step.each
    load = {name: value * wanted / links[name].bandwidth for name, value in use.items()}
    system, client = setting.system, setting.system.client
    server = [
        load[name] for name in ("servers", "server ports out", "drives read", "drive reads") if name in load
    ]
    rows = []
    if server and not system.local:
        rows.append(_shrink("storage servers", system.servers, "count", max(server)))
    if system.server.ports and "server ports out" in load:
        rows.append(
            _shrink(
                "ports of a server", system.server.ports * system.server.port, "B/s", load["server ports out"]
            )
        )
    if client.ports:
        rows.append(
            _shrink("storage ports of a node", client.ports * client.port, "B/s", load["client ports in"])
        )
    if "client cores" in load and client.cores:
        rows.append(_shrink("client cores of a node", client.cores, "cores", load["client cores"]))
    if "drives read" in load:
        drives = system.server.ssds * (setting.nodes if system.local else system.servers)
        rows.append(_shrink("drives", drives, "count", load["drives read"]))
    if "processor" in load:
        rows.append(_shrink("processor cores of a node", _cores(setting), "cores", load["processor"]))
    rows.append(_shrink("readers of an accelerator", setting.readers, "count", load["readers"]))
    if setting.cache.size:
        fed = all(value <= 1.0 for name, value in load.items() if name != "accelerators")
        needs = 0.0 if fed else min(data_bytes(setting), setting.cache.size)
        rows.append(ShrinkRow(resource="cache of a node", has=setting.cache.size, needs=needs, unit="B",
                              load=min(data_bytes(setting) / setting.cache.size, 1.0)))  # fmt: skip
    return tuple(rows)


def _shrink(resource: str, has: float, unit: str, load: float) -> ShrinkRow:
    return ShrinkRow(resource=resource, has=float(has), needs=has * load, unit=unit, load=load)
