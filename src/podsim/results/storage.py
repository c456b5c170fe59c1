"""What `podsim storage` answers, as plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StorageSheet:
    """What a storage system is: one line a figure."""

    name: str
    kind: str
    """wekafs, lustre, beegfs, nfs, object, local"""
    clients: int
    figures: Mapping[str, str]
    """what is said -> its value as text with a unit"""
    values: Mapping[str, float]
    """the numbers among them, SI: by the key that changes them, and net_capacity, survives, creations, stats, removals"""
    notes: Mapping[str, str]
    """what a reader should know of a figure, by the figure's key"""
    source: str
    confirmed: str
    """yes, partial or no: whether its figures were read in a source"""


@dataclass(frozen=True, kw_only=True)
class PublishedPoint:
    """A rate that somebody published for a storage system and a number of clients."""

    clients: int
    bandwidth: float
    """B/s, 0 where only operations were published"""
    iops: float
    """1/s, 0 where only a bandwidth was published"""
    what: str
    """measured, or derived from what was said"""
    source: str


@dataclass(frozen=True, kw_only=True)
class FioRow:
    """What fio would find with so many clients at once, all of them together."""

    clients: int
    bandwidth: float
    """B/s, reads and writes together"""
    iops: float
    """1/s, reads and writes together"""
    latency: float
    """s of one access, mean, from submission to completion"""
    alone: float
    """s of one access on an idle system"""
    limit: str
    """the link that is full"""
    most: float
    """B/s that ports and drives would allow, were the servers' software no limit"""
    published: float | None = None
    """B/s, or 1/s for accesses below 64 KiB, that was published for it"""
    error: float | None = None
    """predicted over published, less one"""


@dataclass(frozen=True, kw_only=True)
class FioMeasured:
    """What a fio run measured, all its jobs and clients together."""

    name: str
    """of the file"""
    version: str
    rw: str
    """read, write, randread, randwrite, rw, randrw"""
    block: float
    """B"""
    numjobs: int
    iodepth: int
    clients: int
    read_bandwidth: float
    """B/s"""
    read_iops: float
    """1/s"""
    read_latency: float
    """s, mean"""
    write_bandwidth: float
    """B/s"""
    write_iops: float
    """1/s"""
    write_latency: float
    """s, mean"""
    seconds: float
    """s of the longest job"""
    direct: bool = True
    """whether it went past the page cache (direct=1)"""


@dataclass(frozen=True, kw_only=True)
class FioRun:
    """fio predicted on a storage system for one to so many clients."""

    system: str
    rw: str
    """read, write, randread, randwrite, rw, randrw"""
    block: float
    """B"""
    numjobs: int
    """of one client"""
    iodepth: int
    read_share: float
    """share of the accesses that read"""
    seconds: float
    """s that it would run"""
    rows: tuple[FioRow, ...]
    notes: tuple[str, ...]
    published: tuple[PublishedPoint, ...] = ()
    measured: FioMeasured | None = None
    """a real run laid beside it"""


@dataclass(frozen=True, kw_only=True)
class MdtestRow:
    """One operation of mdtest."""

    operation: str
    """as mdtest names it"""
    rate: float
    """1/s of all tasks together"""
    limit: str
    """the link that is full"""


@dataclass(frozen=True, kw_only=True)
class MdtestRun:
    """mdtest predicted on a storage system."""

    system: str
    clients: int
    tasks: int
    """of all clients"""
    files: int
    """of all tasks"""
    bytes_per_file: float
    """B"""
    rows: tuple[MdtestRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage of the pipeline, alone."""

    stage: str
    """ingest, transform, train, validate, inference, tiering"""
    samples: float
    """of one pass"""
    bytes_per_sample: float
    """B read from or written to the storage"""
    cpu: float
    """s of a processor core for a sample"""
    rate: float
    """1/s, samples, of the whole cluster"""
    seconds: float
    """s of one pass"""
    limit: str
    """the link that is full"""
    together: float
    """1/s, samples, when all stages run at once"""


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """Epochs that run alike."""

    first: int
    last: int
    hits: float
    """share of the bytes that come from the cache"""
    rate: float
    """1/s, samples, of the whole cluster"""
    seconds: float
    """s of one epoch"""
    read: float
    """B/s from the storage"""
    limit: str
    """the link that is full"""


@dataclass(frozen=True, kw_only=True)
class ShrinkRow:
    """How far one resource may shrink before the first epoch is slower than the accelerators."""

    resource: str
    has: float
    """as it is, in its own unit"""
    needs: float
    """the least of it that does not slow the first epoch"""
    unit: str
    """of both: B, B/s, count, cores"""
    load: float
    """share of it in use in the first epoch"""


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """Seconds from start to target of a workload with known epochs."""

    seconds: float
    """s"""
    epochs: float
    epoch_seconds: float
    """s of a later epoch"""
    evaluation: float
    """s of all evaluations"""
    start: float
    """s of start-up: what a run took beyond its epochs and evaluations"""
    batch: int
    """samples of a step, all accelerators together"""
    published: float | None = None
    """s that was published for it"""
    error: float | None = None
    """predicted over published, less one"""
    source: str = ""
    """of what was published"""


@dataclass(frozen=True, kw_only=True)
class InputRun:
    """The input pipeline of a workload on nodes and a storage system."""

    workload: str
    title: str
    system: str
    clients: int
    """nodes"""
    accelerators: int
    """of all nodes"""
    accelerator: str
    batch: int
    """samples of one accelerator's step"""
    utilisation: float
    """share of the time that accelerators compute, later epochs"""
    demand: float
    """B/s of all accelerators, were nothing else a limit"""
    shuffle: str
    """global or shard"""
    stages: tuple[StageRow, ...]
    epochs: tuple[EpochRow, ...]
    shrink: tuple[ShrinkRow, ...]
    notes: tuple[str, ...]
    training: TrainingTime | None = None


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a job asks of storage in one respect."""

    what: str
    value: float
    unit: str
    """B/s or B"""
    why: str


@dataclass(frozen=True, kw_only=True)
class SizeRun:
    """How much storage a cluster needs for a job."""

    workload: str
    cluster: str
    nodes: int
    accelerators: int
    needs: tuple[Need, ...]
    read: float
    """B/s that the job must be able to read"""
    write: float
    """B/s that the job must be able to write"""
    capacity: float
    """B"""
    tier: str
    """good, better or best: the least row of the guidance that covers it; "beyond" above all"""
    guidance: Mapping[str, tuple[float, float]]
    """good, better, best -> (B/s read, B/s written) for so many nodes"""
    systems: Mapping[str, int]
    """storage system -> servers of it that would do"""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FailRow:
    """A storage system with so many servers lost."""

    failed: int
    reads: bool
    """whether everything can still be read"""
    read: float
    """B/s that all clients read, each block of a lost server read as the rest of its stripe"""
    read_best: float
    """B/s if the rest of the stripe was wanted anyway, as by long sequential reads"""
    write: float
    """B/s that all clients write"""
    iops: float
    """1/s of 4 KiB reads, all clients"""
    limit: str
    """the link that is full when reading"""
    lost: float
    """share of the stripes that are lost"""
    exposed: float
    """share of the stripes that no further failure may touch"""
    exposed_seconds: float
    """s until those are made again, when they come first"""
    rebuild_seconds: float
    """s until all is made again; 0 where it cannot be or need not"""
    verdict: str


@dataclass(frozen=True, kw_only=True)
class FailRun:
    """Lost servers of a storage system, from none to as many as were asked for."""

    system: str
    clients: int
    stripe: str
    """data + parity"""
    net: float
    """B that can be stored"""
    fill: float
    """share of the space in use"""
    rows: tuple[FailRow, ...]
    notes: tuple[str, ...]
