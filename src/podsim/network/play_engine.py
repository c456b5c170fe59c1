"""The simulation of flows on links, in machine code: time in buckets, rates by max-min sharing, nothing solved twice.

- Flows that end at the same time share a bucket; a heap holds the buckets. A batch is all that happens at one time.
- A flow that ends and starts its next transfer in the same batch leaves its links as they were: it keeps its rate.
- Otherwise only flows joined to it by links that may be full (their active flows could use more than there is) get
  new rates. What such a set of lanes gets is remembered, under the sum of random numbers of its lanes.
- Transfers in the latency of links need no heap: those of one latency arrive in the order in which they left.
"""

from __future__ import annotations

import numpy as np

from podsim.jit import kernel
from podsim.network.collectives.table import Floats, Ints
from podsim.network.flow import Flows, Scratch, fill
from podsim.network.play_memo import memo_slot, remember
from podsim.network.play_state import (
    ACTIVE,
    AGAIN,
    DIRTY,
    ENDED,
    EVENTS,
    FREE_BUCKETS,
    FREE_CELLS,
    HEAP,
    IDLE,
    MANY,
    NEW,
    ROOM,
    SAME,
    SOLVED,
    STAMP,
    TIGHT,
    TOUCHED,
    Program,
    Records,
    State,
)  # fmt: skip
from podsim.network.play_time import heap_pop, schedule, unschedule

PAUSE_EVENTS, PAUSE_SOLVED = 2_000_000, 2_000
"""The ended transfers, and the solved sets of flows, between two checks for Ctrl-C."""


@kernel
def _next_bytes(f: int, flows: Records, chunk_bytes: Floats, chunk_ends: Floats) -> float:
    """The bytes of a flow's next transfer."""
    first, count = flows[f].chunk, flows[f].width
    if flows[f].turn != 0:
        wheel = flows[f].wheel
        base = first // wheel * wheel
        first = base + (first - base + flows[f].turn * count * flows[f].sent) % wheel
    if count == 1:
        return float(chunk_bytes[first])
    return float(chunk_ends[first + count] - chunk_ends[first])


@kernel
def _try_start(f: int, flows: Records, gates: Records, touched: Ints, number: Ints) -> None:
    """Start the next transfer of a flow if the flow is free and its inputs have arrived."""
    k, mode = flows[f].sent, flows[f].mode
    if mode not in (IDLE, ENDED) or k >= flows[f].repeat:
        return
    before = flows[f].before
    if k == 0 and before >= 0 and flows[before].sent < flows[before].repeat:
        return
    gate = flows[f].gate
    if gate >= 0 and k >= gates[gate].open:
        return
    if mode == ENDED:
        flows[f].mode = AGAIN
    else:
        flows[f].mode = NEW
        touched[number[TOUCHED]] = f
        number[TOUCHED] += 1


@kernel
def _open_count(gate: int, gates: Records, groups: Records, deps: Records) -> int:
    """The number of transfers that a gate admits on each of its flows so far."""
    opened = MANY
    for i in range(gates[gate].deps, gates[gate].deps_end):
        group = deps[i].group
        if groups[group].done < groups[group].repeat:
            opened = min(opened, groups[group].done + deps[i].lag)
    return opened


@kernel
def _arrive(f: int, now: float, s: State) -> None:
    """Record the arrival of a transfer, and start the flows that waited for its group."""
    flows, gates, groups, wakes, items = s.flows, s.gates, s.groups, s.wakes, s.items
    flows[f].got += 1
    flows[f].last = now
    group = flows[f].group
    if group < 0 or flows[f].got - 1 != groups[group].done:
        return
    a, b = groups[group].flows, groups[group].flows_end
    ahead = groups[group].ahead + 1
    groups[group].ahead = ahead
    if ahead < b - a:
        return
    while ahead == b - a:
        groups[group].done += 1
        ahead = 0
        for i in range(a, b):
            if flows[items[i]].got > groups[group].done:
                ahead += 1
    groups[group].ahead = ahead
    for i in range(groups[group].wakes, groups[group].wakes_end):
        gate = wakes[i].gate
        if groups[group].done < groups[group].repeat and groups[group].done + wakes[i].lag <= 0:
            continue
        opened = _open_count(gate, gates, groups, s.deps)
        if opened == gates[gate].open:
            continue
        gates[gate].open = opened
        for j in range(gates[gate].flows, gates[gate].flows_end):
            _try_start(items[j], flows, gates, s.touched, s.number)


@kernel
def _end(f: int, now: float, delays: Floats, s: State) -> None:
    """End the transmission of a transfer; it arrives after the latency of its links."""
    flows, touched, number, cells, waves_W2 = s.flows, s.touched, s.number, s.cells, s.waves_W2
    flows[f].sent += 1
    flows[f].mode = ENDED
    flows[f].bucket = -1
    touched[number[TOUCHED]] = f
    number[TOUCHED] += 1
    number[EVENTS] += 1
    wave = flows[f].delay
    if delays[wave] == 0.0:
        _arrive(f, now, s)
    else:
        cell = number[FREE_CELLS]
        number[FREE_CELLS] = cells[cell].next
        number[ROOM] -= 1
        cells[cell].flow = f
        cells[cell].time = now + delays[wave]
        cells[cell].next = -1
        if waves_W2[wave, 1] >= 0:
            cells[waves_W2[wave, 1]].next = cell
        else:
            waves_W2[wave, 0] = cell
        waves_W2[wave, 1] = cell
    _try_start(f, flows, s.gates, touched, number)
    after = flows[f].after
    if after >= 0 and flows[f].sent == flows[f].repeat:
        _try_start(after, flows, s.gates, touched, number)


@kernel
def _occupy(f: int, now: float, step: int, p: Program, s: State) -> None:
    """Put a flow on its links (step 1) or take it off (step -1)."""
    flows, lanes, links, on_link, slots, link, use = (
        s.flows,
        s.lanes,
        s.links,
        s.on_link,
        s.slots,
        p.link,
        p.use,
    )
    if step > 0:
        flows[f].began = now
    else:
        flows[f].busy += now - flows[f].began
    lane = flows[f].lane
    for i in range(lanes[lane].first, lanes[lane].end):
        on = link[i]
        users = links[on].users
        links[on].users = users + step
        if users == 0:
            links[on].since = now
        elif users + step == 0:
            links[on].busy += now - links[on].since
    for i in range(lanes[lane].first, lanes[lane].middle):
        on, slot = link[i], flows[f].slots + i - lanes[lane].first
        if not links[on].dirty:
            links[on].dirty = 1
            links[on].was = links[on].demand
            s.dirty[s.number[DIRTY]] = on
            s.number[DIRTY] += 1
        n, room = links[on].flows, links[on].room
        if step > 0:
            on_link[room + n].flow = f
            on_link[room + n].slot = slot
            slots[slot] = room + n
            links[on].demand += use[i] * flows[f].limit
        else:
            at = slots[slot]
            on_link[at].flow = on_link[room + n - 1].flow
            on_link[at].slot = on_link[room + n - 1].slot
            slots[on_link[at].slot] = at
            links[on].demand = links[on].demand - use[i] * flows[f].limit if n > 1 else 0.0
        links[on].flows = n + step


@kernel
def _solve(p: Program, s: State, n: int, sign: int) -> None:
    """Set lane_rate for the n flows of `members`, whose lanes' keys add up to `sign`."""
    slot = memo_slot(sign, s.memo)
    at = s.memo[slot].at
    if at >= 0:
        for i in range(at, at + s.memo[slot].lanes):
            s.lane_rate[s.memo_rates[i].lane] = s.memo_rates[i].rate
        return
    for i in range(n):
        s.todo[i] = s.flows[s.members[i]].lane
    flows = Flows(p.start, p.middle, p.link, p.use, p.ones, p.capacity)
    fill(s.todo, n, flows, s.lane_rate, Scratch(s.left, s.load, s.users, s.full))
    s.number[SOLVED] += 1
    remember(n, sign, s.flows, s.members, s.memo, s.memo_rates, s.lane_rate, s.number)


@kernel
def _find(f: int, flows: Records, lanes: Records, links: Records, on_link: Records, link: Ints, members: Ints,
          stamp: int) -> tuple[int, int]:  # fmt: skip
    """The flows connected to a flow by links that may be full now: (their number, the sum of their lanes' keys)."""
    members[0] = f
    flows[f].seen = stamp
    n, done, sign = 1, 0, 0
    while done < n:
        lane = flows[members[done]].lane
        done += 1
        sign += lanes[lane].key
        for i in range(lanes[lane].first, lanes[lane].middle):
            on = link[i]
            if links[on].seen == stamp or links[on].demand <= links[on].capacity * TIGHT:
                continue
            links[on].seen = stamp
            for j in range(links[on].room, links[on].room + links[on].flows):
                g = on_link[j].flow
                if flows[g].seen != stamp:
                    flows[g].seen = stamp
                    members[n] = g
                    n += 1
    return n, sign


@kernel
def _share(f: int, now: float, p: Program, s: State) -> None:
    """Set new rates for a flow and all flows that share links with it."""
    flows, buckets, number = s.flows, s.buckets, s.number
    if flows[f].seen == number[STAMP]:
        return
    n, sign = _find(f, flows, s.lanes, s.links, s.on_link, p.link, s.members, number[STAMP])
    if n == 1:
        s.lane_rate[flows[f].lane] = flows[f].limit
    else:
        _solve(p, s, n, sign)
    for i in range(n):
        g = s.members[i]
        rate = s.lane_rate[flows[g].lane]
        if flows[g].bucket < 0:
            flows[g].rate = rate
        elif abs(rate - flows[g].rate) > SAME * rate:
            flows[g].left = max(0.0, flows[g].left - flows[g].rate * (now - flows[g].since))
            flows[g].since = now
            flows[g].rate = rate
            unschedule(g, flows, buckets)
            schedule(g, now, flows, buckets, s.heap, s.free, s.recent, number)


@kernel
def _share_all(p: Program, s: State, now: float, n: int) -> None:
    """Set new rates for all flows that may share a link with one that started or ended in this batch."""
    s.number[STAMP] += 1
    for d in range(s.number[DIRTY]):
        on = s.dirty[d]
        s.links[on].dirty = 0
        if max(s.links[on].demand, s.links[on].was) > s.links[on].capacity * TIGHT:
            for j in range(s.links[on].room, s.links[on].room + s.links[on].flows):
                _share(s.on_link[j].flow, now, p, s)
    for i in range(n):
        f = s.touched[i]
        if s.flows[f].mode == NEW and not s.flows[f].lone:
            _share(f, now, p, s)
    s.number[DIRTY] = 0


@kernel
def _settle(p: Program, s: State, now: float) -> None:
    """After a batch, update the links, solve the sets that changed, and schedule the ends."""
    flows, touched, number = s.flows, s.touched, s.number
    buckets, heap, free, recent = s.buckets, s.heap, s.free, s.recent
    n = number[TOUCHED]
    for i in range(n):
        f = touched[i]
        if flows[f].mode == ENDED:
            flows[f].mode = IDLE
            _occupy(f, now, -1, p, s)
    for i in range(n):
        f = touched[i]
        if flows[f].mode != IDLE:
            size = flows[f].bytes
            flows[f].left = size if size >= 0.0 else _next_bytes(f, flows, p.chunk_bytes, p.chunk_ends)
            flows[f].since = now
            if flows[f].mode == NEW:
                flows[f].rate = flows[f].limit
                _occupy(f, now, 1, p, s)
    if number[DIRTY]:
        _share_all(p, s, now, n)
    for i in range(n):
        f = touched[i]
        if flows[f].mode != IDLE:
            flows[f].mode = ACTIVE
            schedule(f, now, flows, buckets, heap, free, recent, number)
    number[TOUCHED] = 0


@kernel
def _batch(p: Program, s: State, now: float) -> None:
    """Process all ends and arrivals at one time."""
    number, cells, waves_W2 = s.number, s.cells, s.waves_W2
    buckets, heap, free = s.buckets, s.heap, s.free
    limit = now + SAME * now
    while number[HEAP] > 0 and heap[0].time <= limit:
        bucket = heap_pop(heap, number)
        f = buckets[bucket].head
        buckets[bucket].time = -1.0
        free[number[FREE_BUCKETS]] = bucket
        number[FREE_BUCKETS] += 1
        while f >= 0:
            following = s.flows[f].next
            _end(f, now, p.delays, s)
            f = following
    for w in range(len(waves_W2)):
        while waves_W2[w, 0] >= 0 and cells[waves_W2[w, 0]].time <= limit:
            cell = waves_W2[w, 0]
            waves_W2[w, 0] = cells[cell].next
            if waves_W2[w, 0] < 0:
                waves_W2[w, 1] = -1
            cells[cell].next = number[FREE_CELLS]
            number[FREE_CELLS] = cell
            number[ROOM] += 1
            _arrive(cells[cell].flow, now, s)


@kernel
def run(p: Program, s: State, now: float) -> tuple[float, bool]:
    """Play on from `now` (below zero: from the start): (time reached, whether it is the end).

    It is not the end if transfers under way might outgrow their room (call again with `more_room(s)`), or after a second
    or so, as Python heeds Ctrl-C between calls only.
    All flows must be able to end: every link has capacity.
    """
    if now < 0.0:
        now = 0.0
        for gate in range(len(s.gates)):
            s.gates[gate].open = _open_count(gate, s.gates, s.groups, s.deps)
        for f in range(len(s.flows)):
            _try_start(f, s.flows, s.gates, s.touched, s.number)
        _settle(p, s, now)
    events, solved = s.number[EVENTS] + PAUSE_EVENTS, s.number[SOLVED] + PAUSE_SOLVED
    while True:
        time = np.inf
        if s.number[HEAP] > 0:
            time = s.heap[0].time
        for w in range(len(s.waves_W2)):
            if s.waves_W2[w, 0] >= 0:
                time = min(time, s.cells[s.waves_W2[w, 0]].time)
        if time == np.inf:
            return now, True
        if s.number[ROOM] < len(s.flows) or s.number[EVENTS] > events or s.number[SOLVED] > solved:
            return now, False
        now = max(now, time)
        _batch(p, s, now)
        _settle(p, s, now)
