"""What a simulation is given (Program), and where it stands (State): arrays for the C sources of play.

play.h mirrors the records and tuples of this module; play_engine.c says how the simulation goes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Floats, Ints, SmallInts
from podsim.native import c_function

Records: TypeAlias = NDArray[np.void]

SAME = 1e-12
"""times and rates within this share of each other are one: rounding, not sharing, tells them apart"""
TIGHT = 1.0 + 1e-10
"""a link of which more than this times its capacity could be used may hold its flows back"""
MEMO_LANES = 1 << 24
(HEAP, TOUCHED, DIRTY, MEMO, STORED, BUCKETS, FREE_BUCKETS, ROOM, EVENTS, RECENT, SOLVED, STAMP, DONE,
 COUNTERS) = range(14)  # fmt: skip
"""positions of counters in State.number: how many there are in a list, or how many there have been; ROOM: whether a wave
lacks room; DONE: whether it is over"""


class Program(NamedTuple):
    """What is simulated: F flows on A lanes over L links (and one more for each lane alone), G gates, K groups.

    Pointers (names in _ptr) have one value more than what they point from: rows of x are ptr[x] : ptr[x + 1].
    """

    repeat: Ints
    """The number of repetitions of each flow, [F]."""
    chunk: Ints
    width: Ints
    """The number of chunks in one transfer, [F]."""
    turn: Ints
    wheel: Ints
    lane: Ints
    channel: Ints
    delay: Ints
    """The position in `delays` of each flow, [F]."""
    before: Ints
    """The flow that must have left before; -1 for none, [F]."""
    after: Ints
    """The flow that waits for this one to leave; -1 for none, [F]."""
    gate: Ints
    group: Ints
    chunk_bytes: Floats
    """B. The size of each chunk, [chunks]."""
    chunk_ends: Floats
    """B. The bytes before each chunk, [chunks + 1]."""
    delays: Floats
    """s. The distinct times from the last byte sent to the last byte received."""
    dep_ptr: Ints
    """The start of the groups that each gate waits for."""
    dep_group: Ints
    dep_lag: Ints
    gate_ptr: Ints
    """The start of the flows behind each gate."""
    gate_flow: Ints
    group_repeat: Ints
    """The number of transfers of each of a group's flows, [K]."""
    group_ptr: Ints
    """The start of the flows of each group."""
    group_flow: Ints
    wake_ptr: Ints
    """The start of the gates that wait for each group, with their lag."""
    wake_gate: Ints
    wake_lag: Ints
    start: Ints
    """The start of a lane's entries in `link` and `use`, [A]: [start, middle) limit it, the first one alone; [middle,
    end) carry it."""
    first: Ints
    """The first entry that may limit it together with other flows: start, or start + 1."""
    middle: Ints
    end: Ints
    link: Ints
    use: Floats
    """factor. The number of a lane's flows that cross the link."""
    capacity: Floats
    """B/s. The capacity of links, then the limit of each lane alone, [L + A]."""
    key: Ints
    """A random number for each lane."""
    ones: Floats
    """factor. The ones, [A]."""


FLOATS = ("chunk_bytes", "chunk_ends", "delays", "use", "capacity", "ones")
FLOW_FIELDS = ("repeat", "gate", "group", "lane", "delay")
COURSE_FIELDS = ("before", "after", "chunk", "width", "turn", "wheel")

# one record for each thing, so that what is used together lies together; i4: numbers of things, i8: sums, f8: SI
FLOW = np.dtype([
    ("mode", "i4"), ("sent", "i4"), ("got", "i4"), ("repeat", "i4"), ("gate", "i4"), ("group", "i4"), ("lane", "i4"),
    ("delay", "i4"), ("bucket", "i4"), ("next", "i4"), ("previous", "i4"), ("lone", "i4"), ("rate", "f8"),
    ("bytes", "f8"),
])  # fmt: skip
COURSE = np.dtype([
    ("limit", "f8"), ("left", "f8"), ("since", "f8"), ("last", "f8"), ("before", "i4"), ("after", "i4"),
    ("slots", "i4"), ("seen", "i4"), ("chunk", "i4"), ("width", "i4"), ("turn", "i4"), ("wheel", "i4"),
])  # fmt: skip
GROUP = np.dtype([
    ("done", "i4"), ("ahead", "i4"), ("repeat", "i4"), ("flows", "i4"), ("flows_end", "i4"), ("wakes", "i4"),
    ("wakes_end", "i4"), ("gate", "i4"),
])  # fmt: skip
GATE = np.dtype([
    ("open", "i4"), ("deps", "i4"), ("deps_end", "i4"), ("flows", "i4"), ("flows_end", "i4"), ("waits", "i4"),
])  # fmt: skip
DEP = np.dtype([("group", "i4"), ("lag", "i4")])
WAKE = np.dtype([("gate", "i4"), ("lag", "i4")])
LANE = np.dtype([
    ("first", "i4"), ("middle", "i4"), ("end", "i4"), ("key", "i8"), ("began", "f8"), ("busy", "f8"),
], align=True)  # fmt: skip
LINK = np.dtype([
    ("users", "i4"), ("flows", "i4"), ("room", "i4"), ("dirty", "i4"), ("seen", "i8"), ("since", "f8"), ("busy", "f8"),
    ("demand", "f8"), ("was", "f8"), ("capacity", "f8"),
])  # fmt: skip
ON_LINK = np.dtype([("flow", "i4"), ("slot", "i4")])
BUCKET = np.dtype([("time", "f8"), ("head", "i8")])
DUE = np.dtype([("time", "f8"), ("bucket", "i8")])
CELL = np.dtype([("time", "f8"), ("flow", "i4"), ("group", "i4")])
WAVE = np.dtype([("first", "i8"), ("count", "i8"), ("start", "i8"), ("room", "i8"), ("flows", "i8")])
MEMO_SLOT = np.dtype([("sign", "i8"), ("at", "i4"), ("lanes", "i4")])
MEMO_RATE = np.dtype([("rate", "f8"), ("lane", "i8")])


class State(NamedTuple):
    """Where the simulation stands: records as above, and the lists of what has to be looked at."""

    flows: Annotated[Records, FLOW]
    courses: Annotated[Records, COURSE]
    """The rest of each flow: what is seldom needed, or only of flows that share links."""
    groups: Annotated[Records, GROUP]
    gates: Annotated[Records, GATE]
    deps: Annotated[Records, DEP]
    wakes: Annotated[Records, WAKE]
    items: SmallInts
    """The flows of gates and flows of groups; the records hold the bounds."""
    lanes: Annotated[Records, LANE]
    links: Annotated[Records, LINK]
    on_link: Annotated[Records, ON_LINK]
    """The active flows of the links that may limit, each link in its own range."""
    slots: SmallInts
    """The position of each flow on each such link of its lane."""
    buckets: Annotated[Records, BUCKET]
    heap: Annotated[Records, DUE]
    free: Ints
    """The unused buckets."""
    recent: Annotated[Records, DUE]
    """The last eight buckets."""
    waves: Annotated[Records, WAVE]
    """The transfers of each delay in the latency of links: a ring of cells, first in, first out."""
    cells: Annotated[Records, CELL]
    touched: SmallInts
    """The flows that ended or started in this batch."""
    dirty: SmallInts
    """The links that a flow left or joined in this batch."""
    members: SmallInts
    """The flows that share, in the order of discovery."""
    memo: Annotated[Records, MEMO_SLOT]
    memo_rates: Annotated[Records, MEMO_RATE]
    lane_rate: Floats
    left: Floats
    load: Floats
    users: Ints
    full: Ints
    todo: Ints
    """The scratch arrays of `flow.fill`."""
    number: Ints
    """The counters: see HEAP to DONE."""
    flow_count: int
    gate_count: int
    wave_count: int
    bucket_room: int
    memo_size: int
    memo_room: int


run = c_function("play_run", Program, State, float, result=float)
"""Play on from a time (below zero: from the start); the time reached. number[DONE]: whether that is the end.

It is not if transfers under way might outgrow their room (call again with `more_room(s)`), or after a second or so, as
Python heeds Ctrl-C between calls only. All flows must be able to end: every link has capacity.
"""


def typed_program(p: Program) -> Program:
    """The program with arrays of the kinds that C expects."""
    kinds = (np.float64 if name in FLOATS else np.int64 for name in p._fields)
    return Program(*(np.require(array, kind, ["C"]) for array, kind in zip(p, kinds, strict=True)))


def _records(kind: np.dtype[np.void], n: int, **columns: ArrayLike) -> Records:
    """Records that begin at a cache line."""
    cells = np.zeros(n * kind.itemsize + 64, np.uint8)
    start = -cells.ctypes.data % 64
    made = cells[start : start + n * kind.itemsize].view(kind)
    for name, column in columns.items():
        made[name] = column
    return made


def _constant_bytes(p: Program) -> Floats:
    """Bytes of every transfer of a flow, -1 if they differ or have to be added up."""
    even = np.all(p.chunk_bytes == p.chunk_bytes[0])
    return np.where((p.width == 1) & (even | (p.repeat == 1)), p.chunk_bytes[p.chunk], -1.0)


def _limit(p: Program) -> Floats:
    """Rate of a flow alone, B/s, by lane."""
    entry_lane = np.repeat(np.arange(len(p.start)), p.end - p.start)
    binds = np.arange(len(p.link)) < p.middle[entry_lane]
    limit = np.full(len(p.start), np.inf)
    np.minimum.at(limit, entry_lane[binds], (p.capacity[p.link] / p.use)[binds])
    return limit


def _room_starts(p: Program) -> tuple[Ints, Ints]:
    """(first place of each link in on_link [L + A + 1], first of each flow in slots [F + 1])."""
    shared = (p.middle - p.first)[p.lane]
    slots = np.concatenate([[0], np.cumsum(shared)]).astype(np.int64)
    entry = np.repeat(p.first[p.lane] - slots[:-1], shared) + np.arange(slots[-1])
    per_link = np.bincount(p.link[entry], minlength=len(p.capacity))
    return np.concatenate([[0], np.cumsum(per_link)]).astype(np.int64), slots


def _first_gate(p: Program) -> Ints:
    """The first gate that waits for each group; 0 where none does."""
    some = np.concatenate([p.wake_gate, [0]])
    return some[p.wake_ptr[:-1]]


def _waves(p: Program, room: int) -> Records:
    """The waves with room for so many transfers of each flow."""
    flows = np.bincount(p.delay, minlength=len(p.delays))
    sizes = room * flows + 16
    return _records(WAVE, len(flows), start=np.cumsum(sizes) - sizes, room=sizes, flows=flows)


def new_state(p: Program) -> State:
    """A state before the start."""
    flows, lanes, links, gate_at = len(p.repeat), len(p.start), len(p.capacity), len(p.gate_flow)
    buckets, memo = 2 * flows + 64, 1 << min(20, max(10, (64 * lanes).bit_length()))
    room, slots = _room_starts(p)
    limit = _limit(p)[p.lane]
    columns = {name: getattr(p, name) for name in FLOW_FIELDS}
    courses = {name: getattr(p, name) for name in COURSE_FIELDS}
    bounds = {"flows": gate_at + p.group_ptr[:-1], "flows_end": gate_at + p.group_ptr[1:]}
    number, waves = np.zeros(COUNTERS, np.int64), _waves(p, 2)
    number[STORED] = 1  # position 0 marks an empty slot of the memory

    def ints(n: int) -> Ints:
        return np.zeros(n, np.int64)

    def small(n: int) -> SmallInts:
        return np.zeros(n, np.int32)

    return State(
        flows=_records(
            FLOW, flows, lone=(p.first == p.middle)[p.lane], bytes=_constant_bytes(p), rate=limit, bucket=-1, **columns,
        ),
        courses=_records(COURSE, flows, limit=limit, slots=slots[:-1], **courses),
        groups=_records(
            GROUP, len(p.group_repeat), repeat=p.group_repeat, wakes=p.wake_ptr[:-1], wakes_end=p.wake_ptr[1:],
            gate=_first_gate(p), **bounds,
        ),
        gates=_records(
            GATE, len(p.dep_ptr) - 1, deps=p.dep_ptr[:-1], deps_end=p.dep_ptr[1:], flows=p.gate_ptr[:-1],
            flows_end=p.gate_ptr[1:], waits=np.diff(p.dep_ptr),
        ),
        deps=_records(DEP, len(p.dep_group), group=p.dep_group, lag=p.dep_lag),
        wakes=_records(WAKE, len(p.wake_gate), gate=p.wake_gate, lag=p.wake_lag),
        items=np.concatenate([p.gate_flow, p.group_flow]).astype(np.int32),
        lanes=_records(LANE, lanes, first=p.first, middle=p.middle, end=p.end, key=p.key),
        links=_records(LINK, links, room=room[:-1], capacity=p.capacity), on_link=_records(ON_LINK, int(room[-1])),
        slots=small(int(slots[-1])), buckets=np.empty(buckets, BUCKET), heap=np.empty(buckets, DUE), free=ints(buckets),
        recent=_records(DUE, 8, time=-1.0), waves=waves, cells=np.empty(int(waves["room"].sum()), CELL),
        touched=small(flows), dirty=small(links), members=small(flows), memo=np.zeros(memo, MEMO_SLOT),
        memo_rates=np.empty(MEMO_LANES, MEMO_RATE), lane_rate=np.zeros(lanes), left=np.zeros(links),
        load=np.zeros(links), users=ints(links), full=ints(links), todo=ints(flows), number=number, flow_count=flows,
        gate_count=len(p.dep_ptr) - 1, wave_count=len(p.delays), bucket_room=buckets, memo_size=memo,
        memo_room=MEMO_LANES,
    )  # fmt: skip


def more_room(s: State, p: Program) -> State:
    """The state with room for twice as many transfers under way."""
    used = s.waves[s.waves["flows"] > 0]
    waves = _waves(p, 2 * int(np.max(used["room"] // used["flows"])))
    cells = np.empty(int(waves["room"].sum()), CELL)
    for old, new in zip(s.waves, waves, strict=True):
        order = old["start"] + (old["first"] + np.arange(old["count"])) % old["room"]
        new["count"] = old["count"]
        cells[new["start"] : new["start"] + old["count"]] = s.cells[order]
    return s._replace(waves=waves, cells=cells)
