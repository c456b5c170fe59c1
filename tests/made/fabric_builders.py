"""Fabrics by name, over which tests of all fabrics run: one more line in BUILDERS inherits them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat

import numpy as np

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import Fabric, Node, Part, Routing, fabric_of, torus
from podsim.hardware.fabrics.builders import NAMED
from podsim.hardware.fabrics.server_routes import assemble
from podsim.hardware.fabrics.tree import Switches, clos_tree, planes
from podsim.hardware.fabrics.wiring import Network
from podsim.records import replace


def _host() -> Node:
    """A bare end of a network."""
    return Node(name="host", parts=(Part(name="gpu", kind="gpu"),), cables=())


def single_switch(
    ends: int, *, bandwidth: float, latency: float = 0.0, routing: Routing | None = None
) -> Fabric:
    """The fabric of ends on one switch; bandwidth: B/s of each port; latency: s from end to end."""
    tree = planes(leaf=np.zeros(ends, np.int64), rate=bandwidth, latency=latency / 2)
    return assemble(
        f"switch of {ends}", _host(), ends, (Network(tree=tree, ports=np.zeros(1, np.int64)),), routing
    )


def folded_clos(
    ends: int,
    *,
    switch_ports: int,
    bandwidth: float,
    latency: float = 0.0,
    hop: float = 0.0,
    taper: float = 1.0,
    routing: Routing | None = None,
) -> Fabric:
    """The fabric of ends on a folded Clos network of up to three layers: see clos_tree.

    bandwidth: B/s of every port; latency: s from end to end under one leaf; hop: s of each further switch.
    """
    switches = Switches(ports=switch_ports, trunk=bandwidth, hop=hop, taper=taper)
    tree = clos_tree(ends=ends, switches=switches, rate=bandwidth, latency=latency / 2)
    return assemble(
        f"folded Clos of {ends}", _host(), ends, (Network(tree=tree, ports=np.zeros(1, np.int64)),), routing
    )


def _catalog_fabric(name: str) -> Fabric:
    return fabric_of(load_cluster(name))


def _paired_cards() -> Fabric:
    """The fabric of a server of cards in pairs with a bridge, a product outside the catalog."""
    cluster = load_cluster("a100-pcie-server")
    system = replace(cluster.system, name="a100-pcie-pairs", topology="nvlink-pair")
    return fabric_of(replace(cluster, name=system.name, system=system))


CATALOG = (
    "dgx-a100-80gb", "dgx-a100-80gb:4", "dgx-1-v100-32gb", "dgx-1-v100-32gb:4", "dgx-2", "dgx-2:3",
    "dgx-station-a100-80gb", "a100-pcie-server", "a100-pcie-server:3", "dgx-h100:2", "dgx-b200",
    "oci-bm-gpu4-8:4", "aws-p4d:4", "superpod-a100:1su", "superpod-a100:2su", "superpod-a100:7su", "selene",
)  # fmt: skip
"""The clusters of the catalog in every test of fabrics."""
_TORI = ("v4-4x4x8-twisted", "v4-4x8x8-twisted", "3x v5e-32", "v4-32", "tpu-v4")
BUILDERS: dict[str, Callable[[], Fabric]] = {
    **dict(zip(CATALOG, map(partial, repeat(_catalog_fabric), CATALOG), strict=True)),
    "a100-pcie-pairs": _paired_cards,
    "superpod-a100:2su, 2:1": lambda: fabric_of(load_cluster("superpod-a100:2su"), taper=2.0),
    **NAMED,
    "switch of 64": lambda: single_switch(64, bandwidth=25e9, latency=1e-6),
    "fat tree of 16": lambda: folded_clos(16, switch_ports=4, bandwidth=1e9),
    "fat tree of 1000": lambda: folded_clos(1000, switch_ports=16, bandwidth=1e9),
    "fat tree of 300, 3:1": lambda: folded_clos(300, switch_ports=40, bandwidth=25e9, taper=3.0),
    "torus 5x4": lambda: torus((5, 4), bandwidth=1e9, latency=1e-6),
    "torus 4x2x3": lambda: torus((4, 2, 3), bandwidth=1e9),
    **dict(zip(_TORI, map(partial, repeat(_catalog_fabric), _TORI), strict=True)),
}  # fmt: skip
"""The builders of fabrics, by name."""
