"""The parts of a machine, in SI units: B, B/s, FLOP/s, W, Hz, s. Bandwidths are per direction.

Each part states the origin of its figures: `source` names the sources, `confirmed` is "yes" (read in a
source), "partial" (except the fields in `notes`) or "no" (common knowledge). Parts are values: parts with
equal fields are equal, and all can be dictionary keys (mappings do not enter the hash).

Number formats give the bytes of an element and the GPU's peak for its matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, get_args

from podsim.errors import CatalogError, check_name
from podsim.memo import hashed_once
from podsim.records import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Link:
    """A shared pipe: bandwidth (B/s, one direction) and latency (s)."""

    name: str
    bandwidth: float
    """B/s. The bandwidth in one direction."""
    latency: float = 0.0
    """s. The latency of one step of a small message."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What every entry of the catalog has."""

    name: str
    source: str = ""
    confirmed: str = "no"
    """Whether its figures are confirmed: yes, partial, no."""
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The remarks on single figures, by field."""


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Gpu(Part):
    """The peaks of one accelerator, as the data sheet gives them."""

    architecture: str
    """The architecture: volta, turing, ampere, ada, hopper, blackwell, blackwell-rtx, cdna3, cdna4, tpu, wafer."""
    compute_capability: float
    """factor. The CUDA compute capability; 0 where there is no CUDA."""
    sms: int
    """The number of multiprocessors; of a TPU, of its TensorCores."""
    clock: float
    """Hz. The boost clock."""
    peaks: Mapping[str, float] = field(hash=False)
    """FLOP/s. The dense peaks by precision: fp64, fp64_tensor, fp32, tf32, bf16, fp16, fp8, fp4, int8, int4."""
    sparse_peaks: Mapping[str, float] = field(hash=False)
    """FLOP/s. The peaks with 2:4 structured sparsity, by precision."""
    memory: float
    """B. The device memory."""
    memory_bandwidth: float
    """B/s. The bandwidth of the device memory."""
    l2: float
    """B. The size of the L2 cache."""
    power: float
    """W. The limit of the board's power."""
    nvlinks: int
    """The number of NVLinks; of a TPU, of its links to neighbours (ICI)."""
    nvlink_bandwidth: float
    """B/s. The bandwidth of one NVLink, in one direction."""
    pcie_generation: int
    pcie_lanes: int
    bridge: bool = False
    """Whether its NVLinks reach one neighbour only, over a bridge between two cards."""
    nvlink_latency: float = 0.0
    """s. The latency of one step of a small message over NVLink."""
    mig: bool = False
    exponentials: float = 16.0
    """count. The exponentials that a multiprocessor computes in one clock."""
    fraction: float = 1.0
    """share. The share of a GPU's memory system; below 1 for a MIG instance."""
    is_sustained: bool = False
    """Whether products run at the clock of long runs, which power limits, and not at that of bursts."""
    kernels: str = ""
    """The name of the fitted kernel constants (catalog folder kernels/)."""

    @property
    def streams_weights(self) -> bool:
        """Whether weights stream through it layer by layer, as through a wafer."""
        return self.architecture == "wafer"

    @property
    def has_fused_attention(self) -> bool:
        """Whether attention need not store its scores: compute capability 7.5 or newer, and wafers."""
        return self.compute_capability >= 7.5 or self.streams_weights

    @property
    def nvlink(self) -> float:
        """B/s. The bandwidth of all NVLinks, in one direction."""
        return self.nvlinks * self.nvlink_bandwidth


@dataclass(frozen=True, kw_only=True)
class NvSwitch(Part):
    """A crossbar for NVLinks."""

    ports: int
    bandwidth: float
    """B/s. The bandwidth of one port, in one direction."""
    sharp: bool = False


@dataclass(frozen=True, kw_only=True)
class Nic(Part):
    """A network adapter."""

    ports: int
    bandwidth: float
    """B/s. The bandwidth of one port, in one direction."""
    kind: str
    """The kind of network: infiniband, roce, efa, ethernet."""
    latency: float = 0.0
    """s. The latency of one step of a small message, from GPU memory to GPU memory on another node."""


@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """A network switch."""

    ports: int
    bandwidth: float
    """B/s. The bandwidth of one port, in one direction."""
    latency: float
    """s. The latency from port to port."""
    kind: str
    sharp: bool = False


@dataclass(frozen=True, kw_only=True)
class Pcie(Part):
    """A PCI Express generation at 16 lanes."""

    generation: int
    bandwidth: float
    """B/s. The theoretical bandwidth of 16 lanes, in one direction."""
    copies: float
    """B/s. The rate that copies between GPU and host reach over 16 lanes, measured; of both ways the slower."""
    duplex: float
    """B/s. The rate of each direction of 16 lanes while both run: payloads, without headers and credits."""
    latency: float = 0.0
    """s. The latency of one step of a small message between two GPUs."""


@dataclass(frozen=True, kw_only=True)
class Cpu(Part):
    """A processor."""

    cores: int
    clock: float
    """Hz. The base clock."""
    memory_bandwidth: float
    """B/s. The memory bandwidth of one socket."""
    pcie_lanes: int
    power: float
    """W. The power of one socket."""
    vendor: str
    """The vendor: amd, intel, nvidia."""
    socket_links: int = 0
    """The number of links to the other socket; 0 if unknown."""
    socket_bandwidth: float = 0.0
    """B/s. The bandwidth of one such link, in one direction."""
    socket_name: str = ""
    """The name of such links: xGMI, UPI."""

    @property
    def socket_rate(self) -> float:
        """B/s. The bandwidth of all links to the other socket, in one direction; 0 if unknown."""
        return self.socket_links * self.socket_bandwidth


@dataclass(frozen=True, kw_only=True)
class Ssd(Part):
    """An NVMe drive."""

    capacity: float
    """B. The capacity of one drive."""
    read_bandwidth: float
    """B/s. The bandwidth of sequential reads."""
    write_bandwidth: float
    """B/s. The bandwidth of sequential writes."""
    read_iops: float | None
    """1/s. The rate of 4 KiB reads; None if unknown."""
    write_iops: float | None
    """1/s. The rate of 4 KiB writes; None if unknown."""
    read_latency: float = 0.0
    """s. The latency of one read of 4 KiB, alone; 0 if unknown."""
    write_latency: float = 0.0
    """s. The latency of one write of 4 KiB, alone; 0 if unknown."""


@dataclass(frozen=True, kw_only=True)
class TorusLinks:
    """The torus of links between the accelerators of a system, and the slices that it may be cut into."""

    shape: tuple[int, ...]
    """count. The chips along each axis."""
    pod: tuple[int, ...]
    """count. The chips along each axis of the largest torus."""
    cube: int = 0
    """count. The side of the blocks that optical switches join to any torus; 0 where slices are cut out of the pod."""
    slices: tuple[tuple[int, ...], ...] = ()
    """count. The shapes of the slices that are no multiples of a cube."""
    cores: int = 1
    """The number by which names of slices count a chip: v5p-128 has 64 chips."""
    twisted: bool = False
    """Whether the links around the short axes shift by half of the long ones."""

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Whether the links of each axis close to a ring."""
        if self.cube:
            closed = all(side % self.cube == 0 for side in self.shape)
            return tuple(closed for _ in self.shape)
        return tuple(side == most for side, most in zip(self.shape, self.pod, strict=True))


@hashed_once
@dataclass(frozen=True, kw_only=True)
class System(Part):
    """A server: GPUs, the links between them, and its adapters."""

    gpu: Gpu
    gpus: int
    cpu: Cpu | None
    cpus: int
    memory: float
    """B. The main memory."""
    nvswitch: NvSwitch | None
    nvswitches: int
    topology: str
    """The topology of its GPUs: nvswitch, cube-mesh, nvlink-mesh, nvlink-pair, torus; pcie (over switches) or pcie-root
    (over the processors' root complexes)."""
    nic: Nic | None
    nics: int
    """The number of compute adapters."""
    storage_nic: Nic | None
    storage_nics: int
    ssd: Ssd | None
    ssds: int
    """The number of drives of the data cache."""
    power: float
    """W. The maximum power of the node."""
    pcie: Pcie | None = None
    """The slots of its GPUs."""
    switch: Switch | None = None
    """The switch that its compute adapters connect to in a large cluster."""
    trays: int = 1
    """The number of its host servers: 1, or the compute trays of a rack."""
    boot_ssd: Ssd | None = None
    """The drive that the operating system starts from."""
    boot_ssds: int = 0
    """The number of such drives, mirrored."""
    management: float = 0.0
    """B/s. The bandwidth of the port of its management controller (BMC); 0 if unknown."""
    is_storage_on_switches: bool = False
    """Whether storage adapters and drives connect to PCIe switches, as GPUs do, and not to processors."""
    infrastructure: str = ""
    """The name of its storage and management networks and its racks in the catalog; empty if none is known."""
    unit: int = 0
    """The number of nodes of a scalable unit, which share one leaf switch per rail; 0 if undefined."""
    network_speed: float = 1.0
    """factor. The speed of groups that span nodes in measured steps, relative to the collective law."""
    detour: float = 1.0
    """factor. The speed of groups with some of each node's GPUs, neither one nor all, relative to the others."""
    datasheet: Mapping[str, float] = field(default_factory=dict, hash=False)
    """SI. The vendor's rounded figures, for comparison with the derived ones."""
    features: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The other features: tpm, secure_boot, self_encrypting, raid (of the data drives)."""
    collectives: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The usual settings of collectives on its nodes, by key of a `[collectives]` table."""
    torus: TorusLinks | None = None
    """The torus that joins its accelerators; None if other links do."""

    @property
    def cores(self) -> int:
        """The number of processor cores; 0 if they are not known."""
        return self.cpus * self.cpu.cores if self.cpu else 0

    @property
    def storage_rate(self) -> float:
        """B/s. What all ports of the storage adapters reach together, in one direction: the ports, or their slots."""
        if self.storage_nic is None:
            return 0.0
        slot = self.pcie.bandwidth if self.pcie else math.inf
        return self.storage_nics * min(self.storage_nic.ports * self.storage_nic.bandwidth, slot)

    @property
    def storage_cables(self) -> int:
        """The number of storage ports with a cable in reference designs: those that a slot feeds at line rate."""
        if self.storage_nic is None:
            return 0
        return self.storage_nics * max(
            int(self.storage_rate / self.storage_nics // self.storage_nic.bandwidth), 1
        )


Peak = Literal["fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]
PEAKS: Final[tuple[str, ...]] = get_args(Peak)
"""The keys that the peaks of a GPU may have."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A number format of weights and activations."""

    name: str
    matmul: str
    """The key of Gpu.peaks for its matrix products."""
    bytes: float
    """B. The size of one element in memory."""
    accumulate: str
    """The format in which products are summed."""
    exponent: int
    """The number of exponent bits; 0 for integers."""
    significand: int
    """The number of stored bits without the sign; for integers, all bits but the sign."""
    block: int = 0
    """The number of elements that share one byte of scale; 0 if `bytes` holds none."""
    least: float = 0.0
    """count. The compute capability from which on GPUs multiply it; 0 where the peaks tell."""

    @property
    def is_cast(self) -> bool:
        """Whether operands are cast to it, with a scale, for products only: fp8 and narrower."""
        return self.exponent > 0 and self.exponent + self.significand < 8

    def is_native(self, gpu: Gpu) -> bool:
        """Whether the GPU multiplies it."""
        return self.matmul in gpu.peaks and gpu.compute_capability >= self.least


def _precision(
    name: str, size: float, accumulate: str, exponent: int, significand: int, matmul: str = "", block: int = 0
) -> Precision:
    """A format; Blackwell's tensor cores are the first to take those of blocks, each with a scale of one byte."""
    return Precision(
        name=name, matmul=matmul or name, bytes=size + (1 / block if block else 0.0), accumulate=accumulate,
        exponent=exponent, significand=significand, block=block, least=10.0 if block else 0.0,
    )  # fmt: skip


# Formats after IEEE 754 (fp64, fp32, fp16), the bfloat16 and TF32 descriptions in NVIDIA's Ampere white
# paper, arxiv.org/abs/2209.05433 for fp8 (E4M3 of the forward pass), the OCP specification of microscaling formats
# 1.0 for mxfp8 (E4M3, a scale for 32) and arxiv.org/abs/2509.25149 for nvfp4 (E2M1, an E4M3 scale for 16). TF32 is
# fp32 in memory: only its products are shorter.
PRECISIONS: Final[dict[str, Precision]] = {
    p.name: p
    for p in (
        _precision("fp64", 8.0, "fp64", 11, 52),
        _precision("fp32", 4.0, "fp32", 8, 23),
        _precision("tf32", 4.0, "fp32", 8, 10),
        _precision("bf16", 2.0, "fp32", 8, 7),
        _precision("fp16", 2.0, "fp32", 5, 10),
        _precision("fp8", 1.0, "fp32", 4, 3),
        _precision("mxfp8", 1.0, "fp32", 4, 3, "fp8", 32),
        _precision("nvfp4", 0.5, "fp32", 2, 1, "fp4", 16),
        _precision("int8", 1.0, "int32", 0, 7),
        _precision("int4", 0.5, "int32", 0, 3),
    )
}


def matmul_peak(gpu: Gpu, precision: str, *, sparse: bool = False) -> float:
    """FLOP/s. The peak of a GPU's matrix products in a precision, dense or 2:4 sparse.

    Double precision runs on tensor cores if the GPU has them (fp64_tensor). Raises CatalogError for an
    unknown precision, or for one without matrix products on this GPU.
    """
    check_name("precision", precision, PRECISIONS, CatalogError)
    table, number = gpu.sparse_peaks if sparse else gpu.peaks, PRECISIONS[precision]
    keys = (number.matmul, f"{precision}_tensor") if number.is_native(gpu) else ()
    peaks = [table[key] for key in keys if key in table]
    if not peaks:
        kind = "sparse " if sparse else ""
        raise CatalogError(
            f"{gpu.name} has no {kind}{precision} matrix products; it has {', '.join(table) or 'none'}"
        )
    return max(peaks)
