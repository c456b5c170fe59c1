"""A graph of ops as products over named dimensions: which dimension of a tensor is which dimension of an op.

An op is a loop over dimensions, as an Einstein sum is. A dimension of an operand that the output lacks is summed.
Source: Lepikhin et al. 2020 (GShard, arXiv 2006.16668); Xu et al. 2021 (GSPMD, arXiv 2105.04663), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Literal, NamedTuple

from podsim.graphs.op_graph import OpGraph

NONE = -1
"""A dimension of a tensor that no dimension of the op follows: each rank needs all of it."""
Role = Literal["weight", "input", "activation"]


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor that annotations may name."""

    name: str
    shape: tuple[int, ...]
    role: Role = "activation"


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor that an op reads or writes, and the op's dimension that each of its dimensions is."""

    tensor: int
    """The position of the tensor in the graph."""
    dims: tuple[int, ...]
    share: float = 1.0
    """share. The part of the tensor that the op reads."""


@dataclass(frozen=True, kw_only=True)
class DimensionOp:
    """An op as a loop over dimensions."""

    position: int
    """The position of the op in the graph of ops."""
    sizes: tuple[int, ...]
    """The number of equal parts that each dimension has: it divides over any divisor of that."""
    operands: tuple[Operand, ...]
    output: Operand
    fixed: frozenset[int] = frozenset()
    """The dimensions that no rank can hold a part of."""
    statistics: frozenset[int] = frozenset()
    """The dimensions over which the op reduces sums as wide as the rest: of a norm, softmax or loss."""
    columns: tuple[int, ...] = ()
    """The column of the op's sizes (see podsim.graphs.op_graph.DIMS) that each dimension divides; NONE for none."""
    halo: tuple[tuple[int, float], ...] = ()
    """The divided dimensions of a convolution, each with the share of an image that two neighbours exchange."""

    @property
    def summed(self) -> frozenset[int]:
        """The dimensions of operands that the output lacks."""
        read = {d for operand in self.operands for d in operand.dims}
        return frozenset(read - set(self.output.dims) - {NONE})

    def is_batch(self, dim: int) -> bool:
        """Whether a dimension is in all tensors of a product, as that of experts: each part is a product of its own."""
        is_first = bool(self.columns) and self.columns[dim] == 0
        return is_first and dim in self.output.dims and all(dim in operand.dims for operand in self.operands)


class End(NamedTuple):
    """A dimension of a tensor that an op reads or writes."""

    tensor: int
    d: int
    """The dimension of the tensor."""
    dim: int
    """The dimension of the op."""
    parts: int
    is_stored: bool
    """Whether it is a weight's that axes of samples only store divided: any but that of experts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DimensionGraph:
    """A graph of ops with the dimensions of all its tensors."""

    graph: OpGraph
    tensors: tuple[Tensor, ...]
    ops: tuple[DimensionOp, ...]
    copies: tuple[int, ...]
    """The number of layers that each op stands for."""
    kept_in: tuple[int, ...]
    """The tensor that stays for the backward pass because of each op; its division divides those bytes."""
    layer: tuple[int, ...]
    """The layer of each op, from 1; 0 for ops outside layers, which no recomputation covers."""

    @cached_property
    def ends(self) -> tuple[tuple[End, ...], ...]:
        """For each op what its tensors can divide."""
        return tuple(
            tuple(
                End(
                    o.tensor,
                    d,
                    dim,
                    op.sizes[dim],
                    self.tensors[o.tensor].role == "weight" and not op.is_batch(dim),
                )
                for o in (*op.operands, op.output)
                for d, dim in enumerate(o.dims)
                if dim != NONE and dim not in op.fixed
            )
            for op in self.ops
        )

    @cached_property
    def expert_dims(self) -> frozenset[tuple[int, int]]:
        """(tensor, dimension) of the experts of weights, which axes of samples divide and not only store divided."""
        return frozenset(
            (end.tensor, end.d)
            for ends in self.ends
            for end in ends
            if self.tensors[end.tensor].role == "weight" and not end.is_stored
        )

    @cached_property
    def uses(self) -> tuple[tuple[int, ...], ...]:
        """The ops that read or write each tensor."""
        uses: list[list[int]] = [[] for _ in self.tensors]
        for number, ends in enumerate(self.ends):
            for tensor in {end.tensor for end in ends}:
                uses[tensor].append(number)
        return tuple(map(tuple, uses))


def link(source: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """The dimension of `target` that each dimension of `source` becomes by views, NONE where there is none.

    Equal sizes in the same order come first, then those that moved. What is left is split or merged: the first of its
    dimensions then follow each other, so that 1024 columns become 16 heads of 64. A part of a fused product follows
    it as well, as Megatron-LM interleaves them.
    """
    linked = [NONE] * len(source)
    free = list(range(len(target)))
    for d, size in enumerate(source):  # in order, each behind the last
        behind = [t for t in free if target[t] == size and all(t > linked[e] for e in range(d))]
        if behind and size > 1:
            linked[d] = min(behind, key=lambda t: (abs(t - d - (len(target) - len(source))), t))
            free.remove(linked[d])
    for d, size in enumerate(source):
        if linked[d] == NONE and size > 1:
            moved = [t for t in free if target[t] == size]
            if moved:
                linked[d] = moved[0]
                free.remove(moved[0])
    rest = [d for d, size in enumerate(source) if linked[d] == NONE and size > 1]
    left = [t for t in free if target[t] > 1]
    if rest and left:
        there, here = prod(source[d] for d in rest), prod(target[t] for t in left)
        if there % here == 0 or here % there == 0:
            linked[rest[0]] = left[0]
    return tuple(linked)


def common_parts(sizes: Sequence[int]) -> int:
    """The largest number of equal parts of all the sizes."""
    return gcd(*sizes) if sizes else 1
