"""Starting, stopping and ending jobs: what every policy does with a job once it has decided."""

from __future__ import annotations

from podsim.fleet.place import give_back, reach, take
from podsim.fleet.state import (
    BUSY, DIRTY, DONE, ENDED, HELD, QUEUE, RUNNING, SPANS, STARTED, WAITING, Plant, Rules, State, Work,
)  # fmt: skip
from podsim.network.jit import kernel, part

__all__ = ["begin", "end", "expected", "release", "stop", "tidy"]


@part
def begin(work: Work, plant: Plant, rules: Rules, state: State, j: int, count: int, now: float) -> None:
    """Start a job on the nodes that were chosen for it."""
    far = reach(plant, state, count)
    take(state, j, count)
    state.status[j] = RUNNING
    state.begun[j] = now
    state.speed[j] = work.slow_JS[j, far]
    state.extra[j] = lead(rules, state, j)
    state.end[j] = now + state.extra[j] + state.remaining[j] / state.speed[j]
    state.due[j] = now + expected(work, rules, state, j, state.speed[j])
    state.runs[j] += 1
    state.rate[work.user[j]] += work.gpus[j]
    state.number[STARTED] += 1
    span = state.number[SPANS]
    state.span_job[span], state.span_start[span], state.span_reach[span] = j, now, far
    state.span_node[span] = state.picked[0]
    state.number[SPANS] += 1
    state.span[j] = span
    place = state.number[BUSY]
    while place > 0 and state.due[state.busy[place - 1]] > state.due[j]:
        state.busy[place] = state.busy[place - 1]
        place -= 1
    state.busy[place] = j
    state.number[BUSY] += 1


@kernel
def lead(rules: Rules, state: State, j: int) -> float:
    """Seconds on its GPUs before a job that is started does anything useful."""
    return rules.start if state.runs[j] == 0 else rules.checkpoint + rules.restart


@kernel
def expected(work: Work, rules: Rules, state: State, j: int, speed: float) -> float:
    """Seconds that a job must be expected to hold its GPUs if it is started: its limit, or longer if it is slow."""
    done = work.seconds[j] - state.remaining[j]
    return lead(rules, state, j) + max(work.limit[j] - done, state.remaining[j] / speed)


@kernel
def _leave(work: Work, state: State, j: int, now: float) -> None:
    """What ending and stopping have in common: the span is closed, the GPUs are free."""
    span = state.span[j]
    state.span_end[span] = now
    state.attained[j] += (now - state.begun[j]) * work.gpus[j]
    state.rate[work.user[j]] -= work.gpus[j]
    give_back(state, j)
    place = 0
    while state.busy[place] != j:
        place += 1
    state.number[BUSY] -= 1
    for later in range(place, state.number[BUSY]):
        state.busy[later] = state.busy[later + 1]
    state.number[DIRTY] = 1


@part
def stop(work: Work, state: State, j: int, now: float) -> None:
    """Preempt a job: what it has done is kept."""
    useful = max(now - state.begun[j] - state.extra[j], 0.0)
    state.remaining[j] = max(state.remaining[j] - useful * state.speed[j], 0.0)
    _leave(work, state, j, now)
    state.status[j] = WAITING


@part
def end(work: Work, rules: Rules, state: State, j: int, now: float) -> None:
    """A job is done; jobs that waited for it alone are released."""
    _leave(work, state, j, now)
    state.status[j] = DONE
    state.remaining[j] = 0.0
    state.number[ENDED] += 1
    for place in range(work.child_ptr[j], work.child_ptr[j + 1]):
        child = work.child[place]
        state.waits_for[child] -= 1
        if state.waits_for[child] == 0 and work.submit[child] <= now:
            release(state, child, now)


@kernel
def release(state: State, j: int, now: float) -> None:
    """Put a job into the queue, last."""
    if state.status[j] != HELD:
        return
    state.status[j] = WAITING
    state.released[j] = now
    state.entered[j] = now
    state.queue[state.number[QUEUE]] = j
    state.number[QUEUE] += 1
    state.number[DIRTY] = 1


@part
def tidy(state: State, running_too: bool) -> None:
    """Close the gaps in the queue: it holds those that wait, and those that run where they can be preempted."""
    kept = 0
    for place in range(state.number[QUEUE]):
        j = state.queue[place]
        if state.status[j] == WAITING or (running_too and state.status[j] == RUNNING):
            state.queue[kept] = j
            kept += 1
    state.number[QUEUE] = kept
