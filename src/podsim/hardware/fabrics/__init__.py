"""Fabrics: the links inside servers and between them, and the routes over them.

fabric = fabric_of(load_cluster("selene"))
indptr, links = fabric.routes([0, 0], [9, 4479])             all pairs at once
fabric.route(0, 9)                                           names: "node0/gpu0>node0/nvswitch", …
fabric.without("node3/nic2").degraded("leaf5", share=0.5)
"""

from podsim.hardware.fabrics.builders import (
    NAMED,
    fabric_of,
    host_cluster,
    node_fabric,
    node_of,
)
from podsim.hardware.fabrics.fabric_links import Fabric, Routing, islands
from podsim.hardware.fabrics.node import Cable, Node, Part
from podsim.hardware.fabrics.torus import torus, torus_fabric

__all__ = [
    "NAMED", "Cable", "Fabric", "Node", "Part", "Routing", "fabric_of", "host_cluster", "islands",
    "node_fabric", "node_of", "torus", "torus_fabric",
]  # fmt: skip
