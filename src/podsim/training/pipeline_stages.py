"""Pipelines: which layers each stage holds, and which of them are computed again."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from podsim.axes import Shaped
from podsim.schedules.actions import chunk_sizes
from podsim.training.layout import Stages
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Placement, Recompute, has_any
from podsim.workload.model import Block, Model, TensorOp

STAGE_KEY = ("pp", "virtual_stages", "placement")
"""The plan fields that the layers of a stage depend on."""


def part_blocks(order: tuple[int, ...], width: int, parts: int) -> list[tuple[int, ...]]:
    """Blocks of each model part, as positions among `width` kinds: embedding (0) first, head (the last) last.

    `order` has the kind of each layer (Model.order); the kinds beyond these follow the last layer.
    """
    out, start = [], 0
    for size in chunk_sizes(len(order), parts):
        out.append(order[start : start + size])
        start += size
    out[0] = (0, *out[0])
    out[-1] = (*out[-1], *range(max(order) + 1, width))
    return out


def held_blocks(
    order: tuple[int, ...], width: int, pp: int, virtual: int, placement: int
) -> Shaped[Array, "rank block"]:
    """Copies of each block on each pipeline rank; of two parts held at once their mean."""
    parts = part_blocks(order, width, pp * virtual)
    held = np.zeros((pp, width))
    for part, blocks in enumerate(parts):
        back = placement == Placement.VEE and part >= pp
        rank = 2 * pp - 1 - part if back else part % pp
        held[rank] += np.bincount(np.array(blocks), minlength=width)
    return (held + held[::-1]) / 2 if placement == Placement.TWO_WAYS else held


@lru_cache(maxsize=4096)
def _stage_classes(
    order: tuple[int, ...], width: int, pp: int, virtual: int, placement: int
) -> dict[tuple[float, ...], list[int]]:
    """Stages of one pipeline by the copies of each block that they hold."""
    classes: dict[tuple[float, ...], list[int]] = {}
    for stage, row in enumerate(held_blocks(order, width, pp, virtual, placement).tolist()):
        classes.setdefault(tuple(row), []).append(stage)
    return classes


def stages_table(model: Model, plan: Plan) -> Stages:
    """Stage classes of plans that differ in STAGE_KEY."""
    order, width = model.order, len(model.kinds)
    pipelines = [_stage_classes(order, width, *sizes) for sizes in plan.rows(STAGE_KEY)]
    depth = max(len(classes) for classes in pipelines)
    blocks = np.zeros((depth, width, len(pipelines)))
    count, first, last = np.zeros((3, depth, len(pipelines)))
    for number, classes in enumerate(pipelines):
        blocks[: len(classes), :, number] = list(classes)
        count[: len(classes), number] = [len(stages) for stages in classes.values()]
        ends = [(stages[0], stages[-1]) for stages in classes.values()]
        first[: len(classes), number], last[: len(classes), number] = zip(*ends, strict=True)
    return Stages(blocks=blocks, count=count, first=first, last=last)


def of_mode(plan: Plan, values: Shaped[Array, "recompute ... plan"]) -> Shaped[Array, "... plan"]:
    """The values under each plan's way to recompute."""
    mode, (plain, selective, full) = np.asarray(plan.recompute), values
    again = np.where(mode == int(Recompute.FULL), full, selective)
    return np.asarray(np.where(mode == int(Recompute.NONE), plain, again))


def repeats_output(op: TensorOp) -> bool:
    """Whether selective recomputation of the scope "outputs" computes an op again (arXiv 2412.19437, section 3.2.3).

    It repeats norms, activation functions and the products that widen the latents of attention.
    """
    return op.kind in ("norm", "activation") or (op.kind == "gemm" and op.name.endswith(("q_up", "kv_up")))


def repeated_inputs(block: Block) -> frozenset[int]:
    """Identities of the ops of a block whose input such an op makes, so that nothing keeps it."""
    out, repeats = set[int](), False
    for op in block.ops:
        if repeats and op.kind != "elementwise":
            out.add(id(op))
        repeats = repeats_output(op) or (repeats and op.kind == "elementwise")
    return frozenset(out)


def recomputed_share(
    plan: Plan, blocks: Shaped[Array, "stage block plan"]
) -> Shaped[Array, "stage plan"] | None:
    """Share of a stage's layers that are computed again, 1 without any; None where no plan limits it."""
    limited = (np.asarray(plan.recompute) == int(Recompute.FULL)) & (np.asarray(plan.recompute_layers) > 0)
    if not has_any(limited):
        return None
    layers = blocks[:, 1:-1].sum(axis=1)
    return np.where(limited, np.minimum(plan.recompute_layers / np.maximum(layers, 1), 1.0), 1.0)
