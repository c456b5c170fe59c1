"""What the event kernel is given (Program) and where it stands (State): arrays for the C sources of this package.

events.h mirrors both tuples; events.c says how the play goes.

N ops, S streams, L links, T kinds of transfer, D domains.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, SmallInts
from podsim.native import c_function
from podsim.simulation.ops import Tiled

HEAP, DIRTY, FRESH, STAMP, SOLVED, EVENTS, COUNTERS = range(7)
"""positions of counters in State.number"""


OP = np.dtype([
    ("stream", "i4"), ("next", "i4"), ("next_end", "i4"), ("join", "i4"), ("transfer", "i4"), ("send", "i4"),
])  # fmt: skip
CLASS = np.dtype([
    ("row", "i8"), ("base", "i8"), ("seconds", "i8"), ("sends", "i8"),
])  # fmt: skip
MARK = np.dtype([("end", "f8"), ("why", "i4"), ("need", "i4")])


class Program(NamedTuple):
    """What is played. Names ending in _ptr point into rows: the rows of i are ptr[i] : ptr[i + 1].

    Ops of rows count from the start of their row.
    """

    ops: Annotated[NDArray[np.void], OP]
    """The ops of the rows: their stream, the place in `after`, their join as Tiled.rows has it, their kind of transfer
    among those of their class, and the place among its sends; -1: none."""
    order: SmallInts
    """The ops of each stream of each row, in the order in which they run, and -1."""
    seconds: Floats
    """s. The work without slowdown of each op, or of each op of the rows."""
    after: SmallInts
    """The ops of a row that wait for each of its ops."""
    classes: Annotated[NDArray[np.void], CLASS]
    """Where the row, the marks, `seconds` and the sends of each class start."""
    joins: SmallInts
    """The first join of each group of each class; -1: its ops are alone."""
    send_ptr: SmallInts
    """The start of each send in `sent_class` and `sent_op`."""
    sent_class: SmallInts
    """The class of the op that waits for a send."""
    sent_op: SmallInts
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
    width: int
    """The number of streams of each class."""
    groups: int
    kinds: int
    streams: int
    links: int
    room: int
    """The most entries of a transfer in State.lane: its own limit, and the links of its kind."""


class State(NamedTuple):
    """Where the play stands."""

    marks: Annotated[NDArray[np.void], MARK]
    """The end of each op in s (NaN before), the op whose end let it start (-1 at the very start), and the number of ops
    still waited for, [N]."""
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


def by_key(key: Ints | SmallInts, value: Ints | SmallInts, keys: int) -> tuple[Ints, Ints | SmallInts]:
    """(pointer [keys + 1], the values of each key, in order)."""
    order = np.argsort(key, kind="stable")
    return np.searchsorted(key[order], np.arange(keys + 1)), value[order]


def _row_records(
    t: Tiled, width: int
) -> tuple[NDArray[np.void], list[SmallInts], list[Ints], list[SmallInts]]:
    """(ops of all rows, ops after those of each row, where each stream of each row starts in the order, the order)."""
    records, after, starts, orders = [], [], [], []
    waiting = ordered = 0
    for row in t.rows:
        count = len(row.stream)
        record = np.zeros(count, OP)
        pointer, following = by_key(row.before, row.after, count)
        stream_ptr, ops = by_key(row.stream, np.arange(count), width)
        order = np.full(count + width, -1, np.int32)
        order[np.arange(count) + row.stream[ops]] = ops
        for name, column in (("stream", row.stream), ("join", row.join), ("send", -1),
                             ("transfer", row.transfer), ("next", pointer[:-1]), ("next_end", pointer[1:])):  # fmt: skip
            record[name] = column + waiting if name.startswith("next") else column
        records.append(record)
        after.append(following.astype(np.int32))
        starts.append(ordered + stream_ptr[:-1] + np.arange(width))
        orders.append(order)
        waiting, ordered = waiting + len(following), ordered + len(order)
    return np.concatenate(records), after, starts, orders


def _send_rows(t: Tiled, ops: NDArray[np.void], classes: NDArray[np.void]) -> dict[str, SmallInts]:
    """The columns of Program about edges between classes; the places of sends are put into `ops` and `classes`."""
    before, after = (
        (np.searchsorted(t.base, edge, side="right") - 1, edge.astype(np.int64)) for edge in t.sends
    )
    local = before[1] - t.base[before[0]] + classes["row"][before[0]]
    senders = np.unique(local)
    ops["send"][senders] = np.arange(len(senders))
    first = np.searchsorted(senders, classes["row"])  # sends of a row are counted from its first one
    counts = np.searchsorted(senders, classes["row"] + np.diff(t.base)) - first
    classes["sends"] = np.cumsum(counts) - counts - first
    number = classes["sends"][before[0]] + ops["send"][local]
    pointer, edges = by_key(number, np.arange(len(number)), int(counts.sum()))
    to = after[0][edges]
    return {
        "send_ptr": pointer.astype(np.int32), "sent_class": to.astype(np.int32),
        "sent_op": (after[1][edges] - t.base[to]).astype(np.int32),
    }  # fmt: skip


def new_program(t: Tiled) -> tuple[Program, Ints]:
    """(what the kernel is given, where each stream starts in the order)."""
    count, effect, links = len(t.row_of), t.streams, t.transfers
    width = len(effect.domain) // count
    ops, after, starts, orders = _row_records(t, width)
    sizes = np.array([len(row.stream) for row in t.rows])
    classes = np.zeros(count, CLASS)
    classes["row"], classes["base"] = (np.cumsum(sizes) - sizes)[t.row_of], t.base[:-1]
    classes["seconds"] = classes["row"] if t.seconds is None else classes["base"]
    seconds = np.concatenate([row.seconds for row in t.rows]) if t.seconds is None else t.seconds
    domains = int(effect.domain.max(initial=-1)) + 1
    slowed = np.flatnonzero(effect.slowed)
    slowed = slowed[np.argsort(effect.domain[slowed], kind="stable")]
    arrays: dict[type, dict[str, NDArray[Any]]] = {
        np.float64: {
            "seconds": seconds, "peak": links.peak, "latency": links.latency, "use": links.use,
            "capacity": links.capacity,
        },
        np.int32: {
            "order": np.concatenate(orders), "after": np.concatenate(after), "joins": t.joins.ravel(),
            "domain": effect.domain, **_send_rows(t, ops, classes),
        },
        np.int64: {
            "link_ptr": links.routes[0], "link": links.routes[1], "domain_stream": slowed,
            "domain_ptr": np.searchsorted(effect.domain[slowed], np.arange(domains + 1)),
        },
        np.uint8: {"slows": effect.slows, "slowed": effect.slowed},
    }  # fmt: skip
    columns: dict[str, Any] = {
        name: np.ascontiguousarray(array, kind)
        for kind, some in arrays.items()
        for name, array in some.items()
    }
    return Program(
        ops=ops, classes=classes, share=effect.share, width=width, groups=t.joins.shape[1], kinds=t.kinds,
        streams=len(effect.domain), links=len(links.capacity), room=int(np.diff(links.routes[0]).max(initial=0)) + 1,
        **columns,
    ), np.concatenate([starts[r] for r in t.row_of])  # fmt: skip


def new_marks(t: Tiled) -> NDArray[np.void]:
    """The marks of all ops before the start."""
    marks = np.empty(int(t.base[-1]), MARK)
    marks["end"], marks["why"] = np.nan, -1
    need = [np.bincount(row.after, minlength=len(row.stream)) for row in t.rows]
    for r, first, last in zip(t.row_of.tolist(), t.base[:-1].tolist(), t.base[1:].tolist(), strict=True):
        marks["need"][first:last] = need[r]
    np.add.at(marks["need"], t.sends[1], 1)
    return marks


def new_state(p: Program, marks: NDArray[np.void], at: Ints, join_size: SmallInts) -> State:
    """A state before the start; `at`: the place of each stream in `order`, `join_size`: the ops of each join."""
    streams, links, room = p.streams, p.links, p.room
    domains = len(p.domain_ptr) - 1

    def ints(size: int, value: int = 0) -> Ints:
        return np.full(size, value, np.int64)

    def small(size: int, value: int = 0) -> SmallInts:
        return np.full(size, value, np.int32)

    def flags(size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    starts = np.arange(streams, dtype=np.int64) * room
    return State(
        marks=marks, join_need=join_size, join_head=small(len(join_size), -1), join_next=small(streams, -1),
        held=flags(streams), at=at, running=small(streams, -1), left=np.zeros(streams), since=np.zeros(streams),
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
