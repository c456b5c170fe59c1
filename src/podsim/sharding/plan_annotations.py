"""A plan as annotations over a mesh: data, context, expert and tensor parallelism, sequence parallelism, FSDP.

    input                          samples over data and expert, tokens over context
    weights                        columns, rows or vocabulary over tensor; experts over expert, then over context
    outputs of norms and sums      tokens also over tensor, with sequence parallelism
    weights, with ZeRO 3           stored divided over all axes but tensor, and but replica (hybrid sharding)
Sources: Shoeybi et al. 2019 (arXiv 1909.08053), arXiv 2205.05198, Lepikhin et al. 2020 (GShard,
arXiv 2006.16668), Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.mesh import CONTEXT, DATA, EXPERT, REPLICA, TENSOR, Axes, Division, Given, Mesh
from podsim.sharding.propagation import Sharding
from podsim.training.plan import Plan
from podsim.workload.model import Model, TensorOp


class Degrees(NamedTuple):
    """The ranks over which a plan or a mesh divides."""

    tp: int
    cp: int
    ep: int


class _Roles(NamedTuple):
    """The axes that divide each kind of dimension."""

    samples: Axes
    tokens: Axes
    experts: Axes
    tensor: Axes


def plan_mesh(plan: Plan) -> Mesh | None:
    """The mesh of a scalar plan; None where its groups are no axes.

    Expert groups cover neighbouring ranks of context and data (podsim.training.plan_values).
    """
    ep, cp, dp = int(plan.ep), int(plan.cp), int(plan.dp)
    shard = int(plan.shard_ranks) if plan.zero == 3 else dp * cp
    if plan.expert_ranks != plan.tp or (ep % cp and cp % ep) or (shard < dp * cp and (cp > 1 or ep > 1)):
        return None
    sizes = {REPLICA: dp * cp // shard, DATA: shard // cp}
    if ep >= cp:
        sizes |= {DATA: sizes[DATA] * cp // ep, EXPERT: ep // cp, CONTEXT: cp}
    else:
        sizes |= {CONTEXT: cp // ep, EXPERT: ep}
    sizes |= {TENSOR: int(plan.tp)}
    return Mesh(sizes={axis: size for axis, size in sizes.items() if size > 1 or axis == DATA})


def plan_annotations(graph: DimensionGraph, model: Model, plan: Plan, mesh: Mesh) -> Given:
    """The annotations of a plan over its mesh."""
    roles = _roles(plan, mesh)
    given = {
        position: (roles.samples, roles.tokens, *((),) * (len(tensor.shape) - 2))
        for position, tensor in enumerate(graph.tensors)
        if tensor.role == "input"
    }
    ops = {op.name: op for block in model.kinds for op in block.ops}
    divided = {
        position: division
        for position, tensor in enumerate(graph.tensors)
        if tensor.role == "weight"
        and (division := _division(ops.get(tensor.name), tensor.shape, roles, mesh)) is not None
    }
    given |= divided
    if plan.zero == 3:
        given |= stored_apart(graph, mesh, divided)
    if plan.sequence_parallel and roles.tensor:
        given |= _stream(graph, ops, roles, mesh)
    return given


def _roles(plan: Plan, mesh: Mesh) -> _Roles:
    axes = tuple(mesh.sizes)
    is_inner = EXPERT in axes and CONTEXT in axes and axes.index(EXPERT) > axes.index(CONTEXT)
    tokens = tuple(axis for axis in axes if axis == CONTEXT or (axis == EXPERT and is_inner))
    experts = tuple(axis for axis in axes if axis == EXPERT or (axis == CONTEXT and not is_inner))
    samples = tuple(axis for axis in axes if axis != TENSOR and axis not in tokens)
    tensor: Axes = (TENSOR,) if TENSOR in axes else ()
    return _Roles(samples, tokens, experts if plan.ep > 1 else (), tensor)


def _division(op: TensorOp | None, shape: tuple[int, ...], roles: _Roles, mesh: Mesh) -> Division | None:
    """How a weight is divided: columns, rows or vocabulary over tensor, experts over their axes."""
    if op is None or op.kind not in ("gemm", "embedding"):
        return None
    at = {"column": -1, "row": -2, "vocab": -2 if op.kind == "embedding" else -1}.get(op.split)
    division = [() if at is None or d - len(shape) != at else roles.tensor for d in range(len(shape))]
    if op.expert and len(shape) > 2:
        division[0] = roles.experts
    fits = all(size % mesh.ranks(axes) == 0 for size, axes in zip(shape, division, strict=True))
    return tuple(division) if fits and any(division) else None


def _stream(graph: DimensionGraph, ops: dict[str, TensorOp], roles: _Roles, mesh: Mesh) -> Given:
    """The outputs of norms and sums, their tokens divided over the tensor group as well."""
    names = {
        f"{name}.out"
        for name, op in ops.items()
        if op.split == "sequence" and op.kind in ("norm", "elementwise")
    }
    tokens = (*roles.tokens, *roles.tensor)
    return {
        position: (roles.samples, tokens, ())
        for position, tensor in enumerate(graph.tensors)
        if tensor.name.partition("#")[0] in names and tensor.shape[1] % mesh.ranks(tokens) == 0
    }


def stored_apart(graph: DimensionGraph, mesh: Mesh, given: Given) -> dict[int, Division]:
    """The weights, each stored divided over the samples' axes in its first dimension that they and others divide."""
    axes = tuple(axis for axis in mesh.sizes if axis not in (TENSOR, REPLICA) and mesh.sizes[axis] > 1)
    made: dict[int, Division] = {}
    for position, tensor in enumerate(graph.tensors):
        if tensor.role != "weight" or len(tensor.shape) < 2:
            continue
        own = given.get(position, ((),) * len(tensor.shape))
        free = tuple(axis for axis in axes if not any(axis in part for part in own))
        for d, size in enumerate(tensor.shape):
            is_experts = (position, d) in graph.expert_dims
            if (
                free
                and not is_experts
                and size % (mesh.ranks(free) * mesh.ranks(own[d]) * mesh.sizes.get(TENSOR, 1)) == 0
            ):
                made[position] = (*own[:d], (*own[d], *free), *own[d + 1 :])
                break
    return made


def mesh_degrees(graph: DimensionGraph, sharding: Sharding, mesh: Mesh) -> Degrees:
    """The degrees of the plan that divides most like a sharding: what does not divide samples is tensor-parallel."""
    inputs = [sharding.divisions[t] for t, tensor in enumerate(graph.tensors) if tensor.role == "input"]
    tokens = {axis for division in inputs for axes in division[1:] for axis in axes}
    experts = {axis for tensor, d in graph.expert_dims for axis in sharding.divisions[tensor][d]}
    samples = prod(mesh.sizes[axis] for axis in sharding.samples)
    return Degrees(mesh.gpus // samples, mesh.ranks(sorted(tokens)), mesh.ranks(sorted(experts)))
