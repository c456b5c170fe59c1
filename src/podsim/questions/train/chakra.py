"""`podsim chakra`: MLCommons Chakra execution traces, read, repaired and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path

from podsim.answers.graphs import TraceFile, Traces
from podsim.errors import TraceError
from podsim.graphs.chakra_mend import Mended, read_chakra, write_chakra
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, TraceGraph, critical_seconds
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives.lookup import table_of
from podsim.network.nccl import Members, collective_seconds
from podsim.options.graph_options import GraphOptions
from podsim.options.question import like, option, overrides_option, question
from podsim.simulation.trace_play import Collective, simulate_traces
from podsim.timeline.timelines import SUFFIXES, suffix_of, write_timeline

_TABLES = {
    "reduce": "binomial reduce", "all-gather": "ring all-gather", "gather": "direct gather",
    "scatter": "direct scatter", "broadcast": "chain broadcast", "all-to-all": "direct all-to-all",
    "reduce-scatter": "ring reduce-scatter",
}  # fmt: skip
"""the table of each collective but the all-reduce"""


@dataclass(frozen=True, kw_only=True)
class ChakraOptions:
    """Execution traces, one file a rank."""

    traces: Sequence[Path] = option(
        MISSING, "Chakra traces, plain or gzip, one for each rank.", argument=True
    )
    out: Path | None = option(None, "Write what is left: OUT.RANK.et for each file.")
    on: str = option("", "Simulate them on the fabric of this cluster: dgx-a100:2.")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")
    algo: str = option(
        "ring", "All-reduces of the simulation: ring, tree, double-tree, …; nccl: its law, for all."
    )
    timeline: Sequence[Path] = like(
        GraphOptions,
        "timeline",
        "Write the simulation: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable.",
    )


@question(ChakraOptions)
def chakra(options: ChakraOptions) -> Traces:
    """Read Chakra traces, one file a rank, and report their content and their repairs.

    With `out`, what is left is written as `OUT.RANK.et` for each file: dependencies whole, streams in order, schema
    0.0.4, as ASTRA-sim reads it. Files without a rank in their name are numbered in the order given. With `on`, the
    traces are simulated on the cluster's fabric: rank r is its GPU r. Raises TraceError for a file that is no trace, and
    traces that do not fit each other.
    """
    if not options.traces:
        raise TraceError("no files: give one .et file for each rank")
    if not options.on and (options.timeline or options.overrides):
        raise TraceError(
            "--timeline and --set are of a simulation: name its cluster with --on, e.g. dgx-a100:2"
        )
    for path in options.timeline:
        suffix_of(path, SUFFIXES, "timeline")
    read = [read_chakra(Path(trace)) for trace in options.traces]
    graphs = [trace.graph for trace in read]
    if all(graph.rank < 0 for graph in graphs):
        graphs = [replace(graph, rank=rank) for rank, graph in enumerate(graphs)]
    written = write_chakra(graphs, options.out) if options.out is not None else ()
    files = tuple(_summary(str(path), trace) for path, trace in zip(options.traces, read, strict=True))
    cluster = ""
    if options.on:
        cluster, files = _played(graphs, files, options)
    return Traces(files=files, cluster=cluster, written=tuple(str(path) for path in written))


def _played(
    graphs: Sequence[TraceGraph], files: Sequence[TraceFile], options: ChakraOptions
) -> tuple[str, tuple[TraceFile, ...]]:
    """(the name of the cluster, the files with what their ranks took on its fabric); the timeline is written."""
    cluster = load_cluster(options.on, options.overrides)
    used, timeline = simulate_traces(
        graphs, fabric_of(cluster), cluster.gpus, partial(_way, cluster=cluster, algo=options.algo)
    )
    for path in options.timeline:
        write_timeline(timeline, path, title=f"traces on {cluster.name}")
    return cluster.name, tuple(
        replace(file, played=used[graph.rank].seconds, exposed=used[graph.rank].exposed)
        for file, graph in zip(files, graphs, strict=True)
    )


def _way(name: str, size: float, members: tuple[int, ...], *, cluster: Cluster, algo: str) -> Collective:
    """How a collective of a trace is run: by a table over the members, or as long as NCCL's law says."""
    count, local_gpus = len(members), cluster.gpus_per_node
    name = {"reduce_scatter_block": "reduce_scatter"}.get(name, name)
    local = max(Counter(rank // local_gpus for rank in members).values())
    size *= count if name in ("all_gather", "gather") else 1
    if name == "barrier" or count < 2 or not size:
        return Collective(None, 0.0)
    if algo == "nccl":
        law = {"gather": "all_to_all", "scatter": "all_to_all"}.get(name, name)
        members_ = Members(ranks=count, ranks_per_node=local)
        return Collective(None, size, float(collective_seconds(law, size, cluster, members_)))
    known = name.replace("_", "-")
    servers = (count // local, local) if count % local == 0 else (count, 1)
    table = table_of(algo if known == "all-reduce" else _TABLES[known], known, *servers)
    if table.switches:
        raise TraceError(
            f"--algo {algo[:40]}: traces are simulated among ranks, without switches that add; take ring"
        )
    return Collective(table, size)


def _summary(path: str, mended: Mended) -> TraceFile:
    graph = mended.graph
    kinds = {name: int((graph.kind == at).sum()) for at, name in enumerate(KINDS)}
    collectives = {name: int((graph.collective == at).sum()) for at, name in enumerate(COLLECTIVES)}
    moves = [KINDS.index(kind) for kind in ("collective", "send", "recv")]
    messages = graph.bytes[[at for at, kind in enumerate(graph.kind.tolist()) if kind in moves]]
    return TraceFile(
        file=path, version=mended.version, rank=graph.rank, nodes=mended.nodes, ops=len(graph),
        edges=len(graph.before), kinds={name: number for name, number in kinds.items() if number},
        collectives={name: number for name, number in collectives.items() if number},
        flops=float(graph.flops.sum()), communicated=float(messages.sum()), seconds=float(graph.seconds.sum()),
        critical=critical_seconds(graph), dangling=mended.dangling, doubled=mended.doubled, ignored=mended.ignored,
        cyclic=mended.cyclic, ordered=mended.ordered, truncated=mended.truncated,
    )  # fmt: skip
