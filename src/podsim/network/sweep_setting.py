"""Where a sweep over sizes of a collective runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import enough_nodes
from podsim.hardware.fabrics import Fabric, fabric_of
from podsim.hardware.machine_input import given_cluster, read_server
from podsim.network.collectives.tori import Axes


@dataclass(frozen=True, kw_only=True)
class SweepSetting:
    """Where it runs."""

    cluster: Cluster | None
    server: Fabric | None = None
    """The links of one server that a file described, where there is no cluster."""
    machine: str
    ranks: int
    local: int

    @cached_property
    def fabric(self) -> Fabric:
        """Every link; laid out only where a table of transfers is costed or played."""
        if self.server is not None:
            return self.server
        assert self.cluster is not None
        return fabric_of(self.cluster)

    @cached_property
    def axes(self) -> Axes | None:
        """The axes of the torus that joins the ranks, if one does."""
        links = self.cluster.system.torus if self.cluster else None
        return Axes(links.shape, links.wraps, self.nodes) if links else None

    @property
    def nodes(self) -> int:
        """The number of nodes that the ranks fill."""
        return self.ranks // self.local

    @property
    def gpu(self) -> str:
        """What holds the data, by name; empty where a file of links does not tell."""
        if self.cluster is None:
            return ""
        return "CPU" if self.cluster.gpu.architecture == "cpu" else self.cluster.gpu.name


def sweep_setting(
    on: str | Cluster, topology: Path | None, ranks: int | None, overrides: Mapping[str, str] | None
) -> SweepSetting:
    """Where a collective runs: on ranks of a cluster, or on a server that a file describes.

    Raises PodsimError where both or neither are given, and for what the machine does not have.
    """
    if bool(on) == (topology is not None):
        given = "both --on and" if on else "neither --on nor"
        raise PodsimError(f"{given} --topology given; one of them says where it runs")
    if topology is not None:
        if overrides:
            raise PodsimError("--topology: a server read from a file cannot be changed by keys")
        fabric = read_server(topology)
        count = _count(ranks, fabric.gpus, str(topology)[-80:])
        return SweepSetting(cluster=None, server=fabric, machine=fabric.name, ranks=count, local=count)
    available = given_cluster(on, overrides)
    if available.gpu.streams_weights:
        raise PodsimError(
            f"{available.name}: SwarmX adds up gradients while they stream, so wafers run no collectives; predict tells "
            "how long streams take"
        )
    per = available.gpus_per_node
    if isinstance(on, str) and isinstance(ranks, int) and ranks > available.gpus and ranks % per == 0:
        available = given_cluster(enough_nodes(on, ranks, per), overrides)
    cluster = available.subset(_count(ranks, available.gpus, available.name))
    local = min(cluster.gpus, cluster.gpus_per_node)
    machine = "; ".join(
        [
            cluster.name,
            *(f"{part} at {left:.0%}" if left else f"{part} broken" for part, left in cluster.faults),
        ]
    )
    return SweepSetting(cluster=cluster, machine=machine, ranks=cluster.gpus, local=local)


def _count(ranks: int | None, most: int, name: str) -> int:
    count = most if ranks is None else ranks
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        raise ClusterError(f"ranks={count!r}: {name} has GPUs for 1 to {most} ranks")
    return count
