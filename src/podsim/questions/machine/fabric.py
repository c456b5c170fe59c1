"""The fabric of a cluster, or of one server that a file describes; as data for a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from podsim.errors import PodsimError, TableError
from podsim.foreign_files import read_bytes
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics import BUILDERS, Drawing, Fabric, describe, fabric_of, node_fabric
from podsim.hardware.fabrics.builders import CATALOG
from podsim.hardware.fabrics.infrastructure import infrastructures
from podsim.hardware.topo_text import parse_topo
from podsim.hardware.topology_xml import parse_topology
from podsim.report.fabric_svg import fabric_svg
from podsim.whole_files import write_whole

_MOST = 4 << 20


def read_server(path: str | Path) -> Fabric:
    """The fabric of the server of a file: NCCL's topology XML, or what `nvidia-smi topo -m` printed.

    Raises TableError, with the line or the row and column, for a file that is neither.
    """
    path = Path(path)
    data = read_bytes(path, most=_MOST, error=TableError, hint="no topology is")
    if data.lstrip()[:1] == b"<" or path.suffix.lower() == ".xml":
        return node_fabric(parse_topology(data, path.name))
    return node_fabric(parse_topo(data.decode("utf-8", errors="replace"), path.name))


def given_cluster(on: str | Cluster, overrides: Mapping[str, str] | None = None) -> Cluster:
    """The cluster that was named, or given as a value: one with broken or slow links has no name.

    Raises PodsimError for keys that would change a value, and as load_cluster does.
    """
    if isinstance(on, str):
        return load_cluster(on, overrides)
    if overrides:
        raise PodsimError(f"{on.name}: keys change a cluster that is named; give load_cluster the overrides")
    return on


def fabric(name: str | Cluster, *, overrides: Mapping[str, str] | None = None) -> Drawing:
    """Drawing of the fabric of a cluster ("selene", or a value), of one by name ("tpu-v4"), or of a server's file.

    `podsim.report.fabric_text` makes text and SVG of it. Raises PodsimError for a name that is none of these.
    """
    if not isinstance(name, str):
        return _drawn(given_cluster(name, overrides))
    if Path(name).suffix.lower() in (".xml", ".txt"):
        if overrides:
            raise PodsimError(f"{name[-80:]}: a server read from a file cannot be changed by keys")
        return describe(read_server(name))
    if not overrides and name in BUILDERS and name not in CATALOG:
        return describe(BUILDERS[name]())
    return _drawn(given_cluster(name, overrides))


def _drawn(cluster: Cluster) -> Drawing:
    """The drawing of a cluster's fabric, with its networks and racks."""
    return replace(describe(fabric_of(cluster)), sizes=infrastructures(cluster))


def draw_file(drawing: Drawing, path: Path) -> None:
    """Write the drawing as SVG; PodsimError for another suffix."""
    if path.suffix.lower() != ".svg":
        raise PodsimError(f"--plot {str(path)[-80:]}: the drawing is SVG; give a name that ends in .svg")
    write_whole(path, fabric_svg(drawing))
