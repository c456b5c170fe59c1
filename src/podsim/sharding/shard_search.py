"""The search for annotations: the mesh, and the tensors whose division shortens a step most, one after the other.

A transformer's search begins with the best plans, as `podsim plan` finds them without pipelines. That of a network begins
with samples divided over each mesh, and knows no recipe. Then every weight, the inputs and the residual stream are tried
dimension by dimension over each axis; what helps most is annotated, until nothing helps. What fits comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod
from typing import NamedTuple

from podsim.errors import PlanError
from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.mesh import DATA, EXPERT, OPEN, TENSOR, Axes, Division, Given, Mesh
from podsim.sharding.plan_annotations import stored_apart
from podsim.sharding.planned_step import PlannedCase
from podsim.sharding.propagation import ContradictionError, Sharding, sample_annotations
from podsim.sharding.sharded_step import ShardCase, ShardedStep

_WORSE = 2
"""numbers of tensor ranks, each worse than the last, that end the search"""
_STARTS = 3
"""the number of plans that a transformer's search begins with"""
_LEAST = 3e-4
"""share of a network's weights below which a weight is divided by propagation alone"""
_GAIN = 1e-3
"""share of a step that another annotation must save"""
_BEYOND = 0.05
"""share of a step that divisions must save which no plan has: the law of graphs alone says so"""


class Candidate(NamedTuple):
    """Annotations with their cost."""

    mesh: Mesh
    given: Given
    sharding: Sharding
    step: ShardedStep

    def order(self, room: float) -> tuple[float, float]:
        """The order of candidates: B that do not fit, then seconds."""
        return max(self.step.memory - room, 0.0), self.step.seconds


def candidate(case: ShardCase, mesh: Mesh, given: Given) -> Candidate | None:
    """Annotations with their cost; None if they contradict each other, divide unevenly, or no plan is near."""
    for tensor, division in given.items():
        sizes = zip(case.graph.tensors[tensor].shape, division, strict=True)
        if any(axes != OPEN and size % mesh.ranks(axes) for size, axes in sizes):
            return None
    try:
        return Candidate(mesh, given, *case.step(mesh, given))
    except (ContradictionError, PlanError):
        return None


def meshes(gpus: int, batch: int, experts: int) -> list[Mesh]:
    """Every mesh of data, expert and tensor axes that the samples allow, the fewest tensor ranks first."""
    made = []
    for tensor in _divisors(gpus):
        for expert in _divisors(gpus // tensor) if experts else [1]:
            data = gpus // tensor // expert
            if (experts % expert if experts else 0) == 0 and (batch % (data * expert) == 0 or tensor == 1):
                axes = {DATA: data, EXPERT: expert, TENSOR: tensor}
                made.append(
                    Mesh(sizes={name: size for name, size in axes.items() if size > 1 or name == DATA})
                )
    return made


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def search_plans(case: PlannedCase) -> tuple[Candidate, int]:
    """(the best annotations of a transformer, the number of candidates tried): those of a plan, or far better ones."""
    planned, reached, tried = [], [], 0
    for shape in case.best_plans(_STARTS):
        start = Candidate(shape.mesh, shape.given, *case.step(shape.mesh, shape.given))
        moves = list(_moves(case.graph, start.mesh))
        planned.append(start)
        reached.append(_climb(case, start, moves))
        tried += 1 + len(moves)
    best, other = (min(group, key=lambda each: each.order(case.room)) for group in (planned, reached))
    if _is_better(other, best, case.room, _BEYOND):
        best = other
    return best, tried


def search(case: ShardCase, batch: int, gpus: int) -> tuple[Candidate, int]:
    """(the best annotations of a network over any mesh, the number of candidates tried)."""
    best: list[Candidate] = []
    """the best of each number of tensor ranks, which rise"""
    tried = 0
    for _, own in groupby(meshes(gpus, batch, 0), key=lambda mesh: mesh.sizes.get(TENSOR, 1)):
        reached = [climb for mesh in own for climb in _climbs(case, mesh)]
        tried += sum(count for _, count in reached)
        best += sorted((each for each, _ in reached), key=lambda each: each.order(case.room))[:1]
        last = [each.order(case.room) for each in best[-_WORSE - 1 :]]
        if len(last) > _WORSE and last == sorted(last):
            break  # it only gets worse
    chosen = min(best, key=lambda each: each.order(case.room))
    divided = {t: tuple(division) for t, division in enumerate(chosen.sharding.divisions)}
    apart = candidate(case, chosen.mesh, {**chosen.given, **stored_apart(case.graph, chosen.mesh, divided)})
    if apart is not None and _is_better(apart, chosen, case.room):
        chosen = apart
    return chosen, tried


def _climbs(case: ShardCase, mesh: Mesh) -> Iterator[tuple[Candidate, int]]:
    """What is reached with weights stored whole; where memory needs it, also with weights divided over samples' axes."""
    samples = [axis for axis in mesh.sizes if axis != TENSOR]
    plain = sample_annotations(case.graph, samples, mesh)
    moves = list(_moves(case.graph, mesh))
    for given in (plain, {**plain, **stored_apart(case.graph, mesh, {})}):
        start = candidate(case, mesh, given)
        if start is None:
            continue
        best = _climb(case, start, moves)
        yield best, len(moves)
        if best.step.memory <= case.room:
            return


def _climb(case: ShardCase, best: Candidate, moves: Sequence[Given]) -> Candidate:
    """Annotate what helps, the most helpful first, until nothing does."""
    while True:
        nearby = [(move, candidate(case, best.mesh, _joined(best.given, move))) for move in moves]
        better = [
            (move, each) for move, each in nearby if each is not None and _is_better(each, best, case.room)
        ]
        if not better:
            return best
        better.sort(key=lambda pair: pair[1].order(case.room))
        best = better[0][1]
        for move, _ in better[1:]:
            more = candidate(case, best.mesh, _joined(best.given, move))
            if more is not None and _is_better(more, best, case.room):
                best = more


def _is_better(new: Candidate, old: Candidate, room: float, gain: float = _GAIN) -> bool:
    (over, seconds), (old_over, old_seconds) = new.order(room), old.order(room)
    return over < old_over * (1 - gain) or (over <= old_over and seconds < old_seconds * (1 - gain))


def _moves(graph: DimensionGraph, mesh: Mesh) -> Iterator[dict[int, Division]]:
    """Annotations of tensors that are alike, in one dimension: tensor divides weights, inputs or the stream between
    layers, and expert, which divides samples already, the experts."""
    for axis in (axis for axis in (EXPERT, TENSOR) if axis in mesh.sizes):
        for members in _alike(graph):
            tensor = graph.tensors[members[0]]
            other: Axes = OPEN if tensor.role == "activation" else ()
            for d in range(0 if tensor.role == "weight" else 1, len(tensor.shape)):
                fits = [t for t in members if graph.tensors[t].shape[d] % mesh.sizes[axis] == 0]
                if fits and (axis == TENSOR or (fits[0], d) in graph.expert_dims):
                    yield {t: (*(other,) * d, (axis,), *(other,) * (len(tensor.shape) - d - 1)) for t in fits}


def _alike(graph: DimensionGraph) -> list[list[int]]:
    """Tensors by the pattern of their names, their rank and width; small weights follow by propagation alone."""
    groups: dict[object, list[int]] = {}
    kinds, least = graph.graph.kind_names, _LEAST * graph.graph.parameters.sum()
    streams = {
        op.output.tensor
        for op in graph.ops
        if kinds[op.position] == "norm" or (kinds[op.position] == "elementwise" and len(op.operands) > 1)
    }
    for position, tensor in enumerate(graph.tensors):
        if tensor.role == "weight" and len(tensor.shape) > 1 and prod(tensor.shape) >= least:
            groups.setdefault((re.sub(r"\d+", "*", tensor.name), len(tensor.shape)), []).append(position)
        elif tensor.role == "input":
            groups.setdefault(("input", len(tensor.shape)), []).append(position)
        elif position in streams and len(tensor.shape) == 3:
            groups.setdefault("stream", []).append(position)
    return list(groups.values())


def _joined(given: Given, move: Mapping[int, Division]) -> dict[int, Division]:
    """Annotations with more: an axis leaves other dimensions for its new one, in front of axes that only store."""
    made = dict(given)
    for tensor, division in move.items():
        new = {axis for axes in division if axes != OPEN for axis in axes}
        old = [tuple(axis for axis in axes if axis not in new) for axes in made.get(tensor, division)]
        made[tensor] = tuple(
            (axes or OPEN) if own == OPEN else own if axes == OPEN else (*own, *axes)
            for own, axes in zip(division, old, strict=True)
        )
    return made
