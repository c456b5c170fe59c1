"""Who is served first: each order is a small function of what is known of a job, smaller first; and sorting by it.

A new order is one function, one line of ORDERS and one of `_ordered`. Equal keys are served in order of submission.
"""

from __future__ import annotations

from math import floor, inf
from typing import NamedTuple

from podsim.fleet.state import CHARGED, QUEUE, RUNNING, USED, Rules, State, Work
from podsim.jit import kernel, part

_LEVEL = 1e10
"""s by which a level outweighs any time in a queue: 317 years"""
_RUNS = 4e9
"""s by which running outweighs any time in a queue"""


class Seen(NamedTuple):
    """What the scheduler knows of a job when it looks at the queue."""

    waited: float
    """s since it could first start"""
    age: float
    """s since it was submitted"""
    released: float
    """s, when it could first start"""
    gpus: float
    length: float
    """s at full speed, as believed"""
    left: float
    """s of it that are left, as believed"""
    held: float
    """GPU seconds that it has had"""
    level: float
    """level of attained service, 0 the first"""
    entered: float
    """s, when it came to that level"""
    since: float
    """s, when it last started or was stopped; 0 for one that never ran"""
    runs: bool
    now: float
    """s"""
    usage: float
    """its user's share of what all users used of late"""
    share: float
    """share that its user was promised"""
    rank: float
    """0 to 1, what the site gives it"""


@kernel
def first_come(job: Seen, rules: Rules) -> float:
    """FIFO: the time of release."""
    return job.released


@kernel
def shortest(job: Seen, rules: Rules) -> float:
    """SJF: the whole length."""
    return job.length


@kernel
def smallest(job: Seen, rules: Rules) -> float:
    """Shortest service first: whole length times GPUs; with predicted lengths this is QSSF."""
    return job.length * job.gpus


@kernel
def shortest_remaining(job: Seen, rules: Rules) -> float:
    """SRTF: the time that is left."""
    return job.left


@kernel
def smallest_remaining(job: Seen, rules: Rules) -> float:
    """SRSF: the time that is left, times GPUs."""
    return job.left * job.gpus


@kernel
def least_attained(job: Seen, rules: Rules) -> float:
    """Least attained service in GPU seconds."""
    return job.held


@kernel
def by_level(job: Seen, rules: Rules) -> float:
    """Levels of attained service (Tiresias). Within one, those that run go on: first those that run, then those that
    were stopped, the last one first, then by arrival at the level; a job that falls comes last there.
    """
    base = job.level * _LEVEL
    if job.runs and job.entered < job.now:
        return base - _RUNS + max(job.since, job.entered)
    if not job.runs and job.since > job.entered:
        return base - job.since
    return base + job.entered


@kernel
def worst_off(job: Seen, rules: Rules) -> float:
    """Finish-time fairness where lengths are unknown (Themis): most time since submission for the service it has had.

    The time that a job takes on the shared machine over what it would take alone, both as far as they are known: its
    age over its GPU seconds.  Jobs that have had none come first, in order of submission.
    """
    return -job.age / job.held if job.held > 0.0 else -inf


@kernel
def worst_off_known(job: Seen, rules: Rules) -> float:
    """The same where lengths are known: the job whose end, were it to run from now on, is latest for its length.

    Time lost is counted in whole microseconds, so that jobs that have lost none are equal whatever the rounding.
    """
    lost = floor((job.age + job.left - job.length) * 1e6 + 0.5) / 1e6
    return -1.0 - lost / max(job.length, 1e-9)


@kernel
def multifactor(job: Seen, rules: Rules) -> float:
    """Slurm's multifactor priority: age, classic fair share 2^(-usage/share), size and what the site adds."""
    age = min(job.waited / rules.max_age, 1.0)
    fair = 2.0 ** (-job.usage / job.share)
    return float(
        -(rules.age * age + rules.fair * fair + rules.big * job.gpus / rules.total + rules.site * job.rank)
    )


MOVING = ("worst off", "worst off for its length", "multifactor")
"""orders in which time changes the keys of jobs that wait"""

ORDERS = {
    "first come": first_come,
    "shortest": shortest,
    "smallest": smallest,
    "shortest remaining": shortest_remaining,
    "smallest remaining": smallest_remaining,
    "least attained": least_attained,
    "by level": by_level,
    "worst off": worst_off,
    "worst off for its length": worst_off_known,
    "multifactor": multifactor,
}


@kernel
def _ordered(job: Seen, rules: Rules) -> float:  # noqa: PLR0911 - one return for each order
    """Key of a job by the order of the rules: ORDERS, by position."""
    if rules.order == 0:
        return first_come(job, rules)
    if rules.order == 1:
        return shortest(job, rules)
    if rules.order == 2:
        return smallest(job, rules)
    if rules.order == 3:
        return shortest_remaining(job, rules)
    if rules.order == 4:
        return smallest_remaining(job, rules)
    if rules.order == 5:
        return least_attained(job, rules)
    if rules.order == 6:
        return by_level(job, rules)
    if rules.order == 7:
        return worst_off(job, rules)
    if rules.order == 8:
        return worst_off_known(job, rules)
    return multifactor(job, rules)


@kernel
def key_of(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Key of a job as things stand; a job that has had its service falls a level."""
    remaining, service = state.job[j].remaining, state.job[j].attained
    if state.job[j].status == RUNNING:
        useful = max(now - state.job[j].begun - state.job[j].extra, 0.0)
        remaining = max(remaining - useful * state.job[j].speed, 0.0)
        service += (now - state.job[j].begun) * work.job[j].gpus
    level = 0
    while level < len(rules.levels) and service >= rules.levels[level] * (1.0 - 1e-12):
        level += 1
    if level != state.job[j].level:
        state.job[j].level, state.job[j].entered = level, now
    usage = state.usage[work.job[j].user] / state.time[USED] if state.time[USED] > 0.0 else 0.0
    job = Seen(
        now - state.job[j].released, now - work.job[j].submit, state.job[j].released, float(work.job[j].gpus),
        work.job[j].guess,
        max(remaining + (work.job[j].guess - work.job[j].seconds), 0.0), service, float(level),
        state.job[j].entered, state.job[j].begun, state.job[j].status == RUNNING, now, usage,
        work.shares[work.job[j].user], work.job[j].rank,
    )  # fmt: skip
    return _ordered(job, rules)


@part
def charge(work: Work, state: State, rules: Rules, now: float) -> None:
    """Bring the usage of every user up to date: past usage decays, GPUs held are added."""
    passed = now - state.time[CHARGED]
    if passed <= 0.0:
        return
    decay = 0.5 ** (passed / rules.half_life)
    grown = (
        rules.half_life / 0.6931471805599453 * (1.0 - decay)
    )  # integral of the decay: usage accrues all the while
    total = 0.0
    for u in range(len(state.usage)):
        state.usage[u] = state.usage[u] * decay + state.rate[u] * grown
        total += state.usage[u]
    state.time[USED] = total
    state.time[CHARGED] = now


@kernel
def comes_before(state: State, a: int, b: int) -> bool:
    """Whether job a is served before job b."""
    return state.job[a].key < state.job[b].key or (state.job[a].key == state.job[b].key and a < b)


@part
def sort_queue(work: Work, state: State, rules: Rules, now: float) -> None:
    """Give every job of the queue its key, and sort.

    A job that waits keeps its key where time alone does not change it (`still`); NaN is none yet.  Those that wait are
    in order already, or nearly; the few others are sorted behind them, and merged in.
    """
    n, kept, moved = state.number[QUEUE], 0, 0
    for position in range(n):
        j = state.queue[position]
        if state.job[j].status == RUNNING or state.job[j].key != state.job[j].key:
            state.job[j].key = key_of(work, state, rules, j, now)
            state.spare[moved] = j
            moved += 1
        else:
            if not rules.still:
                state.job[j].key = key_of(work, state, rules, j, now)
            state.queue[kept] = j
            kept += 1
    for position in range(moved):
        state.queue[kept + position] = state.spare[position]
    if not rules.still:
        _sort(state, 0, kept)
    _sort(state, kept, n)
    _merge_few(state, kept, n)


@part
def _merge_few(state: State, middle: int, stop: int) -> None:
    """Merge the sorted queue from middle to stop, few jobs, into the sorted one before it."""
    for position in range(middle, stop):
        state.spare[position - middle] = state.queue[position]
    last, out = middle, stop
    for position in range(stop - middle - 1, -1, -1):
        j, low, high = state.spare[position], 0, last
        while low < high:
            half = (low + high) // 2
            if comes_before(state, j, state.queue[half]):
                high = half
            else:
                low = half + 1
        while last > low:
            last -= 1
            out -= 1
            state.queue[out] = state.queue[last]
        out -= 1
        state.queue[out] = j


@part
def _sort(state: State, first: int, n: int) -> None:
    """Sort a stretch of the queue: by insertion while it is nearly in order, else runs are merged, pair by pair."""
    runs, effort = 2, 4 * (n - first)
    for position in range(first + 1, n):
        j, to = state.queue[position], position
        while to > first and comes_before(state, j, state.queue[to - 1]):
            state.queue[to] = state.queue[to - 1]
            to -= 1
        state.queue[to] = j
        effort -= position - to
        if effort < 0:
            break
    if effort >= 0:
        return
    while runs > 1:
        runs, start = 0, first
        while start < n:
            middle = start + 1
            while middle < n and not comes_before(state, state.queue[middle], state.queue[middle - 1]):
                middle += 1
            stop = middle
            if middle < n:
                stop += 1
                while stop < n and not comes_before(state, state.queue[stop], state.queue[stop - 1]):
                    stop += 1
                _merge(state, start, middle, stop)
            start = stop
            runs += 1


@part
def _merge(state: State, start: int, middle: int, stop: int) -> None:
    """Merge two sorted stretches of the queue."""
    while start < middle and not comes_before(state, state.queue[middle], state.queue[start]):
        start += 1
    for position in range(start, middle):
        state.spare[position] = state.queue[position]
    left_, right, out = start, middle, start
    while left_ < middle and right < stop:
        if comes_before(state, state.queue[right], state.spare[left_]):
            state.queue[out] = state.queue[right]
            right += 1
        else:
            state.queue[out] = state.spare[left_]
            left_ += 1
        out += 1
    while left_ < middle:
        state.queue[out] = state.spare[left_]
        left_ += 1
        out += 1
