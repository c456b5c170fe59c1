"""The parts of a simulated step, by the rule of podsim.training.step_parts.exposed_parts.

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
from podsim.training.step import PASS_EXCHANGES, SPLIT
from podsim.training.step_parts import exposed_parts

_DATA, _SENDS = ("dp",), ("send", "pp")
_GROUPS = ("tp", "tp beside", "cp", "ep")


def step_parts(lowered: Lowered, played: Played, plan: Plan) -> Mapping[str, float]:
    """Seconds of each part of a whole step (SPLIT), which add up to it."""
    local = _play_without(lowered, _DATA).seconds
    alone = _play_without(lowered, (*_DATA, *_SENDS))
    steps = [played.seconds, local, alone.seconds]
    work, own = _work_seconds(lowered), PASS_EXCHANGES.stop
    if np.any(plan.paired):
        own = PASS_EXCHANGES.start
        steps.append(_play_without(lowered, (*_DATA, *_SENDS, *_GROUPS)).seconds)
    passes = work[work[:, :own].sum(axis=1).argmax(), : PASS_EXCHANGES.stop]
    host = work[:, SPLIT.index("host")].max()
    optimizer = np.maximum(alone.seconds - _end_of_passes(lowered, alone) - host, 0.0)
    parts = exposed_parts([np.asarray(seconds) for seconds in steps], passes, optimizer, host)
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


def _end_of_passes(lowered: Lowered, played: Played) -> float:
    """s. The time when all passes have ended."""
    return float(played.end[lowered.micro >= 0].max(initial=0.0))
