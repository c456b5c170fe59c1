"""The orders of the queue, each a function from the known figures of a job to a key (smaller first), and the sort.

A new order is one function, one line of ORDERS and one of `_order_key`. Jobs with equal keys run in order of submission.
"""

from __future__ import annotations

from math import floor, inf
from typing import NamedTuple

from podsim.fleet.queue_state import CHARGED, QUEUE, RUNNING, USED, Rules, State, Work
from podsim.jit import kernel, part

_LEVEL = 1e10
"""s. The weight of a level, more than any time in a queue: 317 years."""
_RUNS = 4e9
"""s. The weight of running, more than any time in a queue."""


class Seen(NamedTuple):
    """The scheduler's knowledge of a job."""

    waited: float
    """s. The time since it could first start."""
    age: float
    """s. The time since its submission."""
    released: float
    """s. The time at which it could first start."""
    gpus: float
    length: float
    """s. The assumed length at full speed."""
    left: float
    """s. The assumed remaining length at full speed."""
    held: float
    """The GPU-seconds that it has held."""
    level: float
    """The level of attained service, from 0."""
    entered: float
    """s. The time of arrival at that level."""
    since: float
    """s. The time of its last start or stop; 0 if it never ran."""
    runs: bool
    now: float
    """s. The current time."""
    usage: float
    """share. Its user's share of recent usage."""
    share: float
    """share. The share promised to its user."""
    rank: float
    """share. The site's rank, 0 to 1."""


@kernel
def first_come(job: Seen, rules: Rules) -> float:
    """FIFO: the time of release."""
    return job.released


@kernel
def shortest(job: Seen, rules: Rules) -> float:
    """SJF: the length."""
    return job.length


@kernel
def smallest(job: Seen, rules: Rules) -> float:
    """Shortest service first: the length times the GPUs; with predicted lengths this is QSSF."""
    return job.length * job.gpus


@kernel
def shortest_remaining(job: Seen, rules: Rules) -> float:
    """SRTF: the remaining time."""
    return job.left


@kernel
def smallest_remaining(job: Seen, rules: Rules) -> float:
    """SRSF: the remaining time times the GPUs."""
    return job.left * job.gpus


@kernel
def least_attained(job: Seen, rules: Rules) -> float:
    """LAS: the attained service in GPU-seconds."""
    return job.held


@kernel
def by_level(job: Seen, rules: Rules) -> float:
    """Levels of attained service (Tiresias).

    Within a level running jobs come first, then stopped ones, the latest first, then others by arrival at the level. A
    job that falls comes last on its new level.
    """
    base = job.level * _LEVEL
    if job.runs and job.entered < job.now:
        return base - _RUNS + max(job.since, job.entered)
    if not job.runs and job.since > job.entered:
        return base - job.since
    return base + job.entered


@kernel
def worst_off(job: Seen, rules: Rules) -> float:
    """Finish-time fairness for unknown lengths (Themis): the largest age over attained service first.

    This is the time of a job on the shared machine over its time alone, as far as both are known.  Jobs without service
    come first, in order of submission.
    """
    return -job.age / job.held if job.held > 0.0 else -inf


@kernel
def worst_off_known(job: Seen, rules: Rules) -> float:
    """Finish-time fairness for known lengths: the job with the largest loss of time over its length first.

    The loss counts to a job that runs from now on. It is rounded to microseconds, so that jobs without a loss are equal.
    """
    lost = floor((job.age + job.left - job.length) * 1e6 + 0.5) / 1e6
    return -1.0 - lost / max(job.length, 1e-9)


@kernel
def multifactor(job: Seen, rules: Rules) -> float:
    """Slurm's multifactor priority: age, classic fair share 2^(-usage/share), size and the site's rank."""
    age = min(job.waited / rules.max_age, 1.0)
    fair = 2.0 ** (-job.usage / job.share)
    return float(
        -(rules.age * age + rules.fair * fair + rules.big * job.gpus / rules.total + rules.site * job.rank)
    )


MOVING = ("worst off", "worst off for its length", "multifactor")
"""The orders in which time changes the keys of waiting jobs."""

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
def _order_key(job: Seen, rules: Rules) -> float:  # noqa: PLR0911 - one return for each order
    """The key of a job by the order's position in ORDERS."""
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
    """The current key of a job. A job with enough service falls by a level."""
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
    return _order_key(job, rules)


@part
def charge(work: Work, state: State, rules: Rules, now: float) -> None:
    """Update the usage of every user: past usage decays, held GPUs add to it."""
    passed = now - state.time[CHARGED]
    if passed <= 0.0:
        return
    decay = 0.5 ** (passed / rules.half_life)
    grown = rules.half_life / 0.6931471805599453 * (1.0 - decay)  # integral of the decay over the time
    total = 0.0
    for u in range(len(state.usage)):
        state.usage[u] = state.usage[u] * decay + state.rate[u] * grown
        total += state.usage[u]
    state.time[USED] = total
    state.time[CHARGED] = now


@kernel
def comes_before(state: State, a: int, b: int) -> bool:
    """Whether job a comes before job b."""
    return state.job[a].key < state.job[b].key or (state.job[a].key == state.job[b].key and a < b)


@part
def sort_queue(work: Work, state: State, rules: Rules, now: float) -> None:
    """Compute the key of every job in the queue, and sort.

    A waiting job keeps its key if time alone does not change it (`still`); NaN means no key yet.  Waiting jobs are in
    order already, or nearly so. The few others are sorted behind them and merged in.
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
    """Merge the few sorted jobs from middle to stop into the sorted queue before them."""
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
    """Sort a range of the queue: by insertion if it is nearly in order, else by merging runs pair by pair."""
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
    """Merge two sorted ranges of the queue."""
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
