"""The clock of the queue: arrivals, ends and decisions, in order, until all jobs end."""

from __future__ import annotations

from math import ceil, inf

from podsim.fleet.orders import charge, sort_queue
from podsim.fleet.preempt import serve_preempting
from podsim.fleet.queue_state import (
    BUSY,
    CLOCK,
    CONSERVATIVE,
    DECISIONS,
    DIRTY,
    ENDED,
    FREE,
    LOOKED,
    NEXT,
    PLANNED,
    QUEUE,
    SCATTERED,
    SPANS,
    SPLIT,
    STARTED,
    Plant,
    Rules,
    State,
    Work,
)  # fmt: skip
from podsim.fleet.reserve import give_up_rest, serve_reserved
from podsim.fleet.run import end, release, tidy
from podsim.fleet.serve import serve
from podsim.jit import kernel, njit, part

ALL_ENDED, ROOM, STUCK, PAUSE = range(4)
BY_LEVEL = 6
MULTIFACTOR = 9


@njit
def advance(work: Work, plant: Plant, rules: Rules, state: State, rounds: int) -> int:
    """Advance until all jobs end, the spans are full, no event can follow, or `rounds` are over. The reason."""
    most = 2 * len(state.free) * plant.size
    while state.number[ENDED] < len(work.job):
        if rounds == 0:
            return PAUSE
        rounds -= 1
        if state.number[SPANS] + most > len(state.span_job):
            return ROOM
        now = _next_time(work, rules, state)
        if now == inf:
            return STUCK
        state.time[SPLIT] += state.time[SCATTERED] * (now - state.time[CLOCK])
        state.time[CLOCK] = now
        if rules.order == MULTIFACTOR:
            charge(work, state, rules, now)
        early = _process_events(work, rules, state, now)
        if _decision_time(rules, state) <= now:
            _make_decision(work, plant, rules, state, early, now)
    return ALL_ENDED


@kernel
def _waiting_count(rules: Rules, state: State) -> int:
    return int(state.number[QUEUE] - (state.number[BUSY] if rules.preempt else 0))


@kernel
def _decision_time(rules: Rules, state: State) -> float:
    """The time of the next decision without further events: now if something changed, else the planned time."""
    when = state.time[CLOCK]
    if not state.number[DIRTY]:
        when = state.time[PLANNED]
        if (
            rules.refresh > 0.0
            and _waiting_count(rules, state) > 0
            and (rules.preempt or state.number[FREE] > 0)
        ):
            when = min(when, state.time[LOOKED] + rules.refresh)
    if rules.interval > 0.0 and when < inf:
        when = ceil(when / rules.interval - 1e-9) * rules.interval
    return float(when)


@part
def _next_time(work: Work, rules: Rules, state: State) -> float:
    """The time of the next arrival, end or decision."""
    when = _decision_time(rules, state)
    if state.number[NEXT] < len(work.job):
        when = min(when, work.job[state.number[NEXT]].submit)
    for position in range(state.number[BUSY]):
        when = min(when, state.job[state.busy[position]].end)
    return when


@part
def _process_events(work: Work, rules: Rules, state: State, now: float) -> bool:
    """End jobs, then add arrivals. True if a job ended early."""
    early, position = False, 0
    while position < state.number[BUSY]:
        j = state.busy[position]
        if state.job[j].end <= now:
            if rules.backfill == CONSERVATIVE and give_up_rest(work, state, j, now):
                early = True
            end(work, rules, state, j, now)
        else:
            position += 1
    if rules.preempt and state.number[DIRTY]:
        tidy(state, True)
    while state.number[NEXT] < len(work.job) and work.job[state.number[NEXT]].submit <= now:
        j = state.number[NEXT]
        if state.job[j].waits_for == 0:
            release(state, j, now)
        state.number[NEXT] += 1
    return early


@part
def _make_decision(work: Work, plant: Plant, rules: Rules, state: State, early: bool, now: float) -> None:
    state.number[DECISIONS] += 1
    state.number[STARTED] = 0
    state.time[PLANNED] = inf
    state.number[DIRTY] = 0
    state.time[LOOKED] = now
    if state.number[FREE] == 0 and not rules.preempt and rules.backfill != CONSERVATIVE:
        return
    if rules.order != 0:
        sort_queue(work, state, rules, now)
    if rules.preempt:
        serve_preempting(work, plant, rules, state, now)
    elif rules.backfill == CONSERVATIVE:
        serve_reserved(work, plant, rules, state, early, now)
    else:
        serve(work, plant, rules, state, now)
    if state.number[STARTED] and not rules.preempt:
        tidy(state, False)
    if rules.order == BY_LEVEL and _waiting_count(rules, state) > 0:
        state.time[PLANNED] = _next_fall_time(work, rules, state, now)
    state.number[DIRTY] = 0


@kernel
def _next_fall_time(work: Work, rules: Rules, state: State, now: float) -> float:
    """The time at which the next running job falls by a level."""
    when = inf
    for position in range(state.number[BUSY]):
        j = state.busy[position]
        if state.job[j].level < len(rules.levels):
            service = rules.levels[state.job[j].level] - state.job[j].attained
            when = min(when, state.job[j].begun + service / work.job[j].gpus)
    return max(when, now + 1e-6)
