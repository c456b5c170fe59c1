"""A heap of streams by the time of their next event, in which a stream can be moved or taken out."""

from __future__ import annotations

from podsim.jit import kernel
from podsim.simulation.state import HEAP, Floats, Ints


@kernel
def _earlier(time: float, stream: int, other: float, other_stream: int) -> bool:
    return time < other or (time == other and stream < other_stream)


@kernel
def _up(at: int, time: float, stream: int, times: Floats, streams: Ints, place: Ints) -> int:
    """Move a hole towards the root as long as its parent comes later; where it ends."""
    while at > 0:
        parent = (at - 1) >> 2
        if not _earlier(time, stream, times[parent], streams[parent]):
            break
        times[at] = times[parent]
        streams[at] = streams[parent]
        place[streams[at]] = at
        at = parent
    return at


@kernel
def _down(at: int, n: int, time: float, stream: int, times: Floats, streams: Ints, place: Ints) -> int:
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
        place[streams[at]] = at
        at = least
    return at


@kernel
def _settle_at(
    at: int, time: float, stream: int, times: Floats, streams: Ints, place: Ints, number: Ints
) -> None:
    at = _up(at, time, stream, times, streams, place)
    at = _down(at, number[HEAP], time, stream, times, streams, place)
    times[at] = time
    streams[at] = stream
    place[stream] = at


@kernel
def put(stream: int, time: float, times: Floats, streams: Ints, place: Ints, number: Ints) -> None:
    """Set the time of a stream's next event, whether it is in the heap or not."""
    at = place[stream]
    if at < 0:
        at = number[HEAP]
        number[HEAP] += 1
    _settle_at(at, time, stream, times, streams, place, number)


@kernel
def drop(stream: int, times: Floats, streams: Ints, place: Ints, number: Ints) -> None:
    """Take a stream out of the heap, if it is there."""
    at = place[stream]
    if at >= 0:
        place[stream] = -1
        number[HEAP] -= 1
        n = number[HEAP]
        if at < n:
            _settle_at(at, times[n], streams[n], times, streams, place, number)
