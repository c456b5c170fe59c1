"""What a machine is made of. SI inside: B, B/s, FLOP/s, W, Hz, s; bandwidths are per direction.

Each part says where its figures come from: `source` names the origins, `confirmed` is "yes" (read in a
source), "partial" (the fields named in `notes` were not) or "no" (common knowledge). Parts are values: equal
parts are equal, and all can be dictionary keys (mappings do not enter the hash).

Number formats: how many bytes an element takes, and which peak of a GPU its matrix products run at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from podsim.errors import CatalogError, unknown_name


@dataclass(frozen=True, kw_only=True)
class Link:
    """A shared pipe: bandwidth (B/s, one direction) and latency (s)."""

    name: str
    bandwidth: float
    latency: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The peaks of one accelerator, as the data sheet gives them."""

    name: str
    architecture: str
    """volta, turing, ampere, hopper, blackwell"""
    compute_capability: float
    sms: int
    clock: float
    """boost clock, Hz"""
    peaks: Mapping[str, float] = field(hash=False)
    """dense FLOP/s by precision: fp64, fp64_tensor, fp32, tf32, bf16, fp16, fp8, fp4, int8, int4"""
    sparse_peaks: Mapping[str, float] = field(hash=False)
    """the same with 2:4 structured sparsity"""
    memory: float
    """B"""
    memory_bandwidth: float
    """B/s"""
    l2: float
    """B"""
    power: float
    """W"""
    nvlinks: int
    nvlink_bandwidth: float
    """B/s of one NVLink, one direction"""
    pcie_generation: int
    pcie_lanes: int
    bridge: bool = False
    """whether its NVLinks reach one neighbour only, over a bridge between two cards"""
    nvlink_latency: float = 0.0
    """s of one step of a small message over NVLink"""
    mig: bool = False
    fraction: float = 1.0
    """share of a GPU's memory system that it has: below 1 for a MIG instance"""
    kernels: str = ""
    """name of the fitted kernel constants (catalog folder kernels/)"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def nvlink(self) -> float:
        """B/s over all NVLinks, one direction."""
        return self.nvlinks * self.nvlink_bandwidth


@dataclass(frozen=True, kw_only=True)
class NvSwitch:
    """A crossbar for NVLinks."""

    name: str
    ports: int
    bandwidth: float
    """B/s of one port, one direction"""
    sharp: bool = False
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Nic:
    """A network adapter."""

    name: str
    ports: int
    bandwidth: float
    """B/s of one port, one direction"""
    kind: str
    """infiniband, roce, efa, ethernet"""
    latency: float = 0.0
    """s of one step of a small message, GPU memory to GPU memory on another node"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A network switch."""

    name: str
    ports: int
    bandwidth: float
    """B/s of one port, one direction"""
    latency: float
    """s, port to port"""
    kind: str
    sharp: bool = False
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Pcie:
    """A PCI Express generation at 16 lanes."""

    name: str
    generation: int
    bandwidth: float
    """B/s, theoretical, one direction, 16 lanes"""
    latency: float = 0.0
    """s of one step of a small message between two GPUs"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """A processor."""

    name: str
    cores: int
    clock: float
    """base clock, Hz"""
    memory_bandwidth: float
    """B/s of one socket"""
    pcie_lanes: int
    power: float
    """W"""
    vendor: str
    """amd, intel"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Ssd:
    """An NVMe drive."""

    name: str
    capacity: float
    """B"""
    read_bandwidth: float
    """B/s"""
    write_bandwidth: float
    """B/s"""
    read_iops: float | None
    """1/s of 4 KiB, None where no figure is known"""
    write_iops: float | None
    """1/s of 4 KiB, None where no figure is known"""
    read_latency: float = 0.0
    """s of one read of 4 KiB, alone; 0 where no figure is known"""
    write_latency: float = 0.0
    """s of one write of 4 KiB, alone; 0 where no figure is known"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class System:
    """A server: GPUs, the links between them, and its adapters."""

    name: str
    gpu: Gpu
    gpus: int
    cpu: Cpu | None
    cpus: int
    memory: float
    """B of main memory"""
    nvswitch: NvSwitch | None
    nvswitches: int
    topology: str
    """how its GPUs are joined: nvswitch, cube-mesh, nvlink-mesh, nvlink-pair; pcie (over switches) or pcie-root (over the
    processors' root complexes)"""
    nic: Nic | None
    nics: int
    """compute adapters"""
    storage_nic: Nic | None
    storage_nics: int
    ssd: Ssd | None
    ssds: int
    """drives of the data cache"""
    power: float
    """W, maximum"""
    pcie: Pcie | None = None
    """slots of its GPUs"""
    switch: Switch | None = None
    """what its compute adapters are wired to in a large cluster"""
    unit: int = 0
    """nodes of a scalable unit: those that share one leaf switch per rail; 0 where none is laid down"""
    datasheet: Mapping[str, float] = field(default_factory=dict, hash=False)
    """rounded figures that the vendor prints, to hold the derived ones against"""
    features: Mapping[str, str] = field(default_factory=dict, hash=False)
    """what else it comes with: tpm, secure_boot, self_encrypting, raid (of the data drives)"""
    source: str = ""
    confirmed: str = "no"
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)


Peak = Literal["fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]
PEAKS: Final[tuple[str, ...]] = get_args(Peak)
"""the keys that the peaks of a GPU may have"""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A number format of weights and activations."""

    name: str
    matmul: str
    """key of Gpu.peaks that its matrix products run at"""
    bytes: float
    """B of one element in memory"""
    accumulate: str
    """format in which products are summed"""
    exponent: int
    """bits; 0 for integers"""
    significand: int
    """bits stored, without sign; for integers all bits but the sign"""


def _precision(name: str, size: float, accumulate: str, exponent: int, significand: int) -> Precision:
    return Precision(
        name=name,
        matmul=name,
        bytes=size,
        accumulate=accumulate,
        exponent=exponent,
        significand=significand,
    )


# Formats after IEEE 754 (fp64, fp32, fp16), the bfloat16 and TF32 descriptions in NVIDIA's Ampere white
# paper, and arxiv.org/abs/2209.05433 for fp8 (E4M3 of the forward pass). TF32 is fp32 in memory: only its
# products are shorter.
PRECISIONS: Final[dict[str, Precision]] = {
    p.name: p
    for p in (
        _precision("fp64", 8.0, "fp64", 11, 52),
        _precision("fp32", 4.0, "fp32", 8, 23),
        _precision("tf32", 4.0, "fp32", 8, 10),
        _precision("bf16", 2.0, "fp32", 8, 7),
        _precision("fp16", 2.0, "fp32", 5, 10),
        _precision("fp8", 1.0, "fp32", 4, 3),
        _precision("int8", 1.0, "int32", 0, 7),
        _precision("int4", 0.5, "int32", 0, 3),
    )
}


def matmul_peak(gpu: Gpu, precision: str, *, sparse: bool = False) -> float:
    """Greatest FLOP/s of a GPU's matrix products in a precision, dense or 2:4 sparse.

    Double precision runs on tensor cores where the GPU has such (fp64_tensor). Raises CatalogError for an
    unknown precision, or one in which this GPU has no such products.
    """
    if precision not in PRECISIONS:
        raise CatalogError(unknown_name("precision", precision, PRECISIONS))
    table = gpu.sparse_peaks if sparse else gpu.peaks
    found = [table[key] for key in (PRECISIONS[precision].matmul, f"{precision}_tensor") if key in table]
    if not found:
        kind = "sparse " if sparse else ""
        raise CatalogError(
            f"{gpu.name} has no {kind}{precision} matrix products; it has {', '.join(table) or 'none'}"
        )
    return max(found)
