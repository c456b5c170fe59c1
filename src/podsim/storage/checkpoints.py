"""The content of a plan's checkpoint, rank by rank: weights and the optimizer's state, in B.

Bytes per parameter are those of `training.memory`: weights in the plan's precision, fp32 master weights (for shorter
weights) and Adam's two moments. A checkpoint has no gradients and no activations.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.hardware.parts import PRECISIONS
from podsim.records import dataclass
from podsim.training.memory import weight_table
from podsim.training.pipeline_stages import stages_table
from podsim.training.plan import Plan
from podsim.training.shapes import element_bytes
from podsim.workload.model import Model

WRITERS = ("all", "replica")
"""who writes what several data-parallel ranks hold: all divide it, or the first replica writes it alone"""


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """Bytes of training state, rank by rank."""

    written: Floats
    """B. The bytes that each rank writes, [rank]: together every parameter once (norms once for each tensor-parallel
    rank). Tensor-parallel ranks count first, then data and context ranks, then stages."""
    held: Floats
    """B. The bytes that each rank needs to continue, [rank]: what it reads at a restart."""

    @property
    def size(self) -> float:
        """B of the checkpoint."""
        return float(self.written.sum())


def state_of(model: Model, plan: Plan, *, writers: str = "all") -> State:
    """The content of a checkpoint of a scalar plan.

    With writers="all" the data-parallel ranks divide what they hold in common (Megatron-Core's fully parallel save,
    PyTorch's distributed checkpoints); with "replica" the first of them writes it, as frameworks did until 2022. What
    ZeRO has divided is written by the ranks of the first shard group.
    """
    if writers not in WRITERS:
        raise PodsimError(f"writers={writers[:40]!r} may be {', '.join(WRITERS)}")
    arrays = plan.arrays()
    weights, stages = weight_table(model, arrays), stages_table(model, arrays)
    stage_class = np.repeat(np.arange(stages.count.shape[0]), stages.count[:, 0].astype(int))
    counts = stages.blocks[stage_class, :, 0]  # [stage, block]
    dense, expert = counts @ weights.dense[:, 0], counts @ weights.expert[:, 0]
    stored = element_bytes(plan.precision)
    kinds = (
        (stored, 3),
        ((4.0 if stored < 4 else 0.0) + 2 * PRECISIONS[plan.optimizer_precision].bytes, 1),
    )
    ranks, shard = int(plan.dp * plan.cp), int(plan.shard_ranks)
    groups = int(plan.ep) * float(plan.expert_gather)
    written, held = np.zeros((2, len(stage_class), ranks))
    position = np.arange(ranks)
    for each, level in kinds:
        split = shard if plan.zero >= level else 1
        for parameters, copies, parts in (
            (dense, 1, split),
            (expert, groups, int(plan.expert_copies(split))),
        ):
            held += (parameters * each / parts)[:, None]
            share = np.full(ranks, copies / ranks)
            if writers == "replica":
                share = (position < max(copies, 1) * parts) / parts * min(copies, 1)
            written += (parameters * each)[:, None] * share
    tp = int(plan.tp)
    return State(written=np.repeat(written.ravel(), tp), held=np.repeat(held.ravel(), tp))
