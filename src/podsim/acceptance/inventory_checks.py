"""The inventory of a machine compared with the system that it should be, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from podsim.answers.acceptance import Part
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


def inventory_parts(inventory: Inventory, answers: Answers, system: System) -> tuple[Part, ...]:
    """One line for each thing that the expected system says something of."""
    accelerated = system.gpu.architecture != "cpu"
    lines: list[Callable[[], Iterator[Part]]] = [
        lambda: _processors(inventory, system),
        lambda: _gpus(inventory, answers, system) if accelerated else _no_gpus(inventory),
        lambda: _adapters(inventory, system),
        lambda: (
            _affinity(inventory, system) if accelerated and (system.nics or system.storage_nics) else iter(())
        ),
        lambda: _drives(inventory, answers, system),
        lambda: _security(inventory, answers, system),
    ]
    return tuple(part for line in lines for part in line())


def _verdict(good: bool) -> str:
    return "ok" if good else "differs"


def _processors(inventory: Inventory, system: System) -> Iterator[Part]:
    if system.cpu is not None:
        why = "a hypervisor shows what it was told to" if inventory.virtual else ""
        yield Part(
            name="processors", expected=f"{system.cpus} x {system.cpu.name}, {system.cores} cores",
            found=f"{inventory.sockets} x {inventory.processor or 'unnamed'}, {inventory.cores} cores",
            verdict=_verdict((inventory.sockets, inventory.cores) == (system.cpus, system.cores)),
            source="/proc/cpuinfo", why=why,
        )  # fmt: skip
    enough = inventory.memory >= _ENOUGH * system.memory
    yield Part(
        name="main memory", expected=format_quantity(system.memory, "B"), found=format_quantity(inventory.memory, "B"),
        verdict=_verdict(enough), source="/proc/meminfo",
    )  # fmt: skip


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
    yield Part(
        name="GPUs", expected=f"{system.gpus} x {wanted}", found=_counted(names),
        verdict=_verdict(len(names) == system.gpus and right), source=source,
    )  # fmt: skip
    if answers.gpus:
        least = min(memory for _, memory in answers.gpus)
        yield Part(
            name="GPU memory", expected=format_quantity(system.gpu.memory, "B"), found=format_quantity(least, "B"),
            verdict=_verdict(least >= 0.92 * system.gpu.memory), source="nvidia-smi",
            why="the least of all; the driver keeps some of it",
        )  # fmt: skip
    else:
        yield Part(
            name="GPU memory", expected=format_quantity(system.gpu.memory, "B"), found="-", verdict=CANNOT,
            source="nvidia-smi", why=answers.no_gpus or "nvidia-smi lists no GPU",
        )  # fmt: skip
    if inventory.gpus:
        yield _slots(inventory.gpus, system)
    if system.nvswitches:
        yield Part(
            name="NVSwitches", expected=str(system.nvswitches), found=str(len(inventory.switches)),
            verdict=_verdict(len(inventory.switches) == system.nvswitches), source="/sys/bus/pci",
        )  # fmt: skip


def _slots(gpus: Sequence[Device], system: System) -> Part:
    """The link of each GPU to its slot: lanes decide, as the speed falls while a GPU rests."""
    lanes, speed = system.gpu.pcie_lanes, _SPEEDS[system.gpu.pcie_generation]
    narrow = [gpu.address for gpu in gpus if gpu.width < lanes]
    slow = [gpu.address for gpu in gpus if _speed(gpu) < speed]
    why = f"fewer lanes: {', '.join(narrow)}" if narrow else ""
    if slow and not narrow:
        why = f"slower now, as resting GPUs are: {', '.join(slow)}"
    return Part(
        name="GPU slots", expected=f"{speed:g} GT/s x{lanes}",
        found=_counted([f"{_speed(gpu):g} GT/s x{gpu.width}" for gpu in gpus]), verdict=_verdict(not narrow),
        source="/sys/bus/pci", why=why,
    )  # fmt: skip


def _speed(device: Device) -> float:
    match = re.match(r"\d{1,9}(?:\.\d{1,9})?", device.speed)
    return float(match[0]) if match else 0.0


def _no_gpus(inventory: Inventory) -> Iterator[Part]:
    yield Part(
        name="GPUs", expected="none", found=str(len(inventory.gpus) or "none"), verdict=_verdict(not inventory.gpus),
        source="/sys/bus/pci",
    )  # fmt: skip


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
    yield Part(
        name="adapter ports", expected=f"{ports} x {format_quantity(least * 8, 'b/s')}, active",
        found=f"{len(up)} active of {len(inventory.adapters)}" if inventory.adapters else "none",
        verdict=_verdict(len(up) >= ports), source="/sys/class/infiniband", why=why,
    )  # fmt: skip


def _affinity(inventory: Inventory, system: System) -> Iterator[Part]:
    """Whether each GPU has an adapter behind its own PCIe switch, and on its own NUMA node."""
    placed = [port for port in inventory.adapters if port.device is not None]
    expected = "an adapter behind the same PCIe switch as each GPU"
    if not inventory.gpus or not placed:
        lacking = "GPU" if not inventory.gpus else "adapter"
        yield Part(
            name="GPUs and adapters", expected=expected, found="-", verdict="differs", source="/sys/bus/pci",
            why=f"there is no {lacking}",
        )  # fmt: skip
        return
    nearest = {gpu.address: _nearest(gpu, placed) for gpu in inventory.gpus}
    far = {address: closest for address, closest in nearest.items() if closest[0] not in _NEAR}
    yield Part(
        name="GPUs and adapters", expected=expected,
        found=_counted([how for how, _ in nearest.values()]), verdict=_verdict(not far), source="/sys/bus/pci",
        why="; ".join(f"{address}: {how} to {port.name}" for address, (how, port) in far.items())[:300],
    )  # fmt: skip
    if not system.cpus or system.cpus < 2:
        return
    unknown = [gpu.address for gpu in inventory.gpus if gpu.numa is None]
    crossed = [
        f"{gpu.address} on {gpu.numa}, {port.name} on {port.device.numa}"
        for gpu in inventory.gpus
        if (port := nearest[gpu.address][1]).device is not None and port.device.numa != gpu.numa
    ]
    spread = sorted({gpu.numa for gpu in inventory.gpus if gpu.numa is not None})
    yield Part(
        name="NUMA of GPUs", expected="as their adapters", source="/sys/bus/pci",
        found=f"nodes {', '.join(map(str, spread))} of {inventory.numa_nodes}" if spread else "-",
        verdict=CANNOT if unknown else _verdict(not crossed),
        why=f"firmware does not tell: {', '.join(unknown)}" if unknown else "; ".join(crossed)[:300],
    )  # fmt: skip


def _nearest(gpu: Device, ports: Sequence[Adapter]) -> tuple[str, Adapter]:
    order = ("PIX", "PXB", "PHB", "SYS")
    both = [(closeness(gpu, port.device), port) for port in ports if port.device is not None]
    return min(both, key=lambda pair: order.index(pair[0]))


def _drives(inventory: Inventory, answers: Answers, system: System) -> Iterator[Part]:
    ssd, features = system.ssd, system.features
    if ssd is not None and system.ssds and system.gpu.architecture != "cpu":
        fit = [drive for drive in inventory.drives if drive.capacity >= _ENOUGH * ssd.capacity]
        yield Part(
            name="NVMe drives", expected=f"{system.ssds} x {format_quantity(ssd.capacity, 'B')}",
            found=_counted([format_quantity(drive.capacity, "B") for drive in inventory.drives]),
            verdict=_verdict(len(fit) >= system.ssds), source="/sys/class/nvme",
            why="drives of the system itself count, too" if len(inventory.drives) > system.ssds else "",
        )  # fmt: skip
    if "raid" in features:
        level = features["raid"]
        fitting = {name: members for name, (how, members) in inventory.arrays.items() if how == level}
        most = max((len(members) for members in fitting.values()), default=0)
        said = [f"{name}: {how} of {len(members)}" for name, (how, members) in inventory.arrays.items()]
        yield Part(
            name="RAID of the data drives", expected=f"{level} of {system.ssds}", found=", ".join(said) or "none",
            verdict=_verdict(most >= system.ssds), source="/proc/mdstat",
        )  # fmt: skip
    if "self_encrypting" in features:
        yield _encrypting(answers, features["self_encrypting"])


def _encrypting(answers: Answers, wanted: str) -> Part:
    plain = [device for device, encrypts in answers.drives if not encrypts]
    if not answers.drives:
        return Part(
            name="self-encrypting drives", expected=wanted, found="-", verdict=CANNOT, source="sedutil-cli --scan",
            why=answers.no_drives or "sedutil-cli lists no drive",
        )  # fmt: skip
    return Part(
        name="self-encrypting drives", expected=wanted,
        found=f"{len(answers.drives) - len(plain)} of {len(answers.drives)}",
        verdict=_verdict((wanted == "yes") == (not plain)), source="sedutil-cli --scan",
        why=f"no: {', '.join(plain)}" if plain else "",
    )  # fmt: skip


def _security(inventory: Inventory, answers: Answers, system: System) -> Iterator[Part]:
    features = system.features
    if "tpm" in features:
        wanted = features["tpm"]
        if inventory.tpm is None:
            verdict, said, why = CANNOT, "-", "this kernel shows no /sys/class/tpm"
        else:
            verdict = _verdict(inventory.tpm == wanted.partition(".")[0])
            said, why = (f"{inventory.tpm}.0" if inventory.tpm == "2" else inventory.tpm or "none"), ""
        yield Part(name="TPM", expected=wanted, found=said, verdict=verdict, source="/sys/class/tpm", why=why)
    if "secure_boot" in features:
        wanted = features["secure_boot"]
        state = None if inventory.secure_boot is None else "on" if inventory.secure_boot else "off"
        why = ""
        if inventory.efi is False:
            state, why = "off", "it was not booted by UEFI"
        elif state is None:
            why = "the EFI variable SecureBoot cannot be read"
        yield Part(
            name="secure boot", expected=wanted, found=state or "-",
            verdict=CANNOT if state is None else _verdict(state == wanted), source="/sys/firmware/efi/efivars", why=why,
        )  # fmt: skip
