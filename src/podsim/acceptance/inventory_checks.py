"""The inventory of a machine compared with the system that it should be, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from podsim.answers.acceptance import Part
from podsim.errors import ClusterError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.host_ways import host_way
from podsim.hardware.parts import System
from podsim.lab.inventory import Adapter, Device, Inventory, closeness
from podsim.lab.inventory_tools import Answers
from podsim.units import format_quantity

CANNOT = "cannot tell here"
_NEAR = ("PIX", "PXB")
_ENOUGH = 0.95
"""share of a memory or a drive's capacity that must be there: makers count 10^9, and firmware keeps a part"""
_NAMES = {
    0x20B0: "a100-sxm4-40gb", 0x20B2: "a100-sxm4-80gb", 0x20B5: "a100-pcie-80gb", 0x20F1: "a100-pcie-40gb",
    0x2330: "h100-sxm5-80gb", 0x2331: "h100-pcie-80gb", 0x2335: "h200-sxm5-141gb", 0x1DB1: "v100-sxm2-16gb",
    0x1DB5: "v100-sxm2-32gb",
}  # fmt: skip
"""PCI device -> GPU of the catalog (pci-ids.ucw.cz, maker 10de)"""
_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""generation of PCI Express -> GT/s of a lane"""


def inventory_parts(inventory: Inventory, answers: Answers, cluster: Cluster) -> tuple[Part, ...]:
    """One line for each thing that the expected system says something of."""
    system = cluster.system
    accelerated = system.gpu.architecture != "cpu"
    lines: list[Callable[[], Iterator[Part]]] = [
        lambda: _processors(inventory, system),
        lambda: _gpus(inventory, answers, system) if accelerated else _no_gpus(inventory),
        lambda: _adapters(inventory, system),
        lambda: (
            _affinity(inventory, cluster)
            if accelerated and (system.nics or system.storage_nics)
            else iter(())
        ),
        lambda: _drives(inventory, answers, system),
        lambda: _security(inventory, answers, system),
    ]
    return tuple(part for line in lines for part in line())


def part_of(name: str, expected: str, found: str, is_right: bool | None, source: str, why: str = "") -> Part:
    """A line of the inventory; is_right: None for what cannot be told here."""
    verdict = CANNOT if is_right is None else "ok" if is_right else "differs"
    return Part(name=name, expected=expected, found=found, verdict=verdict, source=source, why=why)


def _processors(inventory: Inventory, system: System) -> Iterator[Part]:
    if system.cpu is not None:
        yield part_of(
            "processors",
            f"{system.cpus} x {system.cpu.name}, {system.cores} cores",
            f"{inventory.sockets} x {inventory.processor or 'unnamed'}, {inventory.cores} cores",
            (inventory.sockets, inventory.cores) == (system.cpus, system.cores),
            "/proc/cpuinfo",
            "a hypervisor shows what it was told to" if inventory.virtual else "",
        )
    enough = inventory.memory >= _ENOUGH * system.memory
    yield part_of("main memory", _size(system.memory), _size(inventory.memory), enough, "/proc/meminfo")


def _size(size: float) -> str:
    return format_quantity(size, "B")


def _counted(names: Sequence[str]) -> str:
    """ "8 x a100-sxm4-80gb"; "none"."""
    kinds = {name: names.count(name) for name in names}
    return ", ".join(f"{count} x {name}" for name, count in kinds.items()) or "none"


def _model(name: str) -> str:
    """A GPU's name as the catalog would write it: NVIDIA A100-SXM4-80GB is a100-sxm4-80gb."""
    return re.sub(r"[\s-]+", "-", re.sub(r"^(nvidia|tesla)\s+", "", name.strip().lower()))


def _gpus(inventory: Inventory, answers: Answers, system: System) -> Iterator[Part]:
    wanted = system.gpu.name.lower()
    names = [_NAMES.get(gpu.device, f"10de:{gpu.device:04x}") for gpu in inventory.gpus]
    source = "/sys/bus/pci"
    if len(answers.gpus) == len(names) and any(name.startswith("10de:") for name in names):
        names, source = [_model(name) for name, _ in answers.gpus], "nvidia-smi"
    right = all(name == wanted or name in wanted or wanted in name for name in names)
    right = right and len(names) == system.gpus
    yield part_of("GPUs", f"{system.gpus} x {wanted}", _counted(names), right, source)
    least, why = "-", answers.no_gpus or "nvidia-smi lists no GPU"
    enough = None
    if answers.gpus:
        memory = min(memory for _, memory in answers.gpus)
        least, why = _size(memory), "the least of all; the driver keeps some of it"
        enough = memory >= 0.92 * system.gpu.memory
    yield part_of("GPU memory", _size(system.gpu.memory), least, enough, "nvidia-smi", why)
    if inventory.gpus:
        yield _slots(inventory.gpus, system)
    if system.nvswitches:
        wired = len(inventory.switches)
        yield part_of(
            "NVSwitches", str(system.nvswitches), str(wired), wired == system.nvswitches, "/sys/bus/pci"
        )


def _slots(gpus: Sequence[Device], system: System) -> Part:
    """The link of each GPU to its slot: lanes decide, as the speed falls while a GPU rests."""
    lanes, speed = system.gpu.pcie_lanes, _SPEEDS[system.gpu.pcie_generation]
    narrow = [gpu.address for gpu in gpus if gpu.width < lanes]
    slow = [gpu.address for gpu in gpus if _speed(gpu) < speed]
    why = f"fewer lanes: {', '.join(narrow)}" if narrow else ""
    if slow and not narrow:
        why = f"slower now, as resting GPUs are: {', '.join(slow)}"
    links = _counted([f"{_speed(gpu):g} GT/s x{gpu.width}" for gpu in gpus])
    return part_of("GPU slots", f"{speed:g} GT/s x{lanes}", links, not narrow, "/sys/bus/pci", why)


def _speed(device: Device) -> float:
    match = re.match(r"\d{1,9}(?:\.\d{1,9})?", device.speed)
    return float(match[0]) if match else 0.0


def _no_gpus(inventory: Inventory) -> Iterator[Part]:
    yield part_of("GPUs", "none", str(len(inventory.gpus) or "none"), not inventory.gpus, "/sys/bus/pci")


def _adapters(inventory: Inventory, system: System) -> Iterator[Part]:
    """Ports of compute and storage adapters, together: nothing but their cables tells them apart."""
    wanted = [(nic.ports * count, nic.bandwidth) for nic, count in (
        (system.nic, system.nics), (system.storage_nic, system.storage_nics),
    ) if nic is not None]  # fmt: skip
    ports = sum(count for count, _ in wanted)
    if not ports:
        return
    least = min(rate for _, rate in wanted)
    fast = [port for port in inventory.adapters if port.rate >= least * 0.999]
    up = [port for port in fast if port.active]
    why = ""
    if len(fast) >= ports > len(up):
        down = [port.name for port in fast if not port.active]
        why = f"not active: {', '.join(down)}"
    elif slow := [
        f"{port.name} {port.rate * 8e-9:g} Gb/s" for port in inventory.adapters if port not in fast
    ]:
        why = f"slower: {', '.join(slow)}"
    expected = f"{ports} x {format_quantity(least * 8, 'b/s')}, active"
    counted = f"{len(up)} active of {len(inventory.adapters)}" if inventory.adapters else "none"
    yield part_of("adapter ports", expected, counted, len(up) >= ports, "/sys/class/infiniband", why)


def _affinity(inventory: Inventory, cluster: Cluster) -> Iterator[Part]:
    """Whether each GPU has an adapter behind its own PCIe switch, and on its own NUMA node."""
    placed = [port for port in inventory.adapters if port.device is not None]
    name, expected = "GPUs and adapters", "an adapter behind the same PCIe switch as each GPU"
    if not inventory.gpus or not placed:
        lacking = "GPU" if not inventory.gpus else "adapter"
        yield part_of(name, expected, "-", False, "/sys/bus/pci", f"there is no {lacking}")
        return
    nearest = {gpu.address: _nearest(gpu, placed) for gpu in inventory.gpus}
    far = {address: closest for address, closest in nearest.items() if closest[0] not in _NEAR}
    why = "; ".join(f"{address}: {how} to {port.name}" for address, (how, port) in far.items())[:300]
    yield part_of(
        name, expected, _counted([how for how, _ in nearest.values()]), not far, "/sys/bus/pci", why
    )
    if cluster.system.cpus < 2:
        return
    unknown = [gpu.address for gpu in inventory.gpus if gpu.numa is None]
    crossed = [
        f"{gpu.address} on {gpu.numa}, {port.name} on {port.device.numa}"
        for gpu in inventory.gpus
        if (port := nearest[gpu.address][1]).device is not None and port.device.numa != gpu.numa
    ]
    spread = sorted({gpu.numa for gpu in inventory.gpus if gpu.numa is not None})
    nodes = f"nodes {', '.join(map(str, spread))} of {inventory.numa_nodes}" if spread else "-"
    why = f"firmware does not tell: {', '.join(unknown)}" if unknown else "; ".join(crossed)[:300]
    if crossed and not unknown:
        with suppress(ClusterError):  # a server whose adapters all stand at one socket
            rate = format_quantity(host_way(cluster, "wrong-numa").rate, "B/s")
            line = format_quantity(cluster.network.bandwidth, "B/s")
            why += f"; were all so, an adapter would reach {rate} of {line}"
    right = None if unknown else not crossed
    yield part_of("NUMA of GPUs", "as their adapters", nodes, right, "/sys/bus/pci", why)


def _nearest(gpu: Device, ports: Sequence[Adapter]) -> tuple[str, Adapter]:
    order = ("PIX", "PXB", "PHB", "SYS")
    both = [(closeness(gpu, port.device), port) for port in ports if port.device is not None]
    return min(both, key=lambda pair: order.index(pair[0]))


def _drives(inventory: Inventory, answers: Answers, system: System) -> Iterator[Part]:
    ssd, features = system.ssd, system.features
    if ssd is not None and system.ssds and system.gpu.architecture != "cpu":
        fit = [drive for drive in inventory.drives if drive.capacity >= _ENOUGH * ssd.capacity]
        drives = _counted([_size(drive.capacity) for drive in inventory.drives])
        why = "drives of the system itself count, too" if len(inventory.drives) > system.ssds else ""
        expected, enough = f"{system.ssds} x {_size(ssd.capacity)}", len(fit) >= system.ssds
        yield part_of("NVMe drives", expected, drives, enough, "/sys/class/nvme", why)
    if "raid" in features:
        level = features["raid"]
        fitting = {name: members for name, (how, members) in inventory.arrays.items() if how == level}
        most = max((len(members) for members in fitting.values()), default=0)
        arrays = [f"{name}: {how} of {len(members)}" for name, (how, members) in inventory.arrays.items()]
        yield part_of(
            "RAID of the data drives", f"{level} of {system.ssds}", ", ".join(arrays) or "none",
            most >= system.ssds, "/proc/mdstat",
        )  # fmt: skip
    if "self_encrypting" in features:
        yield _encrypting(answers, features["self_encrypting"])
        if answers.locks:
            yield _locks(answers)


def _encrypting(answers: Answers, wanted: str) -> Part:
    plain = [device for device, encrypts in answers.drives if not encrypts]
    counted, right, why = "-", None, answers.no_drives or "sedutil-cli lists no drive"
    if answers.drives:
        counted = f"{len(answers.drives) - len(plain)} of {len(answers.drives)}"
        right, why = (wanted == "yes") == (not plain), f"no: {', '.join(plain)}" if plain else ""
    return part_of("self-encrypting drives", wanted, counted, right, "sedutil-cli --scan", why)


def _locks(answers: Answers) -> Part:
    """Whether encrypting drives can be read now, where they tell; without locking, anyone who has a drive can read it."""
    shut = [device for device, (_, locked) in answers.locks.items() if locked]
    enabled = sum(on for on, _ in answers.locks.values())
    counted = f"{enabled} of {len(answers.locks)} with locking, {len(shut)} locked"
    why = f"locked: {', '.join(shut)}" if shut else ""
    return part_of("locks of encrypting drives", "open", counted, not shut, "sedutil-cli --query", why)


def _security(inventory: Inventory, answers: Answers, system: System) -> Iterator[Part]:
    features = system.features
    if "tpm" in features:
        wanted = features["tpm"]
        right, version, why = None, "-", "this kernel shows no /sys/class/tpm"
        if inventory.tpm is not None:
            right, why = inventory.tpm == wanted.partition(".")[0], ""
            version = f"{inventory.tpm}.0" if inventory.tpm == "2" else inventory.tpm or "none"
        yield part_of("TPM", wanted, version, right, "/sys/class/tpm", why)
    if "secure_boot" in features:
        wanted = features["secure_boot"]
        state = None if inventory.secure_boot is None else "on" if inventory.secure_boot else "off"
        why = ""
        if inventory.efi is False:
            state, why = "off", "it was not booted by UEFI"
        elif state is None:
            why = "the EFI variable SecureBoot cannot be read"
        right = None if state is None else state == wanted
        yield part_of("secure boot", wanted, state or "-", right, "/sys/firmware/efi/efivars", why)
