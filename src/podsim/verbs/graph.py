"""`podsim graph`: what a training step of a captured graph costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.accuracy.bands_networks import band_of_graph, features_of_graph
from podsim.errors import ClusterError, ModelError, PodsimError, unknown_name
from podsim.graphs.chakra_mend import write_chakra
from podsim.graphs.fusion import FUSIONS
from podsim.graphs.fusion import fuse as fused
from podsim.graphs.graph_cost import OpCosts, graph_costs, update_seconds
from podsim.graphs.graph_step import Reduction, ReplicasStep, replicas_step
from podsim.graphs.graph_trace import step_trace
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph import OpGraph, nets_of
from podsim.graphs.op_graph_json import check_batch, read_graph
from podsim.hardware.catalog import find, load_gpu
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.gemm import peak_of
from podsim.network.nccl import send_seconds
from podsim.options.graph_options import GraphOptions
from podsim.options.question import question
from podsim.results.graphs import Cut, CutPart, DataParallel, GraphCost, GraphOp
from podsim.timeline.timelines import write_timeline
from podsim.training.plan import default_precision, software_of
from podsim.training.shapes import element_bytes
from podsim.training.software import Software, load_software
from podsim.verbs.capture import any_batch, at_samples, captured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podsim.graphs.graph_cut import Division

LAYOUTS = ("channels-last", "channels-first")
"""of tensors with channels: NHWC, NCHW"""


@question(GraphOptions)
def graph(options: GraphOptions) -> GraphCost:
    """Cost one training step of a captured graph, op by op.

    A module FILE.py:FUNCTION is captured first. Devices divide the graph with little communication. The timeline is
    that of a replica, or of all devices of a divided graph, one batch at a time. `layout` says how images lie in
    memory. Raises PodsimError for anything unusable.
    """
    if options.fuse not in FUSIONS:
        raise PodsimError(unknown_name("fusion", options.fuse, FUSIONS))
    if options.layout not in LAYOUTS:
        raise PodsimError(unknown_name("layout", options.layout, LAYOUTS))
    if options.detail not in ("", "ops"):
        raise PodsimError(f"detail={options.detail!r} may be ops")
    case = _case(options)
    cut, division = _cut(case.graph, case.costs, options.devices, options.tolerance, case.precision)
    simulated = _simulated(case, division, options.timeline) if options.timeline else None
    if options.chakra is not None:
        step = case.step
        _write_traces(
            case.graph, case.costs, step.update, step.reduction, case.software, case.gpus, options.chakra
        )
    cost = replace(_graph_cost(case, options, cut, division), simulated=simulated)
    return _with_band(cost, case, options.file)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A graph, the GPUs that run it, and what it costs there."""

    graph: OpGraph
    gpu: Gpu
    cluster: Cluster | None
    gpus: int
    precision: str
    software: Software
    costs: OpCosts
    step: ReplicasStep


def _case(options: GraphOptions) -> _Case:
    """The graph with its ops merged, and its costs on one GPU and on all."""
    gpu, cluster, gpus = _machine(options.on, options.gpus, options.overrides)
    merged = fused(_graph(options.file, options.input or (), options.batch), FUSIONS[options.fuse])
    precision = options.precision or default_precision(gpu)
    software = load_software(software_of(options.software, gpu), gpu, precision)
    costs = graph_costs(merged, gpu, precision, software, channels_first=options.layout == LAYOUTS[1])
    update = update_seconds(merged, gpu, precision, options.optimizer, software)
    step = replicas_step(merged, costs, cluster, precision, software, update=update, gpus=gpus)
    return _Case(
        graph=merged, gpu=gpu, cluster=cluster, gpus=gpus, precision=precision, software=software, costs=costs,
        step=step,
    )  # fmt: skip


def _simulated(case: _Case, division: Division | None, timeline: Sequence[Path]) -> float:
    """Seconds of the played step; its timeline is written."""
    from podsim.simulation.graphs import play_graph

    graph, cluster = case.graph, case.cluster
    part = sends = None
    if division is not None:
        devices = len(division.load)
        if cluster is None or cluster.gpus < devices:
            have = "one GPU" if cluster is None else f"{cluster.gpus} GPUs"
            raise PodsimError(f"timeline of devices={devices}: --on has {have}; name a cluster with as many")
        size = nets_of(graph)[2] * element_bytes(case.precision) / graph.element
        part = division.part
        sends = send_seconds(size, cluster, crosses_node=devices > cluster.gpus_per_node)
    seconds, played = play_graph(graph, case.costs, case.step, case.software, part=part, sends=sends)
    for path in timeline:
        write_timeline(played, path, title=graph.name)
    return seconds


def _with_band(cost: GraphCost, case: _Case, file: str) -> GraphCost:
    """The cost with the error band of its step on all GPUs."""
    features = features_of_graph(
        case.graph, case.costs, architecture=case.gpu.architecture, precision=cost.precision,
        network=file if file in networks() else "", software=cost.software, gpus=case.gpus,
        node=1 if case.cluster is None else case.cluster.gpus_per_node,
    )  # fmt: skip
    band, reason = band_of_graph(features)
    return replace(cost, band=band, band_reason=reason)


def _graph_cost(case: _Case, options: GraphOptions, cut: Cut | None, division: Division | None) -> GraphCost:
    """The costs of the graph, op by op and in all."""
    graph, costs, precision, rules = case.graph, case.costs, case.precision, FUSIONS[options.fuse]
    forward, backward = costs.passes
    flops, back = float(graph.flops.sum()), float(graph.flops_back.sum())
    kinds: dict[str, float] = {}
    for kind, there, again in zip(
        graph.kind_names, costs.forward.tolist(), costs.backward.tolist(), strict=True
    ):
        kinds[kind] = kinds.get(kind, 0.0) + there + again
    step = case.step.alone
    return GraphCost(
        model=graph.name, source=graph.source, gpu=case.gpu.name, precision=precision, software=case.software.name,
        optimizer=options.optimizer, fused=rules, batch=graph.batch, parameters=float(graph.parameters.sum()),
        flops=flops, flops_back=back, forward=forward, backward=backward, update=case.step.update,
        host=forward + backward - float(costs.forward.sum() + costs.backward.sum()),
        host_step=case.software.host_step, step_time=step, samples_per_second=graph.batch / step,
        utilisation=(flops + back) / peak_of(case.gpu, PRECISIONS[precision].matmul) / step,
        kept=float(graph.kept.sum()) * element_bytes(precision) / graph.element,
        kinds=dict(sorted(kinds.items(), key=lambda item: -item[1])),
        ops=_ops(graph, costs, division), cut=cut, data_parallel=_replicas(graph, case.step, case.gpus),
        notes=(*graph.notes, *(() if rules else ("ops run one by one, as written (eager); --fuse merges them",))),
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


def _cut(
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
        balance=float(made.load.max() / np.mean(made.load)), pipeline=_onward({e for e in edges if e[0] != e[1]}),
    ), made  # fmt: skip


def _onward(edges: set[tuple[int, int]]) -> bool:
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


def _write_traces(
    graph: OpGraph,
    costs: OpCosts,
    update: float,
    reduction: Reduction | None,
    era: Software,
    gpus: int,
    prefix: Path,
) -> None:
    """One Chakra file for each replica: they are alike but for their rank."""
    from dataclasses import replace

    import numpy as np

    took = np.zeros(0) if reduction is None else reduction.took
    trace = step_trace(graph, costs, update, ranks=gpus, gradient_bytes=era.gradient_bytes, reduce=took)
    write_chakra([replace(trace, rank=rank) for rank in range(gpus)], prefix)


def _machine(
    on: str, gpus: int | None, overrides: Mapping[str, str] | None
) -> tuple[Gpu, Cluster | None, int]:
    """The GPU, the part of the cluster that the job gets if one was named, and its GPUs."""
    if gpus is not None and (not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 1):
        raise ClusterError(f"gpus={gpus!r}: a step runs on 1 or more")
    entry = find(on)
    if entry is None or entry[0] != "gpu":
        cluster = load_cluster(on, dict(overrides or {}))
        count = cluster.gpus if gpus is None else gpus
        if count > cluster.gpus:
            raise ClusterError(f"gpus={gpus}: {cluster.name} has {cluster.gpus}")
        return cluster.gpu, cluster.subset(count), count
    if gpus is not None and gpus > 1:
        raise ClusterError(f"{on} is one GPU; for {gpus} name a cluster, as --on dgx-a100-80gb:1")
    wrong = [key for key in overrides or {} if not key.startswith("gpu.")]
    if wrong:
        raise ClusterError(f"--set {wrong[0]}: {on} is a GPU, of which only gpu.… can be set")
    return (
        load_gpu(on, {key.removeprefix("gpu."): value for key, value in (overrides or {}).items()}),
        None,
        1,
    )


def _graph(file: str, shapes: Sequence[str], batch: int | None) -> OpGraph:
    if batch is not None:
        check_batch(batch)
    if ".py:" in file:
        if any_batch(shapes) == (batch is None):
            said = (
                "say which: --batch 32"
                if batch is None
                else "is for --input with B for the samples: Bx3x224x224"
            )
            raise ModelError(f"--batch: {said}")
        return captured(file, at_samples(shapes, batch or 1), count=False)[0]
    if shapes:
        raise ModelError(f"--input: the inputs of {file[-80:]} are in the graph; it is for FILE.py:FUNCTION")
    if file.endswith(".py"):
        raise ModelError(f"{file[-120:]}: name the function that gives the module: {file[-120:]}:FUNCTION")
    if Path(file).suffix or "/" in file:
        return read_graph(Path(file), batch)
    if batch is None and file in networks():
        raise ModelError(f"{file}: say how many samples a step has: --batch 32")
    return load_network(file, batch or 1)
