"""Memory of each rank over a step: what it holds all the time, and what passes leave and free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from podsim.results.timeline import Counter
from podsim.simulation.events import Played
from podsim.simulation.lower import Lowered, ranks_text
from podsim.simulation.state import Floats
from podsim.training.memory import KINDS
from podsim.training.pipeline import held_blocks, part_blocks
from podsim.training.plan import Recompute
from podsim.training.schedules import Work
from podsim.training.step import combine

if TYPE_CHECKING:
    from podsim.training.plan import Plan

__all__ = ["memory_counters"]


def memory_counters(lowered: Lowered, played: Played, plan: Plan) -> tuple[float, list[Counter]]:
    """(B at the high water of the fullest rank, memory of each class over time).

    What does not change in a step is what the closed form says of the class's stage; activations come with each
    forward pass and go with its backward pass (with its gradient of the weights, where these are apart).
    """
    static_R = _static(lowered, plan)
    kept_P = _kept(lowered, plan)
    high, counters = 0.0, []
    sign = np.array([1.0, -1.0, 0.0, -1.0])
    for c in range(lowered.classes.count):
        rank = int(lowered.classes.first[c, 0])
        table = lowered.tables[int(lowered.row_of[c]) // lowered.table.ranks]
        actions = np.arange(table.pointer[rank], table.pointer[rank + 1])
        begin = played.start[lowered.base[c] + lowered.rows[int(lowered.row_of[c])].first]
        work, part = table.work[actions], table.stage_part[table.stage[actions]]
        # what a pass frees is free when those after it begin, and not while one runs beside it
        apart = np.flatnonzero(~table.beside[actions])
        following = np.searchsorted(apart, np.arange(len(actions)), side="right")
        after = np.append(begin[apart], played.seconds)[following]
        time = np.where(work == Work.FORWARD, begin, after)
        order = np.lexsort((work == Work.FORWARD, time))
        moved = np.where(
            begin < played.seconds, sign[work] * kept_P[part], 0.0
        )  # others never run: a failure
        value = static_R[rank] + np.cumsum(moved[order])
        high = max(high, float(value.max(initial=static_R[rank])))
        counters.append(
            Counter(
                name="memory", process=f"stage {rank}: {ranks_text(lowered.classes, plan, c)}", unit="B",
                time=time[order], value=value,
            )
        )  # fmt: skip
    return high, counters


def _static(lowered: Lowered, plan: Plan) -> Floats:
    """B of each pipeline rank without the activations of its micro-batches (but with the layer computed again)."""
    model = lowered.ready.model
    cost = combine(lowered.ready, slice(0, 1))
    counts_SB = lowered.ready.stages.table.counts_SBU[..., 0]
    held_RB = held_blocks(
        model.order, len(model.kinds), int(plan.pp), int(plan.virtual_stages), int(plan.placement)
    )
    stage_R = (held_RB[:, None] == counts_SB[None]).all(axis=-1).argmax(axis=1)
    kinds_MR = cost.stages_MSP[:, stage_R, 0]
    kept_RB = lowered.ready.activations.table.kept_RBK[..., 0]
    working = float(kept_RB[Recompute.NONE, 1:-1].max()) if int(plan.recompute) == Recompute.FULL else 0.0
    return np.asarray(kinds_MR.sum(axis=0) - kinds_MR[KINDS.index("activations")] + working)


def _kept(lowered: Lowered, plan: Plan) -> Floats:
    """B that one micro-batch's forward pass leaves, of each model part."""
    model = lowered.ready.model
    kept_RB = lowered.ready.activations.table.kept_RBK[..., 0]
    mode = int(plan.recompute)
    each = kept_RB[mode]
    if mode == Recompute.FULL and int(plan.recompute_layers):
        layers = -(-model.layer_count // int(plan.pp))
        share = min(int(plan.recompute_layers) / layers, 1.0)
        each = share * each + (1 - share) * kept_RB[Recompute.NONE]
    parts = part_blocks(model.order, len(model.kinds), lowered.table.parts)
    return np.array([float(each[list(part)].sum()) for part in parts])
