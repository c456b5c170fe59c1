"""What a simulated training step says: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podsim.answers.answer import Answer, View
from podsim.answers.failed import FailedStep
from podsim.answers.telemetry import Telemetry
from podsim.answers.timeline import Timeline


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkUse:
    """What one link (or a class of equal links) carried, when, and for whom."""

    name: str
    """The name of a rank's adapter in one direction: "out of stage 0: 8 ranks from 0"."""
    copies: int
    """The number of equal links that it stands for."""
    capacity: float
    """B/s. The capacity."""
    bytes: float
    """B. The bytes over the step."""
    busy: float
    """s. The time in which it carried something."""
    carried: Mapping[str, float]
    """B. The bytes by kind of op: tp, pp, dp, …"""
    time: NDArray[np.float64]
    """s. The times at which its rate changes."""
    rate: NDArray[np.float64]
    """B/s. The rate from each of those times to the next."""
    rates: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """B/s. The rates by kind of op from each of those times, with the sum `rate`; empty if only the bytes are known by
    kind."""


@dataclass(frozen=True, kw_only=True)
class CriticalOps:
    """Ops of one kind and name on the critical path: what the step would gain if they were faster."""

    name: str
    kind: str
    where: str
    """The lanes of the ops: "stage 0 compute"."""
    count: int
    seconds: float
    """s. The time of the critical path in these ops."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedStep(
    Answer,
    view=View(
        report="report.simulation:simulated_report",
        rows=lambda step: (step.failure and step.failure.standing) or step.critical,
        data="report.simulation:simulated_data",
        charts="timeline.link_plots:step_charts",
    ),
):
    """One simulated training step."""

    model: str
    cluster: str
    plan: Mapping[str, object]
    gpus: int
    """The number of GPUs of the job."""
    step_time: float
    """s. The time of one optimizer step."""
    closed_form: float
    """s. The time of the same step by `podsim predict`."""
    parts: Mapping[str, float]
    """s. The time by part of the step, as `podsim predict` divides it; the sum is step_time. Empty if it never ends."""
    bubble: float
    """share. The share of the bubble in the time between first and last pass; 0 for a step that never ends."""
    ranks: int
    """The number of ranks, or of classes of equal ranks, that were played."""
    ops: int
    """The number of ops that were played."""
    represented: int
    """The number of ops of all ranks that they stand for."""
    make_timeline: Callable[[], Timeline]
    """The maker of the timeline, which has tens of millions of spans for an unfolded step."""
    make_telemetry: Callable[[], Telemetry] | None = None
    """The maker of the record of all ports; None for a step that failed."""
    links: tuple[LinkUse, ...]
    critical: tuple[CriticalOps, ...]
    """The ops of the critical path, longest first."""
    memory: float
    """B. The peak memory of the fullest rank."""
    memory_limit: float
    """B. The memory of a GPU."""
    warnings: tuple[str, ...] = ()
    failure: FailedStep | None = field(default=None, metadata={"asked": True})
    """The failure in the step; step_time is then the time when all ranks stand still, or the end after a detour."""

    @cached_property
    def timeline(self) -> Timeline:
        """The spans of every op and wait, made when they are first asked for."""
        return self.make_timeline()
