"""What a simulated training step says: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.results.failed import FailedStep
from podsim.results.timeline import Timeline


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkUse:
    """What one link (or a class of equal links) carried, when, and for whom."""

    name: str
    """"out of stage 0: 8 ranks from 0": a rank's adapter, one way"""
    copies: int
    """equal links it stands for"""
    capacity: float
    """B/s"""
    bytes: float
    """B over the step"""
    busy: float
    """s in which it carried something"""
    carried: Mapping[str, float]
    """B by kind of op: tp, pp, dp, …"""
    time: NDArray[np.float64]
    """s, the times at which its rate changes"""
    rate: NDArray[np.float64]
    """B/s from each of those times to the next"""
    rates: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """B/s by kind of op from each of those times, whose sum is `rate`; empty if only the bytes are known by kind"""


@dataclass(frozen=True, kw_only=True)
class CriticalOps:
    """Ops of one kind and name on the critical path: what the step would gain if they were faster."""

    name: str
    kind: str
    where: str
    """lanes on which they stand: "stage 0 compute" """
    count: int
    seconds: float
    """s of the critical path that they make up"""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedStep:
    """One training step, played out."""

    model: str
    cluster: str
    plan: Mapping[str, object]
    gpus: int
    step_time: float
    """s"""
    closed_form: float
    """s, what `podsim predict` says of the same step"""
    parts: Mapping[str, float]
    """s by part of the step, of the rank that is busy longest; their sum is step_time"""
    bubble: float
    """share of the time between first and last pass in which a pipeline rank waits, mean over ranks"""
    ranks: int
    """ranks (or classes of equal ranks) that were played"""
    ops: int
    """ops that were played"""
    represented: int
    """ops of all ranks that they stand for"""
    timeline: Timeline
    links: tuple[LinkUse, ...]
    critical: tuple[CriticalOps, ...]
    """what the critical path is made of, longest first"""
    memory: float
    """B, high water of the fullest rank"""
    memory_limit: float
    """B of a GPU"""
    warnings: tuple[str, ...] = ()
    failure: FailedStep | None = field(default=None, metadata={"asked": True})
    """what failed in the middle of it; step_time is then when all stands still, or the end by a detour"""
