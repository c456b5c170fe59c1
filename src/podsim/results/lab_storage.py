"""What the lab measured of storage, reading samples and writing checkpoints, and predictions beside it. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoint:
    """A checkpoint written or read by all ranks at once, several times over."""

    operation: str
    """write or read"""
    state: str
    """of the data: flushed (on the drive at the end), page cache (in memory only), drive (read with none of it in
    memory), store (an object store's; what it keeps in memory is not known)"""
    repeats: int
    seconds: float
    """s from the common start until the last rank has ended; median over the repeats"""
    fastest: float
    """s of the fastest repeat"""
    slowest: float
    """s of the slowest repeat"""
    bandwidth: float
    """B/s of all ranks together, at the median"""
    ranks: tuple[float, ...]
    """s of each rank, median over the repeats"""
    processor: float
    """s of processor time that all ranks took for one, median over the repeats"""
    from_drive: float | None
    """share of the bytes read that a drive gave, as the kernel counts; None where it does not, and for writes"""
    wrong: int
    """ranks that read back other bytes than were written"""
    cpu: float
    """share of the busiest machine's processor time that the ranks used"""
    others: float
    """share of the busiest machine's processor time that went to other programs"""


@dataclass(frozen=True, kw_only=True)
class MeasuredCheckpoints:
    """Checkpoints of one size written, and read back, by ranks that each have a part."""

    place: str
    """folder or URL"""
    filesystem: str
    """kind of the folder's file system, or the URL's protocol"""
    size: float
    """B of the parts of all ranks"""
    count: int
    """ranks"""
    writer: str
    """files (each rank writes one file) or dcp (torch.distributed.checkpoint)"""
    block: float
    """B that a rank writes or reads at once"""
    hosts: tuple[str, ...]
    """name of the machine of each rank"""
    cores: int
    """processor cores of the smallest machine"""
    software: str
    """versions of what ran it"""
    started: str
    """date and time in UTC, ISO 8601"""
    rows: tuple[MeasuredCheckpoint, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """what was not measured, and why"""


@dataclass(frozen=True, kw_only=True)
class MeasuredEpoch:
    """One pass over the samples."""

    epoch: int
    """from 0 on"""
    whole: bool
    """every sample was read; else it was broken off, and the figures are of what was read until then"""
    samples: int
    steps: int
    """batches that were consumed"""
    seconds: float
    """s from the first request to the last step's end"""
    rate: float
    """1/s, samples"""
    bandwidth: float
    """B/s of the samples"""
    compute: float
    """s of all steps: the time laid down for them where accelerators are emulated, as measured where a model trains"""
    waited: float
    """s that the consumer waited for batches"""
    utilisation: float | None
    """share of the epoch that steps took, as MLPerf Storage defines accelerator utilisation; None where nothing was
    computed"""
    store: float
    """B that came from the store"""
    cache: float
    """B that came from the cache"""
    fetched: int
    """samples of which some bytes came from the store"""
    drive: float | None
    """B that drives of this machine gave the readers, as the kernel counts; None where it does not"""
    reading: float
    """s that all workers together spent reading"""
    decoding: float
    """s that all workers together spent decoding"""
    processor: float
    """s of processor time that all workers together took"""
    cpu: float
    """share of the machine's processor time that workers and consumer used"""
    others: float
    """share of the machine's processor time that went to other programs"""


@dataclass(frozen=True, kw_only=True)
class MeasuredLoader:
    """Samples read epoch after epoch from a folder or an object store, through a cache or not."""

    source: str
    """folder or URL"""
    filesystem: str
    """kind of the folder's file system, or the URL's protocol"""
    cache_kind: str
    """file (whole samples) or block (what was asked for, in blocks), both fsspec's; none"""
    cache_folder: str
    cache_filesystem: str
    """kind of the cache folder's file system"""
    samples: int
    size: float
    """B of all samples"""
    batch: int
    workers: int
    """processes that read"""
    consumer: str
    """read only; emulated accelerator (it sleeps for each step's time); or the model that trains"""
    step: float
    """s of an emulated accelerator's step; 0 without one"""
    page_cache: str
    """dropped (before each epoch, so that reads come from drives) or kept"""
    host: str
    cores: int
    software: str
    """versions of what ran it"""
    started: str
    """date and time in UTC, ISO 8601"""
    rows: tuple[MeasuredEpoch, ...]
    stopped: bool = False
    """it was interrupted; what was measured until then was kept"""


@dataclass(frozen=True, kw_only=True)
class ComparedStorageRow:
    """One measured row beside its prediction, and what the difference is made of."""

    row: str
    """what was measured, in words"""
    measured: float
    """s"""
    predicted: float
    """s"""
    difference: float
    """share, predicted over measured less one"""
    parts: Mapping[str, float]
    """s by kind: compute, read (or write), wait and processor make up the prediction; rest is measured less predicted"""
    limit: str
    """what holds the prediction back"""
    cpu: float
    """share of processor time that the run used"""
    others: float
    """share of processor time that went to other programs"""
    verdict: str
    """comparable; or not comparable, and why"""


@dataclass(frozen=True, kw_only=True)
class ComparedStorage:
    """A measured run of storage beside its predictions."""

    run: str
    """name of its file"""
    what: str
    """what was measured, in words"""
    machine: str
    """what it was measured on, in words"""
    system: str
    """the storage system that was predicted, by name"""
    cache: str
    """the storage system that the cache was predicted as; empty where nothing was cached"""
    rows: tuple[ComparedStorageRow, ...]
    mean: float | None
    """share, mean of the absolute differences of comparable rows; None without any"""
    worst: float | None
    """share, largest absolute difference of comparable rows; None without any"""
    notes: tuple[str, ...]
