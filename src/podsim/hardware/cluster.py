"""A cluster: equal nodes, the link of each GPU inside its node, and the link of each adapter between nodes.

load_cluster("dgx-a100-80gb:64")      64 nodes of a system of the catalog
load_cluster("selene")                a cluster of the catalog
load_cluster("superpod-a100:2su")     scalable units of such a cluster
load_cluster("h100", gpus=64)         64 GPUs, in servers of the catalog (podsim.hardware.cluster_names)
load_cluster("v5p-128")               a slice of a TPU pod (podsim.hardware.torus_slices)
load_cluster("a100-40gb/3g.20gb")     one MIG instance of a GPU, in a server of the catalog
load_cluster("lab.toml")              a user's file (podsim.hardware.userfile), or the output of `podsim measure host`
load_cluster("dgx-a100-80gb", {"network.bandwidth": "100 Gb/s"})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.answers.answer import call
from podsim.errors import CatalogError, ClusterError, raise_all
from podsim.hardware.catalog import cluster_entry, find, load_gpu, load_system, names
from podsim.hardware.cluster_names import (
    MOST_NODES,
    enough_nodes,
    nodes_of,
    read_spec,
    server_of,
    unknown_cluster,
)
from podsim.hardware.mig.mig_host import slice_host
from podsim.hardware.nvlink import changed_link, inside_link, reach_share
from podsim.hardware.overrides import (
    COLLECTIVE_READERS,
    GPU_KEYS,
    ROUTINGS,
    Reader,
    change_adapters,
    change_collectives,
    change_link,
    change_system,
    count,
    quantity,
    read_overrides,
    words,
)
from podsim.hardware.parts import Gpu, Link, System
from podsim.hardware.physical_sense import check_possible, doubtful_values
from podsim.memo import hashed_once
from podsim.records import dataclass, field, replace
from podsim.units import format_quantity

if TYPE_CHECKING:
    from podsim.hardware.measured_host import Host

FABRICS = ("infiniband", "roce", "efa", "slingshot", "ethernet", "none")
CLUSTER_KEYS: dict[str, Reader] = {
    "nodes": count(1, MOST_NODES),
    "gpus_per_node": count(1, 1_000),
    "fabric": words(*FABRICS),
    "nics": count(0, 1_000),
    "power": quantity("W"),
    "torus": partial(call, "hardware.torus_slices:read_torus"),
    "fabric.routing": words(*ROUTINGS),
    "fabric.seed": count(0, 1_000_000),
    "network.bandwidth": quantity("B/s"),
    "network.latency": quantity("s"),
    "nvlink.bandwidth": quantity("B/s"),
    "nvlink.latency": quantity("s"),
    "gpu.name": words(),
    **{f"gpu.{key}": reader for key, reader in GPU_KEYS.items()},
    **COLLECTIVE_READERS,
}
"""The keys that may override values of a cluster, with their readers."""
_ALIASES = {"gpu": "gpu.name", "network.nics": "nics", "fabric.kind": "fabric", "routing": "fabric.routing"}
_NO_NETWORK = Link(name="none", bandwidth=0.0)


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes of one system and the links between their GPUs."""

    name: str
    system: System
    nodes: int
    nvlink: Link
    """The link of one GPU to the others of its node, in one direction; PCI Express where there is no NVLink."""
    network: Link
    """The link of one adapter, in one direction."""
    nics: int
    """The number of adapters of a node that carry training traffic."""
    fabric: str
    """The kind of network: infiniband, roce, efa, slingshot, ethernet, none."""
    routing: str = ""
    """The choice among equal routes: adaptive, ecmp, destination, static; empty for the usual one of the fabric."""
    seed: int = 0
    """count. The seed of the hash with which ecmp chooses."""
    source: str
    published: Mapping[str, float] = field(default_factory=dict, hash=False)
    """SI. The published figures: hpl, rpeak, power, storage, switches."""
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    faults: tuple[tuple[str, float], ...] = ()
    """share. The remaining capacity of degraded links or parts of its fabric, by name (Fabric.find)."""
    collectives: tuple[tuple[str, str], ...] = ()
    """The usual settings of its collectives, as (key, word): what a run is assumed to have that does not state them."""
    remarks: tuple[str, ...] = ()
    """The doubts about a user's values, with the arithmetic."""
    host: Host | None = None
    """The measurements of `podsim measure host`, for a measured machine."""
    whole: Cluster | None = field(default=None, repr=False)
    """The machine that it is a part of; None: a machine of its own."""

    def __post_init__(self) -> None:
        """Raise ClusterError for an incomplete network, or for several nodes without one."""
        parts = {
            f"nics={self.nics}": self.nics > 0,
            f"network.bandwidth={format_quantity(self.network.bandwidth, 'B/s')}": self.network.bandwidth > 0,
            f"fabric={self.fabric}": self.fabric != "none",
        }
        if len(set(parts.values())) > 1:
            raise ClusterError(
                f"{self.name}: {', '.join(parts)} do not go together; a network needs all three,"
                " and fabric=none takes it away"
            )
        if self.nodes > 1 and not self.nics:
            raise ClusterError(
                f"{self.name}: {self.nodes} nodes have no network between them; give nics, network.bandwidth"
                " and fabric (infiniband, roce, efa, slingshot or ethernet), or take 1 node"
            )

    @property
    def gpu(self) -> Gpu:
        """The accelerator of every node."""
        return self.system.gpu

    @property
    def gpus_per_node(self) -> int:
        """GPUs of one node."""
        return self.system.gpus

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.system.gpus

    @property
    def hosts(self) -> int:
        """The number of host servers of all nodes: a rack of 18 trays has 18."""
        return self.nodes * self.nics // self.rails if self.nics else self.nodes

    @property
    def hosts_per_leaf(self) -> int:
        """The number of hosts that share one leaf switch per rail; 0 if undefined."""
        return self.system.unit * self.hosts // self.nodes

    @property
    def rails(self) -> int:
        """The number of rails, the adapters of a host."""
        trays = self.system.trays
        return self.nics if self.nics % trays else self.nics // trays

    @property
    def node_bandwidth(self) -> float:
        """B/s. The bandwidth of all adapters of a node, in one direction."""
        return self.nics * self.network.bandwidth

    @property
    def route_choice(self) -> str:
        """The choice among equal routes. InfiniBand's switches route adaptively unless told otherwise, others hash."""
        return self.routing or ("adaptive" if self.fabric == "infiniband" else "ecmp")

    @property
    def summary(self) -> str:
        """A line of text with the GPUs and links."""
        inside = f"{self.nvlink.name} {format_quantity(self.nvlink.bandwidth, 'B/s')} per GPU"
        outside = (
            f"{self.nics} x {format_quantity(self.network.bandwidth * 8, 'b/s')} {self.fabric} per node"
            if self.nics
            else "no network"
        )
        return f"{self.nodes} x {self.gpus_per_node} {self.gpu.name} = {self.gpus} GPUs, {inside}, {outside}"

    def without(self, *names: str) -> Cluster:
        """The cluster with broken links or parts of its fabric, such as "node3/nic2", "leaf5" or "leaf0>spine*".

        Routes avoid them (podsim.hardware.fabrics.fabric_of). The closed forms of costs ignore them.
        """
        return self.degraded(*names, share=0.0)

    def degraded(self, *names: str, share: float) -> Cluster:
        """The cluster with some links slowed down to a share of their capacity, from 0 (broken) to 1.

        Raises ClusterError for another share, and for nodes that the cluster does not have.
        """
        problems = [f"share {share:g} of a link's capacity; it must be 0 to 1"] if not 0 <= share <= 1 else []
        for name in names:
            numbers = (int(number) for number in re.findall(r"node(\d{1,9})\b", name))
            problems += [
                f"{name[:80]}: {self.name} has nodes 0 to {self.nodes - 1}"
                for n in numbers
                if n >= self.nodes
            ]
        raise_all(problems, ClusterError)
        return replace(self, faults=(*self.faults, *((name, share) for name in names)))

    def having(self, gpu: str) -> Cluster:
        """The same cluster with GPUs of another type, by name."""
        return _change_cluster(self, {"gpu.name": gpu}, {"gpu.name": "the user"})

    @lru_cache(maxsize=1024, typed=True)  # noqa: B019  (clusters are few, small values)
    def subset(self, gpus: int) -> Cluster:
        """The part of the cluster that a job uses: some GPUs of one node, entire nodes, or equal trays of racks.

        A part of a node has its share of the power, and keeps the main memory. Raises ClusterError for more GPUs than the
        cluster has, and for a number that is neither a part of a node nor a multiple of it (of a tray, in racks).
        """
        if not 1 <= gpus <= self.gpus:
            raise ClusterError(
                f"{gpus} GPUs asked of {self.name}, which has {self.gpus}; ask for 1 to {self.gpus}"
            ).offer(gpus=min(max(gpus, 1), self.gpus))
        if gpus == self.gpus:
            return self
        per = self.gpus_per_node
        nodes = nodes_of(gpus, per, self.system.trays, self.nodes)
        if not nodes:
            low, high = gpus // per * per, min(ceil(gpus / per) * per, self.gpus)
            raise ClusterError(
                f"{gpus} GPUs are neither a part of a node of {self.name} (1 to {per}) nor whole nodes:"
                f" {' or '.join(str(n) for n in sorted({low, high}))} would work"
            ).offer(gpus=high)
        changed: dict[str, Any] = {"nodes": nodes, "whole": self.whole or self}
        if (part := gpus // nodes) < per:
            link = replace(self.nvlink, bandwidth=self.nvlink.bandwidth * reach_share(self.system, part))
            system = call("hardware.torus_slices:cut_system", self.system, self.nics, part)
            changed |= {"system": system, "nics": system.nics, "nvlink": link}
        return replace(self, name=f"{self.name} ({gpus} GPU{'s' * (gpus > 1)})", published={}, **changed)


def cluster_names() -> tuple[str, ...]:
    """The names that load_cluster takes without a number: clusters, then systems of the catalog, without aliases."""
    return (*names("cluster"), *names("system"))


def load_cluster(
    spec: str | Path, overrides: Mapping[str, object] | None = None, gpus: int | None = None
) -> Cluster:
    """The cluster that a text describes (see the top of this file), with overrides; with `gpus` the part of a job.

    A system or a GPU without a number of nodes gets as many as the GPUs need: whole nodes, or trays of a rack.
    The keys are those of CLUSTER_KEYS, `gpu` and `network.nics`; the values are text with a unit or SI numbers. They take
    precedence over a user's file. Raises CatalogError for an unknown name or an unreadable file, and ClusterError with
    every value that no cluster can have.
    """
    if not isinstance(spec, (str, Path)):
        raise CatalogError(f"cannot load a cluster from {spec!r}: give a name or a path")
    spec = str(spec)
    if gpus is not None:
        base = load_cluster(spec, overrides)
        if not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 1:
            raise ClusterError(f"gpus={gpus!r}: a job has 1 to {base.gpus} GPUs on {base.name}")
        if "nodes" not in (overrides or {}):
            base = load_cluster(enough_nodes(spec, gpus, base.gpus_per_node), overrides)
        return base.subset(gpus)
    late = {_ALIASES.get(key, key): value for key, value in (overrides or {}).items()}
    if not spec.strip().lower().endswith(".toml"):
        base = _catalog_cluster(spec)
        if not late:
            return base
        changed = _change_cluster(base, late, dict.fromkeys(late, "the user"))
        label = base.name.partition(":")[0]  # the name states the nodes
        return changed if changed.nodes == base.nodes else replace(changed, name=f"{label}:{changed.nodes}")
    from podsim.hardware.catalog.measured_schema import FORMAT
    from podsim.hardware.userfile import read_toml, user_file  # the catalog has no need of it

    path = Path(spec.strip())
    table = read_toml(path)
    if table.get("format") == FORMAT:
        base = _measured_cluster(table, path)
        return _change_cluster(base, late, dict.fromkeys(late, "the user")) if late else base
    file = user_file(table, str(path)[-200:], path.stem)
    early = {_ALIASES.get(key, key): value for key, value in file.overrides.items()}
    origins = {**dict.fromkeys(early, file.source), **dict.fromkeys(late, "the user")}
    try:
        base = replace(_catalog_cluster(file.inherits), name=file.name, published={}, whole=None)
        cluster = _change_cluster(base, {**early, **late}, origins)
        check_possible(cluster.system)
    except (CatalogError, ClusterError) as error:
        raise type(error)(f"{spec.strip()[-200:]}: {error}") from None
    return cluster


def _measured_cluster(table: Mapping[str, Any], path: Path) -> Cluster:
    """A measured machine as a cluster of one node, with a GPU for each rank."""
    machine = call("hardware.measured_host:measured_host", table, path)
    return Cluster(
        name=machine.name, system=machine.system, nodes=1, nvlink=machine.link, network=_NO_NETWORK, nics=0,
        fabric="none", source=machine.source, host=machine.host,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _catalog_cluster(text: str) -> Cluster:
    gpu_name, slash, _ = text.partition("/")
    if slash and (find(gpu_name) or ("",))[0] == "gpu":
        system = slice_host(load_gpu(text))
        return replace(_make_cluster(system.name, system, 1, system.gpu.source).subset(1), name=system.name)
    spec = read_spec(text)
    if (kind := (find(spec.name) or ("",))[0]) == "cluster":
        return _named_cluster(spec.name, spec.nodes, spec.in_units)
    server = server_of(spec.name) if kind == "gpu" else spec.name if kind == "system" else ""
    if not server:
        raise CatalogError(unknown_cluster(spec.name))
    if spec.in_units:
        pods = ", ".join(f"{key}:{spec.nodes}su" for key in names("cluster") if cluster_entry(key)[1].units)
        raise ClusterError(
            f"{text.strip()[:80]}: {server} is counted in nodes, as {server}:{spec.nodes}; for units: {pods}"
        )
    system, slices = load_system(server), spec.nodes or 1
    if spec.torus is not None:
        name, part = call("hardware.torus_slices:named_slices", spec.name, system, spec.torus, slices)
        return _make_cluster(name, part, slices, system.source)
    nodes = ceil((spec.gpus or 1) / system.gpus) if spec.nodes is None else spec.nodes
    name = f"{system.name}:{nodes}" if nodes > 1 else system.name
    cluster = _make_cluster(name, system, nodes, system.source)
    return cluster if spec.gpus is None else cluster.subset(spec.gpus)


def _named_cluster(name: str, number: int | None, in_units: bool) -> Cluster:
    """A cluster of the catalog: all of it, or a number of its nodes or units."""
    key, entry = cluster_entry(name)
    system = load_system(entry.system)
    if entry.units:
        if number is not None and not in_units:
            raise ClusterError(f"{key} is counted in scalable units: {key}:1su to {key}:{entry.units}su")
        units = 1 if number is None else number
        if not 1 <= units <= entry.units:
            raise ClusterError(
                f"{key} has 1 to {entry.units} scalable units of {system.unit} nodes; asked for {units}"
            )
        label, nodes = f"{key}:{units}su", units * system.unit
    else:
        most = entry.nodes or 0
        nodes = most if number is None else number
        if in_units or not 1 <= nodes <= most:
            raise ClusterError(
                f"{key} has 1 to {most} nodes, as {key}:{most}; asked for {number}{'su' * in_units}"
            )
        label = key if nodes == most else f"{key}:{nodes}"
    stated = vars(entry.published) if nodes == entry.nodes else {}
    published = {figure: float(value) for figure, value in stated.items() if value}
    cluster = _make_cluster(label, system, nodes, "; ".join(entry.source))
    usual = tuple((dict(cluster.collectives) | entry.collectives).items())
    machine = None if entry.units or nodes == entry.nodes else _named_cluster(key, None, False)
    return replace(cluster, published=published, notes=dict(entry.notes), collectives=usual, whole=machine)


def _make_cluster(name: str, system: System, nodes: int, source: str) -> Cluster:
    """A cluster of a system as sold."""
    nic = system.nic
    network = Link(name=nic.name, bandwidth=nic.bandwidth, latency=nic.latency) if nic else _NO_NETWORK
    return Cluster(
        name=name, system=system, nodes=nodes, nvlink=inside_link(system), network=network, nics=system.nics,
        fabric=nic.kind if nic else "none", source=source, collectives=tuple(system.collectives.items()),
    )  # fmt: skip


def _change_cluster(cluster: Cluster, given: Mapping[str, object], origins: Mapping[str, str]) -> Cluster:
    """The cluster with the values of dotted keys changed; `origins` gives the origin of each value.

    Raises CatalogError if a key is unknown, else ClusterError, with all problems.
    """
    values, problems = read_overrides(given, CLUSTER_KEYS)
    if problems:
        unknown = any(key not in CLUSTER_KEYS for key in given)
        raise (CatalogError if unknown else ClusterError)("; ".join(problems))
    gpu = load_gpu(values["gpu.name"]) if "gpu.name" in values else cluster.gpu
    system = change_system(cluster.system, gpu, values)
    if "torus" in values:
        system = call("hardware.torus_slices:torus_system", system, values["torus"])
        system = replace(system, power=values.get("power", system.power))
        values = {"nics": system.nics, **values}
    if values.get("fabric") == "none":
        values = {"nics": 0, **values}
    network = _NO_NETWORK if values.get("fabric") == "none" else cluster.network
    fields: dict[str, Any] = {key: values[key] for key in ("nodes", "nics", "fabric") if key in values}
    fields |= {key: values[f"fabric.{key}"] for key in ("routing", "seed") if f"fabric.{key}" in values}
    fields["collectives"] = change_collectives(cluster.collectives, values)
    fields["nvlink"] = change_link(changed_link(cluster.nvlink, cluster.system, system), values, "nvlink")
    fields["network"] = change_link(network, values, "network")
    origin = "; ".join([cluster.source, *(f"{key}: {text}" for key, text in origins.items())])
    notes = {**cluster.notes, **{key: f"set by {origins[key]}" for key in given}}
    fields["remarks"] = doubtful_values(system, cluster.system, fields["nvlink"], fields["network"])
    changed = replace(cluster, system=system, source=origin, notes=notes, published={}, whole=None, **fields)
    if {"nics", "fabric", "network.bandwidth", "network.latency"} & set(values):
        return replace(changed, system=change_adapters(system, changed.network, changed.nics, changed.fabric))
    return changed
