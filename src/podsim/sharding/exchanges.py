"""What one op of a divided graph exchanges: the collectives that turn stored tensors into those that it needs, and back.

    what an operand stores and the op does not need divided       all-gather; its gradient is reduce-scattered
    an axis that divides another dimension there than here        all-to-all, both ways
    a sum over a divided dimension                                all-reduce; reduce-scatter into a divided result
    the gradient of a weight, a sum over divided samples          all-reduce, or reduce-scatter (FSDP)
    a convolution over a divided image                            halo: rows of the neighbours
    statistics of a norm, softmax or loss over a divided width    all-reduce of two numbers a row
Source: Xu et al. 2021 (GSPMD, arXiv 2105.04663), section 4; Lepikhin et al. 2020 (GShard), section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from podsim.sharding.dimension_graph import NONE, DimensionGraph, DimensionOp, Operand
from podsim.sharding.mesh import Axes, Mesh
from podsim.sharding.propagation import Sharding

Places = Mapping[str, int]
"""the dimension of a tensor that each axis divides"""


class Exchange(NamedTuple):
    """A collective of one op."""

    collective: str
    axes: Axes
    elements: float
    """count. The elements, by the convention of podsim.network.nccl.collective_seconds."""
    phase: str
    """forward, backward, weights (gathered before use) or gradients (of weights)."""
    end: int
    """The position of the tensor among what the op reads, or behind them its output."""


class LocalOp(NamedTuple):
    """An op as one rank runs it."""

    dims: dict[int, Axes]
    """The axes of each divided dimension of the op."""
    exchanges: tuple[Exchange, ...]


def convert(elements: float, stored: Places, needed: Places, partial: frozenset[str], mesh: Mesh) -> Iterator[
    tuple[str, Axes, float]
]:  # fmt: skip
    """(collective, axes, elements) that turn one division of a tensor of so many elements into another.

    `partial`: the axes along which ranks hold summands.
    """

    def part(axes: Mapping[str, int]) -> float:
        return elements / mesh.ranks(tuple(axes))

    order = tuple(mesh.sizes)
    held = dict(stored)
    scattered = tuple(axis for axis in order if axis in partial and axis in needed)
    if scattered:
        yield "reduce_scatter", scattered, part(held)
    held |= {axis: needed[axis] for axis in needed if axis not in held}  # a slice of what is there is free
    if summed := tuple(axis for axis in order if axis in partial and axis not in needed):
        yield "all_reduce", summed, part(held)
    if moved := tuple(axis for axis in order if axis in held and needed.get(axis, held[axis]) != held[axis]):
        yield "all_to_all", moved, part(held)
        held |= {axis: needed[axis] for axis in moved}
    if gathered := tuple(axis for axis in order if axis in held and axis not in needed):
        yield "all_gather", gathered, part({axis: held[axis] for axis in held if axis in needed})


def local_op(graph: DimensionGraph, op: DimensionOp, sharding: Sharding, mesh: Mesh) -> LocalOp:
    """The op on one rank: the cheaper of following what it reads and what it writes."""
    ends = [*op.operands, op.output]
    weights = [o for o in ends if graph.tensors[o.tensor].role == "weight"]
    others = [o for o in op.operands if graph.tensors[o.tensor].role != "weight"]
    best: LocalOp | None = None
    cost = 0.0
    for order in ([*weights, *others, op.output], [*weights, op.output, *others]):
        dims = _divided(graph, op, order, sharding, mesh)
        if best is not None and dims == best.dims:
            continue
        made = LocalOp(dims, tuple(_exchanges(graph, op, dims, sharding, mesh)))
        sent = sum(exchange.elements for exchange in made.exchanges)
        if best is None or sent < cost:
            best, cost = made, sent
    assert best is not None
    return best


def _divided(
    graph: DimensionGraph, op: DimensionOp, order: list[Operand], sharding: Sharding, mesh: Mesh
) -> dict[int, Axes]:
    """The axes of each dimension of the op: those of the tensors in order, as far as an axis is free and divides it."""
    dims: dict[int, Axes] = {}
    used: set[str] = set()
    for operand in order:
        is_weight = graph.tensors[operand.tensor].role == "weight"
        for d, dim in enumerate(operand.dims):
            if dim == NONE or dim in op.fixed or dim in dims:
                continue
            stored = sharding.divisions[operand.tensor][d]
            if is_weight and not op.is_batch(dim):
                stored = tuple(axis for axis in stored if axis not in sharding.samples)
            axes: Axes = ()
            for axis in stored:
                if axis in used or op.sizes[dim] % mesh.ranks((*axes, axis)):
                    break
                axes = (*axes, axis)
            if axes:
                dims[dim] = axes
                used |= set(axes)
    return dims


def _exchanges(
    graph: DimensionGraph, op: DimensionOp, dims: Mapping[int, Axes], sharding: Sharding, mesh: Mesh
) -> Iterator[Exchange]:
    used = {axis: dim for dim, axes in dims.items() for axis in axes}
    for end, operand in enumerate(op.operands):
        yield from _read(graph, operand, end, used, sharding, mesh)
        for dim, share in op.halo:
            if dim in dims and dim in operand.dims and graph.tensors[operand.tensor].role != "weight":
                elements = prod(graph.tensors[operand.tensor].shape) / mesh.ranks(tuple(used))
                halo = min(share * mesh.ranks(dims[dim]), 1.0) * elements
                for phase in ("forward", "backward"):
                    yield Exchange("send_recv", dims[dim], halo, phase, end)
    out, end = op.output, len(op.operands)
    elements, stored = float(prod(graph.tensors[out.tensor].shape)), _places(sharding.divisions[out.tensor])
    made = _needed(out, used)
    partial = frozenset(axis for axis, dim in used.items() if dim in op.summed)
    for name, axes, size in convert(elements, made, stored, partial, mesh):
        yield Exchange(name, axes, size, "forward", end)
    for name, axes, size in convert(elements, stored, made, frozenset(), mesh):
        yield Exchange(name, axes, size, "backward", end)
    for dim in op.statistics & dims.keys():
        apart = mesh.ranks([axis for axis, other in used.items() if other != dim])
        rows = max(prod(tensor_shape(graph, o)) for o in op.operands or (out,)) / op.sizes[dim] / apart
        for phase in ("forward", "backward"):  # two sums in fp32, counted in elements of two bytes
            yield Exchange("all_reduce", dims[dim], 4 * rows, phase, end)


def tensor_shape(graph: DimensionGraph, operand: Operand) -> tuple[int, ...]:
    """The shape of an operand's tensor."""
    return graph.tensors[operand.tensor].shape


def _read(
    graph: DimensionGraph, operand: Operand, end: int, used: Mapping[str, int], sharding: Sharding, mesh: Mesh
) -> Iterator[Exchange]:
    """What an operand and its gradient exchange; the gradient is a sum over the axes that its dimensions lack."""
    tensor = graph.tensors[operand.tensor]
    elements = prod(tensor.shape) * operand.share
    stored, needed = _places(sharding.divisions[operand.tensor]), _needed(operand, used)
    partial = frozenset(axis for axis in used if axis not in needed)
    is_weight = tensor.role == "weight"
    for name, axes, size in convert(elements, stored, needed, frozenset(), mesh):
        yield Exchange(name, axes, size, "weights" if is_weight else "forward", end)
        if is_weight:  # once more for the backward pass
            yield Exchange(name, axes, size, "weights", end)
    if tensor.role == "input":
        return
    for name, axes, size in convert(elements, needed, stored, partial, mesh):
        yield Exchange(name, axes, size, "gradients" if is_weight else "backward", end)


def _places(division: list[Axes]) -> dict[str, int]:
    return {axis: d for d, axes in enumerate(division) for axis in axes}


def _needed(operand: Operand, used: Mapping[str, int]) -> dict[str, int]:
    return {axis: operand.dims.index(dim) for axis, dim in used.items() if dim in operand.dims}
