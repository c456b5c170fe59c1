"""Preempting decisions: they hand out all GPUs again, in the order of the queue."""

from __future__ import annotations

from podsim.fleet.place import choose_nodes, give_back, take
from podsim.fleet.queue_state import (
    BUSY,
    DECISIONS,
    FREE,
    QUEUE,
    RUNNING,
    SCATTERED,
    STRICT,
    Plant,
    Rules,
    State,
    Work,
)  # fmt: skip
from podsim.fleet.run import begin, stop
from podsim.jit import kernel, part

_NONE = 1 << 60


@part
def serve_preempting(work: Work, plant: Plant, rules: Rules, state: State, now: float) -> None:
    """Give GPUs to the first jobs of the queue that fit. A running job keeps its GPUs if no earlier job took them.

    `trial` has the GPUs that would be free without the running jobs that have not had their turn.  The order alone
    decides who comes first: if jobs of a level may not stop each other, running ones come first in it (`by level`).
    """
    for node in range(len(state.free)):
        state.trial[node] = plant.size
    room, small, large, short, blocked = len(state.free) * plant.size, _NONE, _NONE, 0, False
    for position in range(state.number[QUEUE]):
        if room == 0 or (blocked and rules.backfill == STRICT):
            break
        j = state.queue[position]
        gpus, runs = work.job[j].gpus, state.job[j].status == RUNNING
        if gpus <= room and runs and _keeps_gpus(rules, state, j):
            state.job[j].turn = state.number[DECISIONS]
            room -= gpus
            continue
        may = gpus <= room and gpus < (small if gpus <= plant.size else large)
        if runs and not (rules.moves and may):
            stop(work, state, j, now)
        count = _choose_any(plant, rules, state, j, gpus) if may else 0
        if count:
            _start_or_move(work, plant, rules, state, j, count, now)
            room -= gpus
            continue
        if may and gpus <= plant.size:
            small = gpus
        elif may:
            large = gpus
        short = short if blocked else gpus
        blocked = True
    _stop_others(work, state, now)
    state.time[SCATTERED] = state.number[FREE] if blocked and short <= state.number[FREE] else 0.0


@kernel
def _stop_others(work: Work, state: State, now: float) -> None:
    """Stop the running jobs that got no GPUs in this decision."""
    position = 0
    while position < state.number[BUSY]:
        j = state.busy[position]
        if state.job[j].turn != state.number[DECISIONS]:
            stop(work, state, j, now)
        else:
            position += 1


@kernel
def _keeps_gpus(rules: Rules, state: State, j: int) -> bool:
    """Whether a running job can keep its GPUs. If so, takes them from `trial`."""
    if rules.moves:
        return False
    piece = state.job[j].piece
    while piece >= 0:
        if state.trial[state.piece_node[piece]] < state.piece_gpus[piece]:
            return False
        piece = state.piece_next[piece]
    piece = state.job[j].piece
    while piece >= 0:
        state.trial[state.piece_node[piece]] -= state.piece_gpus[piece]
        piece = state.piece_next[piece]
    return True


@kernel
def _choose_any(plant: Plant, rules: Rules, state: State, j: int, gpus: int) -> int:
    """Choose nodes for a job: free ones if possible, else those of later jobs."""
    if rules.moves:
        give_back(state, j)
        return choose_nodes(plant, state, state.trial, gpus)
    count = choose_nodes(plant, state, state.free, gpus) if gpus <= state.number[FREE] else 0
    return count if count else choose_nodes(plant, state, state.trial, gpus)


@kernel
def _start_or_move(
    work: Work, plant: Plant, rules: Rules, state: State, j: int, count: int, now: float
) -> None:
    """Start a job on the chosen nodes, or move it to them."""
    state.job[j].turn = state.number[DECISIONS]
    for position in range(count):
        state.trial[state.picked[position]] -= state.taken[position]
    if state.job[j].status == RUNNING:
        take(state, j, count)
    else:
        begin(work, plant, rules, state, j, count, now)
