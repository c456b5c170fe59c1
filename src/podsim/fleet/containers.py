"""The start of a container on the nodes of a job: seconds before it computes.

The image is one squashfs file on the shared store. A node without it pulls it to its drives; all nodes of a job pull at
once, so the store and its fabric share their bandwidth. Without root, enroot unpacks the image for every job, file by
file, and then starts it. Jobs that start together do not share the store's bandwidth here.
"""

from __future__ import annotations

from functools import cache
from math import isfinite

from podsim.answers.queued import ContainerStart
from podsim.errors import PodsimError
from podsim.fleet.queue import Machine
from podsim.hardware.cluster import Cluster
from podsim.packaged import packaged_toml
from podsim.units import format_quantity, parse_quantity


@cache
def container_constants() -> dict[str, float]:
    """The constants of containers.toml in SI units."""
    raw = packaged_toml("fleet/containers.toml")
    return {name: parse_quantity(entry["value"], entry["unit"], what=name) for name, entry in raw.items()}


def storage_rate(cluster: Cluster) -> float:
    """B/s. The bandwidth of a node's storage adapters; of its other adapters where it has none."""
    system = cluster.system
    if system.storage_nic is not None and system.storage_nics:
        return system.storage_nics * system.storage_nic.bandwidth  # of one port each
    return cluster.nics * cluster.network.bandwidth


def container_start(
    size: float, machine: Machine, node_rate: float, store_rate: float, store: str
) -> ContainerStart:
    """The times of an image of `size` B that nodes read at `node_rate`, and all together at `store_rate`, in B/s."""
    if not (0 < size < 1e15):
        raise PodsimError(f"image={format_quantity(size, 'B')}: give the size of its squashfs file, as 20GB")
    known = container_constants()
    alone, all_nodes = size / node_rate, machine.nodes * size / store_rate
    return ContainerStart(
        size=size, store=store, mount=known["start"] + size / known["unpack"], pull=alone if isfinite(node_rate) else 0.0,
        pull_each=size / store_rate, nodes=machine.nodes, storm=max(alone, all_nodes),
    )  # fmt: skip
