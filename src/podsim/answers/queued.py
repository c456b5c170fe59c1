"""What `podsim queue` answers: how long jobs took under a policy, and policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.answers.answer import Answer, View
from podsim.answers.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class UserRow:
    """What one user had of a machine."""

    user: str
    jobs: int
    used: float
    """share. The share of the GPU-seconds of all users."""
    wait: float
    """s. The mean wait of the user's jobs."""
    slowdown: float
    """factor. The mean of completion time over length; lengths below 10 s count as 10 s."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueRun:
    """One policy: what became of the jobs."""

    policy: str
    says: str
    """The policy in one line."""
    jct_mean: float
    """s. The mean time from submission to end."""
    jct_p50: float
    """s. The median time from submission to end."""
    jct_p99: float
    """s. The 99th percentile of the time from submission to end."""
    wait_mean: float
    """s. The mean time in which a job held no GPUs."""
    wait_p50: float
    """s. The median time in which a job held no GPUs."""
    wait_p99: float
    """s. The 99th percentile of the time in which a job held no GPUs."""
    makespan: float
    """s. The time from the first submission to the last end."""
    utilisation: float
    """share. The share of the makespan's GPU-seconds that jobs held."""
    wasted: float
    """share. The share of the held GPU-seconds in which jobs only started, saved or loaded."""
    scattered: float
    """share. The share of the makespan's GPU-seconds that were free and enough for the first job in the queue, but too
    scattered."""
    preemptions: int
    """The number of times that a running job was stopped."""
    across: float
    """share. The share of the GPU-seconds that jobs held under more than one leaf switch."""
    fairness: float
    """factor. Jain's index of the users' mean slowdowns: 1 is equal; 1 / users if one bears it all."""
    late: int
    """The number of reservations that slipped because GPUs were too scattered (conservative backfill)."""
    failed: int = 0
    """The number of times that the failure of a node stopped a job."""
    undone: float = 0.0
    """share. The share of the held GPU-seconds whose work failures undid."""
    away: float = 0.0
    """share. The share of the makespan's GPU-seconds on nodes out of service."""
    relaid: int = 0
    """The number of times that a GPU was divided again for a job (MIG)."""
    fragmented: float = 0.0
    """share. The mean share of the makespan's GPU-seconds that were free and of no use to a job of the trace (MIG)."""
    users: tuple[UserRow, ...]
    """The users, from the largest usage on."""
    jct: NDArray[np.float64]
    """s. The completion time of each job, in order of submission."""
    timeline: Timeline | None = None
    """The runs of each job."""


@dataclass(frozen=True, kw_only=True)
class JobStart:
    """When a waiting job starts."""

    job: str
    gpus: int
    partition: str
    place: int
    """The place in the queue, from 1."""
    reason: str = ""
    """The reason of Slurm, if the job waits for something else than nodes."""
    start: float | None
    """s. The time until its start; None if that is unknown."""


@dataclass(frozen=True, kw_only=True)
class ContainerStart:
    """The seconds between the start of a job and its first step."""

    size: float
    """B. The size of the image."""
    store: str
    mount: float
    """s. The time on nodes that have the image: to unpack it without root, and to start it."""
    pull: float
    """s. The time to bring it to one node."""
    pull_each: float
    """s. The time that each node adds where the store sets the pace."""
    nodes: int
    storm: float
    """s. The time to bring it to all nodes of the machine at once."""


@dataclass(frozen=True, kw_only=True)
class QueueResult(
    Answer,
    view=View(
        report="report.queue_tables:queue_report",
        rows="report.queue_tables:plain_rows",
        figure="report.plot_queue:queue_figure",
        data="report.queue_tables:plain_result",
        chart="Use over time and completion times",
    ),
):
    """A trace on a machine, under one policy or several."""

    trace: str
    source: str
    """The origin of the jobs."""
    machine: str
    gpus: int
    jobs: int
    users: int
    warm: int = 0
    """The number of jobs in progress at the start, which no figure counts."""
    load: float
    """factor. The requested GPU-seconds over those of the machine between the first and the last submission."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of jobs of the trace that were not run, by reason."""
    too_large: tuple[str, ...] = ()
    """The first jobs that ask for more GPUs than there are."""
    cut: int = 0
    """The number of jobs that were ended at their limit."""
    rounded: int = 0
    """The number of jobs that asked for a part of a GPU and got a whole one."""
    runs: tuple[QueueRun, ...]
    """The runs in the requested order."""
    starts: tuple[JobStart, ...] = ()
    """The starts of waiting jobs, instead of runs."""
    container: ContainerStart | None = None
    warnings: tuple[str, ...] = ()
