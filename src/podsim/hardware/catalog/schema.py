"""What an entry of each catalog file may say; an unknown key, a missing one or a wrong value is refused.

Keys bear the names of the fields of podsim.hardware.parts; quantities are text with a unit, and become SI.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from podsim.hardware.limits import read_count, read_quantity
from podsim.hardware.precision import Peak

__all__ = [
    "SCHEMAS",
    "ClusterEntry",
    "CpuEntry",
    "Entry",
    "GpuEntry",
    "NicEntry",
    "NvSwitchEntry",
    "PcieEntry",
    "SsdEntry",
    "SwitchEntry",
    "SystemEntry",
]


def _quantity(unit: str) -> Callable[[object], float]:
    return lambda value: read_quantity(value, unit, what="value")


def _count(low: int) -> Callable[[object], int]:
    return lambda value: read_count(value, what="value", low=low)


Bytes = Annotated[float, BeforeValidator(_quantity("B"))]
Rate = Annotated[float, BeforeValidator(_quantity("B/s"))]
Flops = Annotated[float, BeforeValidator(_quantity("FLOP/s"))]
Watts = Annotated[float, BeforeValidator(_quantity("W"))]
Hertz = Annotated[float, BeforeValidator(_quantity("Hz"))]
Seconds = Annotated[float, BeforeValidator(_quantity("s"))]
PerSecond = Annotated[float, BeforeValidator(_quantity("1/s"))]
Count = Annotated[int, BeforeValidator(_count(0))]
Positive = Annotated[int, BeforeValidator(_count(1))]


class Entry(BaseModel):
    """What every entry says: where its figures come from, and which of them were not read there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: tuple[str, ...] = Field(min_length=1)
    confirmed: Literal["yes", "partial", "no"]
    aliases: tuple[str, ...] = ()
    notes: dict[str, str] = {}


class GpuEntry(Entry):
    """An accelerator."""

    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    compute_capability: Annotated[float, Field(gt=0, lt=100)]
    sms: Positive
    clock: Hertz
    peaks: dict[Peak, Flops] = Field(min_length=1)
    sparse_peaks: dict[Peak, Flops] = {}
    memory: Bytes
    memory_bandwidth: Rate
    l2: Bytes
    power: Watts
    nvlinks: Count
    nvlink_bandwidth: Rate | None = None
    nvlink_latency: Seconds = 0.0
    bridge: bool = False
    pcie_generation: Literal[3, 4, 5]
    pcie_lanes: Positive
    mig: bool
    kernels: str = ""


class NvSwitchEntry(Entry):
    """A crossbar for NVLinks."""

    ports: Positive
    bandwidth: Rate
    sharp: bool


class NicEntry(Entry):
    """A network adapter."""

    ports: Positive
    bandwidth: Rate
    kind: Literal["infiniband", "roce", "efa", "ethernet"]
    latency: Seconds


class SwitchEntry(Entry):
    """A network switch."""

    ports: Positive
    bandwidth: Rate
    latency: Seconds
    kind: Literal["infiniband", "ethernet"]
    sharp: bool


class PcieEntry(Entry):
    """A generation of PCI Express."""

    generation: Positive
    bandwidth: Rate
    latency: Seconds


class CpuEntry(Entry):
    """A processor."""

    cores: Positive
    clock: Hertz
    memory_bandwidth: Rate
    pcie_lanes: Positive
    power: Watts
    vendor: Literal["amd", "intel"]


class SsdEntry(Entry):
    """A drive."""

    capacity: Bytes
    read_bandwidth: Rate
    write_bandwidth: Rate
    read_iops: PerSecond | None = None
    write_iops: PerSecond | None = None
    read_latency: Seconds = 0.0
    write_latency: Seconds = 0.0


class Datasheet(BaseModel):
    """Rounded figures that a vendor prints."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ai: Flops | None = None
    int8: Flops | None = None
    gpu_memory: Bytes | None = None
    nvlink: Rate | None = None
    nvswitch: Rate | None = None
    network: Rate | None = None
    cache: Bytes | None = None
    power: Watts | None = None


class SystemEntry(Entry):
    """A server; its parts by name, an empty name for none."""

    gpu: str
    gpus: Positive
    topology: Literal["nvswitch", "cube-mesh", "nvlink-mesh", "nvlink-pair", "pcie", "pcie-root"]
    nvswitch: str = ""
    nvswitches: Count = 0
    pcie: str
    cpu: str = ""
    cpus: Count = 0
    memory: Bytes
    nic: str = ""
    nics: Count = 0
    storage_nic: str = ""
    storage_nics: Count = 0
    ssd: str = ""
    ssds: Count = 0
    power: Watts
    switch: str = ""
    unit: Count = 0
    datasheet: Datasheet = Datasheet()
    features: dict[Literal["tpm", "secure_boot", "self_encrypting", "raid"], str] = {}


class Published(BaseModel):
    """What was measured on a cluster or printed of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hpl: Flops | None = None
    rpeak: Flops | None = None
    power: Watts | None = None
    storage: Bytes | None = None
    switches: Positive | None = None


class ClusterEntry(Entry):
    """A cluster: so many nodes of a system, or up to so many scalable units."""

    system: str
    nodes: Positive | None = None
    units: Positive | None = None
    published: Published = Published()


SCHEMAS: dict[str, type[Entry]] = {
    "gpu": GpuEntry,
    "nvswitch": NvSwitchEntry,
    "nic": NicEntry,
    "switch": SwitchEntry,
    "pcie": PcieEntry,
    "cpu": CpuEntry,
    "ssd": SsdEntry,
    "system": SystemEntry,
    "cluster": ClusterEntry,
}
