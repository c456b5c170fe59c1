"""The simulation of flows on links, in machine code: time in buckets, rates by max-min sharing, nothing solved twice.

- Flows that end at the same time share a bucket; a heap holds the buckets. A batch is all that happens at one time.
- A flow that ends and starts its next transfer in the same batch leaves its links as they were: it keeps its rate.
- Only lanes that can hold each other back are solved together (a *part*: lanes joined by links that can fill up).
- What a part's set of active lanes gets is remembered under the sum of random numbers of those lanes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.network.collectives.table import Floats, Ints
from podsim.network.flow import fill
from podsim.network.jit import njit

__all__ = ["EVENTS", "SOLVED", "Program", "State", "more_room", "new_state", "run", "typed"]

SAME = 1e-12
"""times and rates within this share of each other are one: rounding, not sharing, tells them apart"""
IDLE, ACTIVE, ENDED, AGAIN, NEW = 0, 1, 2, 3, 4
HEAP, TOUCHED, DIRTY, MEMO, STORED, FREE_BUCKETS, FREE_CELLS, ROOM, EVENTS, RECENT, SOLVED = range(11)


class Program(NamedTuple):
    """What is simulated: F flows on A lanes over L links (and one more for each lane's own limit), G gates, K groups."""

    repeat: Ints
    """[F]"""
    chunk: Ints
    count: Ints
    turn: Ints
    wheel: Ints
    chunk_bytes: Floats
    """[chunks]"""
    chunk_ends: Floats
    """bytes before each chunk, [chunks + 1]"""
    lane: Ints
    delay: Ints
    """which of `delays` a flow has, [F]"""
    delays: Floats
    """s from the last byte sent to the last byte there, one of each value"""
    before: Ints
    after: Ints
    gate: Ints
    dep_ptr: Ints
    dep_group: Ints
    dep_lag: Ints
    gate_ptr: Ints
    gate_flow: Ints
    """flows behind a gate, [G + 1] and [F]"""
    group: Ints
    group_repeat: Ints
    group_ptr: Ints
    group_flow: Ints
    wake_ptr: Ints
    wake_gate: Ints
    """gates that wait for a group, [K + 1]"""
    start: Ints
    """a lane's entries: link[start : middle] can bind it, link[middle : end] only carry it, [A]"""
    middle: Ints
    end: Ints
    link: Ints
    use: Floats
    """how many of a lane's flows cross the link"""
    capacity: Floats
    """[L + A]: of links, then the limit of each lane alone"""
    part: Ints
    """of each lane, [A]"""
    place: Ints
    """of each lane in its part, [A]"""
    part_size: Ints
    """lanes in a part"""
    part_ptr: Ints
    """room for the active flows of a part"""
    key: Ints
    """a random number for each lane"""
    ones: Floats
    """[A]"""

# one record for each thing, so that what is used together lies together; i4: numbers of things, i8: sums, f8: SI
FLOW = np.dtype([
    ("mode", "i4"), ("sent", "i4"), ("got", "i4"), ("repeat", "i4"), ("gate", "i4"), ("group", "i4"), ("lane", "i4"),
    ("delay", "i4"), ("before", "i4"), ("after", "i4"), ("bucket", "i4"), ("next", "i4"), ("previous", "i4"),
    ("spot", "i4"), ("chunk", "i4"), ("count", "i4"), ("turn", "i4"), ("wheel", "i4"),
    ("left", "f8"), ("since", "f8"), ("rate", "f8"), ("last", "f8"),
])  # fmt: skip
GROUP = np.dtype([("done", "i4"), ("ahead", "i4"), ("repeat", "i4"), ("flows", "i4"), ("flows_end", "i4"),
                  ("wakes", "i4"), ("wakes_end", "i4")])  # fmt: skip
GATE = np.dtype([("deps", "i4"), ("deps_end", "i4"), ("flows", "i4"), ("flows_end", "i4")])
DEP = np.dtype([("group", "i4"), ("lag", "i4")])
LANE = np.dtype([("start", "i4"), ("middle", "i4"), ("end", "i4"), ("part", "i4"), ("place", "i4"), ("key", "i8")])
LINK = np.dtype([("users", "i8"), ("since", "f8"), ("busy", "f8")])
PART = np.dtype([("room", "i4"), ("size", "i4"), ("active", "i4"), ("dirty", "i4"), ("sign", "i8"), ("solved", "i8")])
BUCKET = np.dtype([("time", "f8"), ("head", "i8")])
CELL = np.dtype([("time", "f8"), ("flow", "i4"), ("next", "i4")])
MEMO_SLOT = np.dtype([("sign", "i8"), ("at", "i8")])

Records: TypeAlias = NDArray[np.void]


FLOATS = ("chunk_bytes", "chunk_ends", "delays", "use", "capacity", "ones")


def typed(p: Program) -> Program:
    """The program with arrays of one kind, so that the kernels are compiled once."""
    kinds = (np.float64 if name in FLOATS else np.int64 for name in p._fields)
    return Program(*(np.require(array, kind, ["C", "W"]) for array, kind in zip(p, kinds, strict=True)))


class State(NamedTuple):
    """Where the simulation stands: records as above, and the lists of what has to be looked at."""

    flows: Records
    groups: Records
    gates: Records
    deps: Records
    items: Ints
    """flows of gates, flows of groups and gates that groups wake: the records hold the bounds"""
    lanes: Records
    links: Records
    parts: Records
    buckets: Records
    heap: Ints
    free: Ints
    """unused buckets"""
    recent: Ints
    """the last eight buckets"""
    waves_W2: Ints
    """first and last transfer under way of each delay: first in, first out; W delays"""
    cells: Records
    """transfers under way in the latency of links"""
    active: Ints
    """active flows of the parts, each part in its room"""
    touched: Ints
    """flows that ended or started in this batch"""
    dirty: Ints
    """parts in which a lane changed in this batch"""
    memo: Records
    memo_rate: Floats
    lane_rate: Floats
    left: Floats
    load: Floats
    users: Ints
    full: Ints
    todo: Ints
    """left to todo: scratch of `fill`"""
    number: Ints
    """counters: see HEAP to SOLVED"""


def _records(kind: np.dtype[np.void], n: int, **columns: ArrayLike) -> Records:
    made = np.zeros(n, kind)
    for name, column in columns.items():
        made[name] = column
    return made


def new_state(p: Program) -> State:
    """A state before the start."""
    flows, lanes, links, parts = len(p.repeat), len(p.part), len(p.capacity), len(p.part_size)
    buckets, memo, room = 4 * flows + 64, 1 << min(20, max(10, (64 * lanes).bit_length())), 2 * flows + 16
    number = np.zeros(11, np.int64)
    number[FREE_BUCKETS], number[ROOM] = buckets, room
    gate_at, group_at = len(p.gate_flow), len(p.gate_flow) + len(p.group_flow)
    return State(
        flows=_records(
            FLOW, flows, bucket=-1, **{name: getattr(p, name) for name in (
                "repeat", "gate", "group", "lane", "delay", "before", "after", "chunk", "count", "turn", "wheel"
            )},
        ),
        groups=_records(
            GROUP, len(p.group_repeat), repeat=p.group_repeat, flows=gate_at + p.group_ptr[:-1],
            flows_end=gate_at + p.group_ptr[1:], wakes=group_at + p.wake_ptr[:-1], wakes_end=group_at + p.wake_ptr[1:],
        ),
        gates=_records(
            GATE, len(p.dep_ptr) - 1, deps=p.dep_ptr[:-1], deps_end=p.dep_ptr[1:], flows=p.gate_ptr[:-1],
            flows_end=p.gate_ptr[1:],
        ),
        deps=_records(DEP, len(p.dep_group), group=p.dep_group, lag=p.dep_lag),
        items=np.concatenate([p.gate_flow, p.group_flow, p.wake_gate]),
        lanes=_records(
            LANE, lanes, start=p.start, middle=p.middle, end=p.end, part=p.part, place=p.place, key=p.key
        ),
        links=_records(LINK, links), parts=_records(PART, parts, size=p.part_size, room=p.part_ptr[:-1]),
        buckets=_records(BUCKET, buckets, time=-1.0, head=-1), heap=np.zeros(buckets, np.int64),
        free=np.arange(buckets), recent=np.zeros(8, np.int64), waves_W2=np.full((len(p.delays), 2), -1),
        cells=_records(CELL, room, next=np.arange(1, room + 1)), active=np.zeros(flows, np.int64),
        touched=np.zeros(flows, np.int64), dirty=np.zeros(parts, np.int64), memo=_records(MEMO_SLOT, memo, at=-1),
        memo_rate=np.empty(1 << 24), lane_rate=np.zeros(lanes), left=np.zeros(links), load=np.zeros(links),
        users=np.zeros(links, np.int64), full=np.zeros(links, np.int64), todo=np.zeros(flows, np.int64), number=number,
    )  # fmt: skip


def more_room(s: State) -> State:
    """The state with room for twice as many transfers under way."""
    room = len(s.cells)
    s.number[ROOM] += room
    more = _records(CELL, room, next=np.arange(room + 1, 2 * room + 1))
    more["next"][-1] = s.number[FREE_CELLS]
    s.number[FREE_CELLS] = room
    return s._replace(cells=np.concatenate([s.cells, more]))


@njit
def _heap_push(bucket: int, buckets: Records, heap: Ints, number: Ints) -> None:
    at = number[HEAP]
    number[HEAP] += 1
    time = buckets[bucket].time
    while at > 0:
        up = (at - 1) >> 1
        if buckets[heap[up]].time <= time:
            break
        heap[at] = heap[up]
        at = up
    heap[at] = bucket


@njit
def _heap_pop(buckets: Records, heap: Ints, number: Ints) -> int:
    top = heap[0]
    number[HEAP] -= 1
    n = number[HEAP]
    last = heap[n]
    time, at = buckets[last].time, 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and buckets[heap[down + 1]].time < buckets[heap[down]].time:
            down += 1
        if buckets[heap[down]].time >= time:
            break
        heap[at] = heap[down]
        at = down
    heap[at] = last
    return int(top)


@njit
def _compact(buckets: Records, heap: Ints, free: Ints, number: Ints) -> None:
    """Drop empty buckets from the heap, when room for new ones runs out."""
    n = number[HEAP]
    number[HEAP] = 0
    for i in range(n):
        bucket = heap[i]
        if buckets[bucket].head >= 0:
            _heap_push(bucket, buckets, heap, number)
        else:
            buckets[bucket].time = -1.0
            free[number[FREE_BUCKETS]] = bucket
            number[FREE_BUCKETS] += 1


@njit
def _schedule(f: int, now: float, flows: Records, buckets: Records, heap: Ints, free: Ints, recent: Ints,
              number: Ints) -> None:  # fmt: skip
    """Put a flow into the bucket of the time it will end at."""
    due = now + flows[f].left / flows[f].rate if flows[f].left > 0.0 else now
    bucket = -1
    for i in range(8):
        if abs(buckets[recent[i]].time - due) <= SAME * due:
            bucket = recent[i]
            break
    if bucket < 0:
        if number[FREE_BUCKETS] == 0:
            _compact(buckets, heap, free, number)
        number[FREE_BUCKETS] -= 1
        bucket = free[number[FREE_BUCKETS]]
        buckets[bucket].time = due
        buckets[bucket].head = -1
        _heap_push(bucket, buckets, heap, number)
        recent[number[RECENT] & 7] = bucket
        number[RECENT] += 1
    head = buckets[bucket].head
    flows[f].bucket = bucket
    flows[f].next = head
    flows[f].previous = -1
    if head >= 0:
        flows[head].previous = f
    buckets[bucket].head = f


@njit
def _unschedule(f: int, flows: Records, buckets: Records) -> None:
    before, behind = flows[f].previous, flows[f].next
    if before >= 0:
        flows[before].next = behind
    else:
        buckets[flows[f].bucket].head = behind
    if behind >= 0:
        flows[behind].previous = before
    flows[f].bucket = -1


@njit
def _bytes(f: int, flows: Records, chunk_bytes: Floats, chunk_ends: Floats) -> float:
    """Bytes of a flow's next transfer."""
    first, count = flows[f].chunk, flows[f].count
    if flows[f].turn != 0:
        wheel = flows[f].wheel
        base = first // wheel * wheel
        first = base + (first - base + flows[f].turn * count * flows[f].sent) % wheel
    if count == 1:
        return chunk_bytes[first]
    return chunk_ends[first + count] - chunk_ends[first]


@njit
def _try(f: int, flows: Records, gates: Records, groups: Records, deps: Records, touched: Ints, number: Ints) -> None:
    """Start the next transfer of a flow if it is free and all it waits for is there."""
    k, mode = flows[f].sent, flows[f].mode
    if (mode != IDLE and mode != ENDED) or k >= flows[f].repeat:
        return
    before = flows[f].before
    if k == 0 and before >= 0 and flows[before].sent < flows[before].repeat:
        return
    gate = flows[f].gate
    if gate >= 0:
        for i in range(gates[gate].deps, gates[gate].deps_end):
            group = deps[i].group
            if groups[group].done < min(k - deps[i].lag + 1, groups[group].repeat):
                return
    if mode == ENDED:
        flows[f].mode = AGAIN
    else:
        flows[f].mode = NEW
        touched[number[TOUCHED]] = f
        number[TOUCHED] += 1


@njit
def _arrive(f: int, now: float, flows: Records, gates: Records, groups: Records, deps: Records, items: Ints,
            touched: Ints, number: Ints) -> None:  # fmt: skip
    """A transfer is there: whoever waits for its group may start."""
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
        gate = items[i]
        for j in range(gates[gate].flows, gates[gate].flows_end):
            _try(items[j], flows, gates, groups, deps, touched, number)


@njit
def _end(f: int, now: float, delays: Floats, flows: Records, gates: Records, groups: Records, deps: Records, items: Ints,
         waves_W2: Ints, cells: Records, touched: Ints, number: Ints) -> None:  # fmt: skip
    """The last byte of a transfer has left."""
    flows[f].sent += 1
    flows[f].mode = ENDED
    flows[f].bucket = -1
    touched[number[TOUCHED]] = f
    number[TOUCHED] += 1
    number[EVENTS] += 1
    wave = flows[f].delay
    if delays[wave] == 0.0:
        _arrive(f, now, flows, gates, groups, deps, items, touched, number)
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
    _try(f, flows, gates, groups, deps, touched, number)
    after = flows[f].after
    if after >= 0 and flows[f].sent == flows[f].repeat:
        _try(after, flows, gates, groups, deps, touched, number)


@njit
def _occupy(f: int, now: float, step: int, flows: Records, lanes: Records, link: Ints, links: Records, parts: Records,
            active: Ints, dirty: Ints, number: Ints) -> None:  # fmt: skip
    """Put a flow on its links (step 1) or take it off (step -1)."""
    lane = flows[f].lane
    for i in range(lanes[lane].start, lanes[lane].end):
        on = link[i]
        users = links[on].users
        links[on].users = users + step
        if users == 0:
            links[on].since = now
        elif users + step == 0:
            links[on].busy += now - links[on].since
    part = lanes[lane].part
    base, n = parts[part].room, parts[part].active
    if step > 0:
        flows[f].spot = n
        active[base + n] = f
    else:
        moved = active[base + n - 1]
        active[base + flows[f].spot] = moved
        flows[moved].spot = flows[f].spot
    parts[part].active = n + step
    parts[part].sign += step * lanes[lane].key
    if not parts[part].dirty:
        parts[part].dirty = 1
        dirty[number[DIRTY]] = part
        number[DIRTY] += 1


@njit
def _memo_slot(sign: int, memo: Records) -> int:
    """Where a set of active lanes is remembered, or would be."""
    mask = len(memo) - 1
    at = (sign ^ (sign >> 32)) & mask
    while memo[at].at >= 0 and memo[at].sign != sign:
        at = (at + 1) & mask
    return int(at)


@njit
def _solve(p: Program, s: State, part: int) -> None:
    """Set lane_rate for the active flows of a part."""
    n, base = s.parts[part].active, s.parts[part].room
    slot = _memo_slot(s.parts[part].sign, s.memo)
    at = s.memo[slot].at
    if at >= 0:
        for i in range(base, base + n):
            lane = s.flows[s.active[i]].lane
            s.lane_rate[lane] = s.memo_rate[at + s.lanes[lane].place]
        return
    for i in range(n):
        s.todo[i] = s.flows[s.active[base + i]].lane
    fill(s.todo, n, p.start, p.middle, p.link, p.use, p.ones, p.capacity, s.lane_rate, s.left, s.load, s.users, s.full)
    s.number[SOLVED] += 1
    at = s.number[STORED]
    if at + s.parts[part].size <= len(s.memo_rate) and 2 * s.number[MEMO] < len(s.memo):
        s.memo[slot].sign = s.parts[part].sign
        s.memo[slot].at = at
        for i in range(base, base + n):
            lane = s.flows[s.active[i]].lane
            s.memo_rate[at + s.lanes[lane].place] = s.lane_rate[lane]
        s.number[STORED] += s.parts[part].size
        s.number[MEMO] += 1


@njit
def _lone_rate(lane: int, lanes: Records, link: Ints, use: Floats, capacity: Floats) -> float:
    """Rate of a flow alone in its part."""
    rate = np.inf
    for i in range(lanes[lane].start, lanes[lane].middle):
        rate = min(rate, capacity[link[i]] / use[i])
    return rate


@njit
def _share(p: Program, s: State, now: float) -> None:
    """New rates in the parts that changed."""
    flows, parts, buckets = s.flows, s.parts, s.buckets
    for d in range(s.number[DIRTY]):
        part = s.dirty[d]
        parts[part].dirty = 0
        n, room = parts[part].active, parts[part].room
        if n == 1:
            lane = flows[s.active[room]].lane
            s.lane_rate[lane] = _lone_rate(lane, s.lanes, p.link, p.use, p.capacity)
        elif n > 1 and parts[part].sign != parts[part].solved:
            _solve(p, s, part)
        parts[part].solved = parts[part].sign
        for i in range(room, room + n):
            f = s.active[i]
            rate = s.lane_rate[flows[f].lane]
            if flows[f].bucket < 0:
                flows[f].rate = rate
            elif abs(rate - flows[f].rate) > SAME * rate:
                flows[f].left = max(0.0, flows[f].left - flows[f].rate * (now - flows[f].since))
                flows[f].since = now
                flows[f].rate = rate
                _unschedule(f, flows, buckets)
                _schedule(f, now, flows, buckets, s.heap, s.free, s.recent, s.number)
    s.number[DIRTY] = 0


@njit
def _settle(p: Program, s: State, now: float) -> None:
    """After a batch: links change hands, parts that changed are solved, ends are scheduled."""
    flows, touched, lanes, links, parts = s.flows, s.touched, s.lanes, s.links, s.parts
    active, dirty, number, link = s.active, s.dirty, s.number, p.link
    buckets, heap, free, recent = s.buckets, s.heap, s.free, s.recent
    n = number[TOUCHED]
    for i in range(n):
        f = touched[i]
        if flows[f].mode == ENDED:
            flows[f].mode = IDLE
            _occupy(f, now, -1, flows, lanes, link, links, parts, active, dirty, number)
    for i in range(n):
        f = touched[i]
        if flows[f].mode != IDLE:
            flows[f].left = _bytes(f, flows, p.chunk_bytes, p.chunk_ends)
            flows[f].since = now
            if flows[f].mode == NEW:
                _occupy(f, now, 1, flows, lanes, link, links, parts, active, dirty, number)
    if number[DIRTY]:
        _share(p, s, now)
    for i in range(n):
        f = touched[i]
        if flows[f].mode != IDLE:
            flows[f].mode = ACTIVE
            _schedule(f, now, flows, buckets, heap, free, recent, number)
    number[TOUCHED] = 0


@njit
def _batch(p: Program, s: State, now: float) -> None:
    """All that happens at one time."""
    flows, gates, groups, deps, items, touched = s.flows, s.gates, s.groups, s.deps, s.items, s.touched
    number, cells, waves_W2, buckets, heap, free, delays = s.number, s.cells, s.waves_W2, s.buckets, s.heap, s.free, p.delays
    limit = now + SAME * now
    while number[HEAP] > 0 and buckets[heap[0]].time <= limit:
        bucket = _heap_pop(buckets, heap, number)
        f = buckets[bucket].head
        buckets[bucket].time = -1.0
        free[number[FREE_BUCKETS]] = bucket
        number[FREE_BUCKETS] += 1
        while f >= 0:
            following = flows[f].next
            _end(f, now, delays, flows, gates, groups, deps, items, waves_W2, cells, touched, number)
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
            _arrive(cells[cell].flow, now, flows, gates, groups, deps, items, touched, number)


@njit
def run(p: Program, s: State, now: float) -> tuple[float, bool]:
    """Play on from `now` (below zero: from the start): (time reached, whether it is the end).

    It is not the end if transfers under way might outgrow their room: call again with `more_room(s)`.
    All flows must be able to end: every link has capacity.
    """
    if now < 0.0:
        now = 0.0
        for f in range(len(s.flows)):
            _try(f, s.flows, s.gates, s.groups, s.deps, s.touched, s.number)
        _settle(p, s, now)
    while True:
        time = np.inf
        if s.number[HEAP] > 0:
            time = s.buckets[s.heap[0]].time
        for w in range(len(s.waves_W2)):
            if s.waves_W2[w, 0] >= 0:
                time = min(time, s.cells[s.waves_W2[w, 0]].time)
        if time == np.inf:
            return now, True
        if s.number[ROOM] < len(s.flows):
            return now, False
        now = max(now, time)
        _batch(p, s, now)
        _settle(p, s, now)
