"""The fabric of a cluster, or of one server that a file describes; as data for a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import NAMED, fabric_of
from podsim.hardware.fabrics.describe import Drawing, describe
from podsim.hardware.fabrics.infrastructure import infrastructures
from podsim.hardware.machine_input import given_cluster, read_server


def fabric(name: str | Cluster, *, overrides: Mapping[str, str] | None = None) -> Drawing:
    """Drawing of the fabric of a cluster ("selene", or a value), of one by name ("weka-a100"), or of a server's file.

    `podsim.report.fabric_text` makes text and SVG of it. Raises PodsimError for a name that is none of these.
    """
    if not isinstance(name, str):
        return _drawn(given_cluster(name, overrides))
    if Path(name).suffix.lower() in (".xml", ".txt"):
        if overrides:
            raise PodsimError(f"{name[-80:]}: a server read from a file cannot be changed by keys")
        return describe(read_server(name))
    if not overrides and name in NAMED:
        return describe(NAMED[name]())
    return _drawn(given_cluster(name, overrides))


def _drawn(cluster: Cluster) -> Drawing:
    """The drawing of a cluster's fabric, with its networks and racks."""
    return replace(describe(fabric_of(cluster)), sizes=infrastructures(cluster))
