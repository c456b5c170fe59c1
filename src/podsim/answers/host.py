"""What a machine was measured to do, rank by rank, while all ranks were busy. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class MeasuredKernel:
    """One kernel, or one small part of a training step."""

    name: str
    """The kind: product, linear, stream, launch, norm, activation, residual, loss, attention, optimizer."""
    precision: str
    shape: tuple[int, ...]
    """The shape: m, n, k of a product or of a linear layer's first; batch, heads, tokens, width of attention; tokens
    and width of the rest; elements of a stream."""
    seconds: float
    """s. The time of one call, as a mean over calls and ranks; of both passes together where there are two."""
    spread: float
    """share. The slowest rank over the mean, minus one."""
    predicted: float = 0.0
    """s. The time by the law, with the constants that were fitted to these rows."""


@dataclass(frozen=True, kw_only=True)
class MeasuredSend:
    """One collective, or a message between two ranks."""

    collective: str
    ranks: int
    """The number of ranks of one group; every rank of the machine is in some group."""
    size: float
    """B. The size, as nccl-tests counts it."""
    seconds: float
    """s. The time of one call, as a mean over calls and ranks."""


@dataclass(frozen=True, kw_only=True)
class MeasuredHost(Answer, view=View(report="report.lab_tables:host_report", rows="kernels")):
    """A machine measured, and the entry of a catalog that comes of it."""

    name: str
    ranks: int
    device: str
    """The device of a rank: the GPU's name, or CPU."""
    software: str
    """The versions of the software."""
    cores: int
    started: str
    """The date and time in UTC, ISO 8601."""
    seconds: float
    """s. The duration of the whole run."""
    peaks: Mapping[str, float]
    """FLOP/s. The peak of one rank, by precision."""
    memory_bandwidth: float
    """B/s. The best memory bandwidth of one rank."""
    launch: float
    """s. The time of a kernel that does nothing."""
    link: float
    """B/s. The bandwidth between two ranks, in one direction."""
    link_latency: float
    """s. The latency of 4 KiB from rank to rank."""
    kernels: tuple[MeasuredKernel, ...]
    sends: tuple[MeasuredSend, ...]
    runtime: Mapping[str, float] = field(default_factory=dict)
    """s. The time of steps of small networks, with all of PyTorch: a `layer over T` ranks, or `under ZeRO 3`, with
    little arithmetic and with much (`wide`); a layer as a pipeline `stage`, per micro-batch; the `update` of a
    layer; a `step` of two layers."""
    disk: Mapping[str, float] = field(default_factory=dict)
    """SI. The figures of fio, in B/s, 1/s and s; empty without fio."""
    names: Mapping[str, float] = field(default_factory=dict)
    """1/s. The rate of operations on names, by mdtest's names."""
    images: float | None = None
    """1/s. The rate of images of ResNet-50 on all ranks."""
    others: float = 0.0
    """share. The share of processor time that other programs used."""
    error: float = 0.0
    """share. The mean absolute error of the fitted law over the linear layers."""
    notes: tuple[str, ...] = ()
    entry: str = ""
    """The catalog entry, in TOML."""
