"""The event kernel in machine code: ops start when what they wait for has ended and their stream is free.

A stream runs its ops in order, one at a time. Ops of a join start together. While an op of a stream that slows others
is under way, the ops of its domain that can be slowed go on at a smaller rate. A transfer also shares its links
(podsim.simulation.sharing). Events of one time are handled together; ties go by the order of streams.
"""

from __future__ import annotations

from podsim.jit import kernel, njit
from podsim.simulation.heap import drop, put
from podsim.simulation.sharing import enter, leave, settle
from podsim.simulation.state import EVENTS, HEAP, Program, State

SAME = 1e-12
"""times within this share of each other are one: rounding tells them apart, not causes"""


@kernel
def _retime(s: int, rate: float, now: float, st: State) -> None:
    """Go on with the op of a stream at another rate."""
    st.left[s] = max(0.0, st.left[s] - (now - st.since[s]) * st.rate[s])
    st.since[s] = now
    st.rate[s] = rate
    put(s, now + st.left[s] / rate, st.heap_time, st.heap_stream, st.place, st.number)


@kernel
def _slow(s: int, change: int, now: float, p: Program, st: State) -> None:
    """An op that slows others has started (1) or ended (-1) on a stream."""
    d = p.domain[s]
    before = st.active[d]
    st.active[d] = before + change
    if before > 0 and before + change > 0:
        return
    rate = 1.0 - p.share[0] if before + change > 0 else 1.0
    for i in range(p.domain_ptr[d], p.domain_ptr[d + 1]):
        other = p.domain_stream[i]
        if st.running[other] >= 0:
            _retime(other, rate, now, st)


@kernel
def _start(s: int, op: int, cause: int, now: float, p: Program, st: State) -> None:
    """Start an op on its idle stream."""
    st.running[s] = op
    st.start[op] = now
    st.why[op] = cause
    st.left[s] = p.seconds[op]
    st.since[s] = now
    kind = p.transfer[op]
    if kind >= 0 and p.seconds[op] > 0.0:
        st.rate[s] = 0.0
        if p.latency[kind] > 0.0:
            put(s, now + p.latency[kind], st.heap_time, st.heap_stream, st.place, st.number)
        else:
            enter(s, kind, p, st)
    else:
        st.rate[s] = 1.0 - p.share[0] if p.slowed[s] and st.active[p.domain[s]] > 0 else 1.0
        put(s, now + st.left[s] / st.rate[s], st.heap_time, st.heap_stream, st.place, st.number)
    if p.slows[s]:
        _slow(s, 1, now, p, st)


@kernel
def _attempt(s: int, cause: int, now: float, p: Program, st: State) -> None:
    """Start the next op of a stream, if it can: its join's other ops with it."""
    if st.running[s] >= 0 or st.held[s] or st.at[s] >= p.order_ptr[s + 1]:
        return
    op = p.order[st.at[s]]
    if st.need[op] > 0:
        return
    join = p.join[op]
    if join < 0:
        _start(s, op, cause, now, p, st)
        return
    st.held[s] = 1
    st.join_next[s] = st.join_head[join]
    st.join_head[join] = s
    st.join_need[join] -= 1
    if st.join_need[join] == 0:
        other = s
        while other >= 0:
            following = st.join_next[other]
            st.held[other] = 0
            _start(other, p.order[st.at[other]], cause, now, p, st)
            other = following


@kernel
def _finish(s: int, now: float, p: Program, st: State) -> None:
    """The op of a stream has ended: those that waited for it may start, and the next one of the stream."""
    op = st.running[s]
    st.end[op] = now
    st.running[s] = -1
    st.number[EVENTS] += 1
    if st.flowing[s] >= 0:
        leave(s, p, st)
    if p.slows[s]:
        _slow(s, -1, now, p, st)
    st.at[s] += 1
    for i in range(p.next_ptr[op], p.next_ptr[op + 1]):
        other = p.after[i]
        st.need[other] -= 1
        if st.need[other] == 0 and p.stream[other] != s:
            _attempt(p.stream[other], op, now, p, st)
    _attempt(s, op, now, p, st)


@njit
def run(p: Program, st: State) -> float:
    """Play to the end, or to where nothing can go on; the time reached, s."""
    now = 0.0
    for s in range(len(p.order_ptr) - 1):
        _attempt(s, -1, now, p, st)
    settle(now, p, st)
    while st.number[HEAP] > 0:
        now = max(now, st.heap_time[0])
        limit = now + SAME * now
        while st.number[HEAP] > 0 and st.heap_time[0] <= limit:
            s = st.heap_stream[0]
            drop(s, st.heap_time, st.heap_stream, st.place, st.number)
            op = st.running[s]
            if p.transfer[op] >= 0 and st.flowing[s] < 0 and st.left[s] > 0.0 and st.rate[s] == 0.0:
                enter(s, p.transfer[op], p, st)  # its latency is over
                st.since[s] = now
            else:
                _finish(s, now, p, st)
        settle(now, p, st)
    return now
