"""Storage as the lab measured it (samples read, checkpoints written), with predictions. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.lab import cores_used
from podsim.units import format_quantity


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoint:
    """A checkpoint written or read by all ranks at once, several times over."""

    operation: str
    """The operation: write or read."""
    state: str = shown("data")
    """The state of the data: flushed (on the drive), page cache (in memory), drive (read with none of it in memory),
    store (an object store, whose memory is unknown)."""
    repeats: int = shown("times")
    seconds: float = shown("median")
    """s. The time from the common start until the last rank ends, as the median of the repeats."""
    fastest: float
    """s. The time of the fastest repeat."""
    slowest: float
    """s. The time of the slowest repeat."""
    bandwidth: float = shown("in all")
    """B/s. The bandwidth of all ranks together, at the median."""
    ranks: tuple[float, ...] = shown("a rank, slowest", of_row=lambda row: row.rank_rates)
    """s. The time of each rank, as the median of the repeats."""
    processor: float = shown(is_hidden=True)
    """s. The processor time of all ranks for one repeat, as the median."""
    from_drive: float | None = shown("from drives")
    """share. The share of the bytes read that a drive supplied, by the kernel's count; None if unknown, and for writes.
    """
    wrong: int = shown(is_hidden=True)
    """The number of ranks that read back other bytes than were written."""
    cpu: float = shown("cores", of_row=cores_used)
    """share. The share of the busiest machine's processor time that the ranks used."""
    others: float = shown(is_hidden=True)
    """share. The share of the busiest machine's processor time that other programs used."""

    @property
    def rank_rates(self) -> str:
        """The bandwidth of the median rank and of the slowest one."""
        part, times = self.bandwidth * self.seconds / len(self.ranks), sorted(self.ranks)
        rates = (part / max(seconds, 1e-9) for seconds in (times[len(times) // 2], times[-1]))
        return ", ".join(format_quantity(rate, "B/s", digits=3) for rate in rates)


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoints(Answer, view=View(rows="rows")):
    """Checkpoints of one size written, and read back, by ranks that each have a part."""

    place: str
    """The folder or URL."""
    filesystem: str
    """The kind of the folder's file system, or the URL's protocol."""
    size: float
    """B. The size of the parts of all ranks."""
    count: int = shown("ranks")
    """The number of ranks."""
    writer: str
    """The writer: files (each rank writes one file) or dcp (torch.distributed.checkpoint)."""
    block: float = shown("at once")
    """B. The bytes that a rank writes or reads at once."""
    hosts: tuple[str, ...] = shown("read back", of_row=lambda run: run.outcome, remark="")
    """The machine of each rank, by name."""
    cores: int
    """The number of processor cores of the smallest machine."""
    software: str
    """The versions of the software."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[MeasuredCheckpoint, ...]
    left_out: Mapping[str, str] = shown(title="Not done", default=dict)
    """The omissions, with the reason."""

    @property
    def outcome(self) -> str:
        """Whether what was read back is what was written, and whether it came from a drive."""
        reads = [row for row in self.rows if row.operation == "read"]
        wrong = sum(row.wrong for row in reads)
        text = f"{wrong} ranks READ BACK OTHER BYTES" if wrong else "what was read back is what was written"
        kept = (
            f"; {self.filesystem} keeps files in memory, or on another machine, as no drive gave these bytes"
        )
        is_cached = any(
            row.state == "drive" and row.from_drive is not None and row.from_drive < 0.5 for row in reads
        )
        return (text + kept * is_cached) if reads else ""


@dataclass(frozen=True, kw_only=True)
class MeasuredEpoch:
    """One pass over the samples."""

    epoch: int = shown(of_row=lambda row: f"{row.epoch + 1}{'' if row.whole else ' (part)'}")
    """The number of the epoch, from 0."""
    whole: bool = shown(is_hidden=True)
    """Whether every sample was read; otherwise the figures cover what was read before the interruption."""
    samples: int = shown(is_hidden=True)
    steps: int = shown(is_hidden=True)
    """The number of consumed batches."""
    seconds: float = shown("time")
    """s. The time from the first request to the last step's end."""
    rate: float = shown("samples/s", ":,.1f")
    """1/s. The rate of samples."""
    bandwidth: float
    """B/s. The bandwidth of the samples."""
    compute: float = shown(is_hidden=True)
    """s. The time of all steps: prescribed for emulated accelerators, measured where a model trains."""
    waited: float = shown(of_row=lambda row: f"{row.waited / row.seconds:.1%}")
    """s. The time that the consumer waited for batches."""
    utilisation: float | None
    """share. The share of the epoch in steps, as MLPerf Storage defines accelerator utilisation; None if nothing was
    computed."""
    store: float = shown("from the store")
    """B. The bytes from the store."""
    cache: float = shown("from the cache")
    """B. The bytes from the cache."""
    fetched: int = shown(is_hidden=True)
    """The number of samples with some bytes from the store."""
    drive: float | None = shown("from drives")
    """B. The bytes that drives of this machine supplied, by the kernel's count; None if unknown."""
    reading: float = shown(is_hidden=True)
    """s. The time that all workers together spent reading."""
    decoding: float = shown(is_hidden=True)
    """s. The time that all workers together spent decoding."""
    processor: float = shown(is_hidden=True)
    """s. The processor time of all workers together."""
    cpu: float = shown("cores", of_row=cores_used)
    """share. The share of the machine's processor time that workers and consumer used."""
    others: float = shown(is_hidden=True)
    """share. The share of the machine's processor time that other programs used."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLoader(Answer, view=View(rows="rows")):
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
    step: float = shown(hide_if=0.0)
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
    stopped: bool = shown("in all", default=False, of_row=lambda run: run.outcome, remark="")
    """Whether it was interrupted; what was measured before is kept."""

    @property
    def outcome(self) -> str:
        """The rate of later epochs over that of the first, and whether the run was interrupted."""
        first, *later = [row.rate for row in self.rows if row.whole] or [0.0]
        times = f"{sum(later) / len(later) / first:.2f}" if later else ""
        texts = [f"later epochs run at {times} times the rate of the first"] if times else []
        return "; ".join([*texts, *["interrupted: this is what was measured until then"] * self.stopped])


@dataclass(frozen=True, kw_only=True)
class ComparedStorageRow:
    """One measured row with its prediction, and the parts of the difference."""

    row: str = shown("")
    """The measured figure, in words."""
    measured: float
    """s. The measured time."""
    predicted: float
    """s. The predicted time."""
    difference: float = shown("off by", ":+.1%")
    """share. The prediction over the measurement, minus one."""
    parts: Mapping[str, float]
    """s. The time by part: compute, read (or write), wait and processor make up the prediction; rest is measured minus
    predicted."""
    limit: str
    """The limit of the prediction."""
    cpu: float = shown("cores", of_row=cores_used)
    """share. The share of processor time that the run used."""
    others: float = shown(is_hidden=True)
    """share. The share of processor time that other programs used."""
    verdict: str = shown(hide_if="comparable")
    """The verdict: comparable, or the reason why not."""


@dataclass(frozen=True, kw_only=True)
class ComparedStorage(Answer, view=View(rows="rows")):
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
    mean: float | None = shown(
        "mean error", missing="no row can be compared", remark="of the rows that can be compared"
    )
    """share. The mean absolute difference of comparable rows; None without any."""
    worst: float | None = shown("largest")
    """share. The largest absolute difference of comparable rows; None without any."""
    notes: tuple[str, ...]
