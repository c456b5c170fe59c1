"""A heap of streams by the time of their next event, in which a stream can be moved or taken out.

Transfers on links: max-min shares, solved again only for those connected by links that may be full.

The event kernel in machine code: ops start when what they wait for has ended and their stream is free.

A stream runs its ops in order, one at a time. Ops of a join start together. While an op of a stream that slows others
is under way, the ops of its domain that can be slowed go on at a smaller rate. A transfer also shares its links
(podsim.simulation.kernel). Events of one time are handled together; ties go by the order of streams.
"""

from __future__ import annotations

from podsim.jit import kernel, njit
from podsim.network.flow import Flows, Scratch, fill
from podsim.simulation.state import DIRTY, EVENTS, FRESH, HEAP, SOLVED, STAMP, Floats, Ints, Program, State


@kernel
def _earlier(time: float, stream: int, other: float, other_stream: int) -> bool:
    return time < other or (time == other and stream < other_stream)


@kernel
def _up(at: int, time: float, stream: int, times: Floats, streams: Ints, heap_index: Ints) -> int:
    """Move a hole towards the root as long as its parent comes later; where it ends."""
    while at > 0:
        parent = (at - 1) >> 2
        if not _earlier(time, stream, times[parent], streams[parent]):
            break
        times[at] = times[parent]
        streams[at] = streams[parent]
        heap_index[streams[at]] = at
        at = parent
    return at


@kernel
def _down(at: int, n: int, time: float, stream: int, times: Floats, streams: Ints, heap_index: Ints) -> int:
    """Move a hole away from the root as long as a child comes earlier; where it ends."""
    while True:
        child = 4 * at + 1
        if child >= n:
            break
        least = child
        for other in range(child + 1, min(child + 4, n)):
            if _earlier(times[other], streams[other], times[least], streams[least]):
                least = other
        if not _earlier(times[least], streams[least], time, stream):
            break
        times[at] = times[least]
        streams[at] = streams[least]
        heap_index[streams[at]] = at
        at = least
    return at


@kernel
def _settle_at(
    at: int, time: float, stream: int, times: Floats, streams: Ints, heap_index: Ints, number: Ints
) -> None:
    at = _up(at, time, stream, times, streams, heap_index)
    at = _down(at, number[HEAP], time, stream, times, streams, heap_index)
    times[at] = time
    streams[at] = stream
    heap_index[stream] = at


@kernel
def put(stream: int, time: float, times: Floats, streams: Ints, heap_index: Ints, number: Ints) -> None:
    """Set the time of a stream's next event, whether it is in the heap or not."""
    at = heap_index[stream]
    if at < 0:
        at = number[HEAP]
        number[HEAP] += 1
    _settle_at(at, time, stream, times, streams, heap_index, number)


@kernel
def drop(stream: int, times: Floats, streams: Ints, heap_index: Ints, number: Ints) -> None:
    """Take a stream out of the heap, if it is there."""
    at = heap_index[stream]
    if at >= 0:
        heap_index[stream] = -1
        number[HEAP] -= 1
        n = number[HEAP]
        if at < n:
            _settle_at(at, times[n], streams[n], times, streams, heap_index, number)


TIGHT = 1.0 + 1e-10
"""a link that could be asked for more than this times its capacity may hold its transfers back"""


@kernel
def _mark(link: int, p: Program, st: State) -> None:
    """Remember a link that a transfer joins or leaves, and whether it was full before."""
    if not st.marked[link]:
        st.marked[link] = 1
        st.was_tight[link] = st.demand[link] > p.capacity[link] * TIGHT
        st.dirty[st.number[DIRTY]] = link
        st.number[DIRTY] += 1


@kernel
def enter(s: int, kind: int, p: Program, st: State) -> None:
    """Put the transfer of a stream on its links."""
    st.flowing[s] = kind
    at = st.starts[s]
    st.lane[at] = len(p.capacity) + s
    st.lane_use[at] = 1.0
    st.capacity[len(p.capacity) + s] = p.peak[kind]
    for i in range(p.link_ptr[kind], p.link_ptr[kind + 1]):
        at += 1
        link = p.link[i]
        _mark(link, p, st)
        st.lane[at] = link
        st.lane_use[at] = p.use[i]
        st.following[at] = st.head[link]
        st.previous[at] = -1
        if st.head[link] >= 0:
            st.previous[st.head[link]] = at
        st.head[link] = at
        st.demand[link] += p.use[i] * p.peak[kind]
    st.ends[s] = at + 1
    st.fresh[st.number[FRESH]] = s
    st.number[FRESH] += 1


@kernel
def leave(s: int, p: Program, st: State) -> None:
    """Take the transfer of a stream off its links."""
    peak = p.peak[st.flowing[s]]
    st.flowing[s] = -1
    for at in range(st.starts[s] + 1, st.ends[s]):
        link = st.lane[at]
        _mark(link, p, st)
        before, behind = st.previous[at], st.following[at]
        if before >= 0:
            st.following[before] = behind
        else:
            st.head[link] = behind
        if behind >= 0:
            st.previous[behind] = before
        st.demand[link] = st.demand[link] - st.lane_use[at] * peak if st.head[link] >= 0 else 0.0


@kernel
def _find(s: int, room: int, p: Program, st: State) -> int:
    """The transfers that share with that of a stream over links that may be full: how many of State.members."""
    stamp = st.number[STAMP]
    st.members[0] = s
    st.seen[s] = stamp
    n, done = 1, 0
    while done < n:
        other = st.members[done]
        done += 1
        for at in range(st.starts[other] + 1, st.ends[other]):
            link = st.lane[at]
            if st.seen_link[link] == stamp or st.demand[link] <= p.capacity[link] * TIGHT:
                continue
            st.seen_link[link] = stamp
            entry = st.head[link]
            while entry >= 0:
                g = entry // room
                if st.seen[g] != stamp:
                    st.seen[g] = stamp
                    st.members[n] = g
                    n += 1
                entry = st.following[entry]
    return n


@kernel
def _share(s: int, now: float, room: int, p: Program, st: State) -> None:
    """New rates for the transfer of a stream and all that share with it."""
    if st.seen[s] == st.number[STAMP] or st.flowing[s] < 0:
        return
    n = _find(s, room, p, st)
    if n > 1:
        for i in range(n):
            st.todo[i] = st.members[i]
        flows = Flows(st.starts, st.ends, st.lane, st.lane_use, st.ones, st.capacity)
        fill(st.todo, n, flows, st.flow_rate, Scratch(st.left_over, st.load, st.users, st.busy))
        st.number[SOLVED] += 1
    else:
        rate = p.peak[st.flowing[s]]
        for at in range(st.starts[s] + 1, st.ends[s]):
            rate = min(rate, p.capacity[st.lane[at]] / st.lane_use[at])
        st.flow_rate[s] = rate
    for i in range(n):
        g = st.members[i]
        rate = st.flow_rate[g] / p.peak[st.flowing[g]]
        if rate != st.rate[g]:
            st.left[g] = max(0.0, st.left[g] - (now - st.since[g]) * st.rate[g])
            st.since[g] = now
            st.rate[g] = rate
            put(g, now + st.left[g] / rate, st.heap_time, st.heap_stream, st.heap_index, st.number)


@kernel
def settle(now: float, p: Program, st: State) -> None:
    """After all events of one time: new shares wherever a transfer joined or left."""
    if st.number[DIRTY] == 0 and st.number[FRESH] == 0:
        return
    room = len(st.lane) // max(len(st.starts), 1)
    st.number[STAMP] += 1
    for i in range(st.number[DIRTY]):
        link = st.dirty[i]
        st.marked[link] = 0
        if st.was_tight[link] or st.demand[link] > p.capacity[link] * TIGHT:
            entry = st.head[link]
            while entry >= 0:
                _share(entry // room, now, room, p, st)
                entry = st.following[entry]
    for i in range(st.number[FRESH]):
        _share(st.fresh[i], now, room, p, st)
    st.number[DIRTY] = 0
    st.number[FRESH] = 0


SAME = 1e-12
"""times within this share of each other are one: rounding tells them apart, not causes"""


@kernel
def _retime(s: int, rate: float, now: float, st: State) -> None:
    """Continue with the op of a stream at another rate."""
    st.left[s] = max(0.0, st.left[s] - (now - st.since[s]) * st.rate[s])
    st.since[s] = now
    st.rate[s] = rate
    put(s, now + st.left[s] / rate, st.heap_time, st.heap_stream, st.heap_index, st.number)


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
            put(s, now + p.latency[kind], st.heap_time, st.heap_stream, st.heap_index, st.number)
        else:
            enter(s, kind, p, st)
    else:
        st.rate[s] = 1.0 - p.share[0] if p.slowed[s] and st.active[p.domain[s]] > 0 else 1.0
        put(s, now + st.left[s] / st.rate[s], st.heap_time, st.heap_stream, st.heap_index, st.number)
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
    """Play to the end, or until nothing can continue; the time reached, s."""
    now = 0.0
    for s in range(len(p.order_ptr) - 1):
        _attempt(s, -1, now, p, st)
    settle(now, p, st)
    while st.number[HEAP] > 0:
        now = max(now, st.heap_time[0])
        limit = now + SAME * now
        while st.number[HEAP] > 0 and st.heap_time[0] <= limit:
            s = st.heap_stream[0]
            drop(s, st.heap_time, st.heap_stream, st.heap_index, st.number)
            op = st.running[s]
            if p.transfer[op] >= 0 and st.flowing[s] < 0 and st.left[s] > 0.0 and st.rate[s] == 0.0:
                enter(s, p.transfer[op], p, st)  # its latency is over
                st.since[s] = now
            else:
                _finish(s, now, p, st)
        settle(now, p, st)
    return now
