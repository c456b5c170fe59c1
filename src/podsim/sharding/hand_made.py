"""Hand-made plans as annotations: data, tensor and sequence parallelism as Megatron-LM has them, experts, FSDP.

Sources: Shoeybi et al. 2019 (arXiv 1909.08053), arXiv 2205.05198, Lepikhin et al. 2020 (GShard,
arXiv 2006.16668), Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.mesh import Axes, Division, Mesh
from podsim.sharding.propagation import sample_annotations
from podsim.sharding.shard_search import (
    EXPERT,
    TENSOR,
    Candidate,
    candidate,
    meshes,
    stored_apart,
)
from podsim.sharding.sharded_step import ShardCase
from podsim.workload.model import Model, TensorOp


def hand_made(case: ShardCase, model: Model | None, batch: int, gpus: int) -> list[tuple[str, Candidate]]:
    """(name, cost) of every hand-made plan over the mesh: for a network without a recipe, replicas and FSDP alone."""
    ops = {op.name: op for block in model.kinds for op in block.ops} if model else {}
    experts = max((block.experts for block in model.kinds), default=0) if model else 0
    plans = []
    for mesh in meshes(gpus, batch, experts):
        if TENSOR in mesh.sizes and not ops:
            continue
        for name, given in _plans(case.graph, mesh, ops):
            made = candidate(case, mesh, given)
            if made is not None:
                plans.append((name, made))
    return sorted(plans, key=lambda plan: plan[1].order(case.room))


def _plans(
    graph: DimensionGraph, mesh: Mesh, ops: Mapping[str, TensorOp]
) -> Iterator[tuple[str, Mapping[int, Division]]]:
    samples = sample_annotations(graph, [axis for axis in mesh.sizes if axis != TENSOR], mesh)
    divided = {
        position: division
        for position, tensor in enumerate(graph.tensors)
        if tensor.role == "weight"
        and (division := _division(ops.get(tensor.name), tensor.shape, mesh)) is not None
    }
    stream = {}
    if TENSOR in mesh.sizes:
        axes = next(iter(samples.values()))[0]
        names = {
            f"{name}.out"
            for name, op in ops.items()
            if op.split == "sequence" and op.kind in ("norm", "elementwise")
        }
        stream = {
            position: (axes, (TENSOR,), ())
            for position, tensor in enumerate(graph.tensors)
            if tensor.name.partition("#")[0] in names and tensor.shape[1] % mesh.sizes[TENSOR] == 0
        }
    parts = [f"{size}-way {axis}" for axis, size in mesh.sizes.items() if size > 1]
    for added, more in (("", {}), (", sequence", stream)):
        if added and not more:
            continue
        given = {**samples, **divided, **more}
        yield " x ".join(parts) + added, given
        yield " x ".join(parts) + added + ", FSDP", {**given, **stored_apart(graph, mesh, divided)}


def _division(op: TensorOp | None, shape: tuple[int, ...], mesh: Mesh) -> Division | None:
    """How a weight is divided by hand: columns, rows or vocabulary over tensor, experts over expert."""
    if op is None or op.kind not in ("gemm", "embedding"):
        return None
    tensor: Axes = (TENSOR,) if TENSOR in mesh.sizes else ()
    at = {"column": -1, "row": -2, "vocab": -2 if op.kind == "embedding" else -1}.get(op.split)
    division = [() if at is None or d - len(shape) != at else tensor for d in range(len(shape))]
    if op.expert and len(shape) > 2 and EXPERT in mesh.sizes:
        division[0] = (EXPERT,)
    fits = all(size % mesh.ranks(axes) == 0 for size, axes in zip(shape, division, strict=True))
    return tuple(division) if fits and any(division) else None
