"""The parts of a simulated step, by the rule of podsim.training.step.exposed_parts.

The step is simulated again without some of its ops: what it loses is their part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from podsim.axes import Floats
from podsim.simulation.events import Played, play
from podsim.simulation.lower import Lowered
from podsim.training.plan import Plan
from podsim.training.step import SPLIT, exposed_parts

_PASSES = SPLIT.index("pp")
"""The parts of passes come before this one."""


def step_parts(lowered: Lowered, played: Played, plan: Plan) -> Mapping[str, float]:
    """Seconds of each part of a whole step (SPLIT), which add up to it."""
    local = _play_without(lowered, ("dp",))
    alone = _play_without(lowered, ("dp", "send", "pp"))
    work = _work_seconds(lowered)
    if np.any(plan.paired):  # what pairs exchange hides, or is bubble
        work[:, SPLIT.index("tp") : _PASSES] = 0.0
    busiest = work[:, :_PASSES].sum(axis=1).argmax()
    host = work[:, SPLIT.index("host")].max()
    passes_end = float(alone.end[lowered.micro >= 0].max(initial=0.0))
    optimizer = np.maximum(alone.seconds - passes_end - host, 0.0)
    steps = [np.asarray(some.seconds) for some in (played, local, alone)]
    parts = exposed_parts(steps, work[busiest, :_PASSES], optimizer, host)
    return dict(zip(SPLIT, parts.tolist(), strict=True))


def _play_without(lowered: Lowered, kinds: Collection[str]) -> Played:
    """The play of a step whose work of some kinds takes no time."""
    ops, columns = lowered.ops, [SPLIT.index(kind) for kind in kinds if kind in SPLIT]
    kept = 1.0 - _part_shares(lowered)[:, columns].sum(axis=1)
    kept[[piece.kind in kinds and piece.kind not in SPLIT for piece in lowered.pieces]] = 0.0
    share = kept[lowered.what]
    transfer = np.where(share > 0.0, ops.transfer, -1) if len(ops.transfer) else ops.transfer
    return play(replace(ops, seconds=ops.seconds * share, transfer=transfer))


def _work_seconds(lowered: Lowered) -> Floats:
    """Seconds of the work of each class without waits, shape (classes, parts)."""
    shares = _part_shares(lowered)
    ends = pairwise(lowered.base.tolist())
    return np.stack([
        np.bincount(lowered.what[low:high], lowered.ops.seconds[low:high], len(shares)) @ shares for low, high in ends
    ])  # fmt: skip


def _part_shares(lowered: Lowered) -> Floats:
    """The share of each part of the step in each piece, shape (pieces, parts)."""
    return np.stack([piece.parts / (piece.seconds or 1.0) for piece in lowered.pieces])
