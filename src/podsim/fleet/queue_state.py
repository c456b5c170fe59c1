"""The inputs of a simulated queue (Work, Plant, Rules) and its State, as arrays for the kernels.

J jobs in order of submission, N nodes, U users.  Times are s, sizes are GPUs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, Shaped

Records: TypeAlias = Any
"""An array of records, whose fields are unknown to a type checker."""

HELD, WAITING, RUNNING, DONE = range(4)
"""The status of a job: not submitted or waiting for dependencies, in the queue, on GPUs, ended."""
(
    QUEUE, LINE, FRESH, ACTIVE, BUSY, TICKET, NEXT, SPANS, PIECE, FREE, ENDED, DIRTY, DECISIONS, STEPS, STARTED, LATE,
    OUTAGE, BELL, CLOSED, FAILED, RESERVED, SHORT, COUNTERS,
) = range(23)  # fmt: skip
"""The positions in State.number: waiting jobs, those in the line, those that joined since the last decision, running
jobs in the order of the queue, running jobs, releases, next submission, spans, first free piece, free GPUs, ended jobs,
whether something changed since the last decision, decisions, steps of the profile, jobs started by the last decision,
missed reservations, next outage, next start or end of a window, closed nodes, jobs stopped by failures, reservations,
whether GPUs of the profile were promised twice."""
CLOCK, LOOKED, PLANNED, CHARGED, USED, SPLIT, SCATTERED, REOPEN, AWAY, LOST, SPENT, TOUCHED, TIMES = range(13)
"""The positions in State.time: now, last decision, next planned decision, last charge of usage, usage of all users,
GPU-seconds that were free and enough for the first job but too scattered, GPUs in this state now, return of the next
closed node, node-seconds closed, GPU-seconds of work that failures lost, GPU-seconds held before first steps, first time
of a reservation that the decision looked at again."""
STRICT, SKIP, EASY, CONSERVATIVE = range(4)
"""The rule for jobs behind a blocked one: wait, start, start unless that one is delayed, start unless any is delayed."""
FIRST_FIT, BEST_FIT, SPREAD = range(3)


JOB = np.dtype([
    ("submit", np.float64),  # s
    ("seconds", np.float64),  # s at full speed
    ("guess", np.float64),  # s at full speed that the scheduler assumes
    ("limit", np.float64),  # s that the scheduler must expect
    ("gpus", np.int64),
    ("user", np.int64),
    ("rank", np.float64),  # 0 to 1, the site's rank (quality of service)
    ("parents", np.int64),  # jobs that must end first
    ("access", np.int64),  # the position of its row in Plant.allowed
    ("tier", np.int64),  # a higher one comes first, and may stop lower ones
])  # fmt: skip
"""The record of a job's input."""

STANDING = np.dtype([
    ("status", np.int64),
    ("waits_for", np.int64),  # number of jobs that must end first
    ("released", np.float64),  # s, time at which it could first start
    ("ticket", np.int64),  # number of releases before its own
    ("remaining", np.float64),  # s at full speed, at its last stop
    ("attained", np.float64),  # GPU-seconds held, up to its last stop
    ("begun", np.float64),  # s, time of its last start; of its stop while it waits
    ("extra", np.float64),  # s of its current run without useful work: start, restart
    ("speed", np.float64),
    ("end", np.float64),  # s, time of its end if nothing stops it
    ("due", np.float64),  # s, time of its end that the scheduler must expect
    ("level", np.int64),  # of attained service
    ("entered", np.float64),  # s, time of arrival at its level
    ("runs", np.int64),  # number of starts
    ("turn", np.int64),  # the last decision that gave or left it its GPUs
    ("span", np.int64),  # position of the span of its current run
    ("plan", np.float64),  # s, time of its reservation (conservative backfill)
    ("held_for", np.float64),  # s of its reservation
    ("piece", np.int64),  # its first piece of the machine, -1 for none
    ("kind", np.int64),  # the position of its size in State.size
    ("heap", np.int64),  # the position of its end in State.ends
    ("notch", np.int64),  # the position of its size in Work.pace
    ("wish", np.int64),  # the same for the size that goodput gives it
])  # fmt: skip
"""The record of a job's state."""

OUTAGE_RECORD = np.dtype([
    ("start", np.float64),  # s
    ("end", np.float64),  # s
    ("node", np.int64),
    ("fails", np.int64),  # whether jobs on it stop; else they end first
])  # fmt: skip
"""The record of a node's time out of service."""

WINDOW_RECORD = np.dtype(
    [("start", np.float64), ("end", np.float64), ("first", np.int64), ("last", np.int64)]
)
"""The record of a window of time, in s, that keeps a range of nodes for some jobs, or for none."""

NOTCHES, ASKED = 9, 4
"""The number of sizes of an elastic job, each twice the one before, and the position of the size that it asks for."""

ENTRY = np.dtype([("key", np.float64), ("job", np.int64)])
"""The record of a job in a sorted list or heap."""

NODE = np.dtype([
    ("key", np.float64),
    ("least", np.float64),  # s that the job runs at least
    ("lowest", np.float64),  # s, the least of these of the jobs at and below it
    ("left", np.int64),
    ("right", np.int64),
])  # fmt: skip
"""The record of a waiting job in the tree of its size."""


class Work(NamedTuple):
    """The jobs."""

    job: Records
    """Records of JOB, [J]."""
    shares: Floats
    """share. The share of the machine promised to each user, [U]."""
    child_ptr: Ints
    """The children of j are child[child_ptr[j] : child_ptr[j + 1]]."""
    child: Ints
    slow: Shaped[Floats, "job reach"]
    """share. The speed of a job on one node, on several, and under several leaves."""
    pace: Shaped[Floats, "job notch"]
    """factor. The speed of an elastic job at each size over that at the size that it asks for; 0 where it cannot run."""
    goodput: Shaped[Floats, "job notch"]
    """factor. The same for the speed with failures."""
    jobs: int
    """The number of jobs."""
    users: int
    """The number of users."""


class Plant(NamedTuple):
    """The machine: equal nodes on leaf switches."""

    size: int
    """The number of GPUs of a node."""
    leaf: Ints
    """The leaf switch of each node, [N]."""
    rule: int
    """The rule: FIRST_FIT, BEST_FIT or SPREAD."""
    nodes: int
    """The number of nodes."""
    leaves: int
    """The number of leaf switches."""
    changes: bool
    """Whether nodes differ or come and go, so that the next fields matter."""
    accesses: int
    """The number of kinds of access: jobs of one kind may use the same nodes."""
    allowed: NDArray[np.uint8]
    """Whether jobs of each kind of access may use each node, [accesses, N]."""
    window: Records
    """Records of WINDOW_RECORD."""
    windows: int
    opens: NDArray[np.uint8]
    """Whether each window lets jobs of each kind of access use its nodes, [windows, accesses]."""
    bell: Floats
    """s. The starts and ends of windows, in order."""
    bells: int
    outage: Records
    """Records of OUTAGE_RECORD, in order of their start."""
    outages: int
    horizon: float
    """s. The time until which outages are drawn."""


class Rules(NamedTuple):
    """A policy, in numbers."""

    total: float
    """The number of GPUs of the machine."""
    order: int
    """The position in podsim.fleet.orders.ORDERS."""
    still: bool
    """Whether a waiting job keeps its key."""
    preempt: bool
    backfill: int
    interval: float
    """s. The time between decisions; 0: a decision at every arrival and end."""
    refresh: float
    """s. The time after which waiting jobs are sorted again; 0: never."""
    depth: int
    """The number of jobs behind the first that backfill considers; 0: all."""
    checkpoint: float
    """s. The time that a preempted job needs on its GPUs to save, charged when it continues."""
    restart: float
    """s. The time that a preempted job needs on its GPUs to continue."""
    start: float
    """s. The time that a job needs on its GPUs before its first step."""
    moves: bool
    """Whether running jobs may move at every decision, at no cost."""
    levels: Floats
    """The GPU-seconds of attained service at which a job falls by a level."""
    bounds: int
    """The number of levels."""
    age: float
    """The weight of age in the order multifactor, as the next fields."""
    max_age: float
    """s. The waiting time beyond which age no longer counts."""
    fair: float
    """The weight of fair share."""
    half_life: float
    """s. The time in which past usage halves."""
    big: float
    """The weight of the size of a job."""
    site: float
    """The weight of a job's rank."""
    tiers: bool
    """Whether jobs of higher tiers stop those of lower ones; this and the rest as in Policy."""
    saves: float
    elastic: bool
    lease: float
    mount: float
    pull: float
    pull_each: float


class State(NamedTuple):
    """The state of a queue."""

    number: Ints
    time: Floats
    job: Records
    """Records of STANDING, [J]."""
    line: Records
    """Records of ENTRY: the waiting jobs in order, where they are not in trees, [J]."""
    spare: Records
    """The buffer for sorting, records of ENTRY, [J + GPUs]."""
    fresh: Ints
    """The jobs that joined the queue since the last decision, [J]."""
    node: Records
    """Records of NODE: the waiting jobs in trees, one tree for each size, [J]."""
    size: Ints
    """The sizes of jobs, [sizes]; the next three have the same shape."""
    root: Ints
    """The root of each tree, -1 for none."""
    ahead: Ints
    """The next job of each tree in the decision, -1 for none."""
    narrow: NDArray[np.uint8]
    """Whether the decision passed by jobs of the tree that run too long."""
    latest: Floats
    """s. The time by which those must end, where the jobs are in the line."""
    kind_access: Ints
    """The access of the jobs of each tree."""
    kinds: int
    """The number of sizes."""
    active: Records
    """Records of ENTRY: the running jobs in the order of the queue, if the policy preempts, [2 GPUs]."""
    busy: Records
    """Records of ENTRY: the running jobs by due time, [GPUs]."""
    ends: Records
    """Records of ENTRY: the running jobs as a heap by the time of their end, [GPUs]."""
    free: Ints
    """The free GPUs of each node, [N]."""
    trial: Ints
    """The free GPUs of each node in a trial for each kind of access, [accesses, N]."""
    picked: Ints
    """The nodes chosen for a job, [N + 1]."""
    taken: Ints
    """The GPUs on each of them, [N + 1]."""
    leaf_idle: Ints
    """The idle nodes of each leaf, for placement."""
    piece_node: Ints
    """The nodes of pieces; pieces form chains of (node, GPUs, next), [2 GPUs + 1]."""
    piece_gpus: Ints
    piece_next: Ints
    usage: Floats
    """The decayed GPU-seconds of each user, [U]."""
    rate: Floats
    """The number of GPUs that each user holds, [U]."""
    step_time: Floats
    """The times of the profile of future free GPUs (conservative backfill)."""
    step_free: Ints
    span_job: Ints
    span_start: Floats
    span_end: Floats
    span_node: Ints
    """The first node of each span."""
    span_reach: Ints
    """The distance class of each span: 0 on one node, 1 under one leaf, 2 under several."""
    span_gpus: Ints
    until: Floats
    """s. The time at which a closed node comes back; 0 for an open one, [N]."""
    warm: NDArray[np.uint8]
    """Whether a node has the image of the containers, [N]."""
    open: Ints
    """The free GPUs of the nodes that a job may use, [N]."""
    small: Ints
    """The least size on one node that found no room in the decision, [accesses]; the next three have the same shape."""
    large: Ints
    """The same for jobs on several nodes."""
    head: Ints
    """The first blocked job, -1 for none."""
    when: Floats
    """s. Its latest start."""
    room: int
    """The number of spans for which the arrays have room."""


def _floats(n: int) -> Floats:
    return np.zeros(n)


def _ints(n: int) -> Ints:
    return np.zeros(n, np.int64)


def _entries(n: int) -> Records:
    return np.zeros(n, ENTRY)


def new_state(work: Work, plant: Plant, rules: Rules) -> State:
    """The state of a queue before the first submission."""
    gpus = plant.nodes * plant.size
    links = np.arange(1, 2 * gpus + 2)
    links[-1] = -1
    number, time = _ints(COUNTERS), _floats(TIMES)
    number[FREE], number[STEPS], time[PLANNED] = gpus, 1, np.inf
    has_trees = rules.still and rules.backfill != CONSERVATIVE
    size, access, kind = _sizes(work, plant)
    job = np.zeros(work.jobs, STANDING)
    job["remaining"], job["waits_for"], job["kind"] = work.job["seconds"], work.job["parents"], kind
    job["speed"], job["plan"], job["piece"], job["notch"] = 1.0, np.inf, -1, ASKED
    time[REOPEN] = np.inf
    room = work.jobs + 2 * gpus + 64
    ahead = 6 * work.jobs + 2 * gpus + 64 if rules.backfill == CONSERVATIVE else 1
    return State(
        number=number, time=time, job=job, line=_entries(0 if has_trees else work.jobs),
        spare=_entries(work.jobs + (2 * NOTCHES if rules.elastic else 2) * gpus), fresh=_ints(work.jobs),
        node=np.zeros(work.jobs if has_trees else 0, NODE), size=size, root=np.full(len(size), -1),
        ahead=_ints(len(size)), narrow=np.zeros(len(size), np.uint8), latest=_floats(len(size)), kind_access=access,
        kinds=len(size),
        active=_entries(2 * gpus if rules.preempt else 0), busy=_entries(2 * gpus + 1), ends=_entries(2 * gpus + 1),
        free=np.full(plant.nodes, plant.size), trial=_ints(plant.accesses * plant.nodes), picked=_ints(plant.nodes + 1),
        taken=_ints(plant.nodes + 1), leaf_idle=_ints(plant.leaves), piece_node=_ints(len(links)),
        piece_gpus=_ints(len(links)), piece_next=links, usage=_floats(work.users), rate=_floats(work.users),
        step_time=_floats(ahead), step_free=np.full(ahead, gpus), span_job=_ints(room), span_start=_floats(room),
        span_end=_floats(room), span_node=_ints(room), span_reach=_ints(room), span_gpus=_ints(room),
        until=_floats(plant.nodes), warm=np.zeros(plant.nodes, np.uint8), open=_ints(plant.nodes),
        small=_ints(plant.accesses), large=_ints(plant.accesses), head=_ints(plant.accesses),
        when=_floats(plant.accesses), room=room,
    )  # fmt: skip


def _sizes(work: Work, plant: Plant) -> tuple[Ints, Ints, Ints]:
    """(the size of the jobs of each kind, their access, the kind of each job)."""
    code = work.job["gpus"] * plant.accesses + work.job["access"]
    known = np.flatnonzero(np.bincount(code)).astype(np.int64) if plant.accesses == 1 else np.unique(code)
    return known // plant.accesses, known % plant.accesses, np.searchsorted(known, code)


def grow_spans(state: State) -> State:
    """The state with room for twice as many spans."""
    names = ("span_job", "span_start", "span_end", "span_node", "span_reach", "span_gpus")
    arrays: dict[str, Any] = {
        name: np.concatenate([(old := getattr(state, name)), np.zeros_like(old)]) for name in names
    }
    return state._replace(**arrays)._replace(room=2 * state.room)
