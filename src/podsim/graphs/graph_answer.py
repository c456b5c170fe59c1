"""The answer to the question what a training step of a graph costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from podsim.answers.graphs import Cut, CutPart, DataParallel, GraphCost, GraphOp
from podsim.graphs.fusion import FUSIONS
from podsim.graphs.graph_cost import OpCosts
from podsim.graphs.graph_memory import graph_memory
from podsim.graphs.graph_step import ReplicasStep
from podsim.graphs.op_graph import OpGraph, nets_of
from podsim.graphs.recommender import TableStep, placement_of
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.gemm import peak_of
from podsim.options.graph_options import GraphOptions
from podsim.training.shapes import element_bytes
from podsim.training.software import Software

if TYPE_CHECKING:
    from podsim.graphs.graph_cut import Division


@dataclass(frozen=True, kw_only=True)
class GraphCase:
    """A graph, the GPUs that run it, and what it costs there."""

    graph: OpGraph
    gpu: Gpu
    cluster: Cluster | None
    gpus: int
    precision: str
    software: Software
    costs: OpCosts
    step: ReplicasStep
    loader: str
    loading: float
    """s. The time in which a node prepares the images of a step."""
    dense: OpCosts
    """The costs with dense weights, which are those of the case unless weights are pruned."""
    tables: TableStep | None = None
    """The placed tables of a recommender."""
    plain: TableStep | None = None
    """The tables placed whole, for comparison."""


def graph_cost(
    case: GraphCase, options: GraphOptions, cut: Cut | None, division: Division | None
) -> GraphCost:
    """The costs of the graph, op by op and in all."""
    graph, costs, precision, rules = case.graph, case.costs, case.precision, FUSIONS[options.fuse]
    forward, backward = costs.passes
    flops, back = float(graph.flops.sum()), float(graph.flops_back.sum())
    kinds: dict[str, float] = {}
    for kind, there, again in zip(
        graph.kind_names, costs.forward.tolist(), costs.backward.tolist(), strict=True
    ):
        kinds[kind] = kinds.get(kind, 0.0) + there + again
    step, tables = case.step.alone, case.tables
    placement = None if tables is None else placement_of(tables, case.plain)
    notes = graph.notes if tables is None else ()
    if graph.frozen:
        notes += (
            f"{options.train}: {graph.frozen:,.0f} weights are frozen, {graph.parameters.sum():,.0f} trained",
        )
    return GraphCost(
        model=graph.name, source=graph.source, gpu=case.gpu.name, precision=precision, software=case.software.name,
        optimizer=options.optimizer, fused=rules, batch=graph.batch,
        parameters=float(graph.parameters.sum()) + graph.frozen
        + (0.0 if tables is None else tables.recommender.tables.parameters),
        flops=flops, flops_back=back, forward=forward, backward=backward, update=case.step.update,
        host=forward + backward - float(costs.forward.sum() + costs.backward.sum()),
        host_step=case.software.host_step, step_time=step, samples_per_second=graph.batch / step,
        utilisation=(flops + back) / peak_of(case.gpu, PRECISIONS[precision].matmul) / step,
        kept=float(graph.kept.sum()) * element_bytes(precision) / graph.element,
        kinds=dict(sorted(kinds.items(), key=lambda item: -item[1])),
        memory=graph_memory(
            graph, case.gpu, precision, case.software, optimizer=options.optimizer, gpus=case.gpus, cut=cut,
            tables=None if tables is None else tables.memory,
        ),
        loader=case.loader, loading=case.loading, placement=placement,
        ops=_ops(graph, costs, division), cut=cut, data_parallel=_replicas(graph, case.step, case.gpus),
        notes=(*notes, *(() if rules else ("ops run one by one, as written (eager); --fuse merges them",))),
    )  # fmt: skip


def _ops(graph: OpGraph, costs: OpCosts, division: Division | None) -> tuple[GraphOp, ...]:
    seconds = costs.forward + costs.backward
    return tuple(
        GraphOp(
            name=graph.names[i], op=graph.targets[i], kind=kind, shape=" x ".join(str(n) for n in graph.shapes[i]),
            flops=float(graph.flops[i]), flops_back=float(graph.flops_back[i]), bytes=float(costs.moved[i]),
            bytes_back=float(costs.moved_back[i]), forward=float(costs.forward[i]), backward=float(costs.backward[i]),
            light=float(costs.light[i] / seconds[i]) if seconds[i] > 0 else 0.0, bound=costs.bound[i],
            part=0 if division is None else int(division.part[i]),
        )
        for i, kind in enumerate(graph.kind_names)
    )  # fmt: skip


def cut_graph(
    graph: OpGraph, costs: OpCosts, devices: int, tolerance: float, precision: str
) -> tuple[Cut | None, Division | None]:
    """The graph divided by seconds of both passes; None for one device."""
    if devices == 1:
        return None, None
    import numpy as np

    from podsim.graphs.graph_cut import divide

    scale = element_bytes(precision) / graph.element
    first, members, size = nets_of(graph)
    made = divide(
        costs.forward + costs.backward, (first, members, size * scale), devices, tolerance=tolerance
    )
    parts = tuple(
        CutPart(
            ops=int((made.part == p).sum()), seconds=float(made.load[p]),
            parameters=float(graph.parameters[made.part == p].sum()),
            kept=float(graph.kept[made.part == p].sum()) * scale, sent=float(made.sent[p]),
        )
        for p in range(devices)
    )  # fmt: skip
    edges = set(zip(made.part[graph.before].tolist(), made.part[graph.after].tolist(), strict=True))
    return Cut(
        devices=devices, bytes=float(made.sent.sum()), tolerance=tolerance, tensors=made.tensors, parts=parts,
        balance=float(made.load.max() / np.mean(made.load)), pipeline=_is_pipeline({e for e in edges if e[0] != e[1]}),
    ), made  # fmt: skip


def _is_pipeline(edges: set[tuple[int, int]]) -> bool:
    """Whether the devices can be put in an order that every edge follows."""
    nodes = {n for edge in edges for n in edge}
    while nodes:
        free = {n for n in nodes if not any(b == n and a in nodes for a, b in edges)}
        if not free:
            return False
        nodes -= free
    return True


def _replicas(graph: OpGraph, step: ReplicasStep, gpus: int) -> DataParallel | None:
    made = step.reduction
    if made is None:
        return None
    return DataParallel(
        gpus=gpus, buckets=made.buckets, bytes=made.bytes, reduce=made.seconds, exposed=made.exposed,
        tables=step.tables, step_time=step.seconds, samples_per_second=gpus * graph.batch / step.seconds,
        efficiency=step.alone / step.seconds,
    )  # fmt: skip
