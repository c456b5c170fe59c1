"""How annotations of a few tensors spread over a graph, forward and backward, to a fixed point.

A dimension of an op that one tensor divides is divided in all tensors of that op that have it, unless the axis divides
another of their dimensions. The annotation with the fewest ops between comes first. Samples keep their axes: an axis that
divides the inputs and a dimension of a weight other than experts only divides the weight's storage, as FSDP does.
Source: Xu et al. 2021 (GSPMD, arXiv 2105.04663), section 3.5. Unlike there, two weights that contradict are an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.errors import PodsimError
from podsim.sharding.dimension_graph import NONE, DimensionGraph, End
from podsim.sharding.mesh import OPEN, Axes, Division, Mesh


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """The division of every tensor of a graph."""

    divisions: list[list[Axes]]
    """The axes of each dimension of each tensor."""
    samples: frozenset[str]
    """The axes that divide the inputs."""


_Source = tuple[int, Axes, int]
"""(the turn in which a dimension was divided, by which axes, the annotated tensor that it comes from)"""


class _Spread:
    """Divisions while they spread."""

    def __init__(self, graph: DimensionGraph, mesh: Mesh, given: Mapping[int, Division]) -> None:
        self.graph, self.mesh, self.given = graph, mesh, given
        lengths = [len(tensor.shape) for tensor in graph.tensors]
        self.divisions: list[list[Axes]] = [[()] * n for n in lengths]
        self.closed = [[False] * n for n in lengths]
        self.sources = [[NONE] * n for n in lengths]
        self.turn = [[0] * n for n in lengths]
        self.clock = 0
        for tensor, division in given.items():
            for d, axes in enumerate(division):
                if axes != OPEN:
                    self.divisions[tensor][d], self.closed[tensor][d] = axes, True
                    self.sources[tensor][d] = tensor
        self.samples = frozenset(
            axis
            for tensor in given
            if graph.tensors[tensor].role == "input"
            for axes in self.divisions[tensor]
            for axis in axes
        )

    def run(self) -> None:
        weights_first = sorted(self.given, key=lambda t: (self.graph.tensors[t].role != "weight", t))
        queue = deque(number for tensor in weights_first for number in self.graph.uses[tensor])
        queued = set(queue)
        while queue:
            number = queue.popleft()
            queued.discard(number)
            for tensor in self._visit(number):
                for reader in self.graph.uses[tensor]:
                    if reader not in queued:
                        queued.add(reader)
                        queue.append(reader)

    def _visit(self, number: int) -> list[int]:
        """Spread over one op; the tensors that changed."""
        best: dict[int, _Source] = {}
        ends, divisions = self.graph.ends[number], self.divisions
        for end in ends:
            axes = divisions[end.tensor][end.d]
            if axes and end.is_stored:
                axes = tuple(axis for axis in axes if axis not in self.samples)
            if not axes:
                continue
            mine = (self.turn[end.tensor][end.d], axes, self.sources[end.tensor][end.d])
            if (other := best.get(end.dim)) is not None and other[2] != mine[2]:
                self._check_same(number, other, mine)
            if other is None or mine[0] < other[0]:
                best[end.dim] = mine
        axes_used = [axis for source in best.values() for axis in source[1]]
        if len(set(axes_used)) < len(axes_used):
            best = self._apart(number, best)
        return [
            end.tensor
            for end in ends
            if end.dim in best and not divisions[end.tensor][end.d] and self._divide(end, best[end.dim])
        ]

    def _divide(self, end: End, source: _Source) -> bool:
        """Divide an open dimension by as many axes as fit; whether that is new."""
        division = self.divisions[end.tensor]
        if self.closed[end.tensor][end.d]:
            return False
        used = {axis for axes in division for axis in axes}
        axes: Axes = ()
        for axis in source[1]:
            if axis in used or end.parts % self.mesh.ranks((*axes, axis)):
                break
            axes = (*axes, axis)
        if not axes:
            return False
        self.clock += 1
        division[end.d], self.sources[end.tensor][end.d], self.turn[end.tensor][end.d] = (
            axes,
            source[2],
            self.clock,
        )
        return True

    def _check_same(self, number: int, first: _Source, second: _Source) -> None:
        """Raise for two annotations that divide one dimension by different axes."""
        if not set(first[1]) & set(second[1]):
            by = f"by {'+'.join(first[1])} and by {'+'.join(second[1])}"
            self._contradict(number, first, second, f"divide one dimension of {self._name(number)} {by}")

    def _apart(self, number: int, best: Mapping[int, _Source]) -> dict[int, _Source]:
        """Each axis at one dimension of an op: that of weights before others, then that of the nearest annotation.

        Raises for two weights that divide two dimensions of one op by the same axis.
        """
        tensors, owner, apart = self.graph.tensors, dict[str, _Source](), dict[int, _Source]()
        for dim, mine in sorted(
            best.items(), key=lambda pair: (tensors[pair[1][2]].role != "weight", pair[1][0])
        ):
            free: Axes = ()
            for axis in mine[1]:
                other = owner.setdefault(axis, mine)
                if other is mine:
                    free = (*free, axis)
                elif other[2] != mine[2] and tensors[other[2]].role == tensors[mine[2]].role == "weight":
                    self._contradict(
                        number, other, mine, f"divide two dimensions of {self._name(number)} by {axis}"
                    )
            if free:
                apart[dim] = (mine[0], free, mine[2])
        return apart

    def _name(self, number: int) -> str:
        return self.graph.graph.names[self.graph.ops[number].position]

    def _contradict(self, number: int, first: _Source, second: _Source, how: str) -> None:
        tensors = self.graph.tensors
        between = [
            o.tensor for o in self.graph.ops[number].operands if tensors[o.tensor].role == "activation"
        ]
        remedy = f", or annotate {tensors[between[0]].name}, where it is divided otherwise" if between else ""
        raise ContradictionError(
            f"annotations of {tensors[first[2]].name} and {tensors[second[2]].name} contradict each other: they {how}; "
            f"change one of them{remedy}"
        )


class ContradictionError(PodsimError):
    """Annotations that cannot both hold."""


def propagate(graph: DimensionGraph, mesh: Mesh, given: Mapping[int, Division]) -> Sharding:
    """The division of all tensors. Raises ContradictionError, which names the tensors."""
    spread = _Spread(graph, mesh, given)
    spread.run()
    return Sharding(divisions=spread.divisions, samples=spread.samples)


def sample_annotations(graph: DimensionGraph, axes: Sequence[str], mesh: Mesh) -> dict[int, Division]:
    """The inputs, their samples divided over some axes as far as these divide them."""
    made: dict[int, Division] = {}
    for position, tensor in enumerate(graph.tensors):
        if tensor.role == "input" and tensor.shape and tensor.shape[0] % graph.graph.batch == 0:
            fitting: Axes = ()
            for axis in axes:
                if graph.graph.batch % mesh.ranks((*fitting, axis)) == 0:
                    fitting = (*fitting, axis)
            made[position] = (fitting, *((),) * (len(tensor.shape) - 1))
    return made
