"""The simulation of flows on links, in machine code: time in buckets, rates by max-min sharing, nothing solved twice.

- Flows that end at the same time share a bucket; a heap holds the buckets. A batch is all that happens at one time.
- A flow that ends and starts its next transfer in the same batch leaves its links as they were: it keeps its rate.
- Only lanes that can hold each other back are solved together (a *part*: lanes joined by links that can fill up).
- What a part's set of active lanes gets is remembered under the sum of random numbers of those lanes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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


class State(NamedTuple):
    """Where the simulation stands."""

    sent: Ints
    """transfers of a flow that have left, [F]"""
    got: Ints
    """transfers of a flow that have arrived, [F]"""
    last: Floats
    """time of the last arrival, [F]"""
    mode: Ints
    left: Floats
    since: Floats
    rate: Floats
    bucket: Ints
    next: Ints
    previous: Ints
    group_done: Ints
    group_count: Ints
    """a group's flows that are beyond group_done, [K]"""
    lane_rate: Floats
    users: Ints
    """active flows on a link, [L + A]"""
    busy_since: Floats
    busy: Floats
    """s with a flow on the link"""
    scratch_left: Floats
    scratch_load: Floats
    scratch_users: Ints
    active: Ints
    """active flows of the parts, each in its room"""
    spot: Ints
    """of an active flow in its part's room"""
    part_active: Ints
    part_sign: Ints
    part_solved: Ints
    part_dirty: Ints
    dirty: Ints
    touched: Ints
    memo_sign: Ints
    memo_at: Ints
    memo_rate: Floats
    bucket_time: Floats
    bucket_head: Ints
    heap: Ints
    free_bucket: Ints
    recent: Ints
    wave_head: Ints
    """first and last transfer under way of each delay: a first-in-first-out list"""
    wave_tail: Ints
    cell_flow: Ints
    cell_time: Floats
    cell_next: Ints
    number: Ints
    """counters: see HEAP to SOLVED"""


FLOATS = ("chunk_bytes", "chunk_ends", "delays", "use", "capacity", "ones")


def typed(p: Program) -> Program:
    """The program with arrays of one kind, so that the kernels are compiled once."""
    kinds = (np.float64 if name in FLOATS else np.int64 for name in p._fields)
    return Program(*(np.require(array, kind, ["C", "W"]) for array, kind in zip(p, kinds, strict=True)))


def new_state(p: Program) -> State:
    """A state before the start."""
    flows, lanes, links, parts = len(p.repeat), len(p.part), len(p.capacity), len(p.part_size)
    groups, waves, room = len(p.group_repeat), len(p.delays), 2 * len(p.repeat) + 16
    buckets, memo = 4 * flows + 64, 1 << min(20, max(10, (64 * lanes).bit_length()))
    number = np.zeros(11, np.int64)
    number[FREE_BUCKETS], number[FREE_CELLS], number[ROOM] = buckets, 0, room

    def ints(n: int, value: int = 0) -> Ints:
        return np.full(n, value, np.int64)

    return State(
        sent=ints(flows), got=ints(flows), last=np.zeros(flows), mode=ints(flows), left=np.zeros(flows),
        since=np.zeros(flows), rate=np.zeros(flows), bucket=ints(flows, -1), next=ints(flows, -1),
        previous=ints(flows, -1), group_done=ints(groups), group_count=ints(groups), lane_rate=np.zeros(lanes),
        users=ints(links), busy_since=np.zeros(links), busy=np.zeros(links), scratch_left=np.zeros(links),
        scratch_load=np.zeros(links), scratch_users=ints(links), active=ints(flows), spot=ints(flows),
        part_active=ints(parts), part_sign=ints(parts), part_solved=ints(parts), part_dirty=ints(parts),
        dirty=ints(parts), touched=ints(flows), memo_sign=ints(memo), memo_at=ints(memo, -1),
        memo_rate=np.empty(1 << 24), bucket_time=np.full(buckets, -1.0), bucket_head=ints(buckets, -1),
        heap=ints(buckets), free_bucket=np.arange(buckets), recent=ints(8), wave_head=ints(waves, -1),
        wave_tail=ints(waves, -1), cell_flow=ints(room), cell_time=np.zeros(room),
        cell_next=np.append(np.arange(1, room), -1), number=number,
    )  # fmt: skip


def more_room(s: State) -> State:
    """The state with room for twice as many transfers under way."""
    room, flows = len(s.cell_flow), len(s.sent)
    s.number[ROOM] += room
    cells = np.append(np.arange(room + 1, 2 * room), s.number[FREE_CELLS])
    s.number[FREE_CELLS] = room
    assert flows <= room
    return s._replace(
        cell_flow=np.append(s.cell_flow, np.zeros(room, np.int64)),
        cell_time=np.append(s.cell_time, np.zeros(room)),
        cell_next=np.append(s.cell_next, cells),
    )


@njit
def _heap_push(s: State, bucket: int) -> None:
    at = s.number[HEAP]
    s.number[HEAP] += 1
    time = s.bucket_time[bucket]
    while at > 0:
        up = (at - 1) >> 1
        if s.bucket_time[s.heap[up]] <= time:
            break
        s.heap[at] = s.heap[up]
        at = up
    s.heap[at] = bucket


@njit
def _heap_pop(s: State) -> int:
    top = s.heap[0]
    s.number[HEAP] -= 1
    n = s.number[HEAP]
    last = s.heap[n]
    time, at = s.bucket_time[last], 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and s.bucket_time[s.heap[down + 1]] < s.bucket_time[s.heap[down]]:
            down += 1
        if s.bucket_time[s.heap[down]] >= time:
            break
        s.heap[at] = s.heap[down]
        at = down
    s.heap[at] = last
    return int(top)


@njit
def _compact(s: State) -> None:
    """Drop empty buckets from the heap, when room for new ones runs out."""
    n = s.number[HEAP]
    s.number[HEAP] = 0
    for i in range(n):
        bucket = s.heap[i]
        if s.bucket_head[bucket] >= 0:
            _heap_push(s, bucket)
        else:
            s.bucket_time[bucket] = -1.0
            s.free_bucket[s.number[FREE_BUCKETS]] = bucket
            s.number[FREE_BUCKETS] += 1


@njit
def _schedule(s: State, f: int, now: float) -> None:
    """Put a flow into the bucket of the time it will end at."""
    due = now + s.left[f] / s.rate[f] if s.left[f] > 0.0 else now
    bucket = -1
    for i in range(8):
        if abs(s.bucket_time[s.recent[i]] - due) <= SAME * due:
            bucket = s.recent[i]
    if bucket < 0:
        if s.number[FREE_BUCKETS] == 0:
            _compact(s)
        s.number[FREE_BUCKETS] -= 1
        bucket = s.free_bucket[s.number[FREE_BUCKETS]]
        s.bucket_time[bucket] = due
        s.bucket_head[bucket] = -1
        _heap_push(s, bucket)
        s.recent[s.number[RECENT] & 7] = bucket
        s.number[RECENT] += 1
    head = s.bucket_head[bucket]
    s.bucket[f], s.next[f], s.previous[f] = bucket, head, -1
    if head >= 0:
        s.previous[head] = f
    s.bucket_head[bucket] = f


@njit
def _unschedule(s: State, f: int) -> None:
    if s.previous[f] >= 0:
        s.next[s.previous[f]] = s.next[f]
    else:
        s.bucket_head[s.bucket[f]] = s.next[f]
    if s.next[f] >= 0:
        s.previous[s.next[f]] = s.previous[f]
    s.bucket[f] = -1


@njit
def _bytes(p: Program, f: int, k: int) -> float:
    """Bytes of the kth transfer of a flow."""
    first = p.chunk[f]
    if p.turn[f] != 0:
        base = first // p.wheel[f] * p.wheel[f]
        first = base + (first - base + p.turn[f] * p.count[f] * k) % p.wheel[f]
    if p.count[f] == 1:
        return p.chunk_bytes[first]
    return p.chunk_ends[first + p.count[f]] - p.chunk_ends[first]


@njit
def _try(p: Program, s: State, f: int) -> None:
    """Start the next transfer of a flow if it is free and all it waits for is there."""
    k = s.sent[f]
    if (s.mode[f] != IDLE and s.mode[f] != ENDED) or k >= p.repeat[f]:
        return
    if k == 0 and p.before[f] >= 0 and s.sent[p.before[f]] < p.repeat[p.before[f]]:
        return
    gate = p.gate[f]
    if gate >= 0:
        for i in range(p.dep_ptr[gate], p.dep_ptr[gate + 1]):
            group = p.dep_group[i]
            if s.group_done[group] < min(k - p.dep_lag[i] + 1, p.group_repeat[group]):
                return
    if s.mode[f] == ENDED:
        s.mode[f] = AGAIN
    else:
        s.mode[f] = NEW
        s.touched[s.number[TOUCHED]] = f
        s.number[TOUCHED] += 1


@njit
def _arrive(p: Program, s: State, f: int, now: float) -> None:
    """A transfer is there: whoever waits for its group may start."""
    s.got[f] += 1
    s.last[f] = now
    group = p.group[f]
    if group < 0 or s.got[f] - 1 != s.group_done[group]:
        return
    s.group_count[group] += 1
    a, b = p.group_ptr[group], p.group_ptr[group + 1]
    if s.group_count[group] < b - a:
        return
    while s.group_count[group] == b - a:
        s.group_done[group] += 1
        ahead = 0
        for i in range(a, b):
            ahead += s.got[p.group_flow[i]] > s.group_done[group]
        s.group_count[group] = ahead
    for i in range(p.wake_ptr[group], p.wake_ptr[group + 1]):
        gate = p.wake_gate[i]
        for j in range(p.gate_ptr[gate], p.gate_ptr[gate + 1]):
            _try(p, s, p.gate_flow[j])


@njit
def _end(p: Program, s: State, f: int, now: float) -> None:
    """The last byte of a transfer has left."""
    s.sent[f] += 1
    s.mode[f] = ENDED
    s.bucket[f] = -1
    s.touched[s.number[TOUCHED]] = f
    s.number[TOUCHED] += 1
    s.number[EVENTS] += 1
    wave = p.delay[f]
    if p.delays[wave] == 0.0:
        _arrive(p, s, f, now)
    else:
        cell = s.number[FREE_CELLS]
        s.number[ROOM] -= 1
        s.number[FREE_CELLS] = s.cell_next[cell]
        s.cell_flow[cell], s.cell_time[cell], s.cell_next[cell] = f, now + p.delays[wave], -1
        if s.wave_tail[wave] >= 0:
            s.cell_next[s.wave_tail[wave]] = cell
        else:
            s.wave_head[wave] = cell
        s.wave_tail[wave] = cell
    _try(p, s, f)
    if s.sent[f] == p.repeat[f] and p.after[f] >= 0:
        _try(p, s, p.after[f])


@njit
def _occupy(p: Program, s: State, f: int, now: float, step: int) -> None:
    """Put a flow on its links (step 1) or take it off (step -1)."""
    lane = p.lane[f]
    part = p.part[lane]
    for i in range(p.start[lane], p.end[lane]):
        link = p.link[i]
        if step > 0 and s.users[link] == 0:
            s.busy_since[link] = now
        s.users[link] += step
        if step < 0 and s.users[link] == 0:
            s.busy[link] += now - s.busy_since[link]
    base = p.part_ptr[part]
    if step > 0:
        s.spot[f] = s.part_active[part]
        s.active[base + s.part_active[part]] = f
        s.part_active[part] += 1
        s.part_sign[part] += p.key[lane]
    else:
        s.part_active[part] -= 1
        s.part_sign[part] -= p.key[lane]
        moved = s.active[base + s.part_active[part]]
        s.active[base + s.spot[f]] = moved
        s.spot[moved] = s.spot[f]
    if not s.part_dirty[part]:
        s.part_dirty[part] = 1
        s.dirty[s.number[DIRTY]] = part
        s.number[DIRTY] += 1


@njit
def _memo_slot(s: State, sign: int) -> int:
    """Where a set of active lanes is remembered, or would be."""
    mask = len(s.memo_sign) - 1
    at = (sign ^ (sign >> 32)) & mask
    while s.memo_at[at] >= 0 and s.memo_sign[at] != sign:
        at = (at + 1) & mask
    return int(at)


@njit
def _solve(p: Program, s: State, part: int) -> None:
    """Set lane_rate for the active flows of a part."""
    n, base = s.part_active[part], p.part_ptr[part]
    if n == 1:
        lane = p.lane[s.active[base]]
        s.lane_rate[lane] = np.inf
        for i in range(p.start[lane], p.middle[lane]):
            s.lane_rate[lane] = min(s.lane_rate[lane], p.capacity[p.link[i]] / p.use[i])
        return
    slot = _memo_slot(s, s.part_sign[part])
    at = s.memo_at[slot]
    if at >= 0:
        for i in range(base, base + n):
            lane = p.lane[s.active[i]]
            s.lane_rate[lane] = s.memo_rate[at + p.place[lane]]
        return
    lanes = np.empty(n, np.int64)
    for i in range(n):
        lanes[i] = p.lane[s.active[base + i]]
    fill(lanes, p.start, p.middle, p.link, p.use, p.ones, p.capacity, s.lane_rate,
         s.scratch_left, s.scratch_load, s.scratch_users)  # fmt: skip
    s.number[SOLVED] += 1
    at = s.number[STORED]
    if at + p.part_size[part] <= len(s.memo_rate) and 2 * s.number[MEMO] < len(s.memo_sign):
        s.memo_sign[slot], s.memo_at[slot] = s.part_sign[part], at
        for i in range(n):
            s.memo_rate[at + p.place[lanes[i]]] = s.lane_rate[lanes[i]]
        s.number[STORED] += p.part_size[part]
        s.number[MEMO] += 1


@njit
def _settle(p: Program, s: State, now: float) -> None:
    """After a batch: links change hands, parts that changed are solved, ends are scheduled."""
    n = s.number[TOUCHED]
    for i in range(n):
        f = s.touched[i]
        if s.mode[f] == ENDED:
            s.mode[f] = IDLE
            _occupy(p, s, f, now, -1)
    for i in range(n):
        f = s.touched[i]
        if s.mode[f] == NEW or s.mode[f] == AGAIN:
            s.left[f], s.since[f] = _bytes(p, f, s.sent[f]), now
            if s.mode[f] == NEW:
                _occupy(p, s, f, now, 1)
    for d in range(s.number[DIRTY]):
        part = s.dirty[d]
        s.part_dirty[part] = 0
        if s.part_active[part] == 0:
            continue
        if s.part_sign[part] != s.part_solved[part] or s.part_active[part] == 1:
            _solve(p, s, part)
            s.part_solved[part] = s.part_sign[part]
        for i in range(p.part_ptr[part], p.part_ptr[part] + s.part_active[part]):
            f = s.active[i]
            rate = s.lane_rate[p.lane[f]]
            if s.bucket[f] < 0:
                s.rate[f] = rate
            elif abs(rate - s.rate[f]) > SAME * rate:
                s.left[f] = max(0.0, s.left[f] - s.rate[f] * (now - s.since[f]))
                s.since[f], s.rate[f] = now, rate
                _unschedule(s, f)
                _schedule(s, f, now)
    s.number[DIRTY] = 0
    for i in range(n):
        f = s.touched[i]
        if s.mode[f] == NEW or s.mode[f] == AGAIN:
            s.mode[f] = ACTIVE
            _schedule(s, f, now)
    s.number[TOUCHED] = 0


@njit
def _next_time(s: State) -> float:
    now = np.inf
    if s.number[HEAP] > 0:
        now = s.bucket_time[s.heap[0]]
    for w in range(len(s.wave_head)):
        if s.wave_head[w] >= 0:
            now = min(now, s.cell_time[s.wave_head[w]])
    return float(now)


@njit
def _batch(p: Program, s: State, now: float) -> None:
    """All that happens at one time."""
    limit = now + SAME * now
    while s.number[HEAP] > 0 and s.bucket_time[s.heap[0]] <= limit:
        bucket = _heap_pop(s)
        f = s.bucket_head[bucket]
        s.bucket_time[bucket] = -1.0
        s.free_bucket[s.number[FREE_BUCKETS]] = bucket
        s.number[FREE_BUCKETS] += 1
        while f >= 0:
            following = s.next[f]
            _end(p, s, f, now)
            f = following
    for w in range(len(s.wave_head)):
        while s.wave_head[w] >= 0 and s.cell_time[s.wave_head[w]] <= limit:
            cell = s.wave_head[w]
            s.wave_head[w] = s.cell_next[cell]
            if s.wave_head[w] < 0:
                s.wave_tail[w] = -1
            s.cell_next[cell] = s.number[FREE_CELLS]
            s.number[FREE_CELLS] = cell
            s.number[ROOM] += 1
            _arrive(p, s, s.cell_flow[cell], now)


@njit
def run(p: Program, s: State, now: float) -> tuple[float, bool]:
    """Play on from `now` (below zero: from the start): (time reached, whether it is the end).

    It is not the end if transfers under way might outgrow their room: call again with `more_room(s)`.
    All flows must be able to end: every link has capacity.
    """
    if now < 0.0:
        now = 0.0
        for f in range(len(p.repeat)):
            _try(p, s, f)
        _settle(p, s, now)
    while True:
        time = _next_time(s)
        if time == np.inf:
            return now, True
        if s.number[ROOM] < len(p.repeat):
            return now, False
        now = max(now, time)
        _batch(p, s, now)
        _settle(p, s, now)
