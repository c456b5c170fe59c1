"""Data sheets of catalog entries by name: given figures, derived figures, and their derivation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from podsim.errors import CatalogError, unknown_name
from podsim.hardware import catalog
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.cluster_names import is_slice
from podsim.hardware.sheet_parts import (
    all_gpus_section,
    cpu_rows,
    gpu_sections,
    nic_rows,
    nvswitch_rows,
    pcie_rows,
    ssd_rows,
    switch_rows,
)
from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.hardware.sheet_systems import cluster_sections, system_sections

_PARTS: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], Iterable[Row]]]] = {
    "nvswitch": ("NVLink crossbar", catalog.load_nvswitch, nvswitch_rows),
    "nic": ("network adapter", catalog.load_nic, nic_rows),
    "switch": ("network switch", catalog.load_switch, switch_rows),
    "pcie": ("PCI Express", catalog.load_pcie, pcie_rows),
    "cpu": ("processor", catalog.load_cpu, cpu_rows),
    "ssd": ("drive", catalog.load_ssd, ssd_rows),
}


def sheet_names() -> tuple[str, ...]:
    """All names and aliases of the catalog, of every kind."""
    return tuple(key for kind in catalog.KINDS for key in (*catalog.names(kind), *catalog.aliases(kind)))


def all_gpus_sheet() -> Sheet:
    """The sheet of all accelerators: memory, bandwidth and peak of each."""
    section = all_gpus_section(map(catalog.load_gpu, catalog.names("gpu")))
    return Sheet(name="gpus", kind="gpu", title="Accelerators of the catalog", sections=(section,))


def sheet(name: str, overrides: Mapping[str, object] | None = None) -> Sheet:
    """The data sheet of a catalog entry of any kind, or of a cluster that load_cluster reads.

    Overrides are those of load_gpu for an accelerator, and of load_cluster for a system or a cluster. Raises
    CatalogError for an unknown name and for overrides of another kind.
    """
    entry = None if ":" in name or name.strip().lower().endswith(".toml") else catalog.find(name)
    if entry is None and (catalog.find(name.partition("/")[0]) or ("",))[0] == "gpu":
        gpu = catalog.load_gpu(name, overrides)
        return Sheet(name=gpu.name, kind="gpu", title=f"{gpu.name}: MIG instance", sections=gpu_sections(gpu))
    if entry is None:
        if ":" not in name and not name.strip().lower().endswith(".toml") and not is_slice(name):
            raise CatalogError(unknown_name("name", name, sheet_names()))
        return cluster_sheet(load_cluster(name, overrides))
    kind, key = entry
    if kind == "gpu":
        gpu = catalog.load_gpu(key, overrides)
        return Sheet(name=key, kind=kind, title=f"{key}: accelerator", sections=gpu_sections(gpu))
    if kind == "cluster" or (kind == "system" and overrides):
        return cluster_sheet(load_cluster(key, overrides))
    if kind == "system":
        system = catalog.load_system(key)
        title = f"{key}: server of {system.gpus} {system.gpu.name}"
        return Sheet(name=key, kind=kind, title=title, sections=system_sections(system))
    if overrides:
        raise CatalogError(f"{key} is a {kind}; only accelerators, systems and clusters take overrides")
    what, load, rows = _PARTS[kind]
    section = Section(title=what.capitalize() if what.islower() else what, rows=tuple(rows(load(key))))
    return Sheet(name=key, kind=kind, title=f"{key}: {what}", sections=(section,))


def cluster_sheet(cluster: Cluster) -> Sheet:
    """The data sheet of a cluster."""
    sections = cluster_sections(cluster)
    return Sheet(
        name=cluster.name, kind="cluster", title=f"{cluster.name}: {cluster.summary}", sections=sections
    )
