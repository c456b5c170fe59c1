"""What the event kernel is given (Program) and where it stands (State): arrays for the C sources of this package.

events.h mirrors both tuples; events.c says how the play goes.

N ops, S streams, E edges, L links, T kinds of transfer, D domains, J joins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, SmallInts
from podsim.native import c_function

HEAP, DIRTY, FRESH, STAMP, SOLVED, EVENTS, COUNTERS = range(7)
"""positions of counters in State.number"""


class Program(NamedTuple):
    """What is played. Names ending in _ptr point into rows: the rows of i are ptr[i] : ptr[i + 1]."""

    stream: SmallInts
    """The stream of each op, [N]."""
    order_ptr: SmallInts
    """The start of each stream in `order`, [S + 1]."""
    order: SmallInts
    """The ops of each stream, in the order in which they run, [N]."""
    seconds: Floats
    """s. The work of each op without slowdown, [N]."""
    next_ptr: SmallInts
    """The start of each op in `after`, [N + 1]."""
    after: SmallInts
    """The ops that wait for each op, [E]."""
    join: SmallInts
    """The join of each op, [N]: ops with the same number start together, when all of them could; -1: alone."""
    join_size: SmallInts
    """The number of ops of each join, [J]."""
    transfer: SmallInts
    """The kind of transfer, [N]; -1 for an op that uses no link."""
    peak: Floats
    """B/s. The rate of a transfer at full speed, [T]."""
    latency: Floats
    """s. The time before the first byte moves, [T]."""
    link_ptr: Ints
    """The start of the links of each kind of transfer, [T + 1]."""
    link: Ints
    use: Floats
    """factor. The bytes over the link for each byte of the transfer."""
    capacity: Floats
    """B/s. The capacity of each link, [L]."""
    domain: SmallInts
    """The domain of each stream, [S]: a GPU's processors."""
    slows: NDArray[np.uint8]
    """Whether ops of the stream slow others of their domain, [S]."""
    slowed: NDArray[np.uint8]
    """Whether they are slowed, [S]."""
    domain_ptr: Ints
    """The start of the slowed streams of each domain, [D + 1]."""
    domain_stream: Ints
    share: float
    """share. The share of its speed that a slowed op loses."""
    streams: int
    links: int
    room: int
    """The most entries of a transfer in State.lane: its own limit, and the links of its kind."""


class State(NamedTuple):
    """Where the play stands."""

    start: Floats
    """s. The start of each op, NaN before, [N]."""
    end: Floats
    why: SmallInts
    """The op whose end let this one start; -1 at the very start, [N]."""
    need: SmallInts
    """The number of ops still waited for, [N]."""
    join_need: SmallInts
    join_head: SmallInts
    """The last stream that came to the join, [J]."""
    join_next: SmallInts
    """The stream that came before, [S]."""
    held: NDArray[np.uint8]
    """Whether the stream waits at a join, [S]."""
    at: Ints
    """The position in `order`, [S]."""
    running: SmallInts
    """The op in progress; -1: idle, [S]."""
    left: Floats
    """s. The work left at `since`, [S]."""
    since: Floats
    rate: Floats
    """share. The share of full speed, [S]."""
    flowing: SmallInts
    """The kind of transfer now on its links; -1: none, or in its latency, [S]."""
    active: SmallInts
    """The number of running ops that slow others, [D]."""
    heap_time: Floats
    heap_stream: Ints
    heap_index: Ints
    """The position in the heap; -1: not there, [S]."""
    lane: Ints
    """The links of the transfer on each stream: its own limit first, then those of its kind, [S x room]."""
    lane_use: Floats
    starts: Ints
    ends: Ints
    following: Ints
    """The next entry on the same link; -1: last, [S x room]."""
    previous: Ints
    head: Ints
    """The first entry on each link, [L]."""
    demand: Floats
    """B/s. The rate that a link's transfers could use, [L]."""
    was_tight: NDArray[np.uint8]
    marked: NDArray[np.uint8]
    dirty: Ints
    """The links that a transfer left or joined."""
    fresh: Ints
    """The streams whose transfer has joined."""
    seen: Ints
    """The stamp of each stream, [S]."""
    seen_link: Ints
    members: Ints
    todo: Ints
    capacity: Floats
    """B/s. The capacity of links, then of each stream alone, [L + S]."""
    ones: Floats
    flow_rate: Floats
    left_over: Floats
    load: Floats
    users: Ints
    busy: Ints
    number: Ints


run = c_function("events_run", Program, State, float, int, result=float)
"""Play on from a time (below zero: from the start) for at most so many ended ops; the time reached, s. The heap is empty
at the end, and where nothing can continue."""


_KINDS = {
    np.int32: ("stream", "order_ptr", "order", "next_ptr", "after", "join", "join_size", "transfer", "domain"),
    np.float64: ("seconds", "peak", "latency", "use", "capacity"), np.uint8: ("slows", "slowed"),
    np.int64: ("link_ptr", "link", "domain_ptr", "domain_stream"),
}  # fmt: skip


def typed_program(p: Program) -> Program:
    """The program with arrays of the kinds that C expects."""
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(getattr(p, name), kind) for kind, names in _KINDS.items() for name in names
    }
    return p._replace(**arrays)


def new_state(p: Program, need: SmallInts) -> State:
    """A state before the start; `need` (ops that each op waits for) is used up."""
    n, streams, links, room = len(p.stream), p.streams, p.links, p.room
    domains = len(p.domain_ptr) - 1

    def ints(size: int, value: int = 0) -> Ints:
        return np.full(size, value, np.int64)

    def small(size: int, value: int = 0) -> SmallInts:
        return np.full(size, value, np.int32)

    def flags(size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    starts = np.arange(streams, dtype=np.int64) * room
    return State(
        start=np.full(n, np.nan), end=np.full(n, np.nan), why=small(n, -1), need=need, join_need=p.join_size.copy(),
        join_head=small(len(p.join_size), -1), join_next=small(streams, -1), held=flags(streams),
        at=p.order_ptr[:-1].astype(np.int64), running=small(streams, -1), left=np.zeros(streams), since=np.zeros(streams),
        rate=np.zeros(streams), flowing=small(streams, -1), active=small(domains), heap_time=np.zeros(streams),
        heap_stream=ints(streams), heap_index=ints(streams, -1), lane=ints(streams * room),
        lane_use=np.ones(streams * room), starts=starts, ends=starts.copy(), following=ints(streams * room, -1),
        previous=ints(streams * room, -1),
        head=ints(links, -1), demand=np.zeros(links), was_tight=flags(links), marked=flags(links), dirty=ints(links),
        fresh=ints(streams), seen=ints(streams), seen_link=ints(links), members=ints(streams), todo=ints(streams),
        capacity=np.concatenate([p.capacity, np.zeros(streams)]), ones=np.ones(streams), flow_rate=np.zeros(streams),
        left_over=np.zeros(links + streams), load=np.zeros(links + streams), users=ints(links + streams),
        busy=ints(links + streams), number=ints(COUNTERS),
    )  # fmt: skip
