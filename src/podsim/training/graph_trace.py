"""One replica's step of a captured graph as ops on streams: what an execution trace holds.

Forward ops in order, backward ops in the reverse, each after what it needs; buckets of gradients on a stream of their
own, each after the op that fills it and the bucket before; then the update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from podsim.training.graph_step import bucket_sizes
from podsim.workload.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph

if TYPE_CHECKING:
    from podsim.training.graph_cost import OpCosts
    from podsim.training.plan import Array
    from podsim.workload.op_graph import OpGraph

__all__ = ["step_trace"]


def step_trace(
    graph: OpGraph,
    costs: OpCosts,
    update: float,
    *,
    rank: int,
    ranks: int,
    gradient_bytes: float,
    reduce: Array,
) -> TraceGraph:
    """Ops of one rank of `ranks` replicas; `reduce` are the seconds of each bucket's all-reduce, none for one rank."""
    n = len(graph)
    sizes, last = bucket_sizes(graph.parameters[::-1] * gradient_bytes)
    buckets = len(reduce)
    total = 2 * n + buckets + 1
    names = [f"{path}.{op}" if path else op for path, op in zip(graph.names, graph.targets, strict=True)]
    before = [graph.before[graph.first[i] : graph.first[i + 1]].tolist() for i in range(n)]
    for i in range(n - 1, -1, -1):  # a backward op waits for those of its readers, and for the one before it
        before.append(
            [2 * n - 1 - j for j in graph.after[graph.before == i].tolist()] + ([n - 1] if i == n - 1 else [])
        )
    for bucket in range(buckets):
        before.append([n + int(last[bucket]), *([2 * n + bucket - 1] if bucket else [])])
    before.append([2 * n - 1, *([2 * n + buckets - 1] if buckets else [])])
    for op in range(1, 2 * n):  # one stream
        if op - 1 not in before[op]:
            before[op].append(op - 1)
    kind = np.full(total, KINDS.index("compute"))
    kind[2 * n : 2 * n + buckets] = KINDS.index("collective")
    stream = np.zeros(total, dtype=np.int64)
    stream[2 * n : 2 * n + buckets] = 1
    places = [*range(n), *range(2 * n - 1, n - 1, -1)]
    texts = [
        *names,
        *(f"{name} backward" for name in names),
        *(f"gradients {b}" for b in range(buckets)),
        "update",
    ]
    texts = [texts[i] for i in [*range(n), *places[n:], *range(2 * n, total)]]
    distinct = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    is_bucket = kind == KINDS.index("collective")
    return TraceGraph(
        rank=rank, names=tuple(distinct), streams=("compute", "gradients"),
        groups=(CommGroup(name="data", ranks=tuple(range(ranks))),),
        name=np.array([distinct[text] for text in texts], dtype=np.int64), kind=kind.astype(np.int64), stream=stream,
        seconds=np.concatenate([costs.forward, costs.backward[::-1], reduce, [update]]),
        start=np.full(total, np.nan),
        flops=np.concatenate([graph.flops, graph.flops_back[::-1], np.zeros(buckets + 1)]),
        bytes=np.concatenate([costs.moved, costs.moved_back[::-1], sizes[:buckets], [0.0]]),
        collective=np.where(is_bucket, COLLECTIVES.index("all_reduce"), -1),
        group=np.where(is_bucket, 0, -1), peer=np.full(total, -1), tag=np.zeros(total, dtype=np.int64),
        first=np.cumsum([0, *(len(one) for one in before)]).astype(np.int64),
        before=np.array([one for row in before for one in sorted(row)], dtype=np.int64),
    )  # fmt: skip
