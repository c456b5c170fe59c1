"""Time that overlapping spans cover together."""

from __future__ import annotations

import numpy as np

from podsim.axes import Floats


def covered_seconds(start: Floats, end: Floats) -> float:
    """Seconds in which at least one span runs."""
    if not len(start):
        return 0.0
    order = np.argsort(start, kind="stable")
    starts, ends = start[order], end[order]
    reached = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
    return float(np.maximum(ends - np.maximum(starts, reached), 0.0).sum())


def uncovered_seconds(start: Floats, end: Floats, other_start: Floats, other_end: Floats) -> float:
    """Seconds in which a span runs and none of the others: the union of both, minus the others."""
    both = covered_seconds(np.concatenate([start, other_start]), np.concatenate([end, other_end]))
    return max(0.0, both - covered_seconds(other_start, other_end))
