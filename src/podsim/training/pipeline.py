"""Which layers a pipeline stage holds, and the stages that are alike.

Axes: S classes of equal stages, B blocks (embedding, kinds of layer, head), U pipelines (pp, virtual_stages, placement).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from podsim.schedules.chunks import chunk_sizes
from podsim.training.plan import Array, Placement, Plan
from podsim.training.unique import gathered
from podsim.workload.graph import Model

STAGE_KEY = ("pp", "virtual_stages", "placement")


@dataclass(frozen=True)
class Stages:
    """Classes of equal pipeline stages for U pipelines; classes beyond a pipeline's own have multiplicity 0."""

    counts_SBU: Array
    """copies of each block in a stage of the class; of DualPipe the mean of the two parts that a rank holds"""
    many_SU: Array
    """stages in the class"""
    first_SU: Array
    """position of its first stage (0 runs first)"""

    def take(self, index: Array) -> Stages:
        """The pipelines at an index."""
        return Stages(*(gathered(table, index) for table in (self.counts_SBU, self.many_SU, self.first_SU)))


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


def held_blocks(order: tuple[int, ...], width: int, pp: int, virtual: int, placement: int) -> Array:
    """Copies of each block on each pipeline rank, shape (pp, width); of two parts held at once their mean."""
    parts = part_blocks(order, width, pp * virtual)
    held = np.zeros((pp, width))
    for part, blocks in enumerate(parts):
        back = placement == Placement.VEE and part >= pp
        rank = 2 * pp - 1 - part if back else part % pp
        held[rank] += np.bincount(np.array(blocks), minlength=width)
    return (held + held[::-1]) / 2 if placement == Placement.TWO_WAYS else held


def _pipeline(
    order: tuple[int, ...], width: int, pp: int, virtual: int, placement: int
) -> tuple[list[tuple[float, ...]], list[int], list[int]]:
    """Classes of stages for one pipeline: (copies of each block, how many such stages, first position)."""
    held = held_blocks(order, width, pp, virtual, placement)
    classes: dict[tuple[float, ...], list[int]] = {}
    for stage, row in enumerate(held.tolist()):
        classes.setdefault(tuple(row), []).append(stage)
    return list(classes), [len(v) for v in classes.values()], [v[0] for v in classes.values()]


_cached_pipeline = lru_cache(maxsize=4096)(_pipeline)


def stages_table(model: Model, plan: Plan) -> Stages:
    """Stage classes of U plans that differ in STAGE_KEY."""
    order, width = model.order, len(model.kinds)
    found = [_cached_pipeline(order, width, *sizes) for sizes in plan.rows(STAGE_KEY)]
    depth = max(len(classes) for classes, _, _ in found)
    counts_SBU = np.zeros((depth, width, len(found)))
    many_SU = np.zeros((depth, len(found)))
    first_SU = np.zeros((depth, len(found)))
    for u, (classes, many, first) in enumerate(found):
        counts_SBU[: len(classes), :, u] = classes
        many_SU[: len(classes), u] = many
        first_SU[: len(classes), u] = first
    return Stages(counts_SBU, many_SU, first_SU)
