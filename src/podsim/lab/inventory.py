"""What is in a machine, read from sysfs and procfs under a root directory, so that any tree can be read.

    Device      a PCI device: what it is, its NUMA node, its link, and the bridges above it
    Inventory   all that `podsim verify` holds against an expected system

Nothing is written, no driver is needed: GPUs and adapters are known by their PCI class and maker. How close two
devices are is counted in the words of `nvidia-smi topo -m`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from podsim.programs import needs_linux

_NVIDIA = 0x10DE
_GPU_CLASSES = (0x0302, 0x0300)
_BRIDGE = 0x0680
_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
_SECTOR = 512
"""B in which sysfs counts the size of a drive, whatever its own sectors"""
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, kw_only=True)
class Device:
    """A PCI device."""

    address: str
    kind: int
    """The class and subclass, as 0x0302."""
    vendor: int
    device: int
    numa: int | None
    """The memory domain; None if the system does not tell."""
    speed: str
    """The present speed of its link, as "16.0 GT/s PCIe"; empty if it has none."""
    width: int
    """The present number of lanes of its link; 0 if it has none."""
    above: tuple[str, ...]
    """The addresses of the bridges above it, the root port first."""
    root: str
    """The root of its bus, as pci0000:00."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A port of InfiniBand or RoCE."""

    name: str
    rate: float
    """B/s. The rate in one direction; 0 if unknown."""
    layer: str
    """The link layer: InfiniBand or Ethernet."""
    active: bool
    device: Device | None


@dataclass(frozen=True, kw_only=True)
class Drive:
    """An NVMe drive."""

    name: str
    model: str
    capacity: float
    """B. The capacity."""
    numa: int | None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What is in the machine. None stands for what the system does not tell."""

    processor: str
    sockets: int
    cores: int
    """The number of physical cores of all sockets."""
    memory: float
    """B. The main memory."""
    numa_nodes: int
    gpus: tuple[Device, ...]
    switches: tuple[Device, ...]
    """The number of NVSwitches."""
    adapters: tuple[Adapter, ...]
    ethernet: Mapping[str, float] = field(default_factory=dict)
    """B/s. The rates of other network ports with a device, by name; 0 if unknown."""
    drives: tuple[Drive, ...] = ()
    arrays: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """The md arrays: (level, members) by name."""
    tpm: str | None = None
    """The major version of the TPM; empty without one."""
    secure_boot: bool | None = None
    efi: bool | None = None
    """Whether it was booted by UEFI."""
    vendor: str = "other"
    """The vendor of the processor: intel, amd, other."""
    clock: float = 0.0
    """Hz. The present clock of the first core."""
    cache: float = 0.0
    """B. The largest cache of the first core."""
    virtual: bool = False
    """Whether a hypervisor hides the hardware."""


def read_inventory(root: Path = Path("/")) -> Inventory:
    """What is in the machine whose file systems are under `root`."""
    if root == Path("/"):
        needs_linux("reading a machine's parts from /proc and /sys")
    devices = list(_devices(root))
    info = _cpuinfo(_text(root / "proc/cpuinfo"))
    sockets = {entry.get("physical id", "0") for entry in info} or {"0"}
    cores = {(entry.get("physical id", "0"), entry.get("core id", str(n))) for n, entry in enumerate(info)}
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    firmware = root / "sys/firmware"  # containers hide what is in it
    efi = (firmware / "efi").is_dir() if firmware.is_dir() and any(firmware.iterdir()) else None
    nvidia = [entry for entry in devices if entry.vendor == _NVIDIA]
    return Inventory(
        processor=next((entry["model name"] for entry in info if "model name" in entry), ""),
        sockets=len(sockets), cores=len(cores), memory=float(memory[1]) * 1024 if memory else 0.0,
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))),
        gpus=tuple(entry for entry in nvidia if entry.kind in _GPU_CLASSES),
        switches=tuple(entry for entry in nvidia if entry.kind == _BRIDGE),
        adapters=tuple(_adapters(root, devices)), ethernet=_ethernet(root), drives=tuple(_drives(root)),
        arrays=_arrays(_text(root / "proc/mdstat")), tpm=_tpm(root), secure_boot=_secure_boot(root) if efi else None,
        vendor=_VENDORS.get(next((entry["vendor_id"] for entry in info if "vendor_id" in entry), ""), "other"),
        clock=float(next((entry["cpu MHz"] for entry in info if "cpu MHz" in entry), "0")) * 1e6, cache=_cache(root),
        efi=efi, virtual=any("hypervisor" in entry.get("flags", "").split() for entry in info),
    )  # fmt: skip


def closeness(first: Device, other: Device) -> str:
    """How far apart two devices are: PIX, PXB, PHB or SYS, as `nvidia-smi topo -m` says."""
    if first.root != other.root:
        return "PHB" if first.numa is not None and first.numa == other.numa else "SYS"
    shared = 0
    for mine, theirs in zip(first.above, other.above, strict=False):
        if mine != theirs:
            break
        shared += 1
    if not shared:
        return "PHB"
    # a switch is two bridges, its upstream port and one downstream port for each device
    return "PIX" if max(len(first.above), len(other.above)) - shared <= 1 else "PXB"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path, base: int = 16) -> int | None:
    try:
        return int(_text(path).strip(), base)
    except ValueError:
        return None


def _devices(root: Path) -> Iterator[Device]:
    folder = root / "sys/bus/pci/devices"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        kind = _number(path / "class")
        if kind is None or not _ADDRESS.fullmatch(path.name):
            continue
        *above, _ = (part for part in path.resolve().parts if _ADDRESS.fullmatch(part))
        top = next((part for part in path.resolve().parts if part.startswith("pci")), "")
        numa = _number(path / "numa_node", 10)
        yield Device(
            address=path.name, kind=kind >> 8, vendor=_number(path / "vendor") or 0,
            device=_number(path / "device") or 0, numa=None if numa is None or numa < 0 else numa,
            speed=_text(path / "current_link_speed").strip(),
            width=_number(path / "current_link_width", 10) or 0, above=tuple(above), root=top,
        )  # fmt: skip


def _cpuinfo(text: str) -> list[dict[str, str]]:
    """One mapping for each logical processor."""
    blocks = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        if block_values := {key.strip(): value.strip() for key, _, value in pairs}:
            blocks.append(block_values)
    return [entry for entry in blocks if "processor" in entry]


def _cache(root: Path) -> float:
    """B of the largest cache of the first core."""
    folder = root / "sys/devices/system/cpu/cpu0/cache"
    sizes = (re.match(r"(\d+)K", _text(path / "size")) for path in folder.glob("index[0-9]*"))
    return max((float(size[1]) * 1024 for size in sizes if size), default=0.0)


def _adapters(root: Path, devices: list[Device]) -> Iterator[Adapter]:
    folder = root / "sys/class/infiniband"
    by = {each.address: each for each in devices}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        device = by.get((path / "device").resolve().name)
        for port in sorted((path / "ports").glob("[0-9]*")):
            rate = re.match(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*Gb/sec", _text(port / "rate"))
            yield Adapter(
                name=f"{path.name}/{port.name}", rate=float(rate[1]) * 1e9 / 8 if rate else 0.0,
                layer=_text(port / "link_layer").strip(), active="ACTIVE" in _text(port / "state"), device=device,
            )  # fmt: skip


def _ethernet(root: Path) -> dict[str, float]:
    """Network ports that are devices, by name; bridges, tunnels and the loopback are none."""
    folder = root / "sys/class/net"
    ports = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (path / "device").exists():
            speed = _number(path / "speed", 10) or 0
            ports[path.name] = max(speed, 0) * 1e6 / 8
    return ports


def _drives(root: Path) -> Iterator[Drive]:
    folder = root / "sys/class/nvme"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        sizes = [_number(namespace / "size", 10) or 0 for namespace in path.glob("nvme*n[0-9]*")]
        numa = _number(path / "numa_node", 10)
        if numa is None:
            numa = _number(path / "device/numa_node", 10)
        yield Drive(
            name=path.name, model=_text(path / "model").strip(), capacity=float(sum(sizes) * _SECTOR),
            numa=None if numa is None or numa < 0 else numa,
        )  # fmt: skip


def _arrays(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    arrays = {}
    for match in re.finditer(r"^(md\S+) : active (?:\(\S+\) )?(\S+) (.*)$", text, re.MULTILINE):
        members = tuple(re.sub(r"\[\d+\].*", "", word) for word in match[3].split())
        arrays[match[1]] = (match[2], members)
    return arrays


def _tpm(root: Path) -> str | None:
    folder = root / "sys/class/tpm"
    if not folder.is_dir():
        return None
    versions = [_text(path / "tpm_version_major").strip() for path in sorted(folder.glob("tpm[0-9]*"))]
    return versions[0] if versions else ""


def _secure_boot(root: Path) -> bool | None:
    """The EFI variable: four bytes of attributes, then 1 if it is on."""
    try:
        data = (root / "sys/firmware/efi/efivars" / _SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return data[4] == 1 if len(data) >= 5 else None
