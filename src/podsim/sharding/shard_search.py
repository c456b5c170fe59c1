"""The search for annotations: the mesh, and the tensors whose division shortens a step most, one after the other.

For each mesh, samples are divided first. Then every weight, the inputs and the residual stream are tried dimension by
dimension over each axis; what helps most is annotated, until nothing helps. Plans that fit come before those that do not.
It knows no recipe: hand-made ones (podsim.sharding.hand_made) are only compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod
from typing import NamedTuple

from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.mesh import OPEN, Axes, Division, Mesh
from podsim.sharding.propagation import ContradictionError, Sharding, propagate, sample_annotations
from podsim.sharding.sharded_step import ShardCase, ShardedStep, sharded_step

Given = Mapping[int, Division]
DATA, EXPERT, TENSOR = "data", "expert", "tensor"
_WORSE = 2
"""numbers of tensor ranks, each worse than the last, that end the search"""
_LEAST = 3e-4
"""share of a network's weights below which a weight is divided by propagation alone"""
_GAIN = 1e-3
"""share of a step that another annotation must save"""


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
    """Annotations with their cost; None if they contradict each other."""
    try:
        sharding = propagate(case.graph, mesh, given)
    except ContradictionError:
        return None
    return Candidate(mesh, given, sharding, sharded_step(case, sharding, mesh))


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


def search(case: ShardCase, batch: int, experts: int, gpus: int) -> tuple[Candidate, int]:
    """(the best annotations over any mesh, the number of candidates tried)."""
    best: list[Candidate] = []
    """the best of each number of tensor ranks, which rise"""
    tried = 0
    for _, own in groupby(meshes(gpus, batch, experts), key=lambda mesh: mesh.sizes.get(TENSOR, 1)):
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
    return _without_idle(case, chosen), tried


def _climbs(case: ShardCase, mesh: Mesh) -> Iterator[tuple[Candidate, int]]:
    """What is reached with weights stored whole, and, where memory needs it, with weights divided over the samples' axes.

    A division that spreads over most of the graph may hide many that help more together, so local ones also go first.
    """
    samples = [axis for axis in mesh.sizes if axis != TENSOR]
    plain = sample_annotations(case.graph, samples, mesh)
    moves = list(_moves(case.graph, mesh))
    for given in (plain, {**plain, **stored_apart(case.graph, mesh, {})}):
        start = candidate(case, mesh, given)
        if start is None:
            continue
        nearby = _nearby(case, start, moves)
        local = [move for move, each in nearby if each is not None and _is_local(each)]
        reached = [_climb(case, start, nearby, moves)]
        if len(local) < len(moves):
            first = _climb(case, start, [pair for pair in nearby if pair[0] in local], local)
            reached.append(_climb(case, first, _nearby(case, first, moves), moves))
        for best in reached:
            yield best, 2 * len(moves)
        if any(best.step.memory <= case.room and not best.step.recomputes for best in reached):
            return


def _is_local(each: Candidate) -> bool:
    """Whether an axis other than those of samples divides less than half of the tensors."""
    divided = sum(any(TENSOR in axes for axes in division) for division in each.sharding.divisions)
    return divided < len(each.sharding.divisions) / 2


def _nearby(
    case: ShardCase, start: Candidate, moves: Sequence[Mapping[int, Division]]
) -> list[tuple[Mapping[int, Division], Candidate | None]]:
    return [(move, candidate(case, start.mesh, _joined(start.given, move))) for move in moves]


def _climb(
    case: ShardCase,
    best: Candidate,
    nearby: list[tuple[Mapping[int, Division], Candidate | None]],
    moves: Sequence[Mapping[int, Division]],
) -> Candidate:
    """Annotate what helps, the most helpful first, until nothing does."""
    while True:
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
        nearby = _nearby(case, best, moves)


def _is_better(new: Candidate, old: Candidate, room: float) -> bool:
    (over, seconds), (old_over, old_seconds) = new.order(room), old.order(room)
    return over < old_over * (1 - _GAIN) or (over <= old_over and seconds < old_seconds * (1 - _GAIN))


def _moves(graph: DimensionGraph, mesh: Mesh) -> Iterator[dict[int, Division]]:
    """Annotations of tensors that are alike, in one dimension: tensor divides weights, inputs or the stream between
    layers, and expert, which divides samples already, the experts."""
    experts = {
        (end.tensor, end.d)
        for ends in graph.ends
        for end in ends
        if graph.tensors[end.tensor].role == "weight" and not end.is_stored
    }
    for axis in (axis for axis in (EXPERT, TENSOR) if axis in mesh.sizes):
        for members in _alike(graph):
            tensor = graph.tensors[members[0]]
            other: Axes = OPEN if tensor.role == "activation" else ()
            for d in range(0 if tensor.role == "weight" else 1, len(tensor.shape)):
                fits = [t for t in members if graph.tensors[t].shape[d] % mesh.sizes[axis] == 0]
                if fits and (axis == TENSOR or (fits[0], d) in experts):
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


def stored_apart(graph: DimensionGraph, mesh: Mesh, given: Given) -> dict[int, Division]:
    """The weights, each stored divided over the samples' axes in its first dimension that they and others divide."""
    axes = tuple(axis for axis in mesh.sizes if axis != TENSOR and mesh.sizes[axis] > 1)
    made: dict[int, Division] = {}
    for position, tensor in enumerate(graph.tensors):
        if tensor.role != "weight" or len(tensor.shape) < 2:
            continue
        own = given.get(position, ((),) * len(tensor.shape))
        free = tuple(axis for axis in axes if not any(axis in part for part in own))
        for d, size in enumerate(tensor.shape):
            if free and size % (mesh.ranks(free) * mesh.ranks(own[d]) * mesh.sizes.get(TENSOR, 1)) == 0:
                made[position] = (*own[:d], (*own[d], *free), *own[d + 1 :])
                break
    return made


def _without_idle(case: ShardCase, best: Candidate) -> Candidate:
    """The same without annotations that propagation gives anyway."""
    groups: dict[object, list[int]] = {}
    for tensor, division in best.given.items():
        if case.graph.tensors[tensor].role != "input":
            groups.setdefault((re.sub(r"\d+", "*", case.graph.tensors[tensor].name), division), []).append(
                tensor
            )
    for members in groups.values():
        fewer = candidate(case, best.mesh, {t: d for t, d in best.given.items() if t not in members})
        if fewer is not None and not _is_better(best, fewer, case.room) and fewer.order(case.room) <= (
            best.order(case.room)[0], best.order(case.room)[1] * (1 + 1e-9)
        ):  # fmt: skip
            best = fewer
    return best
