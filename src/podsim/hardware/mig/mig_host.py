"""The server around a MIG instance, so that an instance can act as a cluster."""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import ClusterError
from podsim.hardware.catalog import load_gpu, load_system, names
from podsim.hardware.parts import Gpu, System


def host_of(gpu: Gpu) -> System:
    """The first server of the catalog with the GPU behind the instance `gpu`.

    For a card in no server of the catalog (A30), the first server with similar cards: an instance uses only its host's
    processors and PCIe.  Raises ClusterError if there is none.
    """
    gpu_name = gpu.name.partition("/")[0]
    systems = [load_system(name) for name in names("system")]
    hosts = [system for system in systems if system.gpu.name == gpu_name] or [
        replace(
            system,
            notes={**system.notes, "gpu": f"estimate: a server of {system.gpu.name} cards, with {gpu_name}"},
        )
        for system in systems
        if load_gpu(gpu_name).bridge
        and system.gpu.bridge
        and system.gpu.pcie_generation == gpu.pcie_generation
    ]
    if not hosts:
        raise ClusterError(
            f"{gpu.name}: no server of the catalog has a {gpu_name}; set gpu={gpu.name} of another server"
        )
    return hosts[0]


def slice_host(gpu: Gpu) -> System:
    """The server of `host_of` with instances in place of its GPUs.

    Only one of them makes a cluster: instances neither copy to each other nor join one communicator.  Raises
    ClusterError if no server has that GPU.
    """
    return replace(
        host_of(gpu), name=gpu.name, gpu=gpu, nvswitch=None, nvswitches=0, topology="pcie", datasheet={}
    )
