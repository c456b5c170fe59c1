"""Figures of a schedule: completion times, waits, utilisation, fragmentation, fairness, and its Timeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.quantiles import quantile
from podsim.answers.queued import QueueRun, UserRow
from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.axes import Floats
from podsim.fleet.queue import Schedule

_SHORT = 10.0
"""s. The smallest length in slowdowns (Feitelson and Rudolph 1998)."""


def make_run(schedule: Schedule, *, timeline: bool = True) -> QueueRun:
    """The figures of a schedule, with `timeline` also the spans of its jobs."""
    jobs, gpus, counted = schedule.jobs, schedule.machine.gpus, slice(schedule.jobs.warm, None)
    length = schedule.span_end - schedule.span_start
    held = length * schedule.span_size
    on_gpus = np.bincount(schedule.span_job, length, len(jobs))
    jct = (schedule.end - jobs.submit)[counted]
    wait = np.maximum(jct - on_gpus[counted], 0.0)
    makespan, total = float(schedule.end.max(initial=0.0)), float(held.sum())
    room = makespan * gpus
    far = schedule.span_reach == 2
    users, fairness = _users(
        schedule, jct, wait, np.bincount(schedule.span_job, held, len(jobs)).astype(np.float64)
    )
    return QueueRun(
        policy=schedule.policy.name, says=schedule.policy.says, jct_mean=_mean(jct), jct_p50=_quantile(jct, 0.5),
        jct_p99=_quantile(jct, 0.99), wait_mean=_mean(wait), wait_p50=_quantile(wait, 0.5),
        wait_p99=_quantile(wait, 0.99), makespan=makespan,
        utilisation=_utilisation(schedule, total), wasted=_share(min(schedule.spent, total), total),
        scattered=_share(schedule.scattered, room), preemptions=int(len(length) - len(jobs)) - schedule.failed,
        across=_share(float(held[far].sum()), total), fairness=fairness, late=schedule.late, users=users, jct=jct,
        failed=schedule.failed, undone=_share(schedule.undone, total), away=_share(schedule.away, room),
        relaid=schedule.relaid, fragmented=_share(schedule.lost, room),
        timeline=timeline_of(schedule) if timeline else None,
    )  # fmt: skip


def _utilisation(schedule: Schedule, total: float) -> float:
    """The share of the GPU-seconds that jobs held; until the last submission on a machine that begins with jobs."""
    if not schedule.jobs.warm:
        return _share(total, float(schedule.end.max(initial=0.0)) * schedule.machine.gpus)
    last = float(schedule.jobs.submit.max())
    held = np.minimum(schedule.span_end, last) - np.minimum(schedule.span_start, last)
    return _share(float((held * schedule.span_size).sum()), last * schedule.machine.gpus)


def _share(part: float, total: float) -> float:
    return part / total if total > 0 else 0.0


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantile(values: Floats, share: float) -> float:
    return quantile(values, share) if len(values) else 0.0


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
    user = jobs.user[jobs.warm :]
    count = np.bincount(user, minlength=n)
    slowdown = np.maximum(jct / np.maximum(jobs.seconds[jobs.warm :], _SHORT), 1.0)
    slow, waited = (np.bincount(user, values, n) / np.maximum(count, 1) for values in (slowdown, wait))
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
            "job": schedule.span_job, "gpus": _integers(schedule.span_size), "reach": schedule.span_reach,
        },
        counters=counters(schedule),
    )  # fmt: skip


def counters(schedule: Schedule) -> tuple[Counter, ...]:
    """The GPUs in use, the waiting jobs, and the GPUs that these request, over time."""
    jobs, size = schedule.jobs, _integers(schedule.size)
    held, asked = _integers(schedule.span_size), size[schedule.span_job]
    ones = np.ones(len(jobs), np.int64)
    runs = np.ones(len(held), np.int64)
    made = [("GPUs in use", *_steps((schedule.span_start, held), (schedule.span_end, -held)))]
    for name, mine, per_run in (("jobs waiting", ones, runs), ("GPUs waited for", size, asked)):
        made.append((
            name,
            *_steps(
                (jobs.submit, mine), (schedule.end, -mine), (schedule.span_start, -per_run), (schedule.span_end, per_run)
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
