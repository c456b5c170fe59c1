"""The fusion of ops of a captured graph into kernels: explicit attention, and chains of element-wise ops.

    attention   product, element-wise ops (scale, mask), softmax, (dropout,) product become one fused attention
    chains      an op bound by bytes joins its only reader, if that is element-wise
    epilogues   an element-wise op after a product that nothing else reads, and a copy that only products read, cost
                nothing: the product's kernel computes them, forward and backward, as cuBLASLt and HugeCTR do

Inner results of a chain are neither written nor read, forward or backward. Contracting the edge to an op's only reader
cannot close a cycle: every path from the op leads through that reader.
Source of the second rule: pointwise fusers (the documentation of torch.compile), which also fuse through several
readers at the price of recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import ModelError, check_name
from podsim.graphs.op_graph import KINDS, WIDTH, OpGraph

RULES = ("attention", "chains", "epilogues")
FUSIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "attention": ("attention",),
    "chains": ("chains",),
    "all": ("attention", "chains"),
    "epilogues": ("attention", "chains", "epilogues"),
}
"""The rules of each value of --fuse, in order."""
_ELEMENTWISE = KINDS.index("elementwise")
_PRODUCTS = tuple(KINDS.index(kind) for kind in ("gemm", "conv"))
_COPY = KINDS.index("copy")
_CHAIN = tuple(KINDS.index(kind) for kind in ("elementwise", "norm", "softmax"))
_SUMMED = (
    "flops", "flops_back", "read", "written", "read_back", "written_back", "parameters", "kept",
)  # fmt: skip


def fuse(graph: OpGraph, rules: Iterable[str] = FUSIONS["all"]) -> OpGraph:
    """The graph after the rules, in their order. Raises ModelError for an unknown rule."""
    for rule in rules:
        check_name("rule of fusion", rule, RULES, ModelError)
        graph = _FUSERS[rule](graph)
    return graph


def _readers(graph: OpGraph) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    for earlier, later in zip(graph.before.tolist(), graph.after.tolist(), strict=True):
        readers[earlier].append(later)
    return readers


def _fuse_chains(graph: OpGraph) -> OpGraph:
    """Merge each op bound by bytes into its only reader, if that is element-wise."""
    readers = _readers(graph)
    group = np.arange(len(graph))
    for op in range(len(graph) - 1, -1, -1):
        if len(readers[op]) == 1 and graph.kind[op] in _CHAIN and graph.kind[readers[op][0]] == _ELEMENTWISE:
            group[op] = group[readers[op][0]]
    merged = _merge(graph, group)
    _, position = np.unique(group, return_inverse=True)
    inside = position[graph.before] == position[graph.after]
    saved = np.bincount(position[graph.after[inside]], graph.carried[inside], len(merged))
    saved_read, saved_write = _gradients_saved(graph, readers, position)
    size = np.bincount(position, minlength=len(merged))
    kernels = np.where(size > 1, np.minimum(_sum_by_group(graph.kernels, position), 1.0), merged.kernels)
    kernels_back = np.where(
        size > 1, np.minimum(_sum_by_group(graph.kernels_back, position), 1.0), merged.kernels_back
    )
    return replace(
        merged, read=np.maximum(merged.read - saved, 0.0), written=np.maximum(merged.written - saved, 0.0),
        read_back=np.maximum(merged.read_back - saved_read, 0.0), kernels=kernels, kernels_back=kernels_back,
        written_back=np.maximum(merged.written_back - saved_write, 0.0),
    )  # fmt: skip


def _fuse_epilogues(graph: OpGraph) -> OpGraph:
    """Ops that products compute on their way move nothing and launch nothing."""
    readers = _readers(graph)
    into = np.isin(graph.kind, _PRODUCTS)
    free = np.zeros(len(graph), bool)
    for op in range(len(graph) - 1, -1, -1):
        before = graph.before[graph.first[op] : graph.first[op + 1]].tolist()
        if graph.kind[op] == _COPY and readers[op]:
            free[op] = all(into[reader] or free[reader] for reader in readers[op])
        elif graph.kind[op] == _ELEMENTWISE and len(before) == 1:
            free[op] = bool(into[before[0]]) and readers[before[0]] == [op]
    moved = ("read", "written", "read_back", "written_back", "kernels", "kernels_back")
    columns: dict[str, Any] = {name: np.where(free, 0.0, getattr(graph, name)) for name in moved}
    return replace(graph, **columns)


def _gradients_saved(graph: OpGraph, readers: list[list[int]], position: Ints) -> tuple[Floats, Floats]:
    """(B not read, B not written) of inner gradients in the backward pass of each group.

    An op that passes its gradient through (a sum) writes none: a later op wrote that gradient.
    """
    n = int(position.max(initial=-1)) + 1
    writer = np.full(len(graph), -1)
    read, write = np.zeros(n), np.zeros(n)
    seen: set[int] = set()
    for op in range(len(graph) - 1, -1, -1):
        later = readers[op][0] if len(readers[op]) == 1 and position[readers[op][0]] == position[op] else -1
        above = writer[later] if later >= 0 else -1
        writer[op] = op if graph.written_back[op] > 0 else above
        if above >= 0 and graph.read_back[op] > 0:
            read[position[op]] += graph.output[op]
            write[position[op]] += graph.output[op] * (above not in seen)
            seen.add(int(above))
    return read, write


def _sum_by_group(values: Floats, position: Ints) -> Floats:
    return np.asarray(np.bincount(position, values), dtype=float)


def _merge(graph: OpGraph, group: Ints) -> OpGraph:
    """Merge the ops of each group at the position of the last. Inner edges vanish, parallel edges become one."""
    last, position = np.unique(group, return_inverse=True)
    n = len(last)
    names = [graph.names[i] for i in last]
    parts: list[list[int]] = [[] for _ in range(n)]
    for op, where in enumerate(position.tolist()):
        parts[where].append(op)
    targets = ["+".join(dict.fromkeys(graph.targets[op] for op in part)) for part in parts]
    kinds = np.array([min((graph.kind[op] for op in part), key=_rank) for part in parts], dtype=np.int64)
    source, reader = position[graph.before], position[graph.after]
    carried: dict[tuple[int, int], float] = {}
    for a, b, size in zip(source.tolist(), reader.tolist(), graph.carried.tolist(), strict=True):
        if a != b:
            carried[b, a] = max(carried.get((b, a), 0.0), size)
    keys = sorted(carried)
    first = np.zeros(n + 1, dtype=np.int64)
    np.add.at(first, np.array([b + 1 for b, _ in keys], dtype=np.int64), 1)
    summed: dict[str, Any] = {key: _sum_by_group(getattr(graph, key), position) for key in _SUMMED}
    return replace(
        graph, names=tuple(names), targets=tuple(targets), shapes=tuple(graph.shapes[i] for i in last), kind=kinds,
        dims=graph.dims[last], gradient=graph.gradient[last], output=graph.output[last],
        kernels=graph.kernels[last], kernels_back=graph.kernels_back[last], first=np.cumsum(first),
        before=np.array([a for _, a in keys], dtype=np.int64), carried=np.array([carried[k] for k in keys], dtype=float),
        **summed,
    )  # fmt: skip


def _rank(kind: int) -> tuple[bool, int]:
    """The sort key of kinds: a chain with a norm is a norm."""
    return kind == _ELEMENTWISE, kind


def _fuse_attention(graph: OpGraph) -> OpGraph:
    """Merge each softmax between two batched products, with the ops between, into one attention."""
    readers = _readers(graph)
    group = np.arange(len(graph))
    changed: dict[int, tuple[int, int]] = {}
    for op in range(len(graph)):
        if graph.targets[op].partition("+")[0] in ("softmax", "_softmax") and group[op] == op:
            up, down = _path_up(graph, readers, op), _path_down(graph, readers, op)
            if up and down and _is_match(graph, up[-1], down[-1]):
                group[[*up, op, *down]] = down[-1]
                changed[down[-1]] = (up[-1], down[-1])
    if not changed:
        return graph
    merged = _merge(graph, group)
    last, _ = np.unique(group, return_inverse=True)
    columns: dict[str, Any] = {
        key: getattr(merged, key).copy()
        for key in ("kind", "dims", "gradient", "read", "written", "read_back", "written_back", "kernels",
                    "kernels_back", "kept")
    }  # fmt: skip
    targets = list(merged.targets)
    for where, op in enumerate(last.tolist()):
        if op in changed:
            left, right = changed[op]
            _write_attention(graph, left, right, columns, where)
            targets[where] = "attention"
    return replace(merged, targets=tuple(targets), **columns)


def _path_up(graph: OpGraph, readers: list[list[int]], op: int) -> list[int]:
    """The ops from a softmax back to its input product, each with one reader; empty if there is no such path."""
    path: list[int] = []
    gemm = KINDS.index("gemm")
    while True:
        before = graph.before[graph.first[op] : graph.first[op + 1]].tolist()
        large = [
            earlier
            for earlier in before
            if graph.output[earlier] >= graph.output[op] and readers[earlier] == [op]
        ]
        if len(large) != 1:
            return []
        op = large[0]
        path.append(op)
        if graph.kind[op] == gemm:
            return path
        if graph.kind[op] != _ELEMENTWISE:
            return []


def _path_down(graph: OpGraph, readers: list[list[int]], op: int) -> list[int]:
    """The ops from a softmax to the product of its result; empty if there is no such path."""
    path: list[int] = []
    gemm = KINDS.index("gemm")
    while len(readers[op]) == 1:
        op = readers[op][0]
        path.append(op)
        if graph.kind[op] == gemm:
            return path
        if graph.kind[op] != _ELEMENTWISE:
            return []
    return []


def _is_match(graph: OpGraph, left: int, right: int) -> bool:
    """Whether two products belong to one attention: batch, queries and keys agree."""
    (b, m, n, _), (b2, m2, _, k2) = graph.dims[left, :4], graph.dims[right, :4]
    return bool(b == b2 and m == m2 and n == k2 and b > 1)


def _write_attention(
    graph: OpGraph, left: int, right: int, columns: dict[str, np.ndarray], where: int
) -> None:
    """Write the sizes and bytes of a fused attention into the columns of the merged graph.

    The heads are the last batch dimension of the product: its shape is (…, heads, queries, keys).
    """
    batch, queries, keys, width = graph.dims[left, :4].tolist()
    value = int(graph.dims[right, 2])
    shape = graph.shapes[left]
    heads = shape[-3] if len(shape) > 3 else 1
    element = graph.output[left] / max(batch * queries * keys, 1)
    moved = element * batch * (queries * width + keys * (width + value))
    trained = bool(graph.gradient[left].any() or graph.gradient[right].any())
    dims = (batch // heads, heads, heads, queries, keys, width, value, 0)
    columns["kind"][where] = KINDS.index("attention")
    columns["dims"][where] = np.array(dims, dtype=np.int64)[:WIDTH]
    columns["gradient"][where] = trained
    columns["read"][where], columns["written"][where] = moved, graph.output[right]
    columns["read_back"][where] = columns["written_back"][where] = 0.0
    columns["kernels"][where], columns["kernels_back"][where] = 1.0, 3.0 * trained
    columns["kept"][where] = graph.output[right] if trained else 0.0


_FUSERS = {"attention": _fuse_attention, "chains": _fuse_chains, "epilogues": _fuse_epilogues}
