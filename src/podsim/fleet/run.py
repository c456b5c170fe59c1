"""The start, stop and end of jobs, after the decision of a policy."""

from __future__ import annotations

from math import nan

from podsim.fleet.place import give_back, reach, take
from podsim.fleet.queue_state import (
    BUSY,
    DIRTY,
    DONE,
    ENDED,
    HELD,
    QUEUE,
    RUNNING,
    SPANS,
    STARTED,
    WAITING,
    Plant,
    Rules,
    State,
    Work,
)  # fmt: skip
from podsim.jit import kernel, part


@part
def begin(work: Work, plant: Plant, rules: Rules, state: State, j: int, count: int, now: float) -> None:
    """Start a job on its chosen nodes."""
    far = reach(plant, state, count)
    take(state, j, count)
    state.job[j].status = RUNNING
    state.job[j].begun = now
    state.job[j].speed = work.slow_JS[j, far]
    state.job[j].extra = lead_seconds(rules, state, j)
    state.job[j].end = now + state.job[j].extra + state.job[j].remaining / state.job[j].speed
    state.job[j].due = now + expected_seconds(work, rules, state, j, state.job[j].speed)
    state.job[j].runs += 1
    state.rate[work.job[j].user] += work.job[j].gpus
    state.number[STARTED] += 1
    span = state.number[SPANS]
    state.span_job[span], state.span_start[span], state.span_reach[span] = j, now, far
    state.span_node[span] = state.picked[0]
    state.number[SPANS] += 1
    state.job[j].span = span
    position = state.number[BUSY]
    while position > 0 and state.job[state.busy[position - 1]].due > state.job[j].due:
        state.busy[position] = state.busy[position - 1]
        position -= 1
    state.busy[position] = j
    state.number[BUSY] += 1


@kernel
def lead_seconds(rules: Rules, state: State, j: int) -> float:
    """Seconds that a starting job needs on its GPUs before useful work."""
    return rules.start if state.job[j].runs == 0 else rules.checkpoint + rules.restart


@kernel
def expected_seconds(work: Work, rules: Rules, state: State, j: int, speed: float) -> float:
    """Seconds that the scheduler must expect a starting job to hold its GPUs: its limit, or longer for a slow job."""
    done = work.job[j].seconds - state.job[j].remaining
    return float(
        lead_seconds(rules, state, j) + max(work.job[j].limit - done, state.job[j].remaining / speed)
    )


@kernel
def _free_gpus(work: Work, state: State, j: int, now: float) -> None:
    """Close the span of a job and free its GPUs."""
    span = state.job[j].span
    state.span_end[span] = now
    state.job[j].attained += (now - state.job[j].begun) * work.job[j].gpus
    state.rate[work.job[j].user] -= work.job[j].gpus
    give_back(state, j)
    position = 0
    while state.busy[position] != j:
        position += 1
    state.number[BUSY] -= 1
    for later in range(position, state.number[BUSY]):
        state.busy[later] = state.busy[later + 1]
    state.number[DIRTY] = 1


@part
def stop(work: Work, state: State, j: int, now: float) -> None:
    """Preempt a job, which keeps its progress."""
    useful = max(now - state.job[j].begun - state.job[j].extra, 0.0)
    state.job[j].remaining = max(state.job[j].remaining - useful * state.job[j].speed, 0.0)
    _free_gpus(work, state, j, now)
    state.job[j].status, state.job[j].key = WAITING, nan
    state.job[j].begun = now


@part
def end(work: Work, rules: Rules, state: State, j: int, now: float) -> None:
    """End a job and release the jobs that waited for it alone."""
    _free_gpus(work, state, j, now)
    state.job[j].status = DONE
    state.job[j].remaining = 0.0
    state.number[ENDED] += 1
    for position in range(work.child_ptr[j], work.child_ptr[j + 1]):
        child = work.child[position]
        state.job[child].waits_for -= 1
        if state.job[child].waits_for == 0 and work.job[child].submit <= now:
            release(state, child, now)


@kernel
def release(state: State, j: int, now: float) -> None:
    """Put a job at the end of the queue."""
    if state.job[j].status != HELD:
        return
    state.job[j].status, state.job[j].key = WAITING, nan
    state.job[j].released = now
    state.job[j].entered = now
    state.queue[state.number[QUEUE]] = j
    state.number[QUEUE] += 1
    state.number[DIRTY] = 1


@part
def tidy(state: State, running_too: bool) -> None:
    """Close the gaps in the queue, which holds waiting jobs and, under preemption, running ones."""
    kept = 0
    for position in range(state.number[QUEUE]):
        j = state.queue[position]
        if state.job[j].status == WAITING or (running_too and state.job[j].status == RUNNING):
            state.queue[kept] = j
            kept += 1
    state.number[QUEUE] = kept
