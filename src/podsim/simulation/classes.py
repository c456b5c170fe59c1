"""Which ranks are alike: the coarsest division of all ranks that no group can tell apart.

Two ranks are of one class if they are as fast, and their groups (tensor, context, expert, data, pipeline) are made of
the same classes: then they do the same at the same time, and one of them is played for all. A slow GPU sets apart its
own rank, then whoever shares a group with it, and so on (an equitable partition, found by refinement: D. Corneil,
C. Gotlieb, An efficient algorithm for graph isomorphism, 1970).

Axes: R pipeline ranks, X data and context ranks, T tensor ranks, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from podsim.training.plan import Plan

__all__ = ["Classes", "divide", "rank_number"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """Ranks by class, and the classes of each class's groups."""

    label_RXT: Ints
    """class of each rank"""
    copies: Ints
    """[C] ranks of each class"""
    first: Ints
    """[C, 3] its first rank: pipeline, data and context, tensor position"""
    line_CR: Ints
    """class of its counterpart on each pipeline rank"""
    groups: dict[str, Ints]
    """"tp", "cp", "ep", "dp", "all", "ends" -> [C] number of the group that each class is in; classes with one
    number meet in it"""

    @property
    def count(self) -> int:
        """Classes."""
        return len(self.copies)


def rank_number(plan: Plan, pipeline: Any, data: Any, tensor: Any) -> Any:
    """Rank in the job: tensor parallelism innermost, pipeline outermost."""
    return (pipeline * int(plan.dp) * int(plan.cp) + data) * int(plan.tp) + tensor


def _axes(plan: Plan, label_RXT: Ints) -> dict[str, Ints]:
    """Classes of the members of each rank's groups, along the last axis: broadcast over the grid."""
    r, x, t = label_RXT.shape
    cp, ep = int(plan.cp), max(int(plan.ep), 1)

    def within(size: int) -> Ints:
        """Groups of `size` neighbours along the data axis, for each rank."""
        parts = label_RXT.reshape(r, x // size, size, t).transpose(0, 1, 3, 2)
        wide = np.broadcast_to(parts[:, :, None], (r, x // size, size, t, size))
        return np.asarray(wide.reshape(r, x, t, size))

    tensor = np.broadcast_to(label_RXT[:, :, None, :], (r, x, t, t))
    data = np.broadcast_to(label_RXT.transpose(0, 2, 1)[:, None], (r, x, t, x))
    line = np.broadcast_to(label_RXT.transpose(1, 2, 0)[None], (r, x, t, r))
    return {"tp": tensor, "cp": within(cp), "ep": within(ep), "dp": data, "line": line}


def _signature(members: Ints, ordered: bool, n: int) -> Ints:
    """A number for each rank that is equal where the members of its group are: their classes, counted."""
    rng = np.random.default_rng(len(members) + members.shape[-1])
    weight = rng.integers(1, 2**62, (members.shape[-1] if ordered else 1, n))
    place = np.arange(members.shape[-1]) if ordered else np.zeros(members.shape[-1], np.int64)
    with np.errstate(over="ignore"):
        return np.asarray(weight[place, members].sum(axis=-1))


def _refine(plan: Plan, label_RXT: Ints) -> Ints:
    """Classes told apart by the classes of their groups."""
    n = int(label_RXT.max()) + 1
    keys = [label_RXT]
    for name, members in _axes(plan, label_RXT).items():
        if members.shape[-1] > 1:
            keys.append(_signature(members, name == "line", n))
    return _numbered(np.stack([key.ravel() for key in keys]), label_RXT.shape)


def _numbered(rows: Ints, shape: tuple[int, ...]) -> Ints:
    """Equal columns as one number, counted in the order in which they come."""
    _, first, inverse = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()].reshape(shape))


def divide(plan: Plan, mark_RXT: NDArray[Any], *, unfold: bool = False) -> Classes:
    """Classes of all ranks; `mark_RXT` holds a number for what makes a rank special (0: nothing).

    With `unfold` every rank is a class of its own.
    """
    shape = mark_RXT.shape
    if unfold:
        label = np.arange(mark_RXT.size).reshape(shape)
    else:
        stage = np.broadcast_to(np.arange(shape[0])[:, None, None], shape)
        label = _numbered(np.stack([stage.ravel(), mark_RXT.ravel()]), shape)
        while True:
            finer = _refine(plan, label) if np.any(mark_RXT) else label
            if finer.max() == label.max():
                break
            label = finer
    count = int(label.max()) + 1
    _, first = np.unique(label, return_index=True)
    place = np.stack(np.unravel_index(first, shape), axis=1)
    return Classes(
        label_RXT=label, copies=np.bincount(label.ravel(), minlength=count), first=place,
        line_CR=label[:, place[:, 1], place[:, 2]].T, groups=_groups(plan, label, place),
    )  # fmt: skip


def _groups(plan: Plan, label_RXT: Ints, place: Ints) -> dict[str, Ints]:
    """Number of the group that each class is in: groups made of the same classes are one."""
    where = tuple(place.T)
    out = {}
    for name, members in _axes(plan, label_RXT).items():
        if name != "line":
            smallest = members.min(axis=-1)[where]
            out[name] = np.unique(smallest, return_inverse=True)[1]
    out["all"] = np.zeros(len(place), np.int64)
    ends = label_RXT[0, place[:, 1], place[:, 2]]
    out["ends"] = np.unique(ends, return_inverse=True)[1]
    return out
