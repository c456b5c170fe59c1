"""Cuts of large graphs, and execution traces of many nodes."""

from __future__ import annotations

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture

from podsim.graphs.chakra_file import _decode, encode
from podsim.graphs.chakra_mend import mend
from podsim.graphs.graph_cut import divide
from podsim.graphs.trace_graph import CommGroup, TraceGraph

OPS = 4000


def test_a_graph_of_four_thousand_ops_over_eight(benchmark: BenchmarkFixture) -> None:
    """Bar: two seconds. A step of a 100-layer transformer, each op read by the next and one further on."""
    random = np.random.default_rng(0)
    readers = [
        [op, *sorted({op + 1, min(op + int(random.integers(2, 9)), OPS - 1)})] for op in range(OPS - 9)
    ]
    first = np.cumsum([0, *(len(row) for row in readers)]).astype(np.int64)
    members = np.array([op for row in readers for op in row], dtype=np.int64)
    work, size = random.random(OPS), random.random(len(readers)) + 0.1
    divide(work, (first, members, size), 8)
    made = benchmark(lambda: divide(work, (first, members, size), 8))
    assert made.load.max() <= made.limit


def test_a_trace_of_twenty_thousand_nodes(benchmark: BenchmarkFixture) -> None:
    """Bar: 10,000 nodes a second, read and mended."""
    n = 20_000
    plain = np.zeros(n, dtype=np.int64)
    trace = TraceGraph(
        rank=0, names=("op",), streams=("compute",), groups=(CommGroup(name="data", ranks=(0, 1)),), name=plain,
        kind=plain, stream=plain, seconds=np.full(n, 1e-5), start=np.arange(n) * 1e-5, flops=np.full(n, 1e9),
        bytes=np.full(n, 1e6), collective=plain - 1, group=plain - 1, peer=plain - 1, tag=plain,
        first=np.concatenate([[0], np.arange(n)]), before=np.arange(n - 1),
    )  # fmt: skip
    data = encode(trace)
    found = benchmark(lambda: mend(_decode(data, True)))
    assert len(found.graph) == n
