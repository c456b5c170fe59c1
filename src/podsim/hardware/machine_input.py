"""The machine that a user gives: a cluster by its name or as a value, or a server by a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from podsim.errors import PodsimError, TableError
from podsim.foreign_files import read_bytes
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics import Fabric, node_fabric

_MOST = 4 << 20
"""B of the largest file"""


def read_server(path: str | Path) -> Fabric:
    """The fabric of the server of a file: NCCL's topology XML, or what `nvidia-smi topo -m` printed.

    Raises TableError, with the line or the row and column, for a file that is neither.
    """
    from podsim.hardware.topo_text import parse_topo  # few machines are files
    from podsim.hardware.topology_xml import parse_topology

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
