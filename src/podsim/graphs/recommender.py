"""The tables of a recommender in a training step: a captured network's lookups, by a placement over the GPUs.

    lookups      the slowest GPU's take the place of the captured lookups, forward and backward
    exchange     vectors and gradients, twice the slope of an all-to-all, and its start for indices, vectors and gradients
    first GPU    may compute the layers before the interaction for all samples, while others look rows up (hybrid)
    memory       the fullest GPU's rows, optimizer states and caches

Plain placement: whole tables on single GPUs, balanced; columns are divided, or rows leave the GPU's memory, only where
tables do not fit. Source: the captured graph; podsim.embeddings. Known error: docs/recommenders.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podsim.answers.graphs import PlacedTable, TablePlacement
from podsim.embeddings.lookup_cost import KINDS, TIERS, TableMachine, Tier
from podsim.embeddings.placement import Layout, place_tables, whole_tables
from podsim.embeddings.tables import TableSet
from podsim.errors import PlanError, raise_all, unknown_name
from podsim.graphs.graph_cost import OpCosts, graph_costs
from podsim.graphs.graph_memory import graph_memory
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph import OpGraph
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.training.plan_values import Array
from podsim.training.shapes import element_bytes, group_seconds
from podsim.training.software import Software

_BLOCK = 4096.0
"""B. The least that a drive reads."""
_USABLE = 0.9
"""share of memory, drives and servers that tables may fill"""


@dataclass(frozen=True, kw_only=True)
class Recommender:
    """The tables of a network, and how to place them."""

    network: str
    tables: TableSet
    optimizer: str = "sgd"
    """The optimizer of the layers."""
    placement: str = ""
    """The placement: plain, best, or ways by TorchRec's names; "" leaves it to the software."""
    servers: int = 0
    """The number of parameter servers."""


@dataclass(frozen=True, kw_only=True)
class TableStep:
    """The tables of a step, placed."""

    recommender: Recommender
    machine: TableMachine
    layout: Layout
    costs: OpCosts
    """The costs of the ops of the slowest GPU, with the exchange: all-to-alls, replicated rows, rows fetched late."""

    @property
    def seconds(self) -> float:
        """s. The time that tables add to a step."""
        return self.layout.parts[0] + self.layout.parts[1] + (self.costs.exchange or 0.0)

    @property
    def memory(self) -> float:
        """B. The tables on the fullest GPU."""
        return float(self.layout.memory.max())


def tables_of(network: str) -> TableSet | None:
    """The tables of a network of the catalog whose gradients are sparse; None if it has none."""
    entry = networks().get(network)
    known = None if entry is None else entry.table_set
    return None if known is None or known.is_dense else known


def table_step(
    recommender: Recommender, graph: OpGraph, costs: OpCosts, gpu: Gpu, cluster: Cluster | None, precision: str,
    software: Software, *, gpus: int,
) -> TableStep:  # fmt: skip
    """The tables of a step of `gpus` replicas. Raises NoFitError if they fit nowhere, PlanError for the placement."""
    tables, kinds = recommender.tables, _kinds(recommender.placement or software.tables)
    dense = graph_memory(
        graph, gpu, precision, software, optimizer=recommender.optimizer, gpus=gpus, tables=0.0
    )
    first = 0.0, 0.0
    if gpus > 1 and software.first_gpu:
        full = load_network(recommender.network, graph.batch * gpus)
        first, costs = _without_first(
            graph, costs, full, graph_costs(full, gpu, precision, software), software.first_gpu
        )
    lone = with_lookups(graph, costs, 0.0, 0.0)
    machine = TableMachine(
        gpus=gpus, node=1 if cluster is None else min(gpus, cluster.gpus_per_node), batch=graph.batch,
        element=element_bytes(precision), memory_rate=software.memory_speed * 1e9 / float(memory_seconds(gpu, 1e9)),
        send_rate=np.inf, reduce_rate=np.inf, hidden=sum(lone.passes), room=max(gpu.memory - dense.total, 0.0),
        tiers=_tiers(gpu, cluster, gpus, recommender.servers),
    )  # fmt: skip
    start = reduce_start = 0.0
    if gpus > 1 and cluster is not None:
        sent = graph.batch * sum(each.width for each in tables.tables) * machine.element
        send_rate, start = _line("all_to_all", sent, cluster, software, gpus)
        reduce_rate, reduce_start = _line("all_reduce", 1e7, cluster, software, gpus)
        machine = replace(machine, send_rate=send_rate, reduce_rate=reduce_rate)
    layout = _placed(tables, machine, kinds)
    forward, backward, send, fetched, shared = layout.parts
    starts = 3.0 * start + 2.0 * software.collective_wait if send else 0.0
    exchange = send + shared + starts + (reduce_start if shared else 0.0)
    exchange += fetched - min(software.hidden_exchange * exchange, machine.hidden)
    placed = with_lookups(graph, costs, max(forward, first[0]), max(backward, first[1]))
    return TableStep(
        recommender=recommender, machine=machine, layout=layout, costs=replace(placed, exchange=exchange)
    )


def _without_first(
    graph: OpGraph, costs: OpCosts, full: OpGraph, full_costs: OpCosts, layers: str
) -> tuple[tuple[float, float], OpCosts]:
    """((forward, backward) s of layers that the first GPU computes for all samples, the costs without them)."""
    own, others = _are_in(graph, layers), _are_in(full, layers)
    left = replace(
        costs, forward=np.where(own, 0.0, costs.forward), backward=np.where(own, 0.0, costs.backward)
    )
    return (float(full_costs.forward[others].sum()), float(full_costs.backward[others].sum())), left


def _are_in(graph: OpGraph, layers: str) -> Array:
    return np.array([name.split(".")[0] == layers for name in graph.names])


def with_lookups(graph: OpGraph, costs: OpCosts, forward: float, backward: float) -> OpCosts:
    """The costs of a graph with other seconds of all lookups with sparse gradients together."""
    share = graph.sparse / max(int(graph.sparse.sum()), 1)
    there, back = (
        np.where(graph.sparse, seconds * share, old)
        for seconds, old in ((forward, costs.forward), (backward, costs.backward))
    )
    return replace(costs, forward=there, backward=back)


def _placed(tables: TableSet, machine: TableMachine, kinds: tuple[str, ...]) -> Layout:
    """Whole tables where they fit, or the best placement by some ways."""
    plain = None if kinds else whole_tables(tables, machine)
    return plain or place_tables(tables, machine, kinds=kinds or KINDS)


def _kinds(placement: str) -> tuple[str, ...]:
    """The ways to place tables; none for a plain placement. Raises PlanError."""
    if placement == "plain":
        return ()
    if placement in ("", "best"):
        return KINDS
    kinds = tuple(each.strip().lower().replace("-", "_") for each in placement.split(","))
    raise_all(
        [unknown_name("placement", each, ("plain", "best", *KINDS)) for each in kinds if each not in KINDS],
        PlanError,
    )
    return kinds


def _tiers(gpu: Gpu, cluster: Cluster | None, gpus: int, servers: int) -> tuple[Tier | None, ...]:
    """Host memory and drives of the node and parameter servers that are nodes without GPUs, as one GPU sees them."""
    if cluster is None:
        return (None,) * 4
    system, node = cluster.system, min(gpus, cluster.gpus_per_node)
    slot = (
        system.pcie.bandwidth * gpu.pcie_lanes / 16
        if system.pcie and gpu.pcie_lanes
        else cluster.nvlink.bandwidth
    )
    host = drives = remote = None
    if system.memory:
        host = Tier(capacity=_USABLE * system.memory, pool=node, rate=slot)
    if system.ssd is not None and system.ssds:
        rows = min(system.ssd.read_iops or np.inf, system.ssd.read_bandwidth / _BLOCK) * system.ssds / node
        capacity = _USABLE * system.ssd.capacity * system.ssds
        drives = Tier(capacity=capacity, pool=node, rate=min(slot, rows * _BLOCK), row_rate=rows)
    if servers:
        link = cluster.node_bandwidth or slot
        rate = min(slot, link / node, servers * link / gpus)
        remote = Tier(capacity=_USABLE * system.memory * servers, pool=gpus, rate=rate)
    return None, host, drives, remote


def _line(kind: str, size: float, cluster: Cluster, software: Software, gpus: int) -> tuple[float, float]:
    """(B/s, s) The slope and the start of a collective's time about a size on each GPU, as a straight line."""
    node = min(gpus, cluster.gpus_per_node)
    if kind == "all_to_all" and software.exchanges_by_rail and gpus > node:
        gpus, node = gpus // node, 1
    members = np.array(float(node))
    low, high = (_collective(kind, share * size, cluster, software, gpus, members) for share in (0.5, 1.5))
    rate = size / max(high - low, 1e-12)
    return rate, max((low + high) / 2 - size / rate, 0.0) + software.host_collective


def _collective(
    kind: str, size: float, cluster: Cluster, software: Software, gpus: int, members: Array
) -> float:
    return float(
        group_seconds(kind, np.array(size), cluster, software, ranks=np.array(gpus), members=members)
    )


def placement_of(step: TableStep, plain: TableStep | None) -> TablePlacement:
    """The placement as plain values, beside that of whole tables."""
    layout, tables = step.layout, step.recommender.tables
    forward, backward, _, fetched, shared = layout.parts
    placed = tuple(
        PlacedTable(
            name=table.name, rows=table.rows, width=table.width, pooling=table.pooling, bytes=table.bytes,
            way=choice.kind, slices=choice.columns, gpus=_spans(positions, choice.scope), tier=TIERS[choice.tier],
            cached=choice.cached, hit_rate=choice.hit_rate, hot=choice.hot, seconds=float(choice.load.sum()),
        )
        for table, choice, positions in zip(tables.tables, layout.choices, layout.positions, strict=True)
    )  # fmt: skip
    return TablePlacement(
        name=tables.title, bytes=tables.bytes, lookups=tables.lookups, forward=forward, backward=backward,
        sent=(step.costs.exchange or 0.0) - fetched - shared, fetched=fetched, shared=shared, seconds=step.seconds,
        bound=layout.bound, plain=None if plain is None else plain.seconds, least=float(layout.memory.min()),
        most=step.memory, tables=placed,
    )  # fmt: skip


def _spans(positions: tuple[int, ...], scope: int) -> str:
    """GPUs as text: 0, 4-7."""
    return ", ".join(f"{at}-{at + scope - 1}" if scope > 1 else str(at) for at in sorted(set(positions)))
