"""A mesh: the GPUs of a job as a grid with named axes, the last one innermost, and annotations over it.

data=8,tensor=8              64 GPUs; those of a tensor group are neighbours
mlp.up=,tensor               the second dimension of mlp.up is divided over tensor, the first is not
layers.*.up=data+expert,?    data and expert divide the first; propagation decides the second
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod

from podsim.errors import PodsimError
from podsim.sharding.dimension_graph import DimensionGraph, Tensor

Axes = tuple[str, ...]
Division = tuple[Axes, ...]
"""the axes that divide each dimension of a tensor"""
Given = Mapping[int, Division]
"""annotations: the divisions of some tensors, by their positions"""
REPLICA, DATA, EXPERT, CONTEXT, TENSOR = "replica", "data", "expert", "context", "tensor"
"""the axes that podsim names; weights are not stored divided over replica and tensor"""
OPEN: Axes = ("?",)
"""a dimension that propagation may divide"""
_AXIS = re.compile(r"[A-Za-z_]\w{0,20}")
_MOST_AXES = 4


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """GPUs as a grid."""

    sizes: dict[str, int]
    """The number of GPUs along each axis, outermost first."""

    def __str__(self) -> str:
        """The mesh as users write it."""
        return self.text

    @cached_property
    def text(self) -> str:
        """The mesh as users write it."""
        return ",".join(f"{axis}={size}" for axis, size in self.sizes.items())

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return prod(self.sizes.values())

    def ranks(self, axes: Sequence[str]) -> int:
        """The number of GPUs along some axes together."""
        return prod(self.sizes[axis] for axis in axes)

    def stride(self, axes: Sequence[str]) -> int:
        """The number of GPUs from one member of a group along some axes to the next."""
        names = list(self.sizes)
        last = max(names.index(axis) for axis in axes)
        return self.ranks(names[last + 1 :])

    def per_node(self, axes: Sequence[str], gpus_per_node: int) -> int:
        """The number of members of a group along some axes that share a node."""
        members, names = 1, list(self.sizes)
        for axis in axes:
            room = gpus_per_node // self.ranks(names[names.index(axis) + 1 :])
            members *= max(1, min(self.sizes[axis], room))
        return members


def read_mesh(text: str, gpus: int) -> Mesh:
    """The mesh that a user wrote. Raises PodsimError unless its axes have names and sizes with `gpus` GPUs in all."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        axis, _, size = (word.strip() for word in part.partition("="))
        if (
            not _AXIS.fullmatch(axis)
            or not size.isdecimal()
            or not 1 <= int(size) <= 1 << 20
            or axis in sizes
        ):
            raise PodsimError(
                f"mesh {text[:80]!r}: expected names and sizes, each once, such as data=8,tensor=8"
            )
        sizes[axis] = int(size)
    if len(sizes) > _MOST_AXES:
        raise PodsimError(f"mesh {text[:80]!r} has {len(sizes)} axes; at most {_MOST_AXES} are possible")
    mesh = Mesh(sizes=sizes)
    if mesh.gpus != gpus:
        raise PodsimError(
            f"mesh {mesh} has {mesh.gpus:,} GPUs, and the job has {gpus:,}; change a size or --gpus"
        )
    return mesh


def read_annotations(
    texts: Sequence[str], graph: DimensionGraph, axes: Sequence[str]
) -> dict[str, tuple[str, Division]]:
    """By name of a tensor, the text that names it and its division. Raises PodsimError with all that is wrong."""
    known: dict[str, Tensor] = {tensor.name: tensor for tensor in graph.tensors}
    problems: list[str] = []
    given: dict[str, tuple[str, Division]] = {}
    for text in texts:
        pattern, equals, division = (part.strip() for part in text.partition("="))
        names = [name for name in known if fnmatchcase(name, pattern)]
        dims = tuple(tuple(axis for axis in part.strip().split("+") if axis) for part in division.split(","))
        if not pattern or not equals:
            problems.append(f"--annotate {text[:60]!r}: expected TENSOR=AXES, such as mlp.up=,tensor")
            continue
        if not names:
            close = get_close_matches(pattern, known, 4, 0.4) or list(known)[:4]
            problems.append(
                f"--annotate {text[:60]!r}: no tensor has that name; the nearest are {', '.join(close)}"
            )
        if wrong := [axis for part in dims for axis in part if axis not in axes and (axis,) != OPEN]:
            problems.append(
                f"--annotate {text[:60]!r}: the mesh has no axis {wrong[0][:30]!r}; its axes are {', '.join(axes)}"
            )
        for name in names:
            if len(dims) != len(known[name].shape):
                shape = " x ".join(f"{size:,}" for size in known[name].shape)
                problems.append(
                    f"--annotate {text[:60]!r}: {len(dims)} dimensions, and {name} has {len(known[name].shape)} ({shape})"
                )
                break
            if name in given and given[name][1] != dims:
                problems.append(f"{name} is annotated twice: {given[name][0][:60]!r} and {text[:60]!r}")
                break
            given[name] = (text, dims)
    if problems:
        raise PodsimError(*problems[:4])
    return given


def check_divisions(graph: DimensionGraph, mesh: Mesh, given: dict[str, tuple[str, Division]]) -> None:
    """Raise PodsimError for an axis that divides a tensor twice, or that does not divide its dimension."""
    for tensor in graph.tensors:
        if tensor.name not in given:
            continue
        text, division = given[tensor.name]
        used = [axis for axes in division for axis in axes if axes != OPEN]
        if len(set(used)) < len(used):
            twice = next(axis for axis in used if used.count(axis) > 1)
            raise PodsimError(
                f"--annotate {text[:60]!r}: axis {twice} stands twice; it can divide one dimension of {tensor.name}"
            )
        for size, axes in zip(tensor.shape, division, strict=True):
            if axes != OPEN and axes and size % mesh.ranks(axes):
                raise PodsimError(
                    f"--annotate {text[:60]!r}: {'+'.join(axes)} has {mesh.ranks(axes)} GPUs and does not divide the "
                    f"{size:,} of {tensor.name}; take a divisor of {size:,}"
                )
