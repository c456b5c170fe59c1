"""The server around a MIG instance, for what is asked of a cluster."""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import ClusterError
from podsim.hardware.catalog import load_gpu, load_system, names
from podsim.hardware.parts import Gpu, System


def host_of(gpu: Gpu) -> System:
    """The first server of the catalog with the GPU that `gpu` is an instance of.

    For a card that no server of the catalog has (A30) the first with such cards: an instance uses its host's processors
    and PCIe alone.  Raises ClusterError where there is none.
    """
    whole = gpu.name.partition("/")[0]
    systems = [load_system(name) for name in names("system")]
    hosts = [system for system in systems if system.gpu.name == whole] or [
        replace(
            system,
            notes={**system.notes, "gpu": f"estimate: a server of {system.gpu.name} cards, with {whole}"},
        )
        for system in systems
        if load_gpu(whole).bridge and system.gpu.bridge and system.gpu.pcie_generation == gpu.pcie_generation
    ]
    if not hosts:
        raise ClusterError(
            f"{gpu.name}: no server of the catalog has a {whole}; set gpu={gpu.name} of another server"
        )
    return hosts[0]


def slice_host(gpu: Gpu) -> System:
    """That server, each of its GPUs such an instance.

    One of them alone is a cluster: instances neither copy to each other nor join one communicator.  Raises ClusterError
    where no server has that GPU.
    """
    return replace(
        host_of(gpu), name=gpu.name, gpu=gpu, nvswitch=None, nvswitches=0, topology="pcie", datasheet={}
    )
