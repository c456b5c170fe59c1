"""Links between the GPUs of one node."""

from __future__ import annotations

from podsim.hardware.catalog import load_pcie
from podsim.hardware.parts import Link, System

# What NCCL reckons with between two sockets, B/s one way (src/graph/topo.h): AMD, and Intel by generation
_SOCKET = {
    "amd": 16e9,
    "xeon-e5": 6e9,
    "xeon-platinum-8480c": 22e9,
    "xeon-platinum-8570": 40e9,
    "intel": 10e9,
}


def inside_link(system: System) -> Link:
    """The link of one GPU to the others of its node: its NVLinks if they lead to all, else its PCI Express slot."""
    gpu = system.gpu
    joined = system.topology not in ("pcie", "pcie-root", "nvlink-pair") and not gpu.bridge
    if gpu.nvlink and (joined or (system.topology == "nvlink-pair" and system.gpus == 2)):
        return Link(name="NVLink", bandwidth=gpu.nvlink, latency=gpu.nvlink_latency)
    return slot_link(system)


def slot_link(system: System) -> Link:
    """The PCI Express slot of a GPU, one direction."""
    slot, gpu = system.pcie, system.gpu
    if slot is None or slot.generation > gpu.pcie_generation:
        slot = load_pcie(f"pcie{gpu.pcie_generation}")
    return Link(
        name=f"PCIe {slot.generation}.0 x{gpu.pcie_lanes}",
        bandwidth=slot.bandwidth * gpu.pcie_lanes / 16,
        latency=slot.latency,
    )


def reach(system: System, gpus: int) -> float:
    """Share of a GPU's links that lead to the other GPUs of a part of its node.

    All of them through NVSwitch or PCI Express; in a mesh only those to the neighbours in the part. In the
    DGX-1 a GPU has 4 of its 6 links within its group of four, and 2 with its closest neighbour (topology
    listing of a DGX-1V).
    """
    if system.topology == "nvlink-mesh":
        return max(gpus - 1, 1) / (system.gpus - 1)
    if system.topology == "cube-mesh" and system.gpus == 8:
        return cube_mesh_links(min(gpus, 7)) / 6
    return 1.0


def cube_mesh_links(gpus: int) -> int:
    """NVLinks that the bandwidth of a GPU stands for in a cube mesh, or in a part of one."""
    return 6 if gpus == 8 else 4 if gpus >= 4 else 2


def socket_rate(system: System) -> float:
    """B/s between two sockets, one way, as NCCL reckons."""
    cpu = system.cpu
    if cpu is None:
        return _SOCKET["intel"]
    return next((rate for name, rate in _SOCKET.items() if cpu.name.startswith(name)), _SOCKET[cpu.vendor])
