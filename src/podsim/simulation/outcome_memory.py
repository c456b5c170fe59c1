"""Memory of each rank over a step: what it holds all the time, and what passes leave and free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from podsim.simulation.events import Played
from podsim.simulation.lower import Lowered, ranks_text
from podsim.timeline import Counter
from podsim.training.memory import KINDS
from podsim.training.pipeline import part_blocks
from podsim.training.plan import Recompute
from podsim.training.schedules import Work
from podsim.training.step import combine

if TYPE_CHECKING:
    from podsim.training.plan import Plan

__all__ = ["memory_counters"]


def memory_counters(lowered: Lowered, played: Played, plan: Plan) -> tuple[float, list[Counter]]:
    """(B at the high water of the fullest rank, memory of each class over time).

    What does not change in a step is what the closed form says of the class's stage; activations come with each
    forward pass and go with its backward pass (or its gradient of the input).
    """
    static_S, first_S = _static(lowered)
    kept_P = _kept(lowered, plan)
    table, high, counters = lowered.table, 0.0, []
    for c in range(lowered.classes.count):
        rank = int(lowered.classes.first[c, 0])
        actions = np.arange(table.pointer[rank], table.pointer[rank + 1])
        ops = lowered.base[c] + lowered.rows[rank].first
        work, part = table.work[actions], table.stage_part[table.stage[actions]]
        change = np.where(work == Work.FORWARD, kept_P[part], np.where(work == Work.WEIGHT, 0.0, -kept_P[part]))
        # a backward pass frees when the pass after it begins: its last op is not kept
        time = np.where(work == Work.FORWARD, played.start[ops], np.append(played.start[ops][1:], played.seconds))
        order = np.argsort(time, kind="stable")
        stage = int(np.flatnonzero(first_S <= rank)[-1])
        value = static_S[stage] + np.cumsum(change[order])
        high = max(high, float(value.max(initial=static_S[stage])))
        counters.append(
            Counter(
                name="memory", process=f"stage {rank}: {ranks_text(lowered.classes, plan, c)}", unit="B",
                time=time[order], value=value,
            )
        )  # fmt: skip
    return high, counters


def _static(lowered: Lowered) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """(B of each class of stages without activations, its first stage), in the order of stages."""
    cost = combine(lowered.ready, slice(0, 1))
    stages = lowered.ready.stages.table
    real = np.flatnonzero(stages.many_SU[:, 0] > 0)
    real = real[np.argsort(stages.first_SU[real, 0])]
    whole = cost.stages_MSP[:, real, 0].sum(axis=0) - cost.stages_MSP[KINDS.index("activations"), real, 0]
    return whole, stages.first_SU[real, 0].astype(np.int64)


def _kept(lowered: Lowered, plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
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
