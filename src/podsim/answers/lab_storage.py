"""Storage as the lab measured it (samples read, checkpoints written), with predictions. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoint:
    """A checkpoint written or read by all ranks at once, several times over."""

    operation: str
    """The operation: write or read."""
    state: str
    """The state of the data: flushed (on the drive), page cache (in memory), drive (read with none of it in memory),
    store (an object store, whose memory is unknown)."""
    repeats: int
    seconds: float
    """s. The time from the common start until the last rank ends, as the median of the repeats."""
    fastest: float
    """s. The time of the fastest repeat."""
    slowest: float
    """s. The time of the slowest repeat."""
    bandwidth: float
    """B/s. The bandwidth of all ranks together, at the median."""
    ranks: tuple[float, ...]
    """s. The time of each rank, as the median of the repeats."""
    processor: float
    """s. The processor time of all ranks for one repeat, as the median."""
    from_drive: float | None
    """share. The share of the bytes read that a drive supplied, by the kernel's count; None if unknown, and for writes.
    """
    wrong: int
    """The number of ranks that read back other bytes than were written."""
    cpu: float
    """share. The share of the busiest machine's processor time that the ranks used."""
    others: float
    """share. The share of the busiest machine's processor time that other programs used."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoints(Answer, view=View(report="report.lab_tables:checkpoints_report", rows="rows")):
    """Checkpoints of one size written, and read back, by ranks that each have a part."""

    place: str
    """The folder or URL."""
    filesystem: str
    """The kind of the folder's file system, or the URL's protocol."""
    size: float
    """B. The size of the parts of all ranks."""
    count: int
    """The number of ranks."""
    writer: str
    """The writer: files (each rank writes one file) or dcp (torch.distributed.checkpoint)."""
    block: float
    """B. The bytes that a rank writes or reads at once."""
    hosts: tuple[str, ...]
    """The machine of each rank, by name."""
    cores: int
    """The number of processor cores of the smallest machine."""
    software: str
    """The versions of the software."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[MeasuredCheckpoint, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The omissions, with the reason."""


@dataclass(frozen=True, kw_only=True)
class MeasuredEpoch:
    """One pass over the samples."""

    epoch: int
    """The number of the epoch, from 0."""
    whole: bool
    """Whether every sample was read; otherwise the figures cover what was read before the interruption."""
    samples: int
    steps: int
    """The number of consumed batches."""
    seconds: float
    """s. The time from the first request to the last step's end."""
    rate: float
    """1/s. The rate of samples."""
    bandwidth: float
    """B/s. The bandwidth of the samples."""
    compute: float
    """s. The time of all steps: prescribed for emulated accelerators, measured where a model trains."""
    waited: float
    """s. The time that the consumer waited for batches."""
    utilisation: float | None
    """share. The share of the epoch in steps, as MLPerf Storage defines accelerator utilisation; None if nothing was
    computed."""
    store: float
    """B. The bytes from the store."""
    cache: float
    """B. The bytes from the cache."""
    fetched: int
    """The number of samples with some bytes from the store."""
    drive: float | None
    """B. The bytes that drives of this machine supplied, by the kernel's count; None if unknown."""
    reading: float
    """s. The time that all workers together spent reading."""
    decoding: float
    """s. The time that all workers together spent decoding."""
    processor: float
    """s. The processor time of all workers together."""
    cpu: float
    """share. The share of the machine's processor time that workers and consumer used."""
    others: float
    """share. The share of the machine's processor time that other programs used."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLoader(Answer, view=View(report="report.lab_tables:loader_report", rows="rows")):
    """Samples read epoch after epoch from a folder or an object store, through a cache or not."""

    source: str
    """The folder or URL."""
    filesystem: str
    """The kind of the folder's file system, or the URL's protocol."""
    cache_kind: str
    """The kind of fsspec's cache: file (whole samples), block (requested blocks), none."""
    cache_folder: str
    cache_filesystem: str
    """The kind of the cache folder's file system."""
    samples: int
    size: float
    """B. The size of all samples."""
    batch: int
    workers: int
    """The number of processes that read."""
    consumer: str
    """The consumer: read only; emulated accelerator (which sleeps for each step); or the model that trains."""
    step: float
    """s. The time of an emulated accelerator's step; 0 without one."""
    page_cache: str
    """The treatment of the page cache: dropped (before each epoch) or kept."""
    host: str
    cores: int
    software: str
    """The versions of the software."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[MeasuredEpoch, ...]
    stopped: bool = False
    """Whether it was interrupted; what was measured before is kept."""


@dataclass(frozen=True, kw_only=True)
class ComparedStorageRow:
    """One measured row with its prediction, and the parts of the difference."""

    row: str
    """The measured figure, in words."""
    measured: float
    """s. The measured time."""
    predicted: float
    """s. The predicted time."""
    difference: float
    """share. The prediction over the measurement, minus one."""
    parts: Mapping[str, float]
    """s. The time by part: compute, read (or write), wait and processor make up the prediction; rest is measured minus
    predicted."""
    limit: str
    """The limit of the prediction."""
    cpu: float
    """share. The share of processor time that the run used."""
    others: float
    """share. The share of processor time that other programs used."""
    verdict: str
    """The verdict: comparable, or the reason why not."""


@dataclass(frozen=True, kw_only=True)
class ComparedStorage(Answer, view=View(report="report.lab_tables:storage_report", rows="rows")):
    """A measured run of storage with its predictions."""

    run: str
    """The name of its file."""
    what: str
    """The measured figure, in words."""
    machine: str
    """The machine of the run, in words."""
    system: str
    """The name of the predicted storage system."""
    cache: str
    """The storage system that stands for the cache; empty without a cache."""
    rows: tuple[ComparedStorageRow, ...]
    mean: float | None
    """share. The mean absolute difference of comparable rows; None without any."""
    worst: float | None
    """share. The largest absolute difference of comparable rows; None without any."""
    notes: tuple[str, ...]
