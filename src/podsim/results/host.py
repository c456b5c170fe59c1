"""What a machine was measured to do, rank by rank, while all ranks were busy. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class MeasuredKernel:
    """One kernel, or one small part of a training step."""

    name: str
    """product, linear, stream, launch, norm, activation, residual, loss, attention, optimizer"""
    precision: str
    shape: tuple[int, ...]
    """m, n, k of a product or of the first of a linear layer's three; batch, heads, tokens, width of attention; tokens
    and width of the rest; elements of a stream"""
    seconds: float
    """s of one call, mean over calls and ranks; of forward and backward pass together where there are both"""
    spread: float
    """slowest rank over the mean less one"""
    predicted: float = 0.0
    """s, by the law with the constants that were fitted to these rows"""


@dataclass(frozen=True, kw_only=True)
class MeasuredSend:
    """One collective, or a message between two ranks."""

    collective: str
    ranks: int
    """of one group; all ranks of the machine are in some group"""
    size: float
    """B, as nccl-tests counts"""
    seconds: float
    """s of one call, mean over calls and ranks"""


@dataclass(frozen=True, kw_only=True)
class MeasuredHost:
    """A machine measured, and the entry of a catalog that comes of it."""

    name: str
    ranks: int
    device: str
    """what a rank computes on: the GPU's name, or CPU"""
    software: str
    """versions of what ran"""
    cores: int
    started: str
    """date and time in UTC, ISO 8601"""
    seconds: float
    """s that all of it took"""
    peaks: Mapping[str, float]
    """FLOP/s by precision, the best of one rank"""
    memory_bandwidth: float
    """B/s of one rank, the best"""
    launch: float
    """s of a kernel that does nothing"""
    link: float
    """B/s between two ranks, one direction"""
    link_latency: float
    """s of 4 KiB from rank to rank"""
    kernels: tuple[MeasuredKernel, ...]
    sends: tuple[MeasuredSend, ...]
    runtime: Mapping[str, float] = field(default_factory=dict)
    """s that steps of small networks took, all of PyTorch included: a `layer over T` ranks, or `under ZeRO 3`, where
    arithmetic is next to nothing and where it is most of it (`wide`); a layer as a `stage` of a pipeline, for each
    micro-batch; the `update` of a layer; a `step` of two layers"""
    disk: Mapping[str, float] = field(default_factory=dict)
    """B/s, 1/s and s by what fio measured; empty without fio"""
    names: Mapping[str, float] = field(default_factory=dict)
    """operations a second by mdtest's names"""
    images: float | None = None
    """1/s, ResNet-50 on all ranks"""
    others: float = 0.0
    """share of the processors' time that went to other programs meanwhile"""
    error: float = 0.0
    """mean absolute error of the fitted law over the linear layers"""
    notes: tuple[str, ...] = ()
    entry: str = ""
    """the catalog entry, TOML"""
