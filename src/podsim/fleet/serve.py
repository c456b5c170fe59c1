"""Decisions without preemption, in order: jobs behind a blocked one wait, skip it or backfill."""

from __future__ import annotations

from podsim.fleet.place import choose_nodes, has_room, reach
from podsim.fleet.queue_state import (
    BUSY,
    EASY,
    FREE,
    QUEUE,
    SCATTERED,
    SPREAD,
    STRICT,
    Plant,
    Rules,
    State,
    Work,
)  # fmt: skip
from podsim.fleet.run import begin, expected_seconds
from podsim.jit import kernel, part

_NONE = 1 << 60


@part
def serve(work: Work, plant: Plant, rules: Rules, state: State, now: float) -> None:
    """Start the jobs that may start, in the order of the queue."""
    head, shadow, looked, small, large = -1, now, 0, _NONE, _NONE
    for position in range(state.number[QUEUE]):
        j = state.queue[position]
        gpus = work.job[j].gpus
        if state.number[FREE] == 0 or (rules.depth and looked >= rules.depth):
            break
        count = 0
        if gpus <= state.number[FREE] and gpus < (small if gpus <= plant.size else large):
            count = choose_nodes(plant, state, state.free, gpus)
            if count == 0 and gpus <= plant.size:
                small = gpus
            elif count == 0:
                large = gpus
        if head >= 0:
            looked += 1
            if count and (
                rules.backfill != EASY
                or now + _expected_seconds(work, plant, rules, state, j, count) <= shadow
                or _is_harmless(plant, state, count, work.job[head].gpus)
            ):
                begin(work, plant, rules, state, j, count, now)
        elif count:
            begin(work, plant, rules, state, j, count, now)
        else:
            head = j
            if rules.backfill == STRICT:
                break
            if rules.backfill == EASY:
                shadow = _shadow(plant, state, gpus, now)
    scattered = head >= 0 and work.job[head].gpus <= state.number[FREE]
    state.time[SCATTERED] = state.number[FREE] if scattered else 0.0


@part
def _shadow(plant: Plant, state: State, gpus: int, now: float) -> float:
    """The latest start of the blocked job. Sets `trial` to the GPUs that are free then, before its start."""
    full, idle, total = gpus // plant.size, 0, 0
    for node in range(len(state.free)):
        state.trial[node] = state.free[node]
        idle += state.free[node] == plant.size
        total += state.free[node]
    is_found, when = False, now
    for position in range(state.number[BUSY]):
        j = state.busy[position]
        if is_found and state.job[j].due > when:
            break
        piece, enough = state.job[j].piece, False
        while piece >= 0:
            node = state.piece_node[piece]
            state.trial[node] += state.piece_gpus[piece]
            total += state.piece_gpus[piece]
            idle += state.trial[node] == plant.size
            enough = enough or state.trial[node] >= gpus
            piece = state.piece_next[piece]
        if is_found:
            continue
        if plant.rule == SPREAD:
            enough = total >= gpus
        elif gpus > plant.size:
            enough = idle >= full and has_room(plant, state.trial, gpus)
        if enough:
            is_found, when = True, max(state.job[j].due, now)
    return when


@kernel
def _expected_seconds(work: Work, plant: Plant, rules: Rules, state: State, j: int, count: int) -> float:
    """Seconds that j is expected to run on its chosen nodes."""
    return expected_seconds(work, rules, state, j, work.slow_JS[j, reach(plant, state, count)])


@kernel
def _is_harmless(plant: Plant, state: State, count: int, gpus: int) -> bool:
    """Whether the chosen nodes do not delay the blocked job with `gpus`. If so, takes them from `trial`."""
    for position in range(count):
        state.trial[state.picked[position]] -= state.taken[position]
    if has_room(plant, state.trial, gpus):
        return True
    for position in range(count):
        state.trial[state.picked[position]] += state.taken[position]
    return False
