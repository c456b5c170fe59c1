"""Time in buckets: flows that end at the same time share one, a heap holds the buckets.

Kernels of the simulation (podsim.network.play_engine); records and counters are those of podsim.network.play_state.
"""

from __future__ import annotations

from podsim.jit import kernel
from podsim.network.collectives.table import Ints
from podsim.network.play_state import FREE_BUCKETS, HEAP, RECENT, SAME, Records


@kernel
def _heap_push(bucket: int, time: float, heap: Records, number: Ints) -> None:
    at = number[HEAP]
    number[HEAP] += 1
    while at > 0:
        up = (at - 1) >> 2
        if heap[up].time <= time:
            break
        heap[at].time = heap[up].time
        heap[at].bucket = heap[up].bucket
        at = up
    heap[at].time = time
    heap[at].bucket = bucket


@kernel
def heap_pop(heap: Records, number: Ints) -> int:
    """Take the earliest bucket off the heap (four children to a parent)."""
    top = heap[0].bucket
    number[HEAP] -= 1
    n = number[HEAP]
    time, bucket, at = heap[n].time, heap[n].bucket, 0
    while True:
        child = 4 * at + 1
        if child >= n:
            break
        least = child
        for other in range(child + 1, min(child + 4, n)):
            if heap[other].time < heap[least].time:
                least = other
        if heap[least].time >= time:
            break
        heap[at].time = heap[least].time
        heap[at].bucket = heap[least].bucket
        at = least
    heap[at].time = time
    heap[at].bucket = bucket
    return int(top)


@kernel
def _compact(buckets: Records, heap: Records, free: Ints, number: Ints) -> None:
    """Drop empty buckets from the heap, when room for new ones runs out."""
    n = number[HEAP]
    number[HEAP] = 0
    for i in range(n):
        bucket, time = heap[i].bucket, heap[i].time
        if buckets[bucket].head >= 0:
            _heap_push(bucket, time, heap, number)
        else:
            buckets[bucket].time = -1.0
            free[number[FREE_BUCKETS]] = bucket
            number[FREE_BUCKETS] += 1


@kernel
def schedule(f: int, now: float, flows: Records, buckets: Records, heap: Records, free: Ints, recent: Records,
             number: Ints) -> None:  # fmt: skip
    """Put a flow into the bucket of the time it will end at: one of the last eight made, or a new one."""
    due = now + flows[f].left / flows[f].rate if flows[f].left > 0.0 else now
    bucket = -1
    for back in range(1, 9):
        i = (number[RECENT] - back) & 7
        if abs(recent[i].time - due) <= SAME * due and buckets[recent[i].bucket].time == recent[i].time:
            bucket = recent[i].bucket
            break
    if bucket < 0:
        if number[FREE_BUCKETS] == 0:
            _compact(buckets, heap, free, number)
        number[FREE_BUCKETS] -= 1
        bucket = free[number[FREE_BUCKETS]]
        buckets[bucket].time = due
        buckets[bucket].head = -1
        _heap_push(bucket, due, heap, number)
        recent[number[RECENT] & 7].time = due
        recent[number[RECENT] & 7].bucket = bucket
        number[RECENT] += 1
    head = buckets[bucket].head
    flows[f].bucket = bucket
    flows[f].next = head
    flows[f].previous = -1
    if head >= 0:
        flows[head].previous = f
    buckets[bucket].head = f


@kernel
def unschedule(f: int, flows: Records, buckets: Records) -> None:
    """Take a flow out of its bucket, which may stay behind empty."""
    before, behind = flows[f].previous, flows[f].next
    if before >= 0:
        flows[before].next = behind
    else:
        buckets[flows[f].bucket].head = behind
    if behind >= 0:
        flows[behind].previous = before
    flows[f].bucket = -1
