"""What a machine was measured to do, rank by rank, while all ranks were busy. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.units import format_quantity

_DISK = {
    "read": "B/s", "write": "B/s", "read_operations": "1/s", "write_operations": "1/s", "read_latency": "s",
    "write_latency": "s",
}  # fmt: skip
_FLOPS = {"product": 2.0, "linear": 6.0}
"""FLOP for each element of a product's three sides: once, or forward and backward"""


@dataclass(frozen=True, kw_only=True)
class MeasuredKernel:
    """One kernel, or one small part of a training step."""

    name: str = shown("kernel")
    """The kind: product, linear, stream, launch, norm, activation, residual, loss, attention, optimizer."""
    precision: str = shown("type")
    shape: tuple[int, ...] = shown(format=lambda shape: " x ".join(map(str, shape)))
    """The shape: m, n, k of a product or of a linear layer's first; batch, heads, tokens, width of attention; tokens
    and width of the rest; elements of a stream."""
    seconds: float = shown("time")
    """s. The time of one call, as a mean over calls and ranks; of both passes together where there are two."""
    spread: float = shown("rate", of_row=lambda kernel: kernel.rate)
    """share. The slowest rank over the mean, minus one."""
    predicted: float = shown("law", default=0.0, of_row=lambda kernel: kernel.difference)
    """s. The time by the law, with the constants that were fitted to these rows."""

    @property
    def rate(self) -> str:
        """The FLOP/s of a product, the B/s of a stream; "-" for others."""
        if self.name in _FLOPS:
            m, n, k = self.shape
            return format_quantity(_FLOPS[self.name] * m * n * k / self.seconds, "FLOP/s")
        return format_quantity(12.0 * self.shape[0] / self.seconds, "B/s") if self.name == "stream" else "-"

    @property
    def difference(self) -> str:
        """The time by the law over the measured one, minus one."""
        return f"{self.predicted / self.seconds - 1:+.0%}" if self.predicted else "-"


@dataclass(frozen=True, kw_only=True)
class MeasuredSend:
    """One collective, or a message between two ranks."""

    collective: str
    ranks: int
    """The number of ranks of one group; every rank of the machine is in some group."""
    size: float = shown(format="report.columns:size_text")
    """B. The size, as nccl-tests counts it."""
    seconds: float = shown("time")
    """s. The time of one call, as a mean over calls and ranks."""


@dataclass(frozen=True, kw_only=True)
class MeasuredHost(Answer, view=View(rows="kernels")):
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
    seconds: float = shown("in all")
    """s. The duration of the whole run."""
    peaks: Mapping[str, float] = shown(title="Best product of one rank while all are busy")
    """FLOP/s. The peak of one rank, by precision."""
    memory_bandwidth: float = shown("best stream")
    """B/s. The best memory bandwidth of one rank."""
    launch: float = shown("empty kernel")
    """s. The time of a kernel that does nothing."""
    link: float = shown("rank to rank")
    """B/s. The bandwidth between two ranks, in one direction."""
    link_latency: float = shown("4 KiB, rank to rank")
    """s. The latency of 4 KiB from rank to rank."""
    kernels: tuple[MeasuredKernel, ...]
    sends: tuple[MeasuredSend, ...] = shown(title="Exchanges between ranks")
    runtime: Mapping[str, float] = shown(title="PyTorch's own, in a small step", default=dict)
    """s. The time of steps of small networks, with all of PyTorch: a `layer over T` ranks, or `under ZeRO 3`, with
    little arithmetic and with much (`wide`); a layer as a pipeline `stage`, per micro-batch; the `update` of a
    layer; a `step` of two layers."""
    disk: Mapping[str, float] = shown(default=dict, of_row=lambda host: host.disk_texts)
    """SI. The figures of fio, in B/s, 1/s and s; empty without fio."""
    names: Mapping[str, float] = shown(title="Operations on names", default=dict)
    """1/s. The rate of operations on names, by mdtest's names."""
    images: float | None = shown("ResNet-50, images", default=None)
    """1/s. The rate of images of ResNet-50 on all ranks."""
    others: float = shown("other programs", default=0.0)
    """share. The share of processor time that other programs used."""
    error: float = shown("error of the law", default=0.0)
    """share. The mean absolute error of the fitted law over the linear layers."""
    notes: tuple[str, ...] = ()
    stopped: bool = shown(default=False, is_hidden=True)
    """Whether a signal ended it before the last part."""
    entry: str = shown(default="", is_hidden=True)
    """The catalog entry, in TOML."""

    @property
    def disk_texts(self) -> dict[str, str]:
        """The figures of fio, each in its unit."""
        known = {name: unit for name, unit in _DISK.items() if name in self.disk}
        return {
            name.replace("_", " "): format_quantity(self.disk[name], unit.replace("1/s", "/s"))
            for name, unit in known.items()
        }
