"""Pipeline stages: which layers each holds, which of them are alike, and the seconds of a micro-batch through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from podsim.axes import Shaped
from podsim.schedules.chunks import chunk_sizes
from podsim.training.layers import PARTS, Pass, syncs_of
from podsim.training.plan import Array, Placement, Plan, Recompute
from podsim.workload.graph import Model

STAGE_KEY = ("pp", "virtual_stages", "placement")
"""the plan fields that the layers of a stage depend on"""
_EXCHANGES = slice(PARTS.index("tp"), None)


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Classes of equal pipeline stages; a class that a pipeline lacks has no stages."""

    blocks: Shaped[Array, "stage block plan"]
    """copies of each block in a stage of the class; of DualPipe the mean of the two parts that a rank holds"""
    count: Shaped[Array, "stage plan"]
    """stages in the class"""
    first: Shaped[Array, "stage plan"]
    """position of its first stage (0 runs first)"""


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
    count, first = np.zeros((2, depth, len(pipelines)))
    for number, classes in enumerate(pipelines):
        blocks[: len(classes), :, number] = list(classes)
        count[: len(classes), number] = [len(stages) for stages in classes.values()]
        first[: len(classes), number] = [stages[0] for stages in classes.values()]
    return Stages(blocks=blocks, count=count, first=first)


def recomputed_share(
    plan: Plan, blocks: Shaped[Array, "stage block plan"]
) -> Shaped[Array, "stage plan"] | None:
    """Share of a stage's layers that are computed again; None where no plan limits it."""
    limited = (np.asarray(plan.recompute) == Recompute.FULL) & (np.asarray(plan.recompute_layers) > 0)
    if not limited.any():
        return None
    layers = blocks[:, 1:-1].sum(axis=1)
    return np.where(limited, np.minimum(plan.recompute_layers / np.maximum(layers, 1), 1.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class PassExchanges:
    """Seconds of what passes exchange within a tensor-, context- or expert-parallel group."""

    seconds: Shaped[Array, "direction block plan"]
    """of a forward and of a backward pass through a block"""
    sync: Shaped[Array, "block plan"]
    """of one tensor-parallel sync of a backward pass"""
    syncs: Shaped[Array, "block plan"]
    """of all of them"""
    stretch: Shaped[Array, "plan"]
    """of the longest compute of a forward pass between two syncs"""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Seconds of one micro-batch through blocks and stages."""

    stage_parts: Shaped[Array, "part stage plan"]
    """forward and backward through a stage, without what pairs of passes may hide"""
    layers: Shaped[Array, "stage plan"]
    """layers of a stage (a number)"""
    forward: Shaped[Array, "block plan"]
    backward: Shaped[Array, "block plan"]
    """of the stage that recomputes least"""
    weight: Shaped[Array, "block plan"]
    """of the gradients of weights alone"""
    layer_forward: Shaped[Array, "plan"]
    """of the mean layer"""
    layer_backward: Shaped[Array, "plan"]
    layer_closing: Shaped[Array, "plan"]
    """of its last pass in a step: of the gradients of weights alone where those are apart"""
    exchanges: PassExchanges | None
    """what one pass of a pair may hide of the other; None where no schedule has pairs"""


def _stage_sum(
    blocks: Shaped[Array, "stage block plan"], seconds: Shaped[Array, "part block plan"]
) -> Shaped[Array, "part stage plan"]:
    """Seconds of a stage: the sum over its blocks."""
    total = blocks[None, :, 0] * seconds[:, None, 0]
    for block in range(1, blocks.shape[1]):
        total += blocks[None, :, block] * seconds[:, None, block]
    return total


def _backward(plan: Plan, layers: Shaped[Array, "pass part block plan"]) -> Shaped[Array, "part block plan"]:
    """Backward seconds of each block under the plan's recomputation, of all layers if of any."""
    mode = np.asarray(plan.recompute)
    again = np.where(mode == Recompute.SELECTIVE, layers[Pass.BACKWARD_SELECTIVE], layers[Pass.BACKWARD_FULL])
    return np.asarray(np.where(mode == Recompute.NONE, layers[Pass.BACKWARD], again))


def passes_of(
    model: Model,
    plan: Plan,
    stages: Stages,
    layers: Shaped[Array, "pass part block plan"],
    stretch: Shaped[Array, "plan"] | None,
) -> Passes:
    """Seconds of the passes of plans; `stretch` as in PassExchanges, None where no schedule has pairs of passes."""
    chosen = _backward(plan, layers)
    stage_backward = _stage_sum(stages.blocks, chosen)
    share = recomputed_share(plan, stages.blocks)
    if share is not None:
        plain = layers[Pass.BACKWARD]
        stage_backward = share * stage_backward + (1 - share) * _stage_sum(stages.blocks, plain)
        least = np.where(stages.count > 0, share, 1.0).min(axis=0)
        chosen = least * chosen + (1 - least) * plain
    stage_parts = _stage_sum(stages.blocks, layers[Pass.FORWARD]) + stage_backward
    if stretch is not None:
        stage_parts[_EXCHANGES] *= ~plan.paired
    forward, backward = layers[Pass.FORWARD].sum(axis=0), chosen.sum(axis=0)
    weight = layers[Pass.WEIGHT].sum(axis=0)
    closing = np.where(plan.loose_end, weight, backward) if plan.loose_end.any() else backward
    mean = np.array([block.count for block in model.kinds[1:-1]], dtype=float)
    mean /= mean.sum()
    return Passes(
        stage_parts=stage_parts,
        layers=stages.blocks[:, 1:-1].sum(axis=1),
        forward=forward,
        backward=backward,
        weight=weight,
        layer_forward=mean @ forward[1:-1],
        layer_backward=mean @ backward[1:-1],
        layer_closing=mean @ closing[1:-1],
        exchanges=None if stretch is None else _pass_exchanges(model, layers, chosen, stretch),
    )


def _pass_exchanges(
    model: Model,
    layers: Shaped[Array, "pass part block plan"],
    backward: Shaped[Array, "part block plan"],
    stretch: Shaped[Array, "plan"],
) -> PassExchanges:
    """What the passes of plans exchange; `stretch`: s of compute without a kernel's launch."""
    forward, syncs = layers[Pass.FORWARD], layers[Pass.BACKWARD, PARTS.index("tp")]
    number = np.maximum([syncs_of(model, block)[1] for block in model.kinds], 1)
    return PassExchanges(
        seconds=np.stack([forward[_EXCHANGES].sum(axis=0), backward[_EXCHANGES].sum(axis=0)]),
        sync=syncs / number[:, None],
        syncs=syncs,
        stretch=stretch + forward[PARTS.index("launch")].max(axis=0),
    )
