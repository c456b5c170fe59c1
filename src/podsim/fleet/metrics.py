"""Figures of a schedule: completion times, waits, utilisation, fragmentation, fairness, and its Timeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.fleet.queue import Schedule
from podsim.fleet.queue_state import Floats
from podsim.results.queued import QueueRun, UserRow
from podsim.results.timeline import Counter, Lane, Timeline

_SHORT = 10.0
"""s. The smallest length in slowdowns (Feitelson and Rudolph 1998)."""


def make_run(schedule: Schedule, *, timeline: bool = True) -> QueueRun:
    """The figures of a schedule, with `timeline` also the spans of its jobs."""
    jobs, gpus = schedule.jobs, schedule.machine.gpus
    length = schedule.span_end - schedule.span_start
    held = length * schedule.size[schedule.span_job]
    on_gpus = np.bincount(schedule.span_job, length, len(jobs))
    jct = schedule.end - jobs.submit
    wait = np.maximum(jct - on_gpus, 0.0)
    makespan, total = float(schedule.end.max(initial=0.0)), float(held.sum())
    room = makespan * gpus
    far = schedule.span_reach == 2
    users, fairness = _users(
        schedule, jct, wait, np.bincount(schedule.span_job, held, len(jobs)).astype(np.float64)
    )
    return QueueRun(
        policy=schedule.policy.name, says=schedule.policy.says, jct_mean=_mean(jct), jct_p50=_percentile(jct, 50),
        jct_p99=_percentile(jct, 99), wait_mean=_mean(wait), wait_p50=_percentile(wait, 50),
        wait_p99=_percentile(wait, 99), makespan=makespan,
        utilisation=_share(total, room), wasted=_share(_wasted_gpu_seconds(schedule, total), total),
        scattered=_share(schedule.scattered, room), preemptions=int(len(length) - len(jobs)),
        across=_share(float(held[far].sum()), total), fairness=fairness, late=schedule.late, users=users, jct=jct,
        relaid=schedule.relaid, fragmented=_share(schedule.lost, room),
        timeline=timeline_of(schedule) if timeline else None,
    )  # fmt: skip


def _share(part: float, total: float) -> float:
    return part / total if total > 0 else 0.0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _wasted_gpu_seconds(schedule: Schedule, held: float) -> float:
    """The GPU-seconds held without useful work: those held minus those of work at the job's speed."""
    if schedule.span_gpu is not None:
        first = float((schedule.policy.start * schedule.size).sum())
        return min(first + schedule.spent, held)
    if not (schedule.policy.start or schedule.policy.restart or schedule.policy.checkpoint):
        return 0.0
    policy = schedule.policy
    again = policy.restart + policy.checkpoint
    first = schedule.span_start == schedule.start[schedule.span_job]
    lead = np.where(first, policy.start, again)
    spent = np.minimum(lead, schedule.span_end - schedule.span_start) * schedule.jobs.gpus[schedule.span_job]
    return min(float(spent.sum()), held)


def _integers(size: Floats) -> NDArray[Any]:
    """Sizes as integers, if all of them are integers."""
    return size.astype(np.int64) if (size % 1 == 0).all() else size


def jain(values: Floats) -> float:
    """Jain's fairness index: 1 for equal values, 1 / n if one value is the entire sum (Jain, Chiu and Hawe 1984)."""
    if not len(values) or not values.any():
        return 1.0
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def _users(schedule: Schedule, jct: Floats, wait: Floats, held: Floats) -> tuple[tuple[UserRow, ...], float]:
    jobs = schedule.jobs
    n, total = len(jobs.users), max(float(held.sum()), 1e-300)
    count = np.bincount(jobs.user, minlength=n)
    slowdown = np.maximum(jct / np.maximum(jobs.seconds, _SHORT), 1.0)
    slow, waited = (np.bincount(jobs.user, values, n) / np.maximum(count, 1) for values in (slowdown, wait))
    used = np.bincount(jobs.user, held, n) / total
    rows = tuple(
        UserRow(
            user=jobs.users[u], jobs=int(count[u]), used=float(used[u]), wait=float(waited[u]), slowdown=float(slow[u])
        )
        for u in np.argsort(-used, kind="stable")
    )  # fmt: skip
    return rows, jain(slow[count > 0])


def timeline_of(schedule: Schedule) -> Timeline:
    """Each run of each job as a span on its first node, with counters of GPUs in use and waiting jobs."""
    jobs, machine = schedule.jobs, schedule.machine
    nodes, node = np.unique(schedule.span_node, return_inverse=True)
    per = machine.nodes_per_leaf
    lanes = tuple(
        Lane(process=f"leaf {n // per}" if per else "machine", name=f"node {n}" if machine.nodes > 1 else "all GPUs")
        for n in nodes.tolist()
    )  # fmt: skip
    last = schedule.span_end >= schedule.end[schedule.span_job]
    return Timeline(
        lanes=lanes, names=tuple(user or "job" for user in jobs.users), kinds=("run", "run, then preempted"),
        lane=node.astype(np.int64), name=jobs.user[schedule.span_job], kind=np.where(last, 0, 1),
        start=schedule.span_start, end=schedule.span_end,
        arguments={
            "job": schedule.span_job, "gpus": _integers(schedule.size)[schedule.span_job], "reach": schedule.span_reach,
        },
        counters=counters(schedule),
    )  # fmt: skip


def counters(schedule: Schedule) -> tuple[Counter, ...]:
    """The GPUs in use, the waiting jobs, and the GPUs that these request, over time."""
    jobs, size = schedule.jobs, _integers(schedule.size)
    held = size[schedule.span_job]
    ones = np.ones(len(jobs), np.int64)
    runs = np.ones(len(held), np.int64)
    made = [("GPUs in use", *_steps((schedule.span_start, held), (schedule.span_end, -held)))]
    for name, asked, each in (("jobs waiting", ones, runs), ("GPUs waited for", size, held)):
        made.append((
            name,
            *_steps(
                (jobs.submit, asked), (schedule.end, -asked), (schedule.span_start, -each), (schedule.span_end, each)
            ),
        ))  # fmt: skip
    return tuple(
        Counter(name=name, process="queue", unit="1", time=time, value=value) for name, time, value in made
    )


def _steps(*changes: tuple[Floats, NDArray[Any]]) -> tuple[Floats, Floats]:
    """(times, value from each time on) of changes; changes at the same time are summed."""
    when = np.concatenate([time for time, _ in changes])
    by = np.concatenate([amount for _, amount in changes]).astype(np.float64)
    times, position = np.unique(when, return_inverse=True)
    return times, np.cumsum(np.bincount(position, by, len(times)))
