"""Conservative backfill: every job of the queue has a reservation in a profile of future free GPUs.

A new job takes the earliest slot that delays no other job. When a job ends early, all reservations are made again, in
order.  The profile counts GPUs. If they are too scattered at the reserved time, the job tries again at the next time of
the profile.
"""

from __future__ import annotations

from math import inf

from podsim.fleet.place import choose_nodes, reach
from podsim.fleet.queue_state import (
    FREE,
    LATE,
    PLANNED,
    QUEUE,
    SCATTERED,
    STEPS,
    WAITING,
    Plant,
    Rules,
    State,
    Work,
)  # fmt: skip
from podsim.fleet.run import begin, expected_seconds
from podsim.jit import kernel, part


@part
def serve_reserved(work: Work, plant: Plant, rules: Rules, state: State, again: bool, now: float) -> None:
    """Make missing reservations (all of them, if `again`), and start the jobs whose reservation is due."""
    _forget(state, now)
    for position in range(state.number[QUEUE]):
        j = state.queue[position]
        if state.job[j].plan < inf:
            if not again:
                continue
            change(state, state.job[j].plan, state.job[j].plan + state.job[j].held_for, work.job[j].gpus)
        state.job[j].held_for = expected_seconds(work, rules, state, j, work.slow_JS[j, 0])
        _reserve(work, state, j, now)
    state.time[PLANNED], state.time[SCATTERED] = inf, 0.0
    for position in range(state.number[QUEUE]):
        j = state.queue[position]
        if state.job[j].plan <= now:
            _start(work, plant, rules, state, j, now)
        if state.job[j].status == WAITING and state.job[j].plan < state.time[PLANNED]:
            state.time[PLANNED] = state.job[j].plan


@part
def _start(work: Work, plant: Plant, rules: Rules, state: State, j: int, now: float) -> None:
    """Start a job at its reserved time, or make another reservation if its GPUs are too scattered."""
    count = (
        choose_nodes(plant, state, state.free, work.job[j].gpus)
        if work.job[j].gpus <= state.number[FREE]
        else 0
    )
    change(state, state.job[j].plan, state.job[j].plan + state.job[j].held_for, work.job[j].gpus)
    if count:
        speed = work.slow_JS[j, reach(plant, state, count)]
        state.job[j].held_for = expected_seconds(work, rules, state, j, speed)
        begin(work, plant, rules, state, j, count, now)
        change(state, now, state.job[j].due, -work.job[j].gpus)
        return
    state.time[SCATTERED] = state.number[FREE]
    state.number[LATE] += 1
    later = state.step_time[1] if state.number[STEPS] > 1 else now + 1.0
    _reserve(work, state, j, later)


@part
def _reserve(work: Work, state: State, j: int, earliest: float) -> None:
    """Reserve the first interval of the profile with room for a job."""
    gpus, length, begin_, position = work.job[j].gpus, state.job[j].held_for, earliest, 0
    while position < state.number[STEPS]:
        if state.step_free[position] < gpus:
            begin_ = state.step_time[position + 1]  # the last step has the whole machine free
        last = position + 1 == state.number[STEPS]
        if state.step_free[position] >= gpus and (last or state.step_time[position + 1] >= begin_ + length):
            break
        position += 1
    state.job[j].plan = begin_
    change(state, begin_, begin_ + length, -gpus)


@kernel
def give_up_rest(work: Work, state: State, j: int, now: float) -> bool:
    """Free the reservation of an ending job beyond now. True if the job ends early."""
    if state.job[j].due <= now:
        return False
    change(state, now, state.job[j].due, work.job[j].gpus)
    return True


@kernel
def _forget(state: State, now: float) -> None:
    """Drop the past steps of the profile, and those without a change."""
    past = 0
    while past + 1 < state.number[STEPS] and state.step_time[past + 1] <= now:
        past += 1
    kept = 1
    state.step_time[0], state.step_free[0] = now, state.step_free[past]
    for position in range(past + 1, state.number[STEPS]):
        if state.step_free[position] != state.step_free[kept - 1]:
            state.step_time[kept], state.step_free[kept] = (
                state.step_time[position],
                state.step_free[position],
            )
            kept += 1
    state.number[STEPS] = kept


@part
def change(state: State, start: float, stop: float, gpus: int) -> None:
    """Add free GPUs to the profile from start to stop."""
    first = _step_at(state, start)
    last = _step_at(state, stop)
    for position in range(first, last):
        state.step_free[position] += gpus


@kernel
def _step_at(state: State, time: float) -> int:
    """The position of the step at a time, a new one if necessary."""
    low, high = 0, state.number[STEPS]
    while low < high:
        middle = (low + high) // 2
        if state.step_time[middle] < time:
            low = middle + 1
        else:
            high = middle
    if low < state.number[STEPS] and state.step_time[low] == time:
        return low
    if low == 0:  # before the first step: the profile has no past
        return 0
    for position in range(state.number[STEPS], low, -1):
        state.step_time[position] = state.step_time[position - 1]
        state.step_free[position] = state.step_free[position - 1]
    state.step_time[low] = time
    state.step_free[low] = state.step_free[low - 1]
    state.number[STEPS] += 1
    return low
