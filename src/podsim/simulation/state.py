"""What the event kernel is given (Program) and where it stands (State): arrays for the kernels of this package.

N ops, S streams, E edges, L links, T kinds of transfer, D domains, J joins.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Small: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]

HEAP, DIRTY, FRESH, STAMP, SOLVED, EVENTS, COUNTERS = range(7)
"""places of counters in State.number"""


class Program(NamedTuple):
    """What is played. Names ending in _ptr point into rows: the rows of i are ptr[i] : ptr[i + 1]."""

    stream: Small
    """[N] stream of each op"""
    order_ptr: Ints
    """[S + 1]"""
    order: Small
    """[N] ops of each stream, in the order in which they run"""
    seconds: Floats
    """[N] work of each op: s if nothing slows it"""
    next_ptr: Ints
    """[N + 1]"""
    after: Small
    """[E] ops that wait for each op"""
    join: Small
    """[N] ops with the same number start together, when all of them could; -1: alone"""
    join_size: Small
    """[J] ops of each join"""
    transfer: Small
    """[N] kind of transfer, -1 for an op that uses no link"""
    peak: Floats
    """[T] B/s of a transfer at full speed"""
    latency: Floats
    """[T] s before its first byte moves"""
    link_ptr: Ints
    """[T + 1] links of a kind of transfer"""
    link: Ints
    use: Floats
    """B over the link for each byte of the transfer"""
    capacity: Floats
    """[L] B/s"""
    domain: Small
    """[S] what a stream shares with others: a GPU's processors"""
    slows: NDArray[np.uint8]
    """[S] whether ops of the stream slow others of their domain"""
    slowed: NDArray[np.uint8]
    """[S] whether they are slowed"""
    domain_ptr: Ints
    """[D + 1] streams of each domain that are slowed"""
    domain_stream: Ints
    share: Floats
    """[1] share of its speed that a slowed op loses"""


class State(NamedTuple):
    """Where the play stands."""

    start: Floats
    """[N] s, NaN before"""
    end: Floats
    why: Small
    """[N] the op whose end let this one start, -1 at the very start"""
    need: Small
    """[N] ops still waited for"""
    join_need: Small
    join_head: Small
    """[J] last stream that came to the join"""
    join_next: Small
    """[S] the stream that came before"""
    held: NDArray[np.uint8]
    """[S] waits at a join"""
    at: Ints
    """[S] position in `order`"""
    running: Small
    """[S] op under way, -1: idle"""
    left: Floats
    """[S] work left at `since`"""
    since: Floats
    rate: Floats
    """[S] share of full speed"""
    flowing: Small
    """[S] kind of transfer on its links now, -1: none (a transfer in its latency, too)"""
    active: Small
    """[D] ops under way that slow others"""
    heap_time: Floats
    heap_stream: Ints
    place: Ints
    """[S] place in the heap, -1: not there"""
    lane: Ints
    """[S x room] links of the transfer on each stream: its own limit first, then those of its kind"""
    lane_use: Floats
    starts: Ints
    ends: Ints
    following: Ints
    """[S x room] next entry on the same link, -1: last"""
    previous: Ints
    head: Ints
    """[L] first entry on each link"""
    demand: Floats
    """[L] B/s that its transfers could use"""
    was_tight: NDArray[np.uint8]
    marked: NDArray[np.uint8]
    dirty: Ints
    """links that a transfer left or joined"""
    fresh: Ints
    """streams whose transfer has joined"""
    seen: Ints
    """[S] stamp"""
    seen_link: Ints
    found: Ints
    todo: Ints
    capacity: Floats
    """[L + S] of links, then of each stream alone"""
    ones: Floats
    flow_rate: Floats
    left_over: Floats
    load: Floats
    users: Ints
    busy: Ints
    number: Ints


def new_state(p: Program, need: Small) -> State:
    """A state before the start; `need` (ops that each op waits for) is used up."""
    n, streams, links = len(p.stream), len(p.order_ptr) - 1, len(p.capacity)
    domains = len(p.domain_ptr) - 1
    room = int(np.diff(p.link_ptr).max(initial=0)) + 1

    def ints(size: int, value: int = 0) -> Ints:
        return np.full(size, value, np.int64)

    def small(size: int, value: int = 0) -> Small:
        return np.full(size, value, np.int32)

    def flags(size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    starts = np.arange(streams, dtype=np.int64) * room
    return State(
        start=np.full(n, np.nan), end=np.full(n, np.nan), why=small(n, -1), need=need, join_need=p.join_size.copy(),
        join_head=small(len(p.join_size), -1), join_next=small(streams, -1), held=flags(streams),
        at=p.order_ptr[:-1].copy(), running=small(streams, -1), left=np.zeros(streams), since=np.zeros(streams),
        rate=np.zeros(streams), flowing=small(streams, -1), active=small(domains), heap_time=np.zeros(streams),
        heap_stream=ints(streams), place=ints(streams, -1), lane=ints(streams * room), lane_use=np.ones(streams * room),
        starts=starts, ends=starts.copy(), following=ints(streams * room, -1), previous=ints(streams * room, -1),
        head=ints(links, -1), demand=np.zeros(links), was_tight=flags(links), marked=flags(links), dirty=ints(links),
        fresh=ints(streams), seen=ints(streams), seen_link=ints(links), found=ints(streams), todo=ints(streams),
        capacity=np.concatenate([p.capacity, np.zeros(streams)]), ones=np.ones(streams), flow_rate=np.zeros(streams),
        left_over=np.zeros(links + streams), load=np.zeros(links + streams), users=ints(links + streams),
        busy=ints(links + streams), number=ints(COUNTERS),
    )  # fmt: skip
