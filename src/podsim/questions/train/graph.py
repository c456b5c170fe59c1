"""`podsim graph`: what a training step of a captured graph costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.accuracy.bands_networks import band_of_graph, features_of_graph
from podsim.answers.graphs import GraphCost
from podsim.embeddings.table_files import read_tables
from podsim.errors import ClusterError, NoFitError, PodsimError, check_name
from podsim.graphs.chakra_mend import write_chakra
from podsim.graphs.frozen_layers import trained_graph
from podsim.graphs.fusion import FUSIONS
from podsim.graphs.fusion import fuse as fused
from podsim.graphs.graph_answer import GraphCase, cut_graph, graph_cost
from podsim.graphs.graph_cost import OpCosts, graph_costs, sparse_costs, update_seconds
from podsim.graphs.graph_step import Reduction, fed_step, loading_seconds, replicas_step
from podsim.graphs.graph_trace import step_trace
from podsim.graphs.networks import networks
from podsim.graphs.op_graph import OpGraph, nets_of
from podsim.graphs.recommender import Recommender, TableStep, table_step, tables_of
from podsim.hardware.catalog import find, load_gpu
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.sparse_products import check_sparse, gain_note, saved_seconds, sparse_gain
from podsim.network.nccl import send_seconds
from podsim.options.graph_options import GraphOptions
from podsim.options.question import question
from podsim.timeline.timelines import write_timeline
from podsim.training.job_inputs import refuse_tables
from podsim.training.plan import default_precision, software_of
from podsim.training.shapes import element_bytes
from podsim.training.software import Software, load_software
from podsim.workload.image_loaders import loader_of_software

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podsim.graphs.graph_cut import Division
from podsim.graphs.module_capture import captured_graph

LAYOUTS = ("channels-last", "channels-first")
"""of tensors with channels: NHWC, NCHW"""


@question(
    GraphOptions,
    status=lambda cost: int(not cost.memory.fits),
)
def graph(options: GraphOptions) -> GraphCost:
    """Cost one training step of a captured graph, op by op.

    A module FILE.py:FUNCTION is captured first. Devices divide the graph with little communication. The timeline is
    that of a replica, or of all devices of a divided graph, one batch at a time. `layout` says how images lie in
    memory. Raises PodsimError for anything unusable.
    """
    check_name("fusion", options.fuse, FUSIONS)
    check_name("layout", options.layout, LAYOUTS)
    if options.detail not in ("", "ops"):
        raise PodsimError(f"detail={options.detail!r} may be ops")
    case = _case(options)
    cut, division = cut_graph(case.graph, case.costs, options.devices, options.tolerance, case.precision)
    simulated = _simulated(case, division, options.timeline) if options.timeline else None
    if options.chakra is not None:
        step = case.step
        _write_traces(
            case.graph, case.costs, step.update, step.reduction, case.software, case.gpus, options.chakra
        )
    cost = replace(graph_cost(case, options, cut, division), simulated=simulated)
    if options.sparse:
        saved = sum(case.dense.passes) - sum(case.costs.passes)
        gain = sparse_gain(saved / saved_seconds(1.0), cost.step_time + saved)
        cost = replace(cost, sparse=gain, notes=(*cost.notes, gain_note(gain)))
    return _with_band(cost, case, options.file)


def _case(options: GraphOptions) -> GraphCase:
    """The graph with its ops merged, and its costs on one GPU and on all."""
    gpu, cluster, gpus = _machine(options.on, options.gpus, options.overrides)
    trainable = fused(captured_graph(options.file, options.input or (), options.batch), FUSIONS[options.fuse])
    merged = trained_graph(trainable, options.train)
    precision = options.precision or default_precision(gpu)
    software = load_software(software_of(options.software, gpu), gpu, precision)
    costs = graph_costs(merged, gpu, precision, software, channels_first=options.layout == LAYOUTS[1])
    dense = costs
    if options.sparse:
        check_sparse(gpu, precision)
        costs = sparse_costs(trainable, costs)
    update = update_seconds(merged, gpu, precision, options.optimizer, software)
    placed_by = partial(
        table_step,
        graph=merged,
        costs=costs,
        gpu=gpu,
        cluster=cluster,
        precision=precision,
        software=software,
        gpus=gpus,
    )
    tables, plain = _tables(options, merged, placed_by)
    step = replicas_step(
        merged, costs if tables is None else tables.costs, cluster, precision, software, update=update, gpus=gpus,
    )  # fmt: skip
    loader = options.loader or loader_of_software(software.name)
    loading = loading_seconds(options.file, merged.batch, cluster, gpus, loader)
    return GraphCase(
        graph=merged, gpu=gpu, cluster=cluster, gpus=gpus, precision=precision, software=software,
        costs=costs if tables is None else tables.costs, tables=tables, plain=plain,
        step=fed_step(step, loading, software), loader=loader, loading=loading, dense=dense,
    )  # fmt: skip


def _tables(
    options: GraphOptions, merged: OpGraph, placed_by: Callable[[Recommender], TableStep]
) -> tuple[TableStep | None, TableStep | None]:
    """(the placed tables of a recommender, its tables placed whole if another placement is wanted)."""
    tables = read_tables(options.tables) if options.tables is not None else tables_of(options.file)
    if tables is None or not merged.sparse.any():
        refuse_tables(options, options.file)
        return None, None
    recommender = Recommender(
        network=options.file,
        tables=tables,
        optimizer=options.optimizer,
        placement=options.placement,
        servers=options.servers,
    )
    if not 0 <= options.servers <= 100_000:
        raise PodsimError(f"servers={options.servers}: 0 to 100,000 parameter servers")
    step, plain = placed_by(recommender), None
    if options.placement not in ("", "plain"):
        with suppress(NoFitError):
            plain = placed_by(replace(recommender, placement="plain"))
    return step, plain


def _simulated(case: GraphCase, division: Division | None, timeline: Sequence[Path]) -> float:
    """Seconds of the simulated step; its timeline is written."""
    from podsim.simulation.graph_steps import simulate_graph

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
    seconds, played = simulate_graph(graph, case.costs, case.step, case.software, part=part, sends=sends)
    for path in timeline:
        write_timeline(played, path, title=graph.name)
    return seconds


def _with_band(cost: GraphCost, case: GraphCase, file: str) -> GraphCost:
    """The cost with the error band of its step on all GPUs."""
    features = features_of_graph(
        case.graph, case.costs, architecture=case.gpu.architecture, precision=cost.precision,
        network=file if file in networks() else "",
    )  # fmt: skip
    return replace(cost, band=band_of_graph(features))


def _write_traces(
    graph: OpGraph,
    costs: OpCosts,
    update: float,
    reduction: Reduction | None,
    software: Software,
    gpus: int,
    prefix: Path,
) -> None:
    """One Chakra file for each replica: they are alike but for their rank."""
    import numpy as np

    took = np.zeros(0) if reduction is None else reduction.took
    trace = step_trace(graph, costs, update, ranks=gpus, gradient_bytes=software.gradient_bytes, reduce=took)
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
        cluster = load_cluster(on, dict(overrides or {}), gpus)
        return cluster.gpu, cluster, gpus
    wrong = [key for key in overrides or {} if not key.startswith("gpu.")]
    if wrong:
        raise ClusterError(f"--set {wrong[0]}: {on} is a GPU, of which only gpu.… can be set")
    return (
        load_gpu(on, {key.removeprefix("gpu."): value for key, value in (overrides or {}).items()}),
        None,
        1,
    )
