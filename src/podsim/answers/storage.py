"""What `podsim storage` answers, as plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.units import format_quantity, short_seconds


@dataclass(frozen=True, kw_only=True)
class StorageSheet(Answer, view=View(report="report.storage_tables:sheets_report")):
    """What a storage system is: one line a figure."""

    name: str
    kind: str
    """The kind: wekafs, lustre, beegfs, nfs, object, local."""
    clients: int
    figures: Mapping[str, str] = shown(title="Parts and speeds")
    """The figures as text with a unit, by name."""
    values: Mapping[str, float] = shown(is_hidden=True)
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
    iops: float = shown("IOPS", lambda rate: format_quantity(rate, "").replace(" ", ""))
    """1/s. The rate of reads and writes together."""
    latency: float = shown(format=short_seconds)
    """s. The mean latency of one access, from submission to completion."""
    alone: float = shown(is_hidden=True)
    """s. The latency of one access on an idle system."""
    limit: str
    """The link that is full."""
    most: float = shown(is_hidden=True)
    """B/s. The limit of ports and drives, without that of the servers' software."""
    published: float | None = shown(
        default=None,
        of_row=lambda row: format_quantity(row.published, row.unit) if row.published else "-",
    )
    """SI. The published figure, in B/s, or in 1/s for accesses below 64 KiB."""
    error: float | None = shown("fit error", "report.columns:signed_percent", default=None)
    """share. The prediction over the published figure, minus one."""

    @property
    def unit(self) -> str:
        """The unit of the published figure: B/s for accesses of 64 KiB and more, else operations."""
        return "B/s" if self.bandwidth >= 65536 * self.iops else "IOPS"


@dataclass(frozen=True, kw_only=True)
class FioMeasured:
    """What a fio run measured, all its jobs and clients together."""

    name: str
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
        figure="report.plot_machine:fio_figure",
        chart="Scaling over clients",
    ),
):
    """A prediction of fio on a storage system, for one client and more."""

    system: str
    rw: str = shown("pattern")
    """The pattern: read, write, randread, randwrite, rw, randrw."""
    block: float = shown(format="report.columns:size_text")
    """B. The size of one access."""
    numjobs: int = shown("jobs")
    """The number of jobs of one client."""
    iodepth: int = shown("depth")
    read_share: float = shown("reads")
    """share. The share of the accesses that read."""
    seconds: float = shown("run time")
    """s. The duration of the job."""
    rows: tuple[FioRow, ...]
    notes: tuple[str, ...]
    published: tuple[PublishedPoint, ...] = shown(
        "published, and fitted to",
        default=(),
        of_row=lambda run: "; ".join(dict.fromkeys(point.source for point in run.published)),
    )
    measured: FioMeasured | None = shown(default=None, is_hidden=True)
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
class StageRow:
    """One stage of the pipeline, alone."""

    stage: str
    """The stage: ingest, transform, train, validate, inference, tiering."""
    samples: float = shown(is_hidden=True)
    """factor. The number of samples of one pass."""
    bytes_per_sample: float = shown(
        "bytes/s", of_row=lambda row: format_quantity(row.rate * row.bytes_per_sample, "B/s")
    )
    """B. The bytes of a sample read from or written to the storage."""
    cpu: float = shown("cores", of_row=lambda row: f"{row.rate * row.cpu:,.1f}")
    """s. The processor-core time of a sample."""
    rate: float = shown("samples/s", ":,.0f")
    """1/s. The rate of samples of the whole cluster."""
    seconds: float = shown("one pass", "report.storage_tables:run_time")
    """s. The time of one pass."""
    limit: str
    """The link that is full."""
    together: float = shown("all at once", ":,.0f")
    """1/s. The rate of samples when all stages run at once."""


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """Epochs that run alike."""

    first: int
    last: int
    hits: float = shown("from cache")
    """share. The share of the bytes that come from the cache."""
    rate: float = shown("samples/s", ":,.0f")
    """1/s. The rate of samples of the whole cluster."""
    seconds: float = shown("one epoch", "report.storage_tables:run_time")
    """s. The time of one epoch."""
    read: float = shown("storage reads")
    """B/s. The bandwidth from the storage."""
    limit: str
    """The link that is full."""


@dataclass(frozen=True, kw_only=True)
class ShrinkRow:
    """How far one resource may shrink before the first epoch is slower than the accelerators."""

    resource: str
    has: float = shown("there is", of_row=lambda row: row.amount(row.has))
    """SI. The present value, in its own unit."""
    needs: float = shown(
        "needed",
        of_row=lambda row: row.amount(row.needs) + (", short" if row.needs > row.has * (1 + 1e-9) else ""),
    )
    """SI. The least value that does not slow the first epoch."""
    unit: str = shown(is_hidden=True)
    """The unit of both: B, B/s, count, cores."""
    load: float = shown("in use", of_row=lambda row: "" if row.unit == "B" else f"{row.load * 100:.1f} %")
    """share. The share of it in use in the first epoch."""

    def amount(self, amount: float) -> str:
        """An amount of the resource as text."""
        if self.unit in ("B", "B/s"):
            return format_quantity(amount, self.unit, digits=3)
        return f"{amount:,.2f}" if amount < 100 and amount != int(amount) else f"{amount:,.0f}"


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """Seconds from start to target of a workload with known epochs."""

    seconds: float = shown("time", "report.storage_tables:run_time")
    """s. The time from start to target."""
    epochs: float = shown(format=":.1f")
    """factor. The number of epochs to the target."""
    epoch_seconds: float = shown("later epoch", "report.storage_tables:run_time")
    """s. The time of a later epoch."""
    evaluation: float = shown("evaluations", "report.storage_tables:run_time")
    """s. The time of all evaluations."""
    start: float = shown("start", "report.storage_tables:run_time")
    """s. The time of a run outside its epochs and evaluations."""
    batch: int = shown("global batch")
    """The number of samples of a step, over all accelerators."""
    published: float | None = shown(default=None, format="report.storage_tables:run_time")
    """s. The published time."""
    error: float | None = shown(default=None, format="report.columns:signed_percent")
    """share. The prediction over the published time, minus one."""
    source: str = ""
    """The source of the published time."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a job asks of storage in one respect."""

    what: str = shown("needs")
    value: float = shown("amount", of_row=lambda need: format_quantity(need.value, need.unit))
    """SI. The amount."""
    unit: str = shown(is_hidden=True)
    """The unit: B/s or B."""
    why: str = shown("because")


def _share_text(share: float) -> str:
    """A share as text, "-" for none."""
    return f"{share * 100:.1f} %" if share else "-"


def _rebuild_time(seconds: float) -> str:
    """The time of a rebuild as text, "-" for none."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds else "-"


@dataclass(frozen=True, kw_only=True)
class FailRow:
    """A storage system with a number of lost servers."""

    failed: int = shown("lost")
    reads: bool = shown(is_hidden=True)
    """Whether everything can still be read."""
    read: float
    """B/s. The bandwidth that all clients read, if each block of a lost server is read as the rest of its stripe."""
    read_best: float = shown("at best")
    """B/s. The same if the rest of the stripe is needed anyway, as in long sequential reads."""
    write: float
    """B/s. The bandwidth that all clients write."""
    iops: float = shown("4 KiB reads", "IOPS")
    """1/s. The rate of 4 KiB reads, over all clients."""
    limit: str = shown("read limit")
    """The link that is full when reading."""
    lost: float = shown("stripes lost", _share_text, hide_if=0.0)
    """share. The share of the stripes that are lost."""
    exposed: float = shown("may lose no more", _share_text, hide_if=0.0)
    """share. The share of the stripes that would not survive another failure."""
    exposed_seconds: float = shown("these rebuilt first", _rebuild_time, hide_if=0.0)
    """s. The time until those stripes are rebuilt, when they come first."""
    rebuild_seconds: float = shown("rebuild", _rebuild_time)
    """s. The time until everything is rebuilt; 0 if that is impossible or unnecessary."""
    verdict: str = shown("what it means")
