"""Whether a user's values make physical sense: what cannot be, and what is unlike real parts, with the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.errors import ClusterError, raise_all
from podsim.hardware.parts import Gpu, Link, System
from podsim.units import format_quantity

_LEAST_POWER = 0.9
"""share of its GPUs' power limits that a node is built for: four systems of the catalog have 0.94, all others more"""
_MOST_POWER = 5.0
"""power of a node over that of its GPUs; the catalog has up to 3.3"""
_SWEEPS = (4.0, 250.0)
"""1/s. Times that a GPU reads its memory in a second; the catalog has 8 to 120."""
_LIKE = 4.0
"""factor between a changed value and that of the part, beyond which a remark says so"""
_GPU_UNITS = {
    "memory": "B", "memory_bandwidth": "B/s", "l2": "B", "power": "W", "clock": "Hz", "sms": "", "nvlink": "B/s",
}  # fmt: skip


def impossible_values(system: System) -> tuple[str, ...]:
    """What no server can be: each with the arithmetic, and what would work."""
    gpu, sweeps = system.gpu, system.gpu.memory_bandwidth / system.gpu.memory
    need = system.gpus * gpu.power
    problems = []
    if 0 < system.power < _LEAST_POWER * need:
        problems.append(
            f"power {_text(system.power, 'W')} is less than its GPUs take: {system.gpus} x {_text(gpu.power, 'W')} = "
            f"{_text(need, 'W')}; give the power of the node, say {_text(1.4 * need, 'W')}, or fewer GPUs"
        )
    if not _SWEEPS[0] <= sweeps <= _SWEEPS[1] and gpu.architecture not in ("cpu", "wafer"):
        problems.append(
            f"gpu.memory_bandwidth {_text(gpu.memory_bandwidth, 'B/s')} reads gpu.memory {_text(gpu.memory, 'B')} in "
            f"{_text(1 / sweeps, 's')}; GPUs take {_text(1 / _SWEEPS[1], 's')} to {_text(1 / _SWEEPS[0], 's')}"
        )
    return tuple(problems)


def check_possible(system: System) -> None:
    """Raise ClusterError for a server that cannot be."""
    raise_all(impossible_values(system), ClusterError)


def doubtful_values(system: System, sold: System, nvlink: Link, network: Link) -> tuple[str, ...]:
    """What cannot be, or is unlike the parts of the server; `sold` is the server before a user changed it.

    The links are that of a GPU inside the node, and that of an adapter.
    """
    return (*impossible_values(system), *_doubts(system, sold, nvlink, network))


def _doubts(system: System, sold: System, nvlink: Link, network: Link) -> Iterator[str]:
    gpu, need = system.gpu, system.gpus * system.gpu.power
    if system.power > _MOST_POWER * need > 0:
        yield f"power {_text(system.power, 'W')} is {system.power / need:.0f} times that of {system.gpus} GPUs"
    if gpu.nvlinks and nvlink.bandwidth > 1.01 * gpu.nvlink:
        yield (
            f"nvlink.bandwidth {_text(nvlink.bandwidth, 'B/s')}: {gpu.nvlinks} links x "
            f"{_text(gpu.nvlink_bandwidth, 'B/s')} = {_text(gpu.nvlink, 'B/s')}; gpu.nvlinks says how many there are"
        )
    slot = system.pcie.bandwidth if system.pcie else 0.0
    usual = max(slot, sold.nic.bandwidth if sold.nic else 0.0)
    if 0 < 1.01 * usual < network.bandwidth:
        yield (
            f"network.bandwidth {_text(8 * network.bandwidth, 'b/s')} of an adapter: the {sold.name} has adapters and "
            f"slots of up to {_text(8 * usual, 'b/s')}"
        )
    if gpu.name == sold.gpu.name:
        yield from _unlike(gpu, sold.gpu)


def _unlike(gpu: Gpu, sold: Gpu) -> Iterator[str]:
    """Values of a GPU several times larger or smaller than those of the part."""
    pairs = {name: (getattr(gpu, name), getattr(sold, name), unit) for name, unit in _GPU_UNITS.items()}
    pairs |= {
        f"peaks.{name}": (peak, sold.peaks.get(name, 0.0), "FLOP/s") for name, peak in gpu.peaks.items()
    }
    for name, (value, usual, unit) in pairs.items():
        if value and usual and not 1 / _LIKE <= value / usual <= _LIKE:
            yield (
                f"gpu.{name} {_text(value, unit)} is {value / usual:.3g} times that of the {sold.name} "
                f"({_text(usual, unit)})"
            )


def _text(value: float, unit: str) -> str:
    return format_quantity(value, unit, digits=3) if unit else f"{value:,.0f}"
