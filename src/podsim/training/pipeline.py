"""Which layers a pipeline stage holds, and the stages that are alike.

Axes: S classes of equal stages, B blocks (embedding, kinds of layer, head), U (pp, virtual_stages) pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from podsim.training.plan import Array, Plan, Schedule

if TYPE_CHECKING:
    from podsim.workload.graph import Model

__all__ = ["STAGE_KEY", "Stages", "chunk_sizes", "part_blocks", "placed", "stages_table"]

STAGE_KEY = ("pp", "virtual_stages", "schedule")
_VEE = (Schedule.ZB_V, Schedule.DUALPIPE_V)
"""schedules that place parts down the ranks and up again"""


@dataclass(frozen=True)
class Stages:
    """Classes of equal pipeline stages for U pipelines; classes beyond a pipeline's own have multiplicity 0."""

    counts_SBU: Array
    """copies of each block in a stage of the class"""
    many_SU: Array
    """stages in the class"""
    first_SU: Array
    """position of its first stage (0 runs first)"""

    def take(self, index: Array) -> Stages:
        """The pipelines at an index."""
        return Stages(self.counts_SBU[..., index], self.many_SU[..., index], self.first_SU[..., index])


def chunk_sizes(layers: int, chunks: int) -> list[int]:
    """Layers of each model chunk: equal, or the extra ones in the middle.

    The first chunk also holds the embedding and the last the head, so these two are the last to get an extra layer.
    """
    base, extra = divmod(layers, chunks)
    order = [*range(1, chunks - 1), 0, chunks - 1]
    larger = set(order[:extra])
    return [base + (chunk in larger) for chunk in range(chunks)]


def part_blocks(order: tuple[int, ...], width: int, parts: int) -> list[tuple[int, ...]]:
    """Blocks of each model part, as positions among `width` kinds: embedding (0) first, head (the last) last.

    `order` has the kind of each layer (Model.order).
    """
    out, start = [], 0
    for size in chunk_sizes(len(order), parts):
        out.append(order[start : start + size])
        start += size
    out[0] = (0, *out[0])
    out[-1] = (*out[-1], width - 1)
    return out


def _pipeline(
    order: tuple[int, ...], width: int, pp: int, virtual: int, vee: bool
) -> tuple[list[tuple[int, ...]], list[int], list[int]]:
    """Classes of stages for one pipeline: (copies of each block, how many such stages, first position)."""
    held = np.zeros((pp, width), dtype=int)
    for part, blocks in enumerate(part_blocks(order, width, pp * virtual)):
        turn, place = divmod(part, pp)
        home = pp - 1 - place if vee and turn % 2 else place
        np.add.at(held[home], list(blocks), 1)
    classes: dict[tuple[int, ...], list[int]] = {}
    for stage, row in enumerate(held.tolist()):
        classes.setdefault(tuple(row), []).append(stage)
    return list(classes), [len(v) for v in classes.values()], [v[0] for v in classes.values()]


_cached_pipeline = lru_cache(maxsize=4096)(_pipeline)


def placed(plan: Plan) -> Plan:
    """The plan with its schedule replaced by one that places model parts alike: down the ranks, or down and up again."""
    schedule = np.asarray(plan.schedule)
    vee = (schedule == _VEE[0]) | (schedule == _VEE[1])
    return plan.having({"schedule": np.where(vee, Schedule.ZB_V, Schedule.ONE_F_ONE_B)})


def stages_table(model: Model, plan: Plan) -> Stages:
    """Stage classes of U plans that differ in STAGE_KEY; schedules with the same placement of parts are alike."""
    order, width = model.order, len(model.kinds)
    columns = np.broadcast_arrays(*(np.atleast_1d(c) for c in (plan.pp, plan.virtual_stages, plan.schedule)))
    keys = zip(*(column.tolist() for column in columns), strict=True)
    found = [_cached_pipeline(order, width, pp, virtual, schedule in _VEE) for pp, virtual, schedule in keys]
    depth = max(len(classes) for classes, _, _ in found)
    counts_SBU = np.zeros((depth, width, len(found)))
    many_SU = np.zeros((depth, len(found)))
    first_SU = np.zeros((depth, len(found)))
    for u, (classes, many, first) in enumerate(found):
        counts_SBU[: len(classes), :, u] = classes
        many_SU[: len(classes), u] = many
        first_SU[: len(classes), u] = first
    return Stages(counts_SBU, many_SU, first_SU)
