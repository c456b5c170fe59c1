"""What `podsim storage` answers, as plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class StorageSheet(Answer, view=View(report="report.storage_tables:sheets_report")):
    """What a storage system is: one line a figure."""

    name: str
    kind: str
    """The kind: wekafs, lustre, beegfs, nfs, object, local."""
    clients: int
    figures: Mapping[str, str]
    """The figures as text with a unit, by name."""
    values: Mapping[str, float]
    """SI. The numbers among them: by the key that changes them, and net_capacity, survives, creations, stats, removals.
    """
    notes: Mapping[str, str]
    """The remarks, by the figure's key."""
    source: str
    confirmed: str
    """Whether its figures were read in a source: yes, partial or no."""


@dataclass(frozen=True, kw_only=True)
class PublishedPoint:
    """A rate that somebody published for a storage system and a number of clients."""

    clients: int
    bandwidth: float
    """B/s. The bandwidth; 0 if only operations were published."""
    iops: float
    """1/s. The rate of operations; 0 if only a bandwidth was published."""
    what: str
    """The origin: measured, or derived from a statement."""
    source: str


@dataclass(frozen=True, kw_only=True)
class FioRow:
    """The result of fio for a number of simultaneous clients, over all of them."""

    clients: int
    bandwidth: float
    """B/s. The bandwidth of reads and writes together."""
    iops: float
    """1/s. The rate of reads and writes together."""
    latency: float
    """s. The mean latency of one access, from submission to completion."""
    alone: float
    """s. The latency of one access on an idle system."""
    limit: str
    """The link that is full."""
    most: float
    """B/s. The limit of ports and drives, without that of the servers' software."""
    published: float | None = None
    """SI. The published figure, in B/s, or in 1/s for accesses below 64 KiB."""
    error: float | None = None
    """share. The prediction over the published figure, minus one."""


@dataclass(frozen=True, kw_only=True)
class FioMeasured:
    """What a fio run measured, all its jobs and clients together."""

    name: str
    """The name of the file."""
    version: str
    rw: str
    """The pattern: read, write, randread, randwrite, rw, randrw."""
    block: float
    """B. The size of one access."""
    numjobs: int
    iodepth: int
    clients: int
    read_bandwidth: float
    """B/s. The bandwidth of reads."""
    read_iops: float
    """1/s. The rate of reads."""
    read_latency: float
    """s. The mean latency of a read."""
    write_bandwidth: float
    """B/s. The bandwidth of writes."""
    write_iops: float
    """1/s. The rate of writes."""
    write_latency: float
    """s. The mean latency of a write."""
    seconds: float
    """s. The time of the longest job."""
    direct: bool = True
    """Whether it bypassed the page cache (direct=1)."""


@dataclass(frozen=True, kw_only=True)
class FioRun(
    Answer,
    view=View(
        report="report.storage_tables:fio_report",
        rows="rows",
        figure="report.plot_storage:fio_figure",
        chart="Scaling over clients",
    ),
):
    """A prediction of fio on a storage system, for one client and more."""

    system: str
    rw: str
    """The pattern: read, write, randread, randwrite, rw, randrw."""
    block: float
    """B. The size of one access."""
    numjobs: int
    """The number of jobs of one client."""
    iodepth: int
    read_share: float
    """share. The share of the accesses that read."""
    seconds: float
    """s. The duration of the job."""
    rows: tuple[FioRow, ...]
    notes: tuple[str, ...]
    published: tuple[PublishedPoint, ...] = ()
    measured: FioMeasured | None = None
    """The real run that is compared."""


@dataclass(frozen=True, kw_only=True)
class MdtestRow:
    """One operation of mdtest."""

    operation: str
    """The operation, as mdtest names it."""
    rate: float
    """1/s. The rate of all tasks together."""
    limit: str
    """The link that is full."""


@dataclass(frozen=True, kw_only=True)
class MdtestRun(Answer, view=View(report="report.storage_tables:mdtest_report", rows="rows")):
    """mdtest predicted on a storage system."""

    system: str
    clients: int
    tasks: int
    """The number of tasks of all clients."""
    files: int
    """The number of files of all tasks."""
    bytes_per_file: float
    """B. The size of each file."""
    rows: tuple[MdtestRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage of the pipeline, alone."""

    stage: str
    """The stage: ingest, transform, train, validate, inference, tiering."""
    samples: float
    """factor. The number of samples of one pass."""
    bytes_per_sample: float
    """B. The bytes of a sample read from or written to the storage."""
    cpu: float
    """s. The processor-core time of a sample."""
    rate: float
    """1/s. The rate of samples of the whole cluster."""
    seconds: float
    """s. The time of one pass."""
    limit: str
    """The link that is full."""
    together: float
    """1/s. The rate of samples when all stages run at once."""


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """Epochs that run alike."""

    first: int
    last: int
    hits: float
    """share. The share of the bytes that come from the cache."""
    rate: float
    """1/s. The rate of samples of the whole cluster."""
    seconds: float
    """s. The time of one epoch."""
    read: float
    """B/s. The bandwidth from the storage."""
    limit: str
    """The link that is full."""


@dataclass(frozen=True, kw_only=True)
class ShrinkRow:
    """How far one resource may shrink before the first epoch is slower than the accelerators."""

    resource: str
    has: float
    """SI. The present value, in its own unit."""
    needs: float
    """SI. The least value that does not slow the first epoch."""
    unit: str
    """The unit of both: B, B/s, count, cores."""
    load: float
    """share. The share of it in use in the first epoch."""


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """Seconds from start to target of a workload with known epochs."""

    seconds: float
    """s. The time from start to target."""
    epochs: float
    """factor. The number of epochs to the target."""
    epoch_seconds: float
    """s. The time of a later epoch."""
    evaluation: float
    """s. The time of all evaluations."""
    start: float
    """s. The time of a run outside its epochs and evaluations."""
    batch: int
    """The number of samples of a step, over all accelerators."""
    published: float | None = None
    """s. The published time."""
    error: float | None = None
    """share. The prediction over the published time, minus one."""
    source: str = ""
    """The source of the published time."""


@dataclass(frozen=True, kw_only=True)
class InputRun(Answer, view=View(report="report.storage_tables:input_report", rows="stages")):
    """The input pipeline of a workload on nodes and a storage system."""

    workload: str
    title: str
    system: str
    clients: int
    """The number of nodes."""
    accelerators: int
    """The number of accelerators of all nodes."""
    accelerator: str
    batch: int
    """The number of samples of one accelerator's step."""
    utilisation: float
    """share. The share of the time in which accelerators compute, in later epochs."""
    demand: float
    """B/s. The bandwidth that all accelerators need, without any other limit."""
    shuffle: str
    """The shuffle: global or shard."""
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
    """SI. The amount."""
    unit: str
    """The unit: B/s or B."""
    why: str


@dataclass(frozen=True, kw_only=True)
class SizeRun(Answer, view=View(report="report.storage_tables:size_report", rows="needs")):
    """How much storage a cluster needs for a job."""

    workload: str
    cluster: str
    nodes: int
    accelerators: int
    needs: tuple[Need, ...]
    read: float
    """B/s. The bandwidth that the job must be able to read."""
    write: float
    """B/s. The bandwidth that the job must be able to write."""
    capacity: float
    """B. The room for data and checkpoints."""
    tier: str
    """The lowest row of the guidance that covers it: good, better or best; "beyond" above all."""
    guidance: Mapping[str, tuple[float, float]]
    """B/s. The guidance for this many nodes, as (read, written) by good, better and best."""
    systems: Mapping[str, int]
    """The number of servers that would suffice, by storage system."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FailRow:
    """A storage system with a number of lost servers."""

    failed: int
    reads: bool
    """Whether everything can still be read."""
    read: float
    """B/s. The bandwidth that all clients read, if each block of a lost server is read as the rest of its stripe."""
    read_best: float
    """B/s. The same if the rest of the stripe is needed anyway, as in long sequential reads."""
    write: float
    """B/s. The bandwidth that all clients write."""
    iops: float
    """1/s. The rate of 4 KiB reads, over all clients."""
    limit: str
    """The link that is full when reading."""
    lost: float
    """share. The share of the stripes that are lost."""
    exposed: float
    """share. The share of the stripes that would not survive another failure."""
    exposed_seconds: float
    """s. The time until those stripes are rebuilt, when they come first."""
    rebuild_seconds: float
    """s. The time until everything is rebuilt; 0 if that is impossible or unnecessary."""
    verdict: str


@dataclass(frozen=True, kw_only=True)
class FailRun(Answer, view=View(report="report.storage_tables:fail_report", rows="rows")):
    """Lost servers of a storage system, from none to the requested number."""

    system: str
    clients: int
    stripe: str
    """The stripe, as data + parity."""
    net: float
    """B. The net capacity."""
    fill: float
    """share. The share of the space in use."""
    rows: tuple[FailRow, ...]
    notes: tuple[str, ...]
