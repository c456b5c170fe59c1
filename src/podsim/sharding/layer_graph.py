"""A transformer of the catalog as a graph of ops: embedding, one layer of each kind with its copies, head.

Each op reads the latest tensor of its width; an attention core reads what its block has projected. Experts of a mixture
are products of a batch of experts, each with its share of the routed tokens of every sample (GShard's E x G x C).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podsim.errors import PodsimError
from podsim.graphs.op_graph import KINDS, WIDTH, OpGraph
from podsim.sharding.dimension_graph import NONE, DimensionGraph
from podsim.sharding.op_dimensions import dimension_graph
from podsim.training.shapes import relative_traffic
from podsim.training.software import Software
from podsim.workload.model import Block, Model, TensorOp

_ELEMENT = 2.0
_KIND = {
    "gemm": "gemm", "attention": "attention", "norm": "norm", "embedding": "embedding", "cross_entropy": "loss",
    "router": "copy",
}  # fmt: skip


@dataclass
class _Layers:
    """The columns of the graph while it grows."""

    model: Model
    batch: int
    software: Software
    capacity: float
    columns: dict[str, list[Any]] = field(default_factory=dict)
    links: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    before: list[list[int]] = field(default_factory=list)
    number: int = 0
    """The number of the block; 0 for embedding and head."""
    stream: int = NONE
    """The op whose output is the residual stream."""
    latest: list[int] = field(default_factory=list)
    """The ops of the block, latest last."""

    def width(self, op: int) -> int:
        shape = self.columns["shapes"][op]
        return int(shape[1] * shape[-1] if self.columns["kind"][op] == "attention" else shape[-1])

    def add(self, **values: Any) -> int:
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)
        self.latest.append(len(self.columns["names"]) - 1)
        return self.latest[-1]


def layer_graph(model: Model, batch: int, software: Software, *, capacity: float = 1.0) -> DimensionGraph:
    """The dimensions of a transformer's step of `batch` sequences; an expert takes `capacity` times its mean share."""
    if model.later:
        raise PodsimError(f"{model.name}: multi-token prediction cannot be sharded; --set model.mtp=0")
    layers = _Layers(model, batch, software, capacity)
    for number, block in enumerate(model.kinds):
        layers.latest, layers.number = [], number % (len(model.kinds) - 1)
        unread: list[int] = []
        for op in block.ops:
            _add(layers, block, op, unread)
    columns = layers.columns
    n = len(columns["names"])
    edges = [(op, p) for op, before in enumerate(layers.before) for p in before]
    sizes = np.array([float(np.prod(shape)) * _ELEMENT for shape in columns["shapes"]])
    numbers: dict[str, Any] = {
        name: np.array(columns[name], dtype=float)
        for name in ("flops", "flops_back", "read", "written", "read_back", "written_back", "kernels", "kernels_back",
                     "parameters", "kept")
    }  # fmt: skip
    graph = OpGraph(
        name=model.name, source=model.source, batch=batch, element=_ELEMENT, names=tuple(columns["names"]),
        targets=tuple(columns["targets"]), shapes=tuple(columns["shapes"]),
        kind=np.array([KINDS.index(kind) for kind in columns["kind"]], dtype=np.int64),
        dims=np.array([(*dims, *(0,) * (WIDTH - len(dims))) for dims in columns["dims"]], dtype=np.int64),
        gradient=np.ones((n, 2), dtype=bool), output=sizes, **numbers,
        first=np.cumsum([0, *(len(before) for before in layers.before)]).astype(np.int64),
        before=np.array([p for _, p in edges], dtype=np.int64),
        carried=np.array([sizes[p] for _, p in edges], dtype=float),
    )  # fmt: skip
    return dimension_graph(graph, links=layers.links, copies=columns["copies"], layer=columns["layer"])


def _add(layers: _Layers, block: Block, op: TensorOp, unread: list[int]) -> None:
    """One op behind those that it reads."""
    batch, length = layers.batch, layers.model.sequence
    tokens = batch * length
    before = _sources(layers, op, unread)
    out = _shape(layers, block, op, before)
    dims, flops = _sizes(layers, block, op)
    copies = block.top_k * layers.capacity
    seen = tokens * (copies if op.expert else 1.0)
    saved = sum(seen * s.elements * (s.bytes or _ELEMENT) for s in op.saved)
    scale = seen * _ELEMENT * relative_traffic(op, layers.software)
    kind = _KIND.get(op.kind, "elementwise")
    plain = kind not in ("gemm", "attention")
    position = layers.add(
        names=op.name, targets=op.name, shapes=out, kind=kind, dims=dims, flops=flops, flops_back=2 * flops,
        read=op.read * scale, written=op.write * scale, read_back=op.read_back * scale if plain else 0.0,
        written_back=op.write_back * scale if plain else 0.0, kernels=1.0, kernels_back=2.0 if flops else 1.5,
        parameters=float(op.weight + op.bias), kept=saved, copies=block.count,
        layer=layers.number,
    )  # fmt: skip
    layers.before.append(sorted(set(before)))
    for p in before:
        layers.links[position, p] = _linked(op, layers.columns["kind"][p], layers.columns["shapes"][p], out)
    unread[:] = [p for p in unread if p not in before]
    if op.name.startswith(_BRANCHES) and op.kind != "attention" and not op.name.endswith(_ENDS):
        unread.append(position)
    if op.kind == "embedding" or op.name.endswith(("dropout_add", ".skip")):
        layers.stream = position


def _sources(layers: _Layers, op: TensorOp, unread: list[int]) -> list[int]:
    """The ops whose outputs an op reads."""
    if not layers.columns or op.kind == "embedding":
        return []
    latest = layers.latest[-1] if layers.latest else layers.stream
    if op.kind == "attention" and unread:
        return list(unread)
    if op.name.endswith("dropout_add"):
        return [layers.stream, latest] if latest != layers.stream else [latest]
    if op.kind == "gemm" or op.name == "moe.dispatch":
        width = op.k or layers.model.hidden
        fits = [p for p in (layers.stream, *layers.latest) if layers.width(p) == width]
        return fits[-1:] or [latest]
    if op.kind == "norm" and round(op.read) == layers.model.hidden and not op.name.endswith("post_norm"):
        fits = [p for p in layers.latest if layers.width(p) == layers.model.hidden]
        return fits[-1:] if fits else [layers.stream]
    return [latest]


def _shape(layers: _Layers, block: Block, op: TensorOp, before: list[int]) -> tuple[int, ...]:
    """The shape of an op's output."""
    batch, length, hidden = layers.batch, layers.model.sequence, layers.model.hidden
    share = max(1, round(length * block.top_k * layers.capacity / block.experts)) if block.experts else 0
    source = layers.columns["shapes"][before[-1]] if before else (batch, length, hidden)
    if op.kind == "attention":
        return (batch, op.heads, max(1, round(length * op.share)), op.value_dim or op.head_dim)
    if op.kind == "gemm":
        return (*_rows(layers, before, source), op.n)
    if op.name == "moe.dispatch":
        return (block.experts, batch, share, hidden)
    if op.name.endswith(("dropout_add", "moe.combine")) or op.kind == "embedding":
        return (batch, length, hidden)
    if op.kind == "activation" and op.write:
        return (*source[:-1], round(op.write))
    return () if op.kind == "cross_entropy" else tuple(source)


def _rows(layers: _Layers, before: list[int], source: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of tokens: (sample, token), or (expert, sample, token); heads come before tokens."""
    is_core = bool(before) and layers.columns["kind"][before[-1]] == "attention"
    return (source[0], source[2]) if is_core else tuple(source[:-1])


def _sizes(layers: _Layers, block: Block, op: TensorOp) -> tuple[tuple[int, ...], float]:
    """(sizes as podsim.graphs.op_graph.DIMS orders them, FLOP of the forward pass)."""
    batch, length = layers.batch, layers.model.sequence
    if op.kind == "gemm":
        groups = block.experts if op.expert else 1
        share = max(1, round(length * block.top_k * layers.capacity / block.experts)) if op.expert else length
        return (groups, batch * share, op.n, op.k), 2.0 * groups * batch * share * op.n * op.k
    if op.kind == "attention":
        keys = max(1, round(length * op.key_share))
        queries, value = max(1, round(length * op.share)), op.value_dim or op.head_dim
        dims = (batch, op.heads, op.kv_heads or op.heads, queries, keys, op.head_dim, value, int(op.causal))
        return dims, 2.0 * batch * op.heads * queries * keys * (op.head_dim + value)
    return (), 0.0


_BRANCHES, _ENDS = ("attention.", "cross."), (".norm", ".post_norm", ".dropout_add")
"""how ops of branches with a core begin, and those end that do not lead to it"""


def _linked(op: TensorOp, kind: str, source: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """The dimension of the op that each dimension of what it reads, the output of an op of some kind, is."""
    samples, last = (0, 1), len(out) - 1
    if op.name == "moe.dispatch":
        return (1, 2, 3)
    if op.name == "moe.combine":
        return (3, 0, 1, 2)
    if kind == "attention" and len(out) == 3:  # heads become columns
        return (0, 2 if op.kind != "gemm" else 3, 1, NONE)
    if op.kind == "attention":
        return (0, 2, 1)
    if op.kind == "gemm":
        return (*range(last), last + 1)
    is_plain = len(source) == len(out) or op.kind == "cross_entropy"
    return tuple(range(len(source))) if is_plain else (*samples, last)
