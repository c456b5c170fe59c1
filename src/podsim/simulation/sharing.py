"""Transfers on links: max-min shares, worked out anew only for those joined by links that may be full."""

from __future__ import annotations

from podsim.jit import kernel
from podsim.network.flow import fill
from podsim.simulation.heap import put
from podsim.simulation.state import DIRTY, FRESH, SOLVED, STAMP, Program, State

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
    """The transfers that share with that of a stream over links that may be full: how many of State.found."""
    stamp = st.number[STAMP]
    st.found[0] = s
    st.seen[s] = stamp
    n, done = 1, 0
    while done < n:
        other = st.found[done]
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
                    st.found[n] = g
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
            st.todo[i] = st.found[i]
        fill(st.todo, n, st.starts, st.ends, st.lane, st.lane_use, st.ones, st.capacity, st.flow_rate, st.left_over,
             st.load, st.users, st.busy)  # fmt: skip
        st.number[SOLVED] += 1
    else:
        rate = p.peak[st.flowing[s]]
        for at in range(st.starts[s] + 1, st.ends[s]):
            rate = min(rate, p.capacity[st.lane[at]] / st.lane_use[at])
        st.flow_rate[s] = rate
    for i in range(n):
        g = st.found[i]
        rate = st.flow_rate[g] / p.peak[st.flowing[g]]
        if rate != st.rate[g]:
            st.left[g] = max(0.0, st.left[g] - (now - st.since[g]) * st.rate[g])
            st.since[g] = now
            st.rate[g] = rate
            put(g, now + st.left[g] / rate, st.heap_time, st.heap_stream, st.place, st.number)


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
