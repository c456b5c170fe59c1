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

import numpy as np

from podsim.axes import Ints, Shaped
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric
from podsim.network.bus import bus_factor
from podsim.network.collectives import Table, make_table
from podsim.network.collectives.bricks import brick, ring_rows, stack
from podsim.network.collectives.direct import direct_all_to_all, shift
from podsim.network.collectives.rings import multi_ring_all_reduce, rail_orders
from podsim.network.collectives.trees import in_network_all_reduce, tree_rows, two_trees
from podsim.network.nccl import wires_of
from podsim.network.nccl_between import out_rate, reduced_rate
from podsim.network.nccl_constants import load_fabric, load_network
from podsim.network.nccl_group import Group, adapters, fabric_name
from podsim.network.nccl_paths import wire_rates

PIECES = 256
"""of a buffer, as chains and switches pass it on: NCCL's chunks of 0.5 to 4 MiB at 1 GiB"""
MOST_SENT = 3_000_000
"""transfers of trees, which differ too much to be folded"""


def nccl_table(collective: str, algorithm: str, *, nodes: int, local: int) -> Table:
    """The transfers of a choice of NCCL over servers of `local` ranks; names as in tables ("all-reduce").

    Rings enter each server at a different GPU, one a rail, as many as GPUs of a server. Trees: two for each rail, a
    chain in every server and a double binary tree over the servers. Raises PodsimError for a choice without a table.
    """
    ranks = nodes * local
    orders = rail_orders(nodes, local)
    if algorithm == "ring" and collective == "all-reduce":
        return multi_ring_all_reduce(orders)
    if algorithm == "ring" and collective in ("all-gather", "reduce-scatter"):
        reduce = collective == "reduce-scatter"
        rows = ring_rows(orders, start=0, reduce=reduce, channel=np.arange(len(orders)))
        home, goal = (None, orders.ravel()) if reduce else (orders.ravel(), None)
        return make_table("rings", collective, rows, ranks=ranks, chunks=orders.size, home=home, goal=goal)
    if algorithm == "ring" and collective in ("broadcast", "reduce"):
        return _chains(collective, orders)
    if algorithm == "tree":
        if (sent := 4 * ranks * local * PIECES) > MOST_SENT:
            raise PodsimError(
                f"NCCL's trees over {ranks:,} ranks are {sent:,} transfers; up to {MOST_SENT:,} are "
                "simulated: take fewer --ranks, or a table by name (--algo hierarchical)"
            )
        return _trees(nodes, local)
    if algorithm == "nvls" and nodes == 1:
        return in_network_all_reduce(ranks, pieces=PIECES)
    if algorithm == "pairs":
        return direct_all_to_all(ranks) if collective == "all-to-all" else shift(ranks)
    raise PodsimError(
        f"the {algorithm} that NCCL runs for this {collective} has no table of its own; "
        "simulate one by name (--algo ring, --algo 'double tree')"
    )


def _chains(collective: str, orders: Shaped[Ints, "ring rank"]) -> Table:
    """Rings cut open at rank 0, from which (or to which) they pass pieces on."""
    reduce, (rings, ranks) = collective == "reduce", orders.shape
    rows = []
    for ring, order in enumerate(orders):
        line, hop = np.roll(order, -int(np.flatnonzero(order == 0)[0])), np.arange(ranks - 1)
        ends = (line[1:], line[:-1]) if reduce else (line[:-1], line[1:])
        rows.append(brick(
            step=hop[::-1] if reduce else hop, source=ends[0], destination=ends[1], chunk=ring * PIECES,
            reduce=int(reduce), channel=ring, repeat=PIECES, turn=1, wheel=PIECES,
        ))  # fmt: skip
    return make_table("chains", collective, stack(*rows), ranks=ranks, chunks=rings * PIECES)


def _trees(nodes: int, local: int) -> Table:
    """Trees of all rails: GPU j of each server is the root of a chain through it, and joined to GPU j of other servers.

    NCCL puts a server's second child on another GPU (its balanced tree); here both are on the rail's own GPU, as the
    adapter carries the same bytes either way. Source: NCCL src/graph/{trees,connect}.cc.
    """
    node, index = np.arange(nodes)[:, None] * local, np.arange(local)
    rows, ranks = [], nodes * local
    for tree, parent in enumerate(two_trees(nodes)):
        for rail in range(local):
            visit = (node + (rail + index) % local).ravel()
            above = np.roll(visit, 1)
            above[::local] = np.where(parent >= 0, parent * local + rail, -1)
            parents = np.empty(ranks, np.int64)
            parents[visit] = above
            number = tree * local + rail
            rows.append(tree_rows(parents, PIECES, number * PIECES, number))
    return make_table("trees", "all-reduce", stack(*rows), ranks=ranks, chunks=2 * local * PIECES)


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

    collective: as in podsim.network.nccl ("all_reduce"). PCI Express and switches stay as they are. Raises PodsimError
    for servers whose rings NCCL would have to search for: those without NVSwitch, or with more adapters than GPUs.
    """
    if cluster.system.topology != "nvswitch" or cluster.nics > cluster.gpus_per_node:
        raise PodsimError(
            f"{cluster.name}: NCCL's own rings are simulated on NVSwitch servers with at most one adapter a GPU; "
            "simulate a table by name (--algo ring)"
        )
    wires, group = wires_of(cluster), Group(ranks, ranks_per_node, 1.0)
    inside, outside = wire_rates(wires, collective, group, algorithm, protocol)
    capacity = fabric.capacity.copy()
    capacity[fabric.links_of_kind("nvlink")] *= min(inside / wires.nvlink, 1.0) if group.members > 1 else 1.0
    if group.nodes > 1:
        capacity[fabric.links_of_kind("adapter")] *= outside / (wires.network * adapters(wires, group))
    return replace(fabric, capacity=capacity)


def reduction_shares(
    cluster: Cluster, node_rate: float, *, ranks: int, ranks_per_node: int
) -> tuple[float, float]:
    """(share of a GPU's NVLinks, share of an adapter's rate) of a reduction in the network at `node_rate`, B/s."""
    wires, group = wires_of(cluster), Group(ranks, ranks_per_node, 1.0)
    inside = 1.0
    if wires.architecture not in (
        "hopper",
        "blackwell",
    ):  # whose NVSwitches carry each byte once, not to every GPU
        rate = reduced_rate(wires, group, load_fabric(fabric_name(wires)), load_network(wires.fabric))
        inside = rate * float(bus_factor("all_reduce", group.members)) / wires.nvlink
    return inside, node_rate / cluster.node_bandwidth


def switch_tree_rates(cluster: Cluster, *, ranks: int, ranks_per_node: int) -> tuple[float, float]:
    """(B/s of a GPU to its NVSwitch, B/s out of a node) that trees of NVSwitches reach."""
    wires, group = wires_of(cluster), Group(ranks, ranks_per_node, 1.0)
    network = load_network(wires.fabric)
    share = network.between.nvls_share * load_fabric(fabric_name(wires)).nvls_share
    return share * wires.nvlink, out_rate(wires, group, network)
