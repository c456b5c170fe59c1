"""A measured machine: the file of `podsim measure host`, read as the parts of a cluster of ranks.

A rank has the resources of one process while all ranks are busy: a share of the cores, or a GPU. Files are TOML with
numbers in SI, and state their source; podsim.hardware.catalog.measured_schema is their schema.

    format = "podsim-host"
    version = 1
    name = "node7"
    source = "podsim measure host, 2026-01-31, torch 2.13.0, 8 ranks on 2 cores"
    ranks = 8
    [rank]                # one rank: peaks, memory, memory_bandwidth
    [link]                # between two ranks
    [[exchange]]          # a collective, for one number of ranks: seconds = latency + per_byte x size
    [[sync]]              # the same of a tensor-parallel exchange within a layer
    [[shard]]             # the same of a layer's weights or gradients under ZeRO 3
    [disk]                # the results of fio
    [kernels]             # constants of the kernel law, as in hardware/catalog/kernels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.hardware.parts import Cpu, Gpu, Link, Pcie, Ssd, System

if TYPE_CHECKING:
    from podsim.hardware.catalog.measured_schema import HostEntry


_BUSY = 0.1
"""The share of the processors that other programs may use before it is said."""
_LARGE_ERROR = 0.2
"""The error of the kernel law beyond which it is said; about 0.1 on idle machines."""
_ARCHITECTURES = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}
"""The architecture of each major number of the compute capability."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """The time of a collective for one number of ranks, all of them busy: latency + per_byte x size."""

    collective: str
    ranks: int
    latency: float
    """s. The latency, whatever the size."""
    per_byte: float
    """s. The time of a byte, counted as nccl-tests counts sizes."""


def interpolate(rows: Sequence[Exchange], ranks: npt.ArrayLike) -> tuple[Floats, Floats]:
    """(s, s/B) of an exchange for any numbers of ranks, interpolated over the logarithm of the measured numbers."""
    ordered = sorted(rows, key=lambda row: row.ranks)
    known, at = np.log2([row.ranks for row in ordered]), np.log2(np.asarray(ranks, float))
    return (
        np.asarray(np.interp(at, known, [row.latency for row in ordered])),
        np.asarray(np.interp(at, known, [row.per_byte for row in ordered])),
    )


@dataclass(frozen=True, kw_only=True)
class Host:
    """The measurements of a machine other than its parts."""

    file: str
    exchanges: tuple[Exchange, ...]
    share: float = 1.0
    """factor. The cores of one rank, at most one; below one, waiting ranks leave their cores to others."""
    syncs: tuple[Exchange, ...] = ()
    """The tensor-parallel exchanges within a layer, with the framework's own time."""
    shards: tuple[Exchange, ...] = ()
    """The exchanges of a layer's weights or gradients under ZeRO 3."""
    names: Mapping[str, float] = field(default_factory=dict, hash=False)
    """1/s. The rate of operations on names, by mdtest's names."""
    images: Mapping[int, float] = field(default_factory=dict, hash=False)
    """1/s. The rate of images in ResNet-50 training, by number of ranks."""
    others: float = 0.0
    """share. The share of the processors that other programs used while it was measured."""
    law_error: float = 0.0
    """share. The mean absolute error of the kernel law over the rows that it was fitted to."""

    @property
    def warning(self) -> str:
        """What makes predictions from these measurements unsure; "" if nothing does."""
        reasons = []
        if self.others > _BUSY:
            reasons.append(f"other programs used {self.others:.0%} of the processors while it was measured")
        if self.law_error > _LARGE_ERROR:
            reasons.append(f"the kernel law is off by {self.law_error:.0%} on its own rows")
        name = Path(self.file).name[-80:]
        return f"{name}: {'; '.join(reasons)}; measure again on an idle machine" if reasons else ""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured machine: the parts of a cluster."""

    name: str
    source: str
    system: System
    link: Link
    host: Host


def measured_host(table: Mapping[str, Any], path: Path) -> Measured:
    """The machine of a file. Raises CatalogError with all problems of the file."""
    from podsim.hardware.catalog.measured_schema import read_host_entry  # of a file that a machine wrote

    entry = read_host_entry(table, path)
    gpu = _rank(entry, path)
    return Measured(
        name=entry.name, source=entry.source, system=_system(entry, gpu),
        link=Link(name=entry.link.name, bandwidth=entry.link.bandwidth, latency=entry.link.latency),
        host=Host(
            file=str(path), names=dict(entry.names), others=entry.others, law_error=entry.law_error,
            share=1.0 if gpu.architecture != "cpu" else min(entry.processor.cores / entry.ranks, 1.0),
            images={entry.images.ranks: entry.images.rate} if entry.images else {},
            exchanges=tuple(Exchange(**row.model_dump()) for row in entry.exchange),
            syncs=tuple(Exchange(collective="sync", **row.model_dump()) for row in entry.sync),
            shards=tuple(Exchange(collective="shard", **row.model_dump()) for row in entry.shard),
        ),
    )  # fmt: skip


def _rank(entry: HostEntry, path: Path) -> Gpu:
    """One rank as an accelerator; the file holds its kernel constants."""
    rank = entry.rank
    major = int(rank.compute_capability)
    return Gpu(
        name=rank.name, architecture=_ARCHITECTURES.get(major, "cpu"), compute_capability=rank.compute_capability,
        sms=1, clock=rank.clock, peaks={str(key): value for key, value in rank.peaks.items()}, sparse_peaks={},
        memory=rank.memory, memory_bandwidth=rank.memory_bandwidth, l2=rank.cache, power=0.0, nvlinks=0,
        nvlink_bandwidth=0.0, pcie_generation=3, pcie_lanes=16, kernels=str(path.resolve()), source=entry.source,
        confirmed="yes",
        notes={"power": "not measured", "sms": "a rank is taken as one multiprocessor"},
    )  # fmt: skip


def _system(entry: HostEntry, gpu: Gpu) -> System:
    processor, disk = entry.processor, entry.disk
    cpu = Cpu(
        name=processor.name, cores=processor.cores // processor.sockets, clock=gpu.clock,
        memory_bandwidth=entry.rank.memory_bandwidth * entry.ranks / processor.sockets, pcie_lanes=0, power=0.0,
        vendor=processor.vendor, source=entry.source, confirmed="yes",
    )  # fmt: skip
    slot = Pcie(  # the link between ranks stands in for the slots of GPUs
        name=entry.link.name, generation=3, bandwidth=entry.link.bandwidth, copies=entry.link.bandwidth,
        duplex=entry.link.bandwidth, latency=entry.link.latency, source=entry.source, confirmed="yes",
    )  # fmt: skip
    ssd = None if disk is None else Ssd(
        name="folder that was measured", capacity=disk.capacity, read_bandwidth=disk.read, write_bandwidth=disk.write,
        read_iops=disk.read_operations, write_iops=disk.write_operations, read_latency=disk.read_latency,
        write_latency=disk.write_latency, source=entry.source, confirmed="yes",
    )  # fmt: skip
    return System(
        name=entry.name, gpu=gpu, gpus=entry.ranks, cpu=cpu, cpus=processor.sockets, memory=processor.memory,
        nvswitch=None, nvswitches=0, topology="pcie", pcie=slot, nic=None, nics=0, storage_nic=None, storage_nics=0,
        ssd=ssd, ssds=1 if ssd else 0, power=0.0, features={str(key): value for key, value in entry.features.items()},
        source=entry.source, confirmed="yes", notes={"power": "not measured"},
    )  # fmt: skip
