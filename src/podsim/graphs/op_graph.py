"""A neural network as a graph of ops with shapes, arithmetic and bytes: the result of a capture, without PyTorch.

Text is in tuples, numbers in arrays with one row per op. Predecessors are in compressed rows: op i reads the outputs
of the earlier ops `before[first[i] : first[i + 1]]`. Views (reshapes, transposes) are not ops: edges pass through
them. Bytes are those of the captured number format, `element` B each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import ModelError
from podsim.records import dataclass

Flags: TypeAlias = NDArray[np.bool_]

WIDTH = 8
"""The length of a row of dims."""
DIMS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("batch", "m", "n", "k"),
    "conv": ("batch", "channels", "filters", "groups", "window", "positions", "inputs", "transposed"),
    "attention": ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim", "causal"),
    "recurrent": ("steps", "batch", "m", "n", "k"),
}
"""The meaning of the numbers of dims, by kind; other kinds have none. A convolution has `window` weights per filter
and channel, `positions` of a filter in one sample, and `inputs` positions of one sample that it reads. A recurrent layer
has `steps` products in sequence and `batch` directions side by side; k is the hidden state and n its gates."""
KINDS = (
    "gemm", "conv", "attention", "norm", "softmax", "elementwise", "pool", "reduction", "embedding", "copy", "loss",
    "other", "recurrent",
)  # fmt: skip
ARITHMETIC = ("gemm", "conv", "attention", "recurrent")
"""The kinds bound by arithmetic or bytes, whichever is longer; all others are bound by bytes."""
SPARSE = "sparse_embedding"
"""The target of an embedding with a sparse gradient, whose weights are not counted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpGraph:
    """A neural network as ops in topological order, for one training step on one device."""

    name: str
    source: str
    batch: int
    """The number of samples of a step: the first dimension of the first input."""
    element: float
    """B. The size of an activation's element, as captured."""
    names: tuple[str, ...]
    """The module of each op."""
    targets: tuple[str, ...]
    """The computation of each op, as "conv2d" or "batch_norm+relu"."""
    shapes: tuple[tuple[int, ...], ...]
    """The output of each op."""
    kind: Ints
    """The position of each op's kind in KINDS."""
    dims: Shaped[Ints, "op extent"]
    """The sizes of products, as DIMS orders them."""
    gradient: Shaped[Flags, "op operand"]
    """Whether the backward pass computes the gradient of the first and of the second operand (weights) of a product."""
    flops: Floats
    """FLOP. The arithmetic of the products in the forward pass; a multiply and an add count two."""
    flops_back: Floats
    """FLOP. The arithmetic of the products in the backward pass."""
    read: Floats
    """B. The bytes read in the forward pass."""
    written: Floats
    """B. The bytes written in the forward pass."""
    read_back: Floats
    """B. The bytes read in the backward pass; of a product, only those beyond its own operands, such as a bias's
    gradient."""
    written_back: Floats
    """B. The bytes written in the backward pass, counted as `read_back`."""
    kernels: Floats
    """count. The number of kernels that an eager framework launches in the forward pass."""
    kernels_back: Floats
    """count. The number of kernels in the backward pass."""
    parameters: Floats
    """count. The number of weights, counted at the first op that uses them."""
    output: Floats
    """B. The size of the output."""
    kept: Floats
    """B. The bytes that stay for the backward pass because of this op."""
    first: Ints
    """The start of each op's predecessors in `before`, with one entry more than ops."""
    before: Ints
    """The predecessors, edge by edge."""
    carried: Floats
    """B. The bytes that each edge carries."""
    notes: tuple[str, ...] = ()
    """The limits of the capture."""
    table_weights: float = 0.0
    """count. The number of weights in tables with sparse gradients, which `parameters` leaves out."""
    frozen: float = 0.0
    """count. The number of weights that are not trained, which `parameters` leaves out."""

    def __post_init__(self) -> None:
        """Check that columns have equal lengths and edges lead forward."""
        n = len(self.names)
        rows = (
            self.targets, self.shapes, self.kind, self.dims, self.gradient, self.flops, self.flops_back, self.read,
            self.written, self.read_back, self.written_back, self.kernels, self.kernels_back, self.parameters,
            self.output, self.kept,
        )  # fmt: skip
        assert all(len(row) == n for row in rows), [len(row) for row in rows]
        assert len(self.first) == n + 1
        assert len(self.before) == len(self.carried) == self.first[-1]
        assert np.all(self.before < self.after), "an edge leads backward"

    def __len__(self) -> int:
        """The number of ops."""
        return len(self.names)

    @property
    def after(self) -> Ints:
        """The target op of each edge, [edges]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))

    @property
    def sparse(self) -> Flags:
        """Whether an op reads a table with sparse gradients, [ops]."""
        return np.array([target == SPARSE for target in self.targets], dtype=bool)

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The kind of each op as text."""
        return tuple(KINDS[k] for k in self.kind)

    def count(self, *kinds: str) -> int:
        """The number of ops of these kinds."""
        return int(np.isin(self.kind, [KINDS.index(kind) for kind in kinds]).sum())


def topological_order(before: Sequence[Sequence[int]], names: Sequence[str]) -> Ints:
    """A topological order of ops, close to the given order. Raises ModelError with the names of a cycle."""
    n = len(before)
    left = [len(set(earlier)) for earlier in before]
    after: list[list[int]] = [[] for _ in range(n)]
    for op, reads in enumerate(before):
        for earlier in set(reads):
            after[earlier].append(op)
    import heapq

    ready = [op for op in range(n) if not left[op]]
    order: list[int] = []
    while ready:
        op = heapq.heappop(ready)
        order.append(op)
        for later in after[op]:
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready, later)
    if len(order) < n:
        raise ModelError(f"the graph has a cycle: {_cycle(before, left, names)}; a step's graph has none")
    return np.array(order, dtype=np.int64)


def _cycle(before: Sequence[Sequence[int]], left: Sequence[int], names: Sequence[str]) -> str:
    """The names of one cycle. A walk back from an op that never became ready must find it."""
    op = next(i for i, number in enumerate(left) if number)
    position: dict[int, int] = {}
    path: list[int] = []
    while op not in position:
        position[op] = len(path)
        path.append(op)
        op = next(earlier for earlier in before[op] if left[earlier])
    around = [*path[position[op] :], op][::-1]
    shown = around if len(around) <= 8 else [*around[:4], -1, *around[-3:]]
    return " -> ".join("…" if i < 0 else repr(names[i][:60]) for i in shown)


def nets_of(graph: OpGraph) -> tuple[Ints, Ints, Floats]:
    """The nets of a graph: (first, members, bytes) of each op's output with readers.

    Net j is an op and its readers, members[first[j] : first[j + 1]], with the op first. Its bytes go once to every other
    device with a reader.
    """
    after = graph.after
    order = np.lexsort((after, graph.before))
    source, reader, carried = graph.before[order], after[order], graph.carried[order]
    producers, start = np.unique(source, return_index=True)
    counts = np.diff(np.append(start, len(source)))
    first = np.zeros(len(producers) + 1, dtype=np.int64)
    np.cumsum(counts + 1, out=first[1:])
    members = np.empty(first[-1], dtype=np.int64)
    members[first[:-1]] = producers
    inside = np.ones(len(members), dtype=bool)
    inside[first[:-1]] = False
    members[inside] = reader
    size = np.maximum.reduceat(carried, start) if len(start) else np.zeros(0)
    return first, members, size
