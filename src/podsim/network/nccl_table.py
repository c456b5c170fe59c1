"""The table that NCCL runs, and the links as NCCL's kernels reach them: what simulates its choice.

    picked = choice("all_reduce", 2**30, cluster, ranks=32, ranks_per_node=8, sharing=1)
    table = nccl_table("all-reduce", picked.algorithm, nodes=4, local=8)
    play(table, 2**30, nccl_fabric(fabric_of(cluster), cluster, "all_reduce", picked.algorithm,
                                    picked.protocol, ranks=32, ranks_per_node=8))

The law of podsim.network.nccl and this simulation share the efficiency of the wires (the share of a link's bandwidth
that NCCL's protocols reach, fitted from measurements) and nothing else: how often a byte crosses a link, and which
links are shared, the law counts and the simulation plays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from podsim.errors import PodsimError
from podsim.hardware.fabrics import Fabric
from podsim.network.collectives import Table, make_table
from podsim.network.collectives.direct import direct_all_to_all, send_recv
from podsim.network.collectives.rings import (
    chain_broadcast,
    chain_reduce,
    multi_ring_all_reduce,
    rail_orders,
)
from podsim.network.collectives.rows import ring_rows
from podsim.network.collectives.trees import in_network_all_reduce
from podsim.network.nccl import wires_of
from podsim.network.nccl_paths import wire_rates
from podsim.network.nccl_tuner import Group

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster

__all__ = ["nccl_fabric", "nccl_table"]

PIECES = 256
"""of a buffer, as chains and switches pass it on: NCCL's chunks of 0.5 to 4 MiB at 1 GiB"""


def nccl_table(collective: str, algorithm: str, *, nodes: int, local: int) -> Table:
    """The transfers of a choice of NCCL over servers of `local` ranks; names as in tables ("all-reduce").

    Rings enter each server at a different GPU, one a rail, as many as GPUs of a server. Raises PodsimError for a tree:
    NCCL counts its bandwidth by tables of measured caps, not by the bytes on the links.
    """
    ranks = nodes * local
    orders = rail_orders(nodes, local)
    if algorithm == "ring" and collective == "all-reduce":
        return multi_ring_all_reduce(orders)
    if algorithm == "ring" and collective in ("all-gather", "reduce-scatter"):
        reduce = collective == "reduce-scatter"
        rows = ring_rows(orders, start=0, reduce=reduce, channel=np.arange(len(orders)))
        ends = {"goal" if reduce else "home": orders.ravel()}
        return make_table("rings", collective, rows, ranks=ranks, chunks=orders.size, **ends)
    if algorithm == "ring" and collective == "broadcast":
        return chain_broadcast(ranks, pieces=PIECES)
    if algorithm == "ring" and collective == "reduce":
        return chain_reduce(ranks, pieces=PIECES)
    if algorithm == "nvls" and nodes == 1:
        return in_network_all_reduce(ranks, pieces=PIECES)
    if algorithm == "pairs":
        return direct_all_to_all(ranks) if collective == "all-to-all" else send_recv(ranks)
    raise PodsimError(
        f"the {algorithm} that NCCL runs for this {collective} has no table of its own; "
        "simulate one by name (--algo ring, --algo 'double tree')"
    )


def nccl_fabric(
    fabric: Fabric,
    cluster: Cluster,
    collective: str,
    algorithm: str,
    protocol: str,
    *,
    ranks: int,
    ranks_per_node: int,
) -> Fabric:
    """The fabric with the bandwidth that NCCL reaches by this choice: NVLinks and adapters times their fitted shares.

    collective: as in podsim.network.nccl ("all_reduce"). PCI Express and switches stay as they are.
    """
    wires, group = wires_of(cluster), Group(ranks, ranks_per_node, 1.0)
    inside, outside = wire_rates(wires, collective, group, algorithm, protocol)
    capacity = fabric.capacity.copy()
    capacity[fabric.of_kind("nvlink")] *= min(inside / wires.nvlink, 1.0) if group.members > 1 else 1.0
    if group.nodes > 1:
        capacity[fabric.of_kind("adapter")] *= outside / (wires.network * wires.nics)
    return replace(fabric, capacity=capacity)
