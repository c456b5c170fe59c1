"""`podsim chakra`: MLCommons Chakra execution traces, read, repaired and written."""

from __future__ import annotations

from pathlib import Path

from podsim.errors import TraceError
from podsim.graphs.chakra_mend import Mended, read_chakra, write_chakra
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, critical_seconds
from podsim.options.graph_options import ChakraOptions
from podsim.options.question import question
from podsim.results.graphs import TraceFile, Traces


@question(ChakraOptions)
def chakra(options: ChakraOptions) -> Traces:
    """Read Chakra traces, one file a rank, and report their content and their repairs.

    With `out`, what is left is written as `OUT.RANK.et` for each file: dependencies whole, streams in order, schema
    0.0.4, as ASTRA-sim reads it. Files without a rank in their name are numbered in the order given. Raises TraceError
    for a file that is no trace.
    """
    from dataclasses import replace

    if not options.traces:
        raise TraceError("no files: give one .et file for each rank")
    read = [read_chakra(Path(trace)) for trace in options.traces]
    written: tuple[Path, ...] = ()
    if options.out is not None:
        graphs = [trace.graph for trace in read]
        if all(graph.rank < 0 for graph in graphs):
            graphs = [replace(graph, rank=rank) for rank, graph in enumerate(graphs)]
        written = write_chakra(graphs, options.out)
    return Traces(
        files=tuple(_summary(str(path), trace) for path, trace in zip(options.traces, read, strict=True)),
        written=tuple(str(path) for path in written),
    )


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
