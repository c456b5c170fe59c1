"""A queue of jobs on MIG instances and on full GPUs, with each instance at a legal start.

The rules are those of podsim.fleet.queue_engine without preemption: first come or shortest first; jobs behind a blocked
one wait, start, or start unless they delay it. Instances stay when a job leaves. A change of a
GPU's layout may take time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import inf

import numpy as np

from podsim.axes import Floats
from podsim.errors import MigError, raise_all
from podsim.fleet.jobs import Jobs
from podsim.fleet.policies import Policy
from podsim.fleet.queue import Machine, Schedule
from podsim.fleet.slots import PACKERS, WHOLE, Floor, job_gpus, job_kinds, new_floor
from podsim.hardware.mig.layouts import Instance
from podsim.hardware.mig.profiles import Slicing, find_profile

ORDERS = ("first come", "shortest", "smallest")
"""The orders that depend on a job's own figures only."""
Places = list[tuple[int, Instance]]


def policy_problem(policy: Policy) -> str:
    """The reason why a policy cannot serve jobs on instances; "" if it can."""
    if policy.tiers or policy.mount:
        return "tiers and containers are for jobs on whole GPUs"
    if policy.preempt or policy.order not in ORDERS:
        return "instances cannot be preempted, and the order must be first come, shortest or smallest"
    if policy.backfill == "conservative":
        return "conservative backfill plans with numbers of GPUs, not with positions on them"
    return "it decides at every event; leave interval out" if policy.interval or policy.refresh else ""


@dataclass(kw_only=True)
class _Run:
    """The state of a queue."""

    jobs: Jobs
    policy: Policy
    profile: list[str]
    packer: str
    kinds: tuple[tuple[str, float], ...]
    relay: float
    floor: Floor
    size: Floats
    """The number of GPUs of each job."""
    key: Floats
    waiting: list[int] = field(default_factory=list)
    running: dict[int, tuple[float, Places]] = field(default_factory=dict)
    """The (due time, places) of each running job."""
    ends: list[tuple[float, int]] = field(default_factory=list)
    spans: list[tuple[int, float, float, int, int, int, int]] = field(default_factory=list)
    """The (job, start, end, node, distance class, GPU, first memory slice) of each span."""
    blocked: float = 0.0
    """The number of GPUs that are free and enough for the first job of the queue, but without a legal start."""
    relaid: int = 0
    spent: float = 0.0
    """The GPU-seconds of layout changes."""


def run_sliced(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    slicing: Slicing,
    *,
    packer: str = "best-fit",
    relay: float = 0.0,
) -> Schedule:
    """The schedule of jobs, some of them on instances (`Jobs.mig`), in the queue of a machine with MIG.

    `packer` is a key of podsim.fleet.slots.PACKERS; `relay` is the time in s that a job waits for a change of its GPU's
    layout (no measurement is published).  Raises PodsimError for an unsuitable policy, MigError for unknown profiles.
    """
    why = policy_problem(policy)
    problems = [f"policy {policy.name}: {why}"] if why else []
    if packer not in PACKERS:
        problems.append(f"packer={packer!r} may be {', '.join(PACKERS)}")
    if not 0 <= relay < inf:
        problems.append(f"repartition={relay:g} s; it must be finite and not negative")
    large = np.flatnonzero(jobs.gpus > machine.gpus)
    problems += [f"job {jobs.ids[j]}: {jobs.gpus[j]} GPUs; there are {machine.gpus}" for j in large[:5]]
    raise_all(problems)
    profile = profile_names(jobs, slicing)
    size = np.array([job_gpus(slicing, name, int(n)) for name, n in zip(profile, jobs.gpus, strict=True)])
    by = {"first come": np.zeros(len(jobs)), "shortest": jobs.guess, "smallest": jobs.guess * size}
    run = _Run(
        jobs=jobs, policy=policy, profile=profile, packer=packer, kinds=job_kinds(profile), relay=relay, size=size,
        key=by[policy.order],
        floor=new_floor(slicing, machine.nodes, machine.gpus_per_node, machine.nodes_per_leaf),
    )  # fmt: skip
    lost, scattered, decisions = _play(run)
    return _make_schedule(run, machine, lost, scattered, decisions)


def profile_names(jobs: Jobs, slicing: Slicing) -> list[str]:
    """The full profile name of each job, "" for full GPUs. Raises MigError for unknown profiles and several instances."""
    names: dict[str, str] = {WHOLE: WHOLE}
    problems: list[str] = []
    for name in sorted(set(jobs.mig) - {WHOLE}):
        try:
            names[name] = find_profile(slicing, name).name
        except MigError as error:
            problems += error.problems
    several = [j for j, name in enumerate(jobs.mig) if name and jobs.gpus[j] != 1]
    if several:
        examples = ", ".join(f"{jobs.ids[j]}: {jobs.gpus[j]} x {jobs.mig[j]}" for j in several[:5])
        problems.append(f"a job has one instance, as instances cannot talk to each other ({examples})")
    raise_all(problems, MigError)
    return [names[name] for name in jobs.mig] or [WHOLE] * len(jobs)


def _play(run: _Run) -> tuple[float, float, int]:
    """Play all events.

    (GPU-seconds that were free but useless in the mean, GPU-seconds that were free while the first job had no legal
    start, decisions).
    """
    jobs = run.jobs
    parents = {j: set(some) for j, some in jobs.after.items()}
    children: dict[int, list[int]] = {}
    for j, some in parents.items():
        for parent in some:
            children.setdefault(parent, []).append(j)
    submit, came, now, lost, scattered, decisions = jobs.submit.tolist(), 0, 0.0, 0.0, 0.0, 0
    while came < len(jobs) or run.ends:
        when = min(run.ends[0][0] if run.ends else inf, submit[came] if came < len(jobs) else inf)
        lost += run.floor.lost(run.kinds) * (when - now)
        scattered += run.blocked * (when - now)
        now, ready = when, []
        while run.ends and run.ends[0][0] <= now:
            j = heapq.heappop(run.ends)[1]
            for number, instance in run.running.pop(j)[1]:
                run.floor.give_back(number, instance)
            for child in children.get(j, ()):
                parents[child].discard(j)
                if not parents[child] and submit[child] <= now and child < came:
                    ready.append(child)
        while came < len(jobs) and submit[came] <= now:
            if not parents.get(came):
                ready.append(came)
            came += 1
        run.waiting += sorted(ready)
        if run.policy.order != "first come":
            run.waiting.sort(key=lambda j: (run.key[j], j))
        _start_jobs(run, now)
        decisions += 1
    return lost, scattered, decisions


def _start_jobs(run: _Run, now: float) -> None:
    """Start the jobs that may start."""
    failed: set[tuple[str, int]] = set()
    ahead: tuple[float, Floor] | None = None
    head, looked, started = -1, 0, set()
    for j in run.waiting:
        kind = (run.profile[j], int(run.jobs.gpus[j]))
        if head >= 0:
            looked += 1
            if run.policy.backfill == "strict" or 0 < run.policy.depth < looked:
                break
        if kind in failed:
            continue
        places = _find_places(run, run.floor, j)
        if places is None:
            failed.add(kind)
            if head < 0:
                head = j
                ahead = _when_free(run, j, now) if run.policy.backfill == "easy" else None
            continue
        if ahead is None or _is_harmless(run, j, places, head, ahead, now):
            _start_job(run, j, places, now)
            started.add(j)
    run.waiting = [j for j in run.waiting if j not in started]
    free = run.floor.free() if head >= 0 else 0.0
    run.blocked = free if head >= 0 and free >= run.size[head] - 1e-9 else 0.0


def _find_places(run: _Run, floor: Floor, j: int) -> Places | None:
    return floor.place(run.profile[j], int(run.jobs.gpus[j]), run.packer, run.kinds)


def _job_seconds(run: _Run, j: int, places: Places, is_relaid: bool) -> tuple[float, float]:
    """(s until the end of a starting job, s until the end that the scheduler must expect)."""
    lead = run.policy.start + (run.relay if is_relaid else 0.0)
    runs = float(run.jobs.seconds[j] / run.jobs.slow[j, run.floor.reach(places)])
    return lead + runs, lead + max(float(run.jobs.limit[j]), runs)


def _start_job(run: _Run, j: int, places: Places, now: float) -> None:
    is_relaid = [run.floor.take(number, instance) for number, instance in places]
    runs, expected = _job_seconds(run, j, places, any(is_relaid))
    run.relaid += sum(is_relaid)
    run.spent += run.relay * run.size[j] if any(is_relaid) else 0.0
    run.running[j] = (now + expected, places)
    heapq.heappush(run.ends, (now + runs, j))
    number, instance = places[0]
    run.spans.append(
        (j, now, now + runs, number // run.floor.per_node, run.floor.reach(places), number, instance.start)
    )


def _when_free(run: _Run, head: int, now: float) -> tuple[float, Floor]:
    """(latest start of the first job of the queue by time limits, the machine at that time)."""
    floor, when = run.floor.copy(), now
    going = sorted((max(due, now), j) for j, (due, _) in run.running.items())
    for position, (due, j) in enumerate(going):
        for number, instance in run.running[j][1]:
            floor.give_back(number, instance)
        when = due
        last = position + 1 == len(going) or going[position + 1][0] > due
        if last and _find_places(run, floor, head) is not None:
            break
    return when, floor


def _is_harmless(
    run: _Run, j: int, places: Places, head: int, ahead: tuple[float, Floor], now: float
) -> bool:
    """Whether a job may start before the first one: it ends in time, or leaves room for it."""
    when, floor = ahead
    if now + _job_seconds(run, j, places, run.relay > 0)[1] <= when:
        return True
    before = [(number, floor.gpus[number]) for number, _ in places]
    for number, instance in places:
        floor.take(number, instance)
    if _find_places(run, floor, head) is not None:
        return True
    for number, gpu in before:
        floor.change(number, gpu)
    return False


def _make_schedule(run: _Run, machine: Machine, lost: float, scattered: float, decisions: int) -> Schedule:
    assert len(run.spans) == len(run.jobs), (len(run.spans), len(run.jobs))
    table = np.array(run.spans, np.float64).reshape(-1, 7)
    integers = table[:, [0, 3, 4, 5, 6]].astype(np.int64)
    start, end = np.zeros(len(run.jobs)), np.zeros(len(run.jobs))
    start[integers[:, 0]], end[integers[:, 0]] = table[:, 1], table[:, 2]
    return Schedule(
        jobs=run.jobs, machine=machine, policy=run.policy, start=start, end=end, runs=np.ones(len(run.jobs), np.int64),
        span_job=integers[:, 0], span_start=table[:, 1].copy(), span_end=table[:, 2].copy(), span_node=integers[:, 1],
        span_reach=integers[:, 2], scattered=scattered, decisions=decisions, late=0, size=run.size,
        span_size=run.size[integers[:, 0]], span_gpu=integers[:, 3], span_slice=integers[:, 4], relaid=run.relaid,
        spent=run.spent + run.policy.start * float(run.size.sum()), lost=lost,
    )  # fmt: skip
