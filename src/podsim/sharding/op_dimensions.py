"""The dimensions of each op of a captured graph, by its kind and shapes: what divides, what is summed, what stays.

Views are not ops, so operands are matched with what an op reads by their sizes (`link`). Where sizes do not tell, no rank
holds a part of a dimension, which costs a gather and is never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from podsim.graphs.op_graph import OpGraph
from podsim.sharding.dimension_graph import (
    NONE,
    DimensionGraph,
    DimensionOp,
    Operand,
    Role,
    Tensor,
    common_parts,
    link,
)

Links = Mapping[tuple[int, int], tuple[int, ...]]
"""the dimension of an op's output that each dimension of a predecessor is, by (op, predecessor), where it is known"""


@dataclass
class _Builder:
    graph: OpGraph
    links: Links
    tensors: list[Tensor] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    """The tensor of each op."""
    names: dict[str, int] = field(default_factory=dict)

    def tensor(self, name: str, shape: Sequence[int], role: Role) -> int:
        number = self.names[name] = self.names.get(name, 0) + 1
        unique = name if number == 1 or role == "weight" else f"{name}#{number}"
        self.tensors.append(Tensor(name=unique, shape=tuple(int(n) for n in shape), role=role))
        return len(self.tensors) - 1


@dataclass
class _Loop:
    """The dimensions of one op while they are gathered: at first those of its output, one each."""

    sizes: list[list[int]]
    operands: list[Operand] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    statistics: set[int] = field(default_factory=set)
    columns: dict[int, int] = field(default_factory=dict)
    halo: list[tuple[int, float]] = field(default_factory=list)

    def dimension(self, size: int) -> int:
        self.sizes.append([size])
        return len(self.sizes) - 1

    def read(self, tensor: int, shape: Sequence[int], dims: Sequence[int], share: float = 1.0) -> None:
        for size, d in zip(shape, dims, strict=True):
            if d != NONE:
                self.sizes += [[] for _ in range(d + 1 - len(self.sizes))]
                self.sizes[d].append(size)
        self.operands.append(Operand(tensor=tensor, dims=tuple(dims), share=share))


def dimension_graph(
    graph: OpGraph, *, links: Links | None = None, copies: Sequence[int] = (), layer: Sequence[int] = ()
) -> DimensionGraph:  # fmt: skip
    """The dimensions of all ops. `copies`: the layers that each op stands for; `layer`: the layer of each op, whose kept
    bytes are then those of what it reads, not of its output."""
    builder = _Builder(graph, links or {})
    ops = []
    for i, kind in enumerate(graph.kind_names):
        loop = _Loop([[size] for size in graph.shapes[i]])
        before = [int(p) for p in graph.before[graph.first[i] : graph.first[i + 1]]]
        _RULES.get(kind, _by_shape)(builder, loop, i, before)
        name = f"{graph.names[i] or graph.targets[i]}.out"
        builder.outputs.append(builder.tensor(name, graph.shapes[i], "activation"))
        ops.append(
            DimensionOp(
                position=i, sizes=tuple(common_parts(sizes) for sizes in loop.sizes), operands=tuple(loop.operands),
                output=Operand(tensor=builder.outputs[i], dims=tuple(range(len(graph.shapes[i])))),
                fixed=frozenset(loop.fixed), statistics=frozenset(loop.statistics),
                columns=tuple(loop.columns.get(d, NONE) for d in range(len(loop.sizes))), halo=tuple(loop.halo),
            )
        )  # fmt: skip
    kept_in = tuple(op.operands[0].tensor if layer and op.operands else op.output.tensor for op in ops)
    return DimensionGraph(
        graph=graph, tensors=tuple(builder.tensors), ops=tuple(ops), kept_in=kept_in,
        copies=tuple(copies) or (1,) * len(ops), layer=tuple(layer) or (0,) * len(ops),
    )  # fmt: skip


def _activation(
    builder: _Builder, loop: _Loop, i: int, p: int, shape: Sequence[int], dims: Sequence[int]
) -> None:
    """Read the output of op p, which views give the `shape` whose dimensions are `dims` of the op."""
    source = builder.graph.shapes[p]
    known = builder.links.get((i, p))
    linked = known if known is not None else tuple(
        dims[t] if t != NONE else NONE for t in link(source, shape)
    )  # fmt: skip
    loop.read(builder.outputs[p], source, linked)


def _input(builder: _Builder, loop: _Loop, shape: Sequence[int], dims: Sequence[int]) -> None:
    loop.read(builder.tensor("input", shape, "input"), shape, dims)


def _weight(builder: _Builder, loop: _Loop, i: int, shape: Sequence[int], dims: Sequence[int]) -> None:
    loop.read(builder.tensor(builder.graph.names[i], shape, "weight"), shape, dims)


def _gemm(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """(batch, m, k) x (batch, k, n): k is summed. The second operand is a weight, or another activation."""
    graph, out = builder.graph, builder.graph.shapes[i]
    batch, m, n, k = (int(size) for size in graph.dims[i, :4])
    head = next((d for d in range(len(out)) if prod(out[:d]) == batch), 0)
    if not out or out[-1] != n or prod(out) != batch * m * n or prod(out[:head]) != batch:
        _by_sample(builder, loop, i, before)
        return
    last, inner = len(out) - 1, loop.dimension(k)
    rows = tuple(range(last))
    loop.columns = {**{d: 0 if d < head and batch > 1 else 1 for d in rows}, last: 2, inner: 3}
    left, right = (*out[:last], k), (*out[:head], k, n)
    left_dims, right_dims = (*rows, inner), (*range(head), inner, last)
    weighted = len(before) < 2 and (batch == 1 or graph.parameters[i] >= batch * k * n)
    if not before:
        _input(builder, loop, left, left_dims)
    elif weighted:
        _activation(builder, loop, i, before[0], left, left_dims)
    else:
        first, second = (before[0], before[-1])
        if prod(left) != prod(right) and prod(graph.shapes[first]) == prod(right):
            first, second = second, first
        _activation(builder, loop, i, first, left, left_dims)
        _activation(builder, loop, i, second, right, right_dims)
    if weighted:
        _weight(builder, loop, i, right, right_dims)


def _conv(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """Channels are summed and filters are new; a part of an image needs the rows of its neighbours."""
    graph, out = builder.graph, builder.graph.shapes[i]
    batch, channels, filters, groups, window, positions, inputs, _ = (int(n) for n in graph.dims[i])
    spatial = len(out) - 2
    if spatial < 1 or prod(out) != batch * filters * positions:
        _by_sample(builder, loop, i, before)
        return
    # the groups of channels divide with the filters that read them
    channel = 1 if groups > 1 else loop.dimension(channels)
    loop.columns = {0: 0, 1: 3 if groups > 1 else 2, channel: 3 if groups > 1 else 1}
    loop.columns |= dict.fromkeys(range(2, 2 + spatial), 5)
    if groups > 1:
        loop.sizes[1].append(groups)
    stride = round((inputs / positions) ** (1 / spatial)) or 1
    there = (batch, channels, *(size * stride for size in out[2:]))
    dims = (0, channel, *range(2, 2 + spatial))
    edge = round(window ** (1 / spatial)) - 1
    loop.halo = [(d, edge / (out[d] * stride)) for d in range(2, 2 + spatial) if edge > 0]
    if before:
        source = graph.shapes[before[0]]
        same = len(source) == len(out) and source[:2] == there[:2]
        _activation(builder, loop, i, before[0], source if same else there, dims)
    else:
        _input(builder, loop, there, dims)
    _weight(
        builder, loop, i, (filters, channels // groups, window), (1, NONE if groups > 1 else channel, NONE)
    )


def _attention(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """Heads and samples divide; each query needs all keys and values."""
    graph, out = builder.graph, builder.graph.shapes[i]
    batch, heads, kv_heads, queries, keys, width, value, _ = (int(n) for n in graph.dims[i])
    if len(out) < 3 or prod(out) != batch * heads * queries * value:
        _by_sample(builder, loop, i, before)
        return
    last = len(out) - 1
    key = loop.dimension(keys)
    loop.fixed |= {key, last}
    loop.columns = {**dict.fromkeys(range(last - 2), 0), last - 2: 1, last - 1: 3}
    loop.sizes[last - 2].append(kv_heads)
    lead = out[: last - 2]
    for number, p in enumerate(before):
        source = graph.shapes[p]
        if (known := builder.links.get((i, p))) is not None:
            shared = 2 * kv_heads / (heads + 2 * kv_heads) if len(before) == 1 else 1.0
            if number == 0:
                loop.read(builder.outputs[p], source, known, 1 - shared if len(before) == 1 else 1.0)
            if number or len(before) == 1:
                moved = tuple(key if d == last - 1 else d for d in known)
                loop.read(builder.outputs[p], source, moved, shared)
            continue
        group, length = (heads, queries) if number == 0 else (kv_heads, keys)
        dims = (*range(last - 2), last - 2, last - 1 if number == 0 else key, NONE)
        _activation(builder, loop, i, p, (*lead, group, length, width), dims)


def _embedding(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """A row of the table each: a product with a one-hot matrix, whose rows are summed."""
    graph, out = builder.graph, builder.graph.shapes[i]
    rows = int(graph.parameters[i] // out[-1]) if out and out[-1] else 0
    index = tuple(range(len(out) - 1))
    if before:
        _activation(builder, loop, i, before[0], out[:-1], index)
    else:
        _input(builder, loop, out[:-1], index)
    if rows:
        _weight(builder, loop, i, (rows, out[-1]), (loop.dimension(rows), len(out) - 1))


def _norm(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """The last dimension has statistics; of a batch norm each image's, of a group norm all but the sample's."""
    graph, out, target = builder.graph, builder.graph.shapes[i], builder.graph.targets[i]
    channel = len(out) - 1
    if "batch_norm" in target or "instance_norm" in target:
        channel = 1
        loop.statistics |= set(range(2, len(out)))
    elif "group_norm" in target:
        channel = 1
        loop.statistics |= set(range(1, len(out)))
    else:
        loop.statistics.add(channel)
    _by_shape(builder, loop, i, before)
    weights = int(graph.parameters[i])
    if out and weights and weights % out[channel] == 0:
        _weight(builder, loop, i, (out[channel], weights // out[channel]), (channel, NONE))


def _pool(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """Images shrink dimension by dimension; a pool over all of an image sums it."""
    out = builder.graph.shapes[i]
    for p in before[:1]:
        source = builder.graph.shapes[p]
        if len(source) != len(out):
            _by_shape(builder, loop, i, before)
            return
        dims = [
            d
            if size == here or (here > 1 and size % here == 0)
            else loop.dimension(size)
            if here == 1
            else NONE
            for d, (size, here) in enumerate(zip(source, out, strict=True))
        ]
        loop.halo = [(d, 1 / here) for d, here in enumerate(out) if d > 1 and here > 1]
        loop.read(builder.outputs[p], source, dims)


def _reduction(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """What the result lacks is summed; of a loss, the classes have statistics."""
    out = builder.graph.shapes[i]
    for p in before:
        source = builder.graph.shapes[p]
        dims: Sequence[int] = builder.links.get((i, p), ()) or [
            t if t != NONE or size == 1 else loop.dimension(size)
            for t, size in zip(link(source, out), source, strict=True)
        ]
        if builder.graph.kind_names[i] == "loss" and len(source) > 1:
            loop.statistics.add(dims[1 if len(source) > 3 else -1])
        loop.read(builder.outputs[p], source, dims)


def _by_shape(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """An op element by element, or one that moves elements: equal sizes follow each other."""
    graph, out = builder.graph, builder.graph.shapes[i]
    if graph.kind_names[i] == "softmax" and out:
        loop.statistics.add(len(out) - 1)
    for p in before:
        known = builder.links.get((i, p))
        source = graph.shapes[p]
        dims = known if known is not None else link(source, out)
        loop.read(builder.outputs[p], source, dims)
    if graph.kind_names[i] == "copy" and not builder.links:
        reached = {d for operand in loop.operands for d in operand.dims}
        loop.fixed |= set(range(len(out))) - reached


def _by_sample(builder: _Builder, loop: _Loop, i: int, before: Sequence[int]) -> None:
    """An op that is not known: only samples divide."""
    graph, out = builder.graph, builder.graph.shapes[i]
    sample = next((d for d, size in enumerate(out) if size == graph.batch), NONE)
    for p in before:
        source = graph.shapes[p]
        at = next((d for d, size in enumerate(source) if size == graph.batch), NONE)
        loop.read(builder.outputs[p], source, [sample if d == at else NONE for d in range(len(source))])
    loop.fixed |= set(range(len(out))) - {sample}
    if graph.parameters[i]:
        loop.read(builder.tensor(graph.names[i], (int(graph.parameters[i]),), "weight"), (1,), (NONE,))


_RULES = {
    "gemm": _gemm, "conv": _conv, "attention": _attention, "embedding": _embedding, "norm": _norm, "pool": _pool,
    "reduction": _reduction, "loss": _reduction, "other": _by_sample, "recurrent": _by_sample,
}  # fmt: skip
