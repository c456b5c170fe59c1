"""Who is served first: each order is a small function of a job, smaller first; and the sorting of the queue by it.

A new order is one function and one line of ORDERS. Equal keys are served in order of submission.
"""

from __future__ import annotations

from podsim.fleet.state import CHARGED, QUEUE, RUNNING, USED, Rules, State, Work
from podsim.network.jit import kernel

__all__ = ["ORDERS", "charge", "comes_before", "key_of", "left", "sort_queue"]

_LEVEL = 1e10
"""s by which a level outweighs any time in a queue: 317 years"""


@kernel
def left(work: Work, state: State, j: int, now: float) -> float:
    """Seconds at full speed that a job still needs."""
    if state.status[j] != RUNNING:
        return state.remaining[j]
    useful = max(now - state.begun[j] - state.extra[j], 0.0)
    return max(state.remaining[j] - useful * state.speed[j], 0.0)


@kernel
def believed_left(work: Work, state: State, j: int, now: float) -> float:
    """The same as the scheduler believes: what was predicted, less what is done."""
    return max(left(work, state, j, now) + (work.guess[j] - work.seconds[j]), 0.0)


@kernel
def held(work: Work, state: State, j: int, now: float) -> float:
    """GPU seconds that a job has held so far."""
    if state.status[j] != RUNNING:
        return state.attained[j]
    return state.attained[j] + (now - state.begun[j]) * work.gpus[j]


@kernel
def first_come(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """FIFO: the time of release."""
    return state.released[j]


@kernel
def shortest(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """SJF: the whole length."""
    return work.guess[j]


@kernel
def smallest(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Shortest service first: whole length times GPUs; with predicted lengths this is QSSF."""
    return work.guess[j] * work.gpus[j]


@kernel
def shortest_remaining(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """SRTF: the time that is left."""
    return believed_left(work, state, j, now)


@kernel
def smallest_remaining(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """SRSF: the time that is left, times GPUs."""
    return believed_left(work, state, j, now) * work.gpus[j]


@kernel
def least_attained(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Least attained service in GPU seconds; with levels (Tiresias): by level, first come first served within one."""
    service = held(work, state, j, now)
    if len(rules.levels) == 0:
        return service
    level = 0
    while level < len(rules.levels) and service >= rules.levels[level] * (1.0 - 1e-12):
        level += 1
    if level != state.level[j]:
        state.level[j] = level
        state.entered[j] = now
    return level * _LEVEL + state.entered[j]


@kernel
def worst_off(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Finish-time fairness (Themis): the job whose end, were it to run from now on, is latest for its length."""
    return -(now - work.submit[j] + believed_left(work, state, j, now)) / max(work.guess[j], 1e-9)


@kernel
def multifactor(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Slurm's multifactor priority: age, classic fair share 2^(-usage/share), size and what the site adds."""
    age = min(max(now - state.released[j], 0.0) / rules.max_age, 1.0)
    fair = 1.0
    if state.time[USED] > 0.0:
        fair = 2.0 ** (-state.usage[work.user[j]] / state.time[USED] / work.shares[work.user[j]])
    size = work.gpus[j] / rules.total
    return -(rules.age * age + rules.fair * fair + rules.big * size + rules.site * work.rank[j])


ORDERS = {
    "first come": first_come,
    "shortest": shortest,
    "smallest": smallest,
    "shortest remaining": shortest_remaining,
    "smallest remaining": smallest_remaining,
    "least attained": least_attained,
    "worst off": worst_off,
    "multifactor": multifactor,
}


@kernel
def key_of(work: Work, state: State, rules: Rules, j: int, now: float) -> float:
    """Key of a job by the order of the rules: ORDERS, by position."""
    if rules.order == 0:
        return first_come(work, state, rules, j, now)
    if rules.order == 1:
        return shortest(work, state, rules, j, now)
    if rules.order == 2:
        return smallest(work, state, rules, j, now)
    if rules.order == 3:
        return shortest_remaining(work, state, rules, j, now)
    if rules.order == 4:
        return smallest_remaining(work, state, rules, j, now)
    if rules.order == 5:
        return least_attained(work, state, rules, j, now)
    if rules.order == 6:
        return worst_off(work, state, rules, j, now)
    return multifactor(work, state, rules, j, now)


@kernel
def charge(work: Work, state: State, rules: Rules, now: float) -> None:
    """Bring the usage of every user up to date: past usage decays, GPUs held are added."""
    passed = now - state.time[CHARGED]
    if passed <= 0.0:
        return
    decay = 0.5 ** (passed / rules.half_life)
    grown = rules.half_life / 0.6931471805599453 * (1.0 - decay)  # integral of the decay: usage accrues all the while
    total = 0.0
    for u in range(len(state.usage)):
        state.usage[u] = state.usage[u] * decay + state.rate[u] * grown
        total += state.usage[u]
    state.time[USED] = total
    state.time[CHARGED] = now


@kernel
def comes_before(state: State, a: int, b: int) -> bool:
    """Whether job a is served before job b."""
    return state.key[a] < state.key[b] or (state.key[a] == state.key[b] and a < b)


@kernel
def sort_queue(work: Work, state: State, rules: Rules, now: float) -> None:
    """Give every job of the queue its key, and sort: runs that are in order already are merged, pair by pair."""
    n = state.number[QUEUE]
    for place in range(n):
        j = state.queue[place]
        state.key[j] = key_of(work, state, rules, j, now)
    runs = 2
    while runs > 1:
        runs, start = 0, 0
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


@kernel
def _merge(state: State, start: int, middle: int, stop: int) -> None:
    """Merge two sorted stretches of the queue."""
    while start < middle and not comes_before(state, state.queue[middle], state.queue[start]):
        start += 1
    for place in range(start, middle):
        state.spare[place] = state.queue[place]
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
