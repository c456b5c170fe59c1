"""The server around a MIG instance, for what is asked of a cluster."""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import ClusterError
from podsim.hardware.catalog import load_system, names
from podsim.hardware.parts import Gpu, System

__all__ = ["host_of", "slice_host"]


def host_of(gpu: Gpu) -> System:
    """The first server of the catalog with the GPU that `gpu` is an instance of; ClusterError where there is none."""
    whole = gpu.name.partition("/")[0]
    hosts = [system for system in map(load_system, names("system")) if system.gpu.name == whole]
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
