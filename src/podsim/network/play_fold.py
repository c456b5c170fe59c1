"""Symmetry: flows that nothing tells apart are simulated once.

Flows, lanes, links, gates and groups are coloured by what they are, then again and again by the colours of what they
touch, until no colour splits (colour refinement; the result is an equitable partition). Elements of one colour then
do the same things at the same times, so one of each is simulated; a link of the quotient carries as many
flows of a colour as each link of its colour does. The unfolded run is the oracle in the tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints, Shaped, SmallInts
from podsim.native import c_function
from podsim.network.play_program import entries, mix, number_rows, renumber, rows_of
from podsim.network.play_state import Program, typed_program


class Classes(NamedTuple):
    """The class of each element (flows, lanes, links, gates, groups in one row), and room to refine classes in."""

    member: SmallInts
    """The class of each element, [elements]."""
    size: SmallInts
    """The number of elements of each class, [elements]."""
    sign: Ints
    """A hash of the classes that each element touches, [elements]."""
    listed: SmallInts
    """The elements to be looked at."""
    changed: SmallInts
    """The elements whose class has changed."""
    group: SmallInts
    """The group of each listed element: those of one class and sign."""
    first: SmallInts
    """The first element of each group."""
    sums: SmallInts
    """The number of elements of each group; then its class."""
    hits: SmallInts
    """The listed elements of each class."""
    largest: SmallInts
    """The largest group of each class that is listed in full, or -1."""
    slots: SmallInts
    """A hash table of groups."""
    marked: NDArray[np.uint8]
    """Whether each element is listed."""
    lane_ptr: SmallInts
    """The start of the flows of each lane."""
    lane_flow: SmallInts
    link_ptr: SmallInts
    """The start of the lanes on each link."""
    link_lane: SmallInts
    flows: int
    lanes: int
    links: int
    """The number of links, without those of one lane alone."""
    gates: int
    groups: int


_refine = c_function("fold_classes", Classes, Program, Ints, int, int, result=int)
"""Refine `member` until no class splits; the number of classes."""


def _classes(colour: SmallInts) -> tuple[Ints, Ints]:
    """(class of each element, first element of each class)."""
    return number_rows(colour[None, :].astype(np.int64))


def _colours(p: Program) -> list[SmallInts]:
    """Stable classes of flows, lanes, links, gates and groups."""
    what = [p.repeat, p.delay, p.width, p.channel]  # two flows of a lane at one time are on two channels
    if np.any(p.chunk_bytes != p.chunk_bytes[0]):
        what += [p.chunk, p.turn, p.wheel]
    alone = len(p.capacity) - len(p.start)
    binding = np.zeros(len(p.capacity), np.int64)
    lane_of = np.repeat(np.arange(len(p.start)), p.end - p.start)
    binding[p.link] = np.arange(len(p.link)) < p.middle[lane_of]
    rows = (
        what,
        [p.first - p.start, p.capacity[alone:].view(np.int64)],
        [p.capacity[:alone].view(np.int64), binding[:alone]],
        [np.zeros(len(p.dep_ptr) - 1, np.int64)],
        [np.zeros(len(p.group_repeat), np.int64)],
    )
    parts, classes = [], 0
    for columns in rows:
        member, first = number_rows(np.stack(columns))
        parts.append(member + classes)
        classes += len(first)
    sizes = [len(part) for part in parts]
    colours = np.concatenate(parts).astype(np.int32)
    _refine(_room_to_refine(colours, sizes, len(p.link)), p, lane_of, len(p.link), classes)
    return np.split(colours, np.cumsum(sizes)[:-1])


def _room_to_refine(member: SmallInts, sizes: list[int], entries: int) -> Classes:
    """The classes at the start, with room for the others."""
    count, (flows, lanes, links, gates, groups) = len(member), sizes
    listed, changed, group, first, sums = (np.empty(count, np.int32) for _ in range(5))
    size, hits, largest = (np.zeros(count, np.int32) for _ in range(3))
    return Classes(
        member=member, size=size, sign=np.empty(count, np.int64), listed=listed, changed=changed, group=group,
        first=first, sums=sums, hits=hits, largest=largest, marked=np.zeros(count, np.uint8),
        slots=np.empty(max(16, 1 << (2 * count).bit_length()), np.int32), lane_ptr=np.empty(lanes + 1, np.int32),
        lane_flow=np.empty(flows, np.int32), link_ptr=np.empty(links + 1, np.int32),
        link_lane=np.empty(entries, np.int32), flows=flows, lanes=lanes, links=links, gates=gates, groups=groups,
    )  # fmt: skip


def _quotient_rows(pointer: Ints, first: Ints, columns: Shaped[Ints, "field row"]) -> tuple[Ints, Ints]:
    """Rows of the first element of each class, each different row once: (pointer, columns)."""
    owner, entry = entries(pointer, first)
    rows = np.concatenate([owner[None, :], columns[:, entry]])  # [field, row]
    _, once = number_rows(rows)
    rows = rows[:, once]
    return np.searchsorted(rows[0], np.arange(len(first) + 1)), rows[1:]


def _inverse(pointer: Ints, values: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """(pointer, owner, place) of rows by value."""
    owner = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    start, order = rows_of(values, n)
    return start, owner[order], order


def _quotient_lanes(p: Program, lane: Ints, lane_first: Ints, link: SmallInts) -> tuple[dict[str, Any], Ints]:
    """Lane columns of the quotient, and the place in it of every link.

    A link of class x is crossed by (lanes of class a) x (their links of class x) / (links of class x) lanes of class a.
    """
    lanes, alone = len(p.start), len(p.capacity) - len(p.start)
    used, _ = renumber(p.link[p.link < alone], alone)
    numbers, first = _classes(link[used])
    link_number = np.full(len(p.capacity), -1)
    link_number[used] = numbers
    link_number[alone:] = len(first) + lane
    links = len(first) + len(lane_first)
    size_of_link = np.bincount(link_number[link_number >= 0], minlength=links)
    owner = np.repeat(np.arange(lanes), p.end - p.start)
    entries = np.flatnonzero(lane_first[lane[owner]] == owner)
    bound = np.where(p.link[entries] >= alone, 0, np.where(entries < p.middle[owner[entries]], 1, 2))
    key = (lane[owner[entries]] * 3 + bound) * links + link_number[p.link[entries]]
    rows, times = np.unique(key, return_counts=True)
    row_lane, row_kind, row_link = rows // links // 3, rows // links % 3, rows % links
    use = times * np.bincount(lane)[row_lane] / size_of_link[row_link]
    assert np.array_equal(use, np.rint(use)), "classes of flows and links are not equitable"
    start = np.searchsorted(row_lane, np.arange(len(lane_first) + 1))
    columns: dict[str, Any] = {
        "start": start[:-1],
        "first": start[:-1] + (p.first - p.start)[lane_first],
        "middle": start[:-1] + np.bincount(row_lane, row_kind < 2, len(lane_first)).astype(np.int64),
        "end": start[1:],
        "link": row_link,
        "use": use,
        "capacity": np.concatenate([p.capacity[used[first]], p.capacity[alone + lane_first]]),
        "key": mix(np.arange(len(lane_first))),
        "ones": np.ones(len(lane_first)),
    }
    return columns, link_number


def fold_program(p: Program) -> tuple[Program, Ints, Ints]:
    """(the quotient of a program, class of each flow [F], place in the quotient of each link [L + A], -1 if unused)."""
    if not len(p.repeat):
        return p, np.arange(0), np.arange(len(p.capacity))
    colours = _colours(p)
    (flow, flow_1), (lane, lane_1), _, (gate, gate_1), (group, group_1) = (
        _classes(colour) for colour in colours
    )
    lanes, link_number = _quotient_lanes(p, lane, lane_1, colours[2])

    def named(numbers: Ints, of: Ints) -> Ints:
        return np.where(of >= 0, numbers[of], -1) if len(numbers) else of

    dep_ptr, deps = _quotient_rows(p.dep_ptr, gate_1, np.stack([group[p.dep_group], p.dep_lag]))
    group_ptr, members = _quotient_rows(p.group_ptr, group_1, flow[p.group_flow][None, :])
    flow_gate = named(gate, p.gate[flow_1])
    order = np.argsort(flow_gate, kind="stable")
    gate_ptr = np.searchsorted(flow_gate[order], np.arange(len(gate_1) + 1))
    wake_ptr, wake_gate, wake = _inverse(dep_ptr, deps[0], len(group_1))
    columns = {
        name: getattr(p, name)[flow_1]
        for name in ("repeat", "chunk", "width", "turn", "wheel", "channel", "delay")
    }
    quotient = Program(
        **columns, lane=lane[p.lane[flow_1]], before=named(flow, p.before[flow_1]), after=named(flow, p.after[flow_1]),
        gate=flow_gate, group=named(group, p.group[flow_1]), chunk_bytes=p.chunk_bytes, chunk_ends=p.chunk_ends,
        delays=p.delays, dep_ptr=dep_ptr, dep_group=deps[0], dep_lag=deps[1],
        gate_ptr=gate_ptr - gate_ptr[0], gate_flow=order[gate_ptr[0] :], group_repeat=p.group_repeat[group_1],
        group_ptr=group_ptr, group_flow=members[0], wake_ptr=wake_ptr, wake_gate=wake_gate,
        wake_lag=deps[1][wake], **lanes,
    )  # fmt: skip
    return typed_program(quotient), flow, link_number
