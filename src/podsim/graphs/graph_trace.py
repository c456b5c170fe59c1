"""One replica's step of a captured graph as ops on streams: an execution trace.

Forward ops run in order, backward ops in reverse, each after its inputs. Buckets of gradients have a separate stream,
each after the op that fills it and the previous bucket. The update comes last.
"""

from __future__ import annotations

import numpy as np

from podsim.graphs.graph_cost import OpCosts
from podsim.graphs.graph_step import bucket_sizes
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph
from podsim.training.plan_values import Array


def step_trace(
    graph: OpGraph, costs: OpCosts, update: float, *, ranks: int, gradient_bytes: float, reduce: Array
) -> TraceGraph:
    """The ops of rank 0 of `ranks` equal replicas; `reduce` are the s of each bucket's all-reduce, if any.

    Op i runs forward at position i and backward at position 2 n - 1 - i; then follow the buckets and the update.
    """
    n, buckets = len(graph), len(reduce)
    sizes, last = bucket_sizes(graph.parameters[::-1] * gradient_bytes)
    total = 2 * n + buckets + 1
    before = _dependencies(graph, last[:buckets])
    names = [f"{path}.{op}" if path else op for path, op in zip(graph.names, graph.targets, strict=True)]
    texts = [*names, *(f"{name} backward" for name in reversed(names))]
    texts += [*(f"gradients {bucket}" for bucket in range(buckets)), "update"]
    distinct = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    is_bucket = np.zeros(total, dtype=bool)
    is_bucket[2 * n : 2 * n + buckets] = True
    return TraceGraph(
        rank=0, names=tuple(distinct), streams=("compute", "gradients"),
        groups=(CommGroup(name="data", ranks=tuple(range(ranks))),),
        name=np.array([distinct[text] for text in texts], dtype=np.int64),
        kind=np.where(is_bucket, KINDS.index("collective"), KINDS.index("compute")), stream=is_bucket.astype(np.int64),
        seconds=np.concatenate([costs.forward, costs.backward[::-1], reduce, [update]]), start=np.full(total, np.nan),
        flops=np.concatenate([graph.flops, graph.flops_back[::-1], np.zeros(buckets + 1)]),
        bytes=np.concatenate([costs.moved, costs.moved_back[::-1], sizes[:buckets], [0.0]]),
        collective=np.where(is_bucket, COLLECTIVES.index("all_reduce"), -1), group=np.where(is_bucket, 0, -1),
        peer=np.full(total, -1), tag=np.zeros(total, dtype=np.int64),
        first=np.cumsum([0, *(len(row) for row in before)]).astype(np.int64),
        before=np.array([earlier for row in before for earlier in sorted(row)], dtype=np.int64),
    )  # fmt: skip


def _dependencies(graph: OpGraph, last: Array) -> list[set[int]]:
    """The dependencies of each op: its inputs, the backward passes of its readers, and the previous op of its stream."""
    n = len(graph)
    before: list[set[int]] = [set() for _ in range(2 * n)]
    for earlier, later in zip(graph.before.tolist(), graph.after.tolist(), strict=True):
        before[later].add(earlier)
        before[2 * n - 1 - earlier].add(2 * n - 1 - later)
    for op in range(1, 2 * n):
        before[op].add(op - 1)
    for bucket, filled in enumerate(last.tolist()):
        before.append({n + int(filled)} | ({2 * n + bucket - 1} if bucket else set()))
    before.append({2 * n - 1} | ({len(before) - 1} if len(last) else set()))
    return before
