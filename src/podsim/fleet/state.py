"""What a simulated queue is given (Work, Plant, Rules), and where it stands (State): arrays for the kernels.

J jobs in order of submission, N nodes, U users.  Times are s, sizes are GPUs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Records: TypeAlias = Any
"""an array of records, whose fields a type checker does not know"""

HELD, WAITING, RUNNING, DONE = range(4)
"""status of a job: not submitted or its dependencies run, in the queue, on GPUs, ended"""
(QUEUE, BUSY, NEXT, SPANS, PIECE, FREE, ENDED, DIRTY, DECISIONS, STEPS, STARTED, LATE, COUNTERS) = range(13)
"""places in State.number: jobs in the queue, running, next to be submitted, spans written, head of the free pieces,
free GPUs, jobs ended, whether something changed since the last decision, decisions, steps of the profile, jobs that
the last decision started, jobs whose reservation passed by"""
CLOCK, LOOKED, PLANNED, CHARGED, USED, SPLIT, SCATTERED, TIMES = range(8)
"""places in State.time: now, last decision, the next that is foreseen, last time usage was charged, usage of all
users, GPU seconds free while the first of the queue asks for no more but they are too scattered, GPUs that are so now"""
STRICT, SKIP, EASY, CONSERVATIVE = range(4)
"""what those behind a job that does not fit may do: wait, start, start if it is not delayed (none is: conservative)"""
FIRST_FIT, BEST_FIT, SPREAD = range(3)


JOB = np.dtype([
    ("submit", np.float64),  # s, as what follows
    ("seconds", np.float64),  # at full speed
    ("guess", np.float64),  # at full speed, as the scheduler believes
    ("limit", np.float64),  # that the scheduler must expect it to run
    ("gpus", np.int64),
    ("user", np.int64),
    ("rank", np.float64),  # 0 to 1, what the site gives a job of its own (quality of service)
    ("parents", np.int64),  # jobs that must end first
])  # fmt: skip
"""what is known of a job"""

STANDING = np.dtype([
    ("status", np.int64),
    ("waits_for", np.int64),  # jobs that must end before it is released
    ("released", np.float64),  # s, when it could first start
    ("remaining", np.float64),  # s at full speed, when it last stopped
    ("attained", np.float64),  # GPU seconds held until it last stopped
    ("begun", np.float64),  # s, when it last started; of one that waits: when it was stopped
    ("extra", np.float64),  # s of its present run in which it does nothing useful: start, restart
    ("speed", np.float64),
    ("end", np.float64),  # s, when it ends if nothing stops it
    ("due", np.float64),  # s, when the scheduler must expect it to end
    ("level", np.int64),  # of attained service
    ("entered", np.float64),  # s, when it came to its level
    ("runs", np.int64),  # times it was started
    ("key", np.float64),
    ("turn", np.int64),  # the last decision that gave it its GPUs, or let it keep them
    ("span", np.int64),  # where the span of its present run is
    ("plan", np.float64),  # s, its reservation (conservative backfill)
    ("held_for", np.float64),  # s that are reserved
    ("piece", np.int64),  # its first piece of the machine, -1 for none
])  # fmt: skip
"""where a job stands"""


class Work(NamedTuple):
    """The jobs."""

    job: Records
    """[J] of JOB"""
    shares: Floats
    """share of the machine promised to each user, [U]"""
    child_ptr: Ints
    """children of j are child[child_ptr[j] : child_ptr[j + 1]]"""
    child: Ints
    slow_JS: Floats
    """speed of a job within one node, on more nodes, on more leaves: 1, and less"""


class Plant(NamedTuple):
    """The machine: equal nodes on leaf switches."""

    size: int
    """GPUs of a node"""
    leaf: Ints
    """leaf switch of each node, [N]"""
    rule: int
    """FIRST_FIT, BEST_FIT or SPREAD"""


class Rules(NamedTuple):
    """A policy, in numbers."""

    total: float
    """GPUs of the machine"""
    order: int
    """position in podsim.fleet.orders.ORDERS"""
    still: bool
    """whether a job that waits keeps its key"""
    preempt: bool
    backfill: int
    interval: float
    """s between decisions; 0: at every arrival and end"""
    refresh: float
    """s after which the order is looked at again while jobs wait; 0 never"""
    depth: int
    """jobs behind the first that backfill looks at; 0 all"""
    checkpoint: float
    """s on its GPUs that a preempted job needs to save, charged when it goes on"""
    restart: float
    """s on its GPUs that a job needs to start again"""
    start: float
    """s on its GPUs before a job first does anything"""
    moves: bool
    """running jobs may be placed anew, free of charge, at every decision"""
    levels: Floats
    """GPU seconds of attained service at which a job falls a level"""
    age: float
    """weight of age, multifactor, as those that follow"""
    max_age: float
    """s of waiting from which on age counts no more"""
    fair: float
    """weight of fair share"""
    half_life: float
    """s in which past usage halves"""
    big: float
    """weight of the size of a job"""
    site: float
    """weight of Work.rank"""


class State(NamedTuple):
    """Where it stands."""

    number: Ints
    time: Floats
    job: Records
    """[J] of STANDING"""
    queue: Ints
    """jobs by order; those running too where the policy preempts"""
    spare: Ints
    """[J], for sorting"""
    busy: Ints
    """running jobs by due, [GPUs]"""
    free: Ints
    """free GPUs of each node, [N]"""
    trial: Ints
    """the same as it would be, [N]"""
    picked: Ints
    """nodes chosen for a job, [N + 1]"""
    taken: Ints
    """GPUs on each of them, [N + 1]"""
    leaf_idle: Ints
    """[leaves], for placement"""
    piece_node: Ints
    """pieces: chains of (node, GPUs, next), [2 GPUs + 1]"""
    piece_gpus: Ints
    piece_next: Ints
    usage: Floats
    """GPU seconds of each user, decayed, [U]"""
    rate: Floats
    """GPUs each user holds, [U]"""
    step_time: Floats
    """profile of free GPUs ahead (conservative backfill): from each time on, so many"""
    step_free: Ints
    span_job: Ints
    span_start: Floats
    span_end: Floats
    span_node: Ints
    """first node"""
    span_reach: Ints
    """0 within a node, 1 on more nodes, 2 on more leaves"""


def _floats(n: int) -> Floats:
    return np.zeros(n)


def _ints(n: int) -> Ints:
    return np.zeros(n, np.int64)


def new_state(work: Work, plant: Plant, rules: Rules) -> State:
    """A queue in which nothing has been submitted."""
    jobs, nodes, users = len(work.job), len(plant.leaf), len(work.shares)
    gpus = nodes * plant.size
    links = np.arange(1, 2 * gpus + 2)
    links[-1] = -1
    number, time = _ints(COUNTERS), _floats(TIMES)
    number[FREE], number[STEPS], time[PLANNED] = gpus, 1, np.inf
    job = np.zeros(jobs, STANDING)
    job["remaining"], job["waits_for"] = work.job["seconds"], work.job["parents"]
    job["speed"], job["plan"], job["piece"] = 1.0, np.inf, -1
    room = jobs + 2 * gpus + 64
    ahead = 6 * jobs + 2 * gpus + 64 if rules.backfill == CONSERVATIVE else 1
    return State(
        number=number, time=time, job=job, queue=_ints(jobs), spare=_ints(jobs), busy=_ints(2 * gpus + 1),
        free=np.full(nodes, plant.size), trial=_ints(nodes), picked=_ints(nodes + 1), taken=_ints(nodes + 1),
        leaf_idle=_ints(int(plant.leaf.max()) + 1), piece_node=_ints(len(links)), piece_gpus=_ints(len(links)),
        piece_next=links, usage=_floats(users), rate=_floats(users), step_time=_floats(ahead),
        step_free=np.full(ahead, gpus), span_job=_ints(room), span_start=_floats(room), span_end=_floats(room),
        span_node=_ints(room), span_reach=_ints(room),
    )  # fmt: skip


def grow_spans(state: State) -> State:
    """The same state with room for twice the spans."""
    names = ("span_job", "span_start", "span_end", "span_node", "span_reach")
    return state._replace(
        **{name: np.concatenate([(old := getattr(state, name)), np.zeros_like(old)]) for name in names}
    )
