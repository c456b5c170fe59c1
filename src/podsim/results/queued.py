"""What `podsim queue` answers: how long jobs took under a policy, and policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.results.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class UserRow:
    """What one user had of a machine."""

    user: str
    jobs: int
    used: float
    """share of the GPU seconds of all users"""
    wait: float
    """s, mean over jobs"""
    slowdown: float
    """mean over jobs of completion time over length, lengths below 10 s counted as 10 s"""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueRun:
    """One policy: what became of the jobs."""

    policy: str
    says: str
    """the policy in a line"""
    jct_mean: float
    """s from submission to end, as the next two"""
    jct_p50: float
    jct_p99: float
    wait_mean: float
    """s in which a job held no GPUs, as the next two"""
    wait_p50: float
    wait_p99: float
    makespan: float
    """s from the first submission to the last end"""
    utilisation: float
    """share of the GPU seconds of the makespan that jobs held"""
    wasted: float
    """share of the GPU seconds that jobs held in which they only started, saved or loaded"""
    scattered: float
    """share of the GPU seconds of the makespan that were free and enough for the first in the queue, but too scattered"""
    preemptions: int
    """times a running job was stopped"""
    across: float
    """share of the GPU seconds that jobs held under more than one leaf switch"""
    fairness: float
    """Jain's index of the users' mean slowdowns: 1 equal, 1 / users if one bears it all"""
    late: int
    """times a reservation could not be kept because GPUs were too scattered (conservative backfill)"""
    relaid: int = 0
    """times a GPU was divided anew for a job (MIG)"""
    fragmented: float = 0.0
    """share of the GPU seconds of the makespan that were free and of no use to a job of the trace, in the mean (MIG)"""
    users: tuple[UserRow, ...]
    """those that used most first"""
    jct: NDArray[np.float64]
    """s, of every job, in order of submission"""
    timeline: Timeline | None = None
    """each run of each job"""


@dataclass(frozen=True, kw_only=True)
class QueueResult:
    """A trace on a machine, under one policy or several."""

    trace: str
    source: str
    """where the jobs come from"""
    machine: str
    gpus: int
    jobs: int
    users: int
    load: float
    """GPU seconds asked for, over those of the machine between first and last submission"""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """jobs of the trace that were not run, by reason"""
    too_large: tuple[str, ...] = ()
    """jobs that ask for more GPUs than there are, the first ones"""
    cut: int = 0
    """jobs that were ended at their limit"""
    rounded: int = 0
    """jobs that asked for a part of a GPU, and were given a whole one"""
    runs: tuple[QueueRun, ...]
    """in the order asked for"""


@dataclass(frozen=True, kw_only=True)
class PackRow:
    """One packer, mean over seeds."""

    packer: str
    says: str
    """the packer in a line"""
    allocated: float
    """share of all GPUs given out at the end"""
    spread: float
    """share: most less least over seeds"""
    fragmented: float
    """share of all GPUs that are free and of no use to a request of the trace, in the mean over them"""
    turned_away: float
    """share of the requests that found no room"""
    arrived_A: tuple[float, ...]
    """share of all GPUs asked for, at which the next is given"""
    allocated_A: tuple[float, ...]
    """share of all GPUs given out by then"""


@dataclass(frozen=True, kw_only=True)
class PackResult:
    """Requests for parts of GPUs, packed onto nodes."""

    trace: str
    nodes: int
    gpus: int
    requests: int
    """kinds of request in the trace"""
    load: float
    """GPUs asked for over GPUs there are"""
    seeds: int
    rows: tuple[PackRow, ...]
